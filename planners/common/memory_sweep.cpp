// SPDX-License-Identifier: Apache-2.0
#include "planners/common/memory_sweep.h"

#include "engine/compile/compile.h"
#include "engine/simulate/simulate.h"
#include "planners/common/counted.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace planloom::planners {
namespace {

constexpr double kBudgets[] = {0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

bool isDrawn(plan::MemoryFilter filter)
{
    return filter != plan::MemoryFilter::None && filter != plan::MemoryFilter::Random;
}

plan::Plan withPolicy(plan::Plan plan, const plan::Memory &memory)
{
    for (plan::Stage &stage : plan.stages)
        stage.memory = memory;
    return plan;
}

Result<double> secondsWith(const plan::Plan &plan, const plan::Subject &subject)
{
    const auto program = compile::compilePlan(plan, subject, {.bodies = false, .fold = true});
    return program ? simulate::iterationSeconds(*program) : Result<double>(program.error());
}

} // namespace

const MemoryCurve *MemorySweep::best(std::size_t share) const
{
    constexpr double kNoticed = 1e-9;
    const MemoryCurve *best = nullptr;
    for (const MemoryCurve &curve : curves)
        if (curve.points[share].refusal.empty()
            && (best == nullptr || curve.points[share].overhead < best->points[share].overhead - kNoticed))
            best = &curve;
    return best;
}

Result<MemorySweep> memorySweep(const plan::Plan &plan, const plan::Subject &subject, Progress &progress)
{
    MemorySweep sweep;
    sweep.shares.assign(std::begin(kBudgets), std::end(kBudgets));
    const auto limited =
        std::ranges::find_if(plan.stages, [](const plan::Stage &stage) { return stage.memory.limits(); });
    plan::Memory memory = limited != plan.stages.end() ? limited->memory : plan::Memory();
    memory.budgetBytes = 0;
    const auto policies =
        static_cast<std::size_t>(std::ranges::count_if(plan::kMemoryFilters, isDrawn, &plan::MemoryFilterRow::filter));
    Counted counted(progress, 1 + policies * sweep.shares.size());
    if (!counted.next("no policy"))
        return cancelled();
    const auto base = secondsWith(withPolicy(plan, {}), subject);
    if (!base)
        return base.error();
    sweep.seconds = *base;
    for (const plan::MemoryFilterRow &row : plan::kMemoryFilters) {
        if (!isDrawn(row.filter))
            continue;
        MemoryCurve &curve = sweep.curves.emplace_back();
        curve.filter = memory.filter = row.filter;
        for (const double share : sweep.shares) {
            if (!counted.next(fmt::format("{}, {:.0f} %", row.name, share * 100)))
                return cancelled();
            memory.budgetShare = share;
            const auto seconds = secondsWith(withPolicy(plan, memory), subject);
            curve.points.push_back(
                {share, seconds ? *seconds / *base - 1 : 0, seconds ? std::string() : seconds.error().text()});
        }
    }
    return sweep;
}

} // namespace planloom::planners
