// SPDX-License-Identifier: Apache-2.0
#include "engine/program/schedule.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace planloom::program {
namespace {

/// Reads "s<stage>.F.m<micro-batch>" or ".B.". False if it is anything else.
bool parsePass(std::string_view id, StageId stage, PassStep &step)
{
    const std::string prefix = fmt::format("s{}.", stage.value);
    if (!id.starts_with(prefix) || id.size() < prefix.size() + 4)
        return false;
    id.remove_prefix(prefix.size());
    if (!id.starts_with("F.m") && !id.starts_with("B.m"))
        return false;
    step.forward = id.front() == 'F';
    id.remove_prefix(3);
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), step.microBatch);
    return error == std::errc{} && end == id.data() + id.size();
}

Result<std::vector<PassStep>> customOrder(const plan::Plan &plan, StageId stage, const std::string &device)
{
    const auto found = plan.schedule.order.find(device);
    if (found == plan.schedule.order.end())
        return badInput(fmt::format("schedule.order has no entry for device {}; list its tasks (s{}.F.m0, ...)", device, stage.value));
    std::vector<PassStep> order;
    std::vector<int> seen(static_cast<std::size_t>(plan.microBatches), 0); // bit 0: forward, bit 1: backward
    for (const std::string &id : found->second) {
        PassStep step;
        if (!parsePass(id, stage, step) || step.microBatch < 0 || step.microBatch >= plan.microBatches)
            return badInput(fmt::format("schedule.order of {}: '{}' is no task of stage {}; tasks are s{}.F.m0 to s{}.B.m{}", device, id,
                                        stage.value, stage.value, stage.value, plan.microBatches - 1));
        int &state = seen[static_cast<std::size_t>(step.microBatch)];
        const int bit = step.forward ? 1 : 2;
        if (state & bit)
            return badInput(fmt::format("schedule.order of {}: '{}' is listed twice", device, id));
        if (!step.forward && !(state & 1))
            return badInput(fmt::format("schedule.order of {}: '{}' comes before its forward pass", device, id));
        state |= bit;
        order.push_back(step);
    }
    for (std::size_t m = 0; m < seen.size(); ++m)
        if (seen[m] != 3)
            return badInput(fmt::format("schedule.order of {}: s{}.{}.m{} is missing", device, stage.value, seen[m] & 1 ? "B" : "F", m));
    return order;
}

} // namespace

std::vector<PassStep> earlyBackwardOrder(std::int64_t microBatches, int depth)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    const std::int32_t warm = std::clamp<std::int32_t>(depth, 1, count);
    std::vector<PassStep> order;
    order.reserve(static_cast<std::size_t>(count) * 2);
    for (std::int32_t m = 0; m < warm; ++m)
        order.push_back({true, m});
    for (std::int32_t m = warm; m < count; ++m) {
        order.push_back({false, m - warm});
        order.push_back({true, m});
    }
    for (std::int32_t m = count - warm; m < count; ++m)
        order.push_back({false, m});
    return order;
}

Result<std::vector<PassStep>> passOrder(const plan::Plan &plan, StageId stage, const std::string &device)
{
    if (plan.schedule.kind == plan::ScheduleKind::Custom)
        return customOrder(plan, stage, device);
    return earlyBackwardOrder(plan.microBatches, plan::warmupDepths(plan)[stage.index()]);
}

int maxInFlight(const std::vector<PassStep> &order)
{
    int now = 0;
    int most = 0;
    for (const PassStep &step : order) {
        now += step.forward ? 1 : -1;
        most = std::max(most, now);
    }
    return most;
}

} // namespace planloom::program
