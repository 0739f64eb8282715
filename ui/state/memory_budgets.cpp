// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/memory_budgets.h"

#include "engine/compile/compile.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace planloom::ui {
namespace {

/// The same stages, in which everything stays.
plan::Plan withoutLimits(plan::Plan plan)
{
    for (plan::Stage &stage : plan.stages) {
        if (!stage.memory.limits())
            continue;
        stage.memory.filter = plan::MemoryFilter::LeastRecentUsed;
        stage.memory.budgetBytes = 0;
        stage.memory.budgetShare = 1;
        stage.memory.trigger = plan::MemoryTrigger::After; // the pool has room for holes, too
        stage.memory.prefetch = 0;                         // parameters come when they are read
    }
    return plan;
}

/// The most that each rank has in use of its pool.
std::vector<std::int64_t> mostInUse(const program::Program &program)
{
    std::vector<std::int64_t> most(program.ranks.size(), 0);
    for (const program::Task &task : program.tasks)
        if (const auto *run = task.as<program::Compute>(); run != nullptr && run->isPooled())
            for (std::int32_t call = run->firstCall; call < run->lastCall; ++call)
                most[task.rank.index()] =
                    std::max(most[task.rank.index()], program.pooledCalls[static_cast<std::size_t>(call)].used);
    return most;
}

} // namespace

Result<std::map<DeviceId, std::int64_t>> memoryBudgets(const plan::Document &document)
{
    std::map<DeviceId, std::int64_t> budgets;
    std::map<DeviceId, double> shares;
    for (const plan::Stage &stage : document.plan.stages) {
        if (!stage.memory.limits())
            continue;
        for (const DeviceId device : stage.devices) {
            budgets[device] = stage.memory.budgetBytes;
            if (stage.memory.budgetBytes == 0)
                shares[device] = stage.memory.budgetShare;
        }
    }
    if (shares.empty())
        return budgets;
    const auto program = compile::compilePlan(withoutLimits(document.plan), document.subject, {.bodies = false});
    if (!program)
        return program.error();
    const std::vector<std::int64_t> most = mostInUse(*program);
    for (std::size_t rank = 0; rank < most.size(); ++rank)
        if (const auto share = shares.find(program->ranks[rank].device); share != shares.end())
            budgets[share->first] =
                static_cast<std::int64_t>(std::floor(static_cast<double>(most[rank]) * share->second));
    return budgets;
}

} // namespace planloom::ui
