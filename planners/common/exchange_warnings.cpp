// SPDX-License-Identifier: Apache-2.0
#include "planners/common/exchange_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace planloom::planners {
namespace {

void warnOfAverages(const plan::Plan &plan, std::vector<std::string> &warnings)
{
    const plan::DelayedAveraging &averaging = plan.exchange.averaging;
    constexpr double kMuch = 0.7;
    if (averaging.effectiveShare() < kMuch)
        warnings.push_back(fmt::format("merge=convex with this delay keeps {} % of the steps' progress; "
                                       "merge=corrected keeps all of it",
                                       std::lround(std::max(0.0, 100 * averaging.effectiveShare()))));
    if (averaging.merge == plan::Merge::Corrected && averaging.delay % 2 == 1)
        warnings.emplace_back("merge=corrected with an odd delay becomes unstable at lower learning rates than SGD "
                              "does; an even delay does not");
    if (plan.optimizer.rule.name() != "sgd")
        warnings.push_back(
            fmt::format("with {} averages are not synchronous training even in rounds of one step, as "
                        "each replica's steps are scaled by gradients of its own; only with SGD they are",
                        plan.optimizer.rule.name()));
}

void warnOfTables(const plan::Plan &plan, std::vector<std::string> &warnings)
{
    const bool inPairs =
        std::ranges::all_of(plan.stages, [](const plan::Stage &stage) { return stage.replicas() == 2; });
    const auto &tables = plan.exchange.sparse.tables;
    const bool isCut = std::ranges::any_of(tables, [](const plan::SparseTable &table) {
        return table.strategy == plan::TableStrategy::AllToAll;
    });
    if (inPairs && isCut)
        warnings.emplace_back("between two replicas all-to-all sends as much as all-gather does, and half of it in "
                              "front of the forward pass");
}

} // namespace

std::vector<std::string> exchangeWarnings(const plan::Plan &plan)
{
    std::vector<std::string> warnings;
    if (plan.exchange.policy == plan::ExchangePolicy::Sparse)
        warnOfTables(plan, warnings);
    if (plan.exchange.averages())
        warnOfAverages(plan, warnings);
    return warnings;
}

} // namespace planloom::planners
