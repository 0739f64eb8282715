// SPDX-License-Identifier: GPL-3.0-or-later
// What limits a device in the memory chart: the budget of its policy, and the copies that it waits for.
#include "ui/memory/curve.h"
#include "ui/memory/memory_view.h"
#include "ui/state/memory_budgets.h"
#include "ui/widgets/text.h"

#include <QLineSeries>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

/// Marks the times in which the compute lane waits for copies; what is said of them all.
QString MemoryView::showStalls(std::size_t rank, double timeScale)
{
    const auto &moves = state()->memoryMoves();
    const auto &cluster = state()->cluster();
    if (!moves || !cluster)
        return {};
    const DeviceId device = cluster->find(state()->simulation()->report.devices[rank].id);
    std::vector<MemoryChart::Stall> marks;
    std::int64_t waited = 0;
    for (const MemoryMoves::Stall &stall : moves->stalls) {
        if (stall.device != device)
            continue;
        waited += stall.end - stall.begin;
        const double scale = timeScale * 1e-9;
        marks.push_back({static_cast<double>(stall.begin) * scale, static_cast<double>(stall.end) * scale,
                         tr("Waits %1 for %2").arg(nanosecondsText(stall.end - stall.begin), qt(stall.copy))});
    }
    const auto count = static_cast<int>(marks.size());
    m_chart->setStalls(std::move(marks));
    return count == 0 ? QString() : tr("; waits %1 for copies, in %2 places").arg(nanosecondsText(waited)).arg(count);
}

/// What the policy leaves activations, above all that is not in its pool: the curve touches the line where the pool is
/// full.
void MemoryView::showBudget(std::size_t rank)
{
    const auto &moves = state()->memoryMoves();
    const auto &cluster = state()->cluster();
    const simulate::Simulation &simulation = *state()->simulation();
    const DeviceId device = cluster ? cluster->find(simulation.report.devices[rank].id) : DeviceId();
    const MemoryMoves::Pool *pool = moves ? moves->poolOf(device) : nullptr;
    if (!pool || !state()->simulationCurrent())
        return;
    if (m_budgetsOf != state()->document())
        return askBudgets();
    const auto budget = m_budgets.find(device);
    if (budget == m_budgets.end())
        return;
    const Unit unit = byteUnit(static_cast<double>(simulation.report.devices[rank].peakBytes));
    const double end = periodSeconds(simulation);
    double most = 0;
    const auto level = [&](const simulate::MemoryPoint &point) {
        const std::int64_t inUse = pool->at(std::llround(point.seconds * 1e9));
        const auto bytes = static_cast<double>(point.persistent + point.activations - inUse + budget->second);
        most = std::max(most, bytes);
        return bytes;
    };
    const double timeScale = timeUnit(end).factor;
    m_budget->replace(staircase(simulation.memory[rank], level, end, timeScale, unit.factor));
    m_budget->setVisible(true);
    if (most * unit.factor > m_chart->y()->max())
        m_chart->setRanges(end * timeScale, most * unit.factor * 1.05);
}

/// Where they are shares they are not in the plan.
void MemoryView::askBudgets()
{
    m_budgetsOf = state()->document();
    m_budgets.clear();
    m_budgetJob.ask([this, document = m_budgetsOf](Progress &) -> Job::Completion {
        return [this, document, budgets = memoryBudgets(*document)] {
            if (!budgets || document != m_budgetsOf)
                return;
            m_budgets = *budgets;
            refreshCurves();
        };
    });
}

void MemoryView::showCapacity(double bytes, double scale, double end)
{
    // A capacity far above the curves would flatten them: it is drawn where it is in sight, and always in the table.
    const double level = bytes * scale;
    const bool near = bytes > 0 && level <= m_chart->y()->max() * 4;
    if (near && level > m_chart->y()->max())
        m_chart->setRanges(end, level * 1.05);
    m_capacity->setVisible(near);
    m_capacity->replace(QList<QPointF>{{0, level}, {end, level}});
}

} // namespace planloom::ui
