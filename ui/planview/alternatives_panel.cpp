// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/alternatives_panel.h"

#include "engine/plan/fingerprint.h"
#include "planners/common/alternatives.h"
#include "ui/state/plan_shape.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QResizeEvent>
#include <QVBoxLayout>

#include <algorithm>
#include <set>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kRoomForPlot = 620; // pixels: plot and table side by side need more
constexpr int kListedDifferences = 2;

Cell againstCell(const simulate::Report *report, double seconds)
{
    if (!report)
        return {QString(), std::nullopt};
    const QString change = changeText(report->iterationSeconds, seconds);
    if (change == changeText(1, 1))
        return {change, 0.0};
    const double share = seconds / report->iterationSeconds - 1;
    return {change + (share > 0 ? QObject::tr(" longer") : QObject::tr(" shorter")), share};
}

Cell differenceCell(const plan::Plan &open, const plan::Plan &other)
{
    QStringList lines;
    for (const std::string &line : planners::differencesOf(open, other))
        lines << qt(line);
    Cell cell;
    cell.text = lines.empty()                ? QObject::tr("nothing")
        : lines.size() <= kListedDifferences ? lines.join(QStringLiteral("; "))
                                             : QObject::tr("%1; and %2 more").arg(lines.first()).arg(lines.size() - 1);
    cell.toolTip = lines.join(QLatin1Char('\n'));
    return cell;
}

Cell unknownCell() { return {QObject::tr("…"), std::nullopt}; }

} // namespace

std::vector<AlternativeRow> alternativeRows(const StudioState &state)
{
    std::vector<AlternativeRow> rows;
    std::set<std::string> kept;
    const auto &plans = state.keptPlans();
    for (std::size_t k = 0; k < plans.size(); ++k) {
        rows.push_back({plans[k], k});
        kept.insert(plan::simulationKey(plans[k].plan));
    }
    for (const planners::Candidate &each : state.alternatives())
        if (kept.empty() || !kept.contains(plan::simulationKey(each.plan)))
            rows.push_back({each, std::nullopt});
    return rows;
}

AlternativesPanel::AlternativesPanel(StudioState *state, QWidget *parent)
    : QWidget(parent),
      m_state(state),
      m_split(new QSplitter(Qt::Horizontal, this)),
      m_plot(new ParetoPlot(this)),
      m_table(new DataTable(this))
{
    m_table->setAccessibleName(tr("Alternative plans"));
    m_split->addWidget(m_table);
    m_split->addWidget(m_plot);
    m_split->setStretchFactor(0, 1);
    m_split->setSizes({700, 200});
    m_split->setMinimumSize(100, 60); // a narrow view has no plot
    m_split->setChildrenCollapsible(false);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_split);
    connect(m_table, &QAbstractItemView::activated, this, [this](const QModelIndex &index) {
        if (index.column() != static_cast<int>(AlternativeColumn::Kept))
            Q_EMIT taken(m_table->sourceRow(index));
    });
    connect(m_table, &DataTable::rowPicked, m_plot, &ParetoPlot::mark);
    connect(m_plot, &ParetoPlot::picked, m_table, &DataTable::showRow);
    connect(m_plot, &ParetoPlot::activated, this, [this](int row) {
        if (row >= 0)
            Q_EMIT taken(row);
    });
    connect(m_table->tableModel(), &TableModel::edited, this, [this](int row, int, const QVariant &) {
        const AlternativeRow which = m_rows[static_cast<std::size_t>(row)];
        if (which.kept)
            m_state->forgetPlan(*which.kept);
        else
            m_state->keepPlan(which.candidate);
    });
}

const AlternativeFigures *AlternativesPanel::figuresOf(const plan::Plan &plan) const
{
    const auto found = m_figures.find(plan::simulationKey(plan));
    return found == m_figures.end() || !found->second ? nullptr : &*found->second;
}

void AlternativesPanel::refresh()
{
    m_rows = m_state->document() ? alternativeRows(*m_state) : std::vector<AlternativeRow>();
    askFigures();
    showTable();
    showPlot();
}

/// Of all rows and of the open plan, as far as they are not known.
void AlternativesPanel::askFigures()
{
    const auto &document = m_state->document();
    if (!document)
        return;
    if (document->subject.cluster != m_cluster || document->subject.graph != m_graph) {
        m_figures.clear();
        m_cluster = document->subject.cluster;
        m_graph = document->subject.graph;
    }
    std::vector<plan::Plan> missing;
    const auto add = [&](const plan::Plan &plan) {
        if (!m_figures.contains(plan::simulationKey(plan)))
            missing.push_back(plan);
    };
    for (const AlternativeRow &row : m_rows)
        add(row.candidate.plan);
    if (!m_rows.empty())
        add(document->plan);
    if (missing.empty())
        return;
    m_job.ask([this, missing = std::move(missing), document](Progress &progress) -> Job::Completion {
        Figures found;
        for (const plan::Plan &plan : missing)
            if (!progress.stopped())
                found[plan::simulationKey(plan)] = alternativeFigures(plan, document->subject);
        return [this, found = std::move(found), cluster = document->subject.cluster]() mutable {
            if (cluster != m_cluster)
                return;
            m_figures.merge(found);
            showTable();
            showPlot();
        };
    });
}

std::vector<Cell> AlternativesPanel::rowCells(const AlternativeRow &row, const simulate::Report *report) const
{
    const plan::Plan &plan = row.candidate.plan;
    const AlternativeFigures *figures = figuresOf(plan);
    Cell kept;
    kept.check = row.kept.has_value();
    kept.toolTip = tr("Kept plans stay in this table when another plan is found");
    Cell name{shapeText(plan), std::nullopt};
    name.toolTip = qt(plan::notation(plan)) + QLatin1Char('\n')
        + tr("Double click or Enter applies it; undo restores the previous plan");
    const double seconds = figures ? figures->seconds : row.candidate.simulatedSeconds;
    Cell peak = unknownCell();
    Cell bubble = unknownCell();
    Cell sent = unknownCell();
    if (figures) {
        peak = {bytesText(figures->peakBytes), static_cast<double>(figures->peakBytes)};
        peak.warn = !figures->fits;
        peak.toolTip = figures->fits ? QString() : tr("Does not fit in the memory of a device");
        bubble = {percentText(figures->bubble), figures->bubble};
        bubble.bar = figures->bubble;
        sent = {bytesText(static_cast<std::int64_t>(figures->sentBytes)), figures->sentBytes};
        sent.toolTip = tr("By all devices in an iteration: collectives, and activations and gradients between stages");
    }
    return {kept,
            name,
            {secondsText(seconds), seconds},
            peak,
            bubble,
            sent,
            {qt(plan.planner.name), std::nullopt},
            againstCell(report, seconds),
            differenceCell(m_state->document()->plan, plan),
            {QString::number(plan.stages.size()), static_cast<double>(plan.stages.size())},
            {QString::fromUtf8(plan::name(plan.schedule.kind)), std::nullopt},
            {QString::number(plan.microBatches), static_cast<double>(plan.microBatches)}};
}

void AlternativesPanel::showTable()
{
    TableData table{{tr("Kept"), tr("Plan"), tr("Step"), tr("Peak"), tr("Bubble"), tr("Sent"), tr("Planner"),
                     tr("Compared with this plan"), tr("Differs in"), tr("Stages"), tr("Schedule"),
                     tr("Micro-batches")},
                    {}};
    const simulate::Report *report = m_state->simulationCurrent() ? &m_state->simulation()->report : nullptr;
    for (const AlternativeRow &row : m_rows)
        table.rows.push_back(rowCells(row, report));
    m_table->set(std::move(table));
}

void AlternativesPanel::showPlot()
{
    std::vector<ParetoPlot::Point> points;
    std::vector<std::optional<AlternativeFigures>> figures;
    const auto add = [&](const plan::Plan &plan, ParetoPlot::Mark mark, int row) {
        const AlternativeFigures *known = figuresOf(plan);
        if (!known)
            return;
        points.push_back({*known, shapeText(plan), mark, row, false});
        figures.emplace_back(known->fits ? std::optional(*known) : std::nullopt);
    };
    if (m_state->document() && !m_rows.empty())
        add(m_state->document()->plan, ParetoPlot::Mark::Open, -1);
    for (std::size_t r = 0; r < m_rows.size(); ++r)
        add(m_rows[r].candidate.plan, m_rows[r].kept ? ParetoPlot::Mark::Kept : ParetoPlot::Mark::Alternative,
            static_cast<int>(r));
    const std::vector<bool> front = paretoFront(figures);
    for (std::size_t p = 0; p < points.size(); ++p)
        points[p].front = front[p];
    m_plot->set(std::move(points));
}

void AlternativesPanel::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    const bool narrow = width() < kRoomForPlot;
    m_split->setOrientation(narrow ? Qt::Vertical : Qt::Horizontal);
    m_plot->setVisible(!narrow || height() > 2 * m_plot->minimumSizeHint().height());
}

} // namespace planloom::ui
