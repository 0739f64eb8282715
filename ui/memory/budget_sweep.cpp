// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/budget_sweep.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QLegend>
#include <QLineSeries>
#include <QPen>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace planloom::ui {

namespace {

constexpr double kMostOverhead = 1.5; // beyond, the other lines would lie on the axis

QString policyName(plan::MemoryFilter filter)
{
    const auto row = std::ranges::find(plan::kMemoryFilters, filter, &plan::MemoryFilterRow::filter);
    return QString::fromUtf8(row->name);
}

/// True if the plan's stages have that policy, with that budget.
bool isPlanned(const plan::Document *document, plan::MemoryFilter filter, double share)
{
    constexpr double kRounding = 1e-6;
    return document != nullptr && std::ranges::all_of(document->plan.stages, [&](const plan::Stage &stage) {
               return stage.memory.filter == filter && stage.memory.budgetBytes == 0
                   && std::abs(stage.memory.budgetShare - share) < kRounding;
           });
}

} // namespace

BudgetSweep::BudgetSweep(QWidget *parent)
    : QWidget(parent),
      m_chart(new PlainChart(tr("Overhead of memory policies by budget"), tr("budget (% of the activations)"),
                             tr("longer steps (%)"), this)),
      m_table(new DataTable(this)),
      m_job(tr("Memory policies by budget"))
{
    m_strip = new JobStrip(m_job, this);
    m_strip->setIdleText(tr("✓ as planned, ★ the least of a budget; a double click takes policy and budget"));
    m_chart->setMinimumHeight(60);
    setMinimumHeight(75);               // a low pane of tabs is no higher for it
    m_chart->chart()->legend()->hide(); // the table names the lines
    m_table->setAccessibleName(tr("How much longer steps are with each memory policy, by budget"));
    for (const plan::MemoryFilterRow &row : plan::kMemoryFilters)
        if (row.filter != plan::MemoryFilter::None && row.filter != plan::MemoryFilter::Random) {
            m_lines.push_back(m_chart->addLine(QString::fromUtf8(row.name), static_cast<int>(m_lines.size())));
            m_lines.back()->setPointsVisible(true);
        }
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 2, 0, 2);
    layout->addWidget(m_chart, 3);
    layout->addWidget(m_strip);
    layout->addWidget(m_table, 2);
    for (QWidget *each : std::initializer_list<QWidget *>{m_chart, m_table})
        m_veils.push_back(new Veil(each));
    applyColors();
    fill();
    connect(m_table, &QAbstractItemView::activated, this, &BudgetSweep::pick);
    connect(m_table, &DataTable::rowPicked, this, [this](int row) {
        m_thick = row;
        applyColors();
    });
    connect(m_strip, &JobStrip::again, this, &BudgetSweep::ask);
}

void BudgetSweep::show(const std::shared_ptr<const plan::Document> &document)
{
    if (document == m_document)
        return;
    m_document = document;
    if (document)
        return ask();
    m_job.abandon();
    take(planners::MemorySweep());
}

void BudgetSweep::ask()
{
    setCurrent(false);
    m_job.ask([this, document = m_document](Progress &progress) -> Job::Completion {
        return [this, sweep = planners::memorySweep(document->plan, document->subject, progress)] { take(sweep); };
    });
    m_strip->begin();
}

void BudgetSweep::setCurrent(bool current)
{
    m_current = current;
    for (Veil *veil : m_veils)
        veil->setCurrent(current);
}

void BudgetSweep::take(const Result<planners::MemorySweep> &sweep)
{
    setCurrent(true);
    m_sweep = sweep ? *sweep : planners::MemorySweep();
    m_problem = sweep ? QString() : qt(sweep.error().text());
    fill();
    draw();
}

void BudgetSweep::fill()
{
    TableData contents{{tr("Policy")}, {}};
    for (const double share : m_sweep.shares)
        contents.headers << percentText(share, 0);
    double most = 0;
    for (const planners::MemoryCurve &curve : m_sweep.curves)
        for (const planners::MemoryCurve::Point &point : curve.points)
            most = std::max(most, point.overhead);
    for (const planners::MemoryCurve &curve : m_sweep.curves) {
        const auto line = static_cast<int>(&curve - m_sweep.curves.data());
        const QString dashes = line < kSeriesColors ? QString() : QStringLiteral(" ┄"); // as its line
        std::vector<Cell> row{{policyName(curve.filter) + dashes, {}, theme().ofSeries(line)}};
        row.front().toolTip = line < kSeriesColors ? tr("Its line is solid") : tr("Its line is dashed");
        for (std::size_t s = 0; s < curve.points.size(); ++s) {
            const planners::MemoryCurve::Point &point = curve.points[s];
            Cell cell{QStringLiteral("–"), std::numeric_limits<double>::infinity()};
            if (point.refusal.empty())
                cell = {percentText(point.overhead), point.overhead};
            if (m_sweep.best(s) == &curve)
                cell.text.prepend(QStringLiteral("★ "));
            if (isPlanned(m_document.get(), curve.filter, point.share))
                cell.text.prepend(QStringLiteral("✓ "));
            cell.bar = point.refusal.empty() && most > 0 ? std::max(point.overhead, 0.0) / most : -1;
            cell.toolTip = point.refusal.empty()
                ? tr("A step takes %1, %2 without a policy")
                      .arg(secondsText(m_sweep.seconds * (1 + point.overhead)), secondsText(m_sweep.seconds))
                : qt(point.refusal);
            row.push_back(std::move(cell));
        }
        contents.rows.push_back(std::move(row));
    }
    if (contents.rows.empty())
        contents.rows.push_back({{m_problem.isEmpty() ? tr("No plan: open or find one") : m_problem, {}}});
    m_table->set(std::move(contents));
}

void BudgetSweep::draw()
{
    double most = 0;
    for (const planners::MemoryCurve &curve : m_sweep.curves)
        for (const planners::MemoryCurve::Point &point : curve.points)
            most = std::max(most, point.overhead);
    for (std::size_t k = 0; k < m_lines.size(); ++k) {
        QList<QPointF> points;
        if (k < m_sweep.curves.size())
            for (const planners::MemoryCurve::Point &point : m_sweep.curves[k].points)
                if (point.refusal.empty())
                    points << QPointF(point.share * 100, point.overhead * 100);
        m_lines[k]->replace(points);
    }
    m_chart->setRanges(100, std::clamp(most, 0.01, kMostOverhead) * 105);
}

void BudgetSweep::pick(const QModelIndex &index)
{
    const int row = m_table->sourceRow(index);
    const int share = index.column() - 1;
    if (!m_current || row < 0 || static_cast<std::size_t>(row) >= m_sweep.curves.size() || share < 0)
        return;
    const planners::MemoryCurve &curve = m_sweep.curves[static_cast<std::size_t>(row)];
    const planners::MemoryCurve::Point &point = curve.points[static_cast<std::size_t>(share)];
    if (point.refusal.empty() && !isPlanned(m_document.get(), curve.filter, point.share))
        Q_EMIT picked(curve.filter, point.share);
}

void BudgetSweep::applyColors()
{
    for (std::size_t k = 0; k < m_lines.size(); ++k)
        m_lines[k]->setPen(QPen(theme().ofSeries(static_cast<int>(k)), static_cast<int>(k) == m_thick ? 4 : 2,
                                k < kSeriesColors ? Qt::SolidLine : Qt::DashLine));
}

void BudgetSweep::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && !m_lines.empty()) {
        applyColors();
        fill();
    }
    QWidget::changeEvent(event);
}

} // namespace planloom::ui
