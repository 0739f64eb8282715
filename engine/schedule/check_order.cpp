// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace planloom::schedule {
namespace {

/// In which order a stage runs them over one micro-batch.
constexpr Pass kPasses[] = {Pass::Forward, Pass::Backward, Pass::WeightGradient};

std::size_t positionOf(Pass pass) { return pass == Pass::Forward ? 0 : pass == Pass::Backward ? 1 : 2; }

/// What an order has listed of one stage.
struct Listed {
    std::size_t passes = 2;
    std::vector<std::size_t> done; ///< per micro-batch: passes so far
};

std::string passesOf(const std::map<std::int32_t, Listed> &stages, std::int64_t microBatches)
{
    std::vector<std::string> ranges;
    for (const auto &[stage, listed] : stages)
        ranges.push_back(
            fmt::format("s{}.F.m0 to s{}.{}.m{}", stage, stage, letter(kPasses[listed.passes - 1]), microBatches - 1));
    return fmt::format("{}", fmt::join(ranges, ", "));
}

} // namespace

Status checkOrder(const std::vector<PassStep> &order, const std::vector<OrderedStage> &stages,
                  std::int64_t microBatches)
{
    std::map<std::int32_t, Listed> all;
    std::size_t expected = 0;
    for (const OrderedStage &stage : stages) {
        Listed &listed = all[stage.stage];
        listed.passes = stage.splitsBackward ? 3 : 2;
        listed.done.assign(static_cast<std::size_t>(microBatches), 0);
        expected += listed.passes * listed.done.size();
    }
    for (const PassStep &step : order) {
        const auto found = all.find(step.stage);
        const std::size_t position = positionOf(step.pass);
        if (found == all.end() || step.microBatch >= microBatches || position >= found->second.passes)
            return badInput(
                fmt::format("has {}, which is none of its passes {}", textOf(step), passesOf(all, microBatches)));
        std::size_t &done = found->second.done[static_cast<std::size_t>(step.microBatch)];
        if (position < done)
            return badInput(fmt::format("has {} twice; list each pass once", textOf(step)));
        if (position > done)
            return badInput(fmt::format("has {} before its {}; list that first", textOf(step),
                                        position == 1 || done == 0 ? "forward" : "backward"));
        ++done;
    }
    if (order.size() == expected) // none is listed twice
        return {};
    for (const auto &[stage, listed] : all)
        for (std::size_t m = 0; m < listed.done.size(); ++m)
            if (listed.done[m] < listed.passes)
                return badInput(fmt::format("misses {} of {} passes, such as {}", expected - order.size(), expected,
                                            textOf({kPasses[listed.done[m]], static_cast<std::int32_t>(m), stage})));
    return {};
}

} // namespace planloom::schedule
