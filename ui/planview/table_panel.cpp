// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/table_panel.h"

#include "ui/memory/curve.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLineSeries>
#include <QPen>
#include <QScrollBar>
#include <QVBoxLayout>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace planloom::ui {

namespace {

using planners::TableFigures;
using planners::TableWay;

/// Parameter servers send as much as all-to-all.
constexpr std::array kChartStrategies{plan::TableStrategy::AllReduce, plan::TableStrategy::AllGather,
                                      plan::TableStrategy::AllToAll};
constexpr int kFiguresBefore = 4; // columns before those of the strategies
constexpr int kMostRowsSeen = 6;
constexpr double kMostReplicas = 1024;
constexpr double kMostTimesBatch = 100; // the plan's batch, for a crossing to be drawn
constexpr double kNearlyAll = 0.99;     // α: the last rows, which are rare, come one by one

/// The plan's way of the strategy, else the faster of its ways.
const TableWay *shownWay(const TableFigures &figures, plan::TableStrategy strategy)
{
    const TableWay *shown = nullptr;
    for (const TableWay &way : figures.ways) {
        if (way.table.strategy != strategy)
            continue;
        const bool better =
            shown == nullptr || !shown->refusal.empty() || (way.refusal.empty() && way.seconds < shown->seconds);
        if (way.asPlanned || (better && !(shown && shown->asPlanned)))
            shown = &way;
    }
    return shown;
}

QString wayName(const plan::SparseTable &way)
{
    const QString name = QString::fromUtf8(plan::name(way.strategy));
    return way.split ? TablePanel::tr("%1, split").arg(name) : name;
}

Cell wayCell(const TableFigures &figures, plan::TableStrategy strategy, double slowest)
{
    const TableWay *shown = shownWay(figures, strategy);
    if (!shown)
        return {QStringLiteral("–"), 0.0};
    QStringList lines;
    for (const TableWay &way : figures.ways)
        if (way.table.strategy == strategy)
            lines << QStringLiteral("%1: %2").arg(wayName(way.table),
                                                  way.refusal.empty() ? secondsText(way.seconds) : qt(way.refusal));
    if (figures.replicas > 0)
        lines << TablePanel::tr("A replica sends %1 in a step")
                     .arg(bytesText(std::llround(figures.sentBytes(strategy, static_cast<double>(figures.replicas)))));
    Cell cell{QStringLiteral("–"), std::numeric_limits<double>::infinity()};
    if (shown->refusal.empty())
        cell = {secondsText(shown->seconds), shown->seconds};
    if (shown->asPlanned)
        cell.text.prepend(QStringLiteral("✓ "));
    cell.bar = shown->refusal.empty() && slowest > 0 ? shown->seconds / slowest : -1;
    cell.toolTip = lines.join(QLatin1Char('\n'));
    return cell;
}

Cell fastestCell(const TableFigures &figures)
{
    const TableWay *fastest = figures.fastest();
    Cell cell;
    if (!fastest)
        return cell;
    const auto planned = std::ranges::find(figures.ways, true, &TableWay::asPlanned);
    cell.text = wayName(fastest->table);
    if (planned != figures.ways.end() && planned->refusal.empty() && fastest->seconds < planned->seconds)
        cell.text += QStringLiteral(" ") + changeText(planned->seconds, fastest->seconds);
    return cell;
}

std::vector<Cell> rowOf(const TableFigures &figures)
{
    Cell name;
    name.text = qt(figures.parameter);
    Cell size{bytesText(figures.bytes()), static_cast<double>(figures.bytes())};
    size.toolTip = TablePanel::tr("%1 rows of %2 numbers").arg(figures.rows).arg(figures.columns);
    Cell density{QStringLiteral("–"), 0.0};
    Cell prior = density;
    if (figures.replicas > 0) {
        density = {percentText(figures.density(), 2), figures.density()};
        density.toolTip = TablePanel::tr("%1 of %2 rows, by %3 look-ups of a replica in a step")
                              .arg(figures.lookedUp.unique, 0, 'f', 0)
                              .arg(figures.rows)
                              .arg(figures.lookedUp.ids, 0, 'f', 0);
        prior = {percentText(figures.priorShare(), 0), figures.priorShare()};
        prior.toolTip = TablePanel::tr("Rows of these that some replica looks up in the next step");
    }
    double slowest = 0;
    for (const TableWay &way : figures.ways)
        slowest = std::max(slowest, way.seconds);
    std::vector<Cell> cells{name, size, density, prior};
    for (const plan::TableStrategyRow &row : plan::kTableStrategies)
        cells.push_back(wayCell(figures, row.strategy, slowest));
    cells.push_back(fastestCell(figures));
    return cells;
}

/// A line for each of the strategies, over what @p at has: where on the axis, and the rows that are looked up there.
template <class Sent>
void drawSent(PlainChart &chart, const std::vector<QLineSeries *> &lines, const std::vector<QPointF> &at, Sent sent,
              const QString &axis)
{
    if (at.empty())
        return;
    double most = 0;
    for (const plan::TableStrategy strategy : kChartStrategies)
        most = std::max(most, sent(strategy, at.back()));
    most = std::min(most, 3 * sent(plan::TableStrategy::AllReduce, at.back())); // beyond, all-gather hides all
    const Unit unit = byteUnit(most);
    for (std::size_t s = 0; s < kChartStrategies.size(); ++s) {
        QList<QPointF> points;
        for (const QPointF &where : at)
            points << QPointF(where.x(), sent(kChartStrategies[s], where) * unit.factor);
        lines[s]->replace(points);
    }
    chart.setTitles(axis, TablePanel::tr("sent (%1)").arg(QLatin1String(unit.name)));
    chart.setRanges(at.back().x(), most * unit.factor * 1.05);
}

/// From the foot to the head of the chart; out of its sight, hidden with its name.
void drawUpright(PlainChart &chart, QLineSeries &line, double x)
{
    line.setVisible(x > 0 && x <= chart.x()->max());
    line.replace(QList<QPointF>{{x, 0}, {x, chart.y()->max()}});
}

} // namespace

TablePanel::TablePanel(QWidget *parent)
    : QWidget(parent),
      m_table(new DataTable(this)),
      m_caption(new QLabel(this)),
      m_chart(new PlainChart(tr("What a replica sends in a step"), tr("replicas"), {}, this)),
      m_batchChart(new PlainChart(tr("What a replica sends in a step of another batch"), tr("samples"), {}, this)),
      m_schedulings(new BarList(tr("Exposed communication by scheduling"), this)),
      m_schedulingsVeil(new Veil(m_schedulings)),
      m_job(tr("Strategies of tables"))
{
    m_strip = new JobStrip(m_job, this);
    m_table->setObjectName(QStringLiteral("exchange-tables"));
    m_table->setAccessibleName(tr("Tables and what a step takes by their strategies"));
    m_strip->setIdleText(tr("✓ as planned; a double click on a time takes its strategy"));
    m_caption->setWordWrap(true);
    for (PlainChart *chart : {m_chart, m_batchChart}) {
        chart->setMinimumHeight(190);
        auto &lines = chart == m_chart ? m_lines : m_batchLines;
        for (std::size_t s = 0; s < kChartStrategies.size(); ++s)
            lines.push_back(chart->addLine(QString::fromUtf8(plan::name(kChartStrategies[s])), static_cast<int>(s)));
    }
    m_now = m_chart->addLine(tr("this plan"), 5);
    m_crossing = m_chart->addLine(tr("2/α"), 3);
    m_batchNow = m_batchChart->addLine(tr("this plan"), 5);
    m_batchCrossing = m_batchChart->addLine(tr("α = 2/N"), 3);
    m_batchWhole = m_batchChart->addLine(tr("α = 1"), 7);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 4, 8, 4);
    layout->addWidget(m_table);
    layout->addWidget(m_strip);
    layout->addWidget(m_schedulings);
    layout->addWidget(m_caption);
    auto *charts = new QHBoxLayout;
    charts->addWidget(m_chart);
    charts->addWidget(m_batchChart);
    layout->addLayout(charts, 1);
    for (QWidget *each : std::initializer_list<QWidget *>{m_table, m_chart, m_batchChart})
        m_veils.push_back(new Veil(each));
    applyColors();
    fill();
    connect(m_table, &QAbstractItemView::activated, this, &TablePanel::pick);
    connect(m_table, &DataTable::rowPicked, this, [this](int row) { draw(static_cast<std::size_t>(row)); });
    connect(m_strip, &JobStrip::again, this, &TablePanel::ask);
}

void TablePanel::show(const std::shared_ptr<const plan::Document> &document)
{
    if (document == m_document)
        return;
    m_document = document;
    ask();
}

void TablePanel::setCurrent(bool current)
{
    m_current = current;
    m_caption->setEnabled(current);
    for (Veil *veil : m_veils)
        veil->setCurrent(current);
}

void TablePanel::ask()
{
    setCurrent(false);
    m_schedulingsVeil->setCurrent(false);
    m_job.ask([this, document = m_document](Progress &progress) -> Job::Completion {
        return [this, document, figures = planners::tableFigures(document->plan, document->subject, progress)] {
            take(figures);
            askSchedulings(document);
        };
    });
    m_strip->begin();
}

void TablePanel::askSchedulings(const std::shared_ptr<const plan::Document> &document)
{
    m_job.ask([this, document](Progress &progress) -> Job::Completion {
        return [this, choices = planners::schedulingFigures(document->plan, document->subject, progress)] {
            takeSchedulings(choices);
        };
    });
}

void TablePanel::take(const Result<std::vector<TableFigures>> &figures)
{
    setCurrent(true);
    m_figures = figures ? *figures : std::vector<TableFigures>();
    fill();
    draw(std::min(m_drawn, m_figures.empty() ? 0 : m_figures.size() - 1));
}

void TablePanel::fill()
{
    TableData contents{{tr("Table"), tr("Size"), tr("Looked up (α)"), tr("Prior rows")}, {}};
    for (const plan::TableStrategyRow &row : plan::kTableStrategies)
        contents.headers << tr("Step, %1").arg(QString::fromUtf8(row.name));
    contents.headers << tr("Fastest step");
    for (const TableFigures &figures : m_figures)
        contents.rows.push_back(rowOf(figures));
    const int rows = std::clamp(static_cast<int>(contents.rows.size()), 1, kMostRowsSeen);
    m_table->set(std::move(contents));
    m_table->setFixedHeight(m_table->horizontalHeader()->sizeHint().height()
                            + rows * m_table->verticalHeader()->defaultSectionSize() + 2 * m_table->frameWidth()
                            + m_table->horizontalScrollBar()->sizeHint().height());
}

void TablePanel::takeSchedulings(const Result<std::vector<planners::ExchangeChoice>> &choices)
{
    m_schedulingsVeil->setCurrent(true);
    if (!choices)
        return m_schedulings->set({});
    std::vector<Bar> bars;
    for (const planners::ExchangeChoice &choice : *choices) {
        Bar bar{qt(choice.name), choice.seconds.exposed, 0, qt(choice.refusal), choice.asPlanned};
        if (choice.refusal.empty())
            bar.text = tr("%1 of %2").arg(secondsText(choice.seconds.exposed), secondsText(choice.seconds.step));
        bar.toolTip = choice.refusal.empty()
            ? tr("A step takes %1; if exchanges took no time it would take %2")
                  .arg(secondsText(choice.seconds.step), secondsText(choice.seconds.step - choice.seconds.exposed))
            : bar.text;
        bars.push_back(std::move(bar));
    }
    m_schedulings->set(std::move(bars));
}

void TablePanel::pick(const QModelIndex &index)
{
    const int row = m_table->sourceRow(index);
    const int strategy = index.column() - kFiguresBefore;
    if (!m_current || row < 0 || static_cast<std::size_t>(row) >= m_figures.size() || strategy < 0)
        return;
    const TableFigures &figures = m_figures[static_cast<std::size_t>(row)];
    const bool isFastest = strategy >= static_cast<int>(std::size(plan::kTableStrategies));
    const TableWay *way = isFastest ? figures.fastest() : shownWay(figures, plan::kTableStrategies[strategy].strategy);
    if (way && way->refusal.empty() && !way->asPlanned)
        Q_EMIT wayPicked(way->table);
}

void TablePanel::draw(std::size_t table)
{
    m_drawn = table;
    const bool known = table < m_figures.size() && m_figures[table].replicas > 0;
    m_chart->setVisible(known);
    m_batchChart->setVisible(known);
    m_caption->setVisible(known);
    if (!known)
        return;
    drawReplicas(m_figures[table]);
    drawBatches(m_figures[table]);
    sayCrossings(m_figures[table]);
}

/// Up to a few times the plan's replicas, and behind the crossing of all-gather and all-reduce.
void TablePanel::drawReplicas(const TableFigures &figures)
{
    const auto replicas = static_cast<double>(figures.replicas);
    const double crossing = figures.mostGathered();
    double last = std::max(8.0, 4 * replicas);
    if (crossing < kMostReplicas)
        last = std::max(last, std::ceil(crossing * 1.25));
    constexpr int kPoints = 64;
    std::vector<QPointF> at; // replicas, unique rows
    for (int p = 0; p <= kPoints; ++p)
        at.emplace_back(1 + (last - 1) * p / kPoints, figures.lookedUp.unique);
    const auto sent = [&](plan::TableStrategy strategy, const QPointF &where) {
        return figures.sentBytes(strategy, where.x(), where.y());
    };
    drawSent(*m_chart, m_lines, at, sent, tr("replicas"));
    drawUpright(*m_chart, *m_now, replicas);
    drawUpright(*m_chart, *m_crossing, crossing);
}

/// Likewise of batches, and behind the one that looks up nearly all rows.
void TablePanel::drawBatches(const TableFigures &figures)
{
    const auto replicas = static_cast<double>(figures.replicas);
    const auto batch = static_cast<double>(figures.batch);
    const auto crossing = figures.batchWith(std::min(2 / replicas, kNearlyAll));
    const auto whole = figures.batchWith(kNearlyAll);
    double last = 4 * batch;
    for (const auto &mark : {crossing, whole})
        if (mark && *mark <= kMostTimesBatch * batch)
            last = std::max(last, *mark * 1.25);
    std::vector<QPointF> at; // batch, unique rows
    for (const planners::BatchRows &point : figures.byBatch)
        if (point.batch <= last)
            at.emplace_back(point.batch, point.unique);
    const auto sent = [&](plan::TableStrategy strategy, const QPointF &where) {
        return figures.sentBytes(strategy, replicas, where.y());
    };
    drawSent(*m_batchChart, m_batchLines, at, sent, tr("samples of a batch"));
    drawUpright(*m_batchChart, *m_batchNow, batch);
    drawUpright(*m_batchChart, *m_batchCrossing, crossing.value_or(0));
    drawUpright(*m_batchChart, *m_batchWhole, replicas > 2 ? whole.value_or(0) : 0);
}

void TablePanel::sayCrossings(const TableFigures &figures)
{
    const auto batch = figures.batchWith(std::min(2 / static_cast<double>(figures.replicas), kNearlyAll));
    QString text =
        tr("What a replica sends of %1 in a step. Left, with as many samples each: with more than %2 replicas (2/α) "
           "all-gather sends more than all-reduce; ")
            .arg(qt(figures.parameter))
            .arg(figures.mostGathered(), 0, 'f', 0);
    text += batch ? tr("right, between %1 replicas: with batches of more than %2 samples (α = 2/N). ")
                        .arg(figures.replicas)
                        .arg(*batch, 0, 'f', 0)
                  : tr("right, between %1 replicas: with no batch of up to %2 samples (α = 2/N). ")
                        .arg(figures.replicas)
                        .arg(figures.byBatch.back().batch, 0, 'f', 0);
    m_caption->setText(text
                       + tr("All-to-all and parameter servers send less than all-reduce as long as α is below 1."));
}

void TablePanel::applyColors()
{
    const Theme &t = theme();
    constexpr std::array kStyles{Qt::SolidLine, Qt::DashLine, Qt::DashDotLine};
    for (std::size_t s = 0; s < m_lines.size(); ++s)
        for (QLineSeries *line : {m_lines[s], m_batchLines[s]})
            line->setPen(QPen(t.ofSeries(static_cast<int>(s)), 2, kStyles[s]));
    for (QLineSeries *line : {m_now, m_batchNow})
        line->setPen(QPen(t.text, 1, Qt::DotLine));
    for (QLineSeries *line : {m_crossing, m_batchCrossing})
        line->setPen(QPen(t.ofSeries(3), 1, Qt::DashLine));
    m_batchWhole->setPen(QPen(t.dimText, 1, Qt::DashDotDotLine));
}

void TablePanel::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_batchWhole)
        applyColors();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui
