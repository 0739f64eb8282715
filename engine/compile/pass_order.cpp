// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/pass_order.h"

namespace planloom::compile {
namespace {

/// All forwards of one stage after the other, then all backwards, last stage first.
std::vector<PassStep> stageByStage(std::int64_t microBatches, const std::vector<std::size_t> &stages)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    std::vector<PassStep> order;
    for (const std::size_t stage : stages)
        for (std::int32_t m = 0; m < count; ++m)
            order.push_back({Pass::Forward, m, static_cast<std::int32_t>(stage)});
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
        for (std::int32_t m = 0; m < count; ++m)
            order.push_back({Pass::Backward, m, static_cast<std::int32_t>(*stage)});
    return order;
}

} // namespace

std::vector<PassStep> passOrder(const plan::Plan &plan, const std::vector<std::size_t> &stages,
                                const std::string &device)
{
    const std::size_t stage = stages.front();
    const auto number = static_cast<std::int32_t>(stage);
    if (plan.schedule.kind == plan::ScheduleKind::Custom)
        return plan.schedule.order.at(device);
    if (plan.schedule.kind == plan::ScheduleKind::ZeroBubbleH1)
        return zeroBubbleOrder(plan.microBatches, plan::warmupDepths(plan)[stage], number, number);
    if (stages.size() == 1)
        return earlyBackwardOrder(plan.microBatches, plan::warmupDepths(plan)[stage], number);
    if (plan.schedule.kind == plan::ScheduleKind::GPipe)
        return stageByStage(plan.microBatches, stages);
    const auto ranks = static_cast<std::int32_t>(stages[1] - stages[0]);
    return interleavedOrder(plan.microBatches, number, ranks, static_cast<std::int32_t>(stages.size()));
}

} // namespace planloom::compile
