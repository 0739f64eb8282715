// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/warmup.h"

#include <algorithm>

namespace planloom::planners::dapple {
namespace {

std::int64_t wanted(Warmup policy, std::int64_t remaining, std::int64_t microBatches)
{
    switch (policy) {
    case Warmup::A: return remaining;
    case Warmup::B: return 2 * remaining - 1;
    case Warmup::AllForwards: return microBatches;
    }
    return remaining;
}

} // namespace

std::vector<int> warmupDepths(Warmup policy, const std::vector<int> &most, std::int64_t microBatches)
{
    std::vector<int> depths;
    std::int64_t before = microBatches;
    for (std::size_t i = 0; i < most.size(); ++i) {
        const auto remaining = static_cast<std::int64_t>(most.size() - i);
        before = std::min({before, wanted(policy, remaining, microBatches), static_cast<std::int64_t>(most[i])});
        depths.push_back(static_cast<int>(before));
    }
    for (std::size_t i = depths.size(); i-- > 1;)
        depths[i - 1] = std::min(depths[i - 1], depths[i] + kMostAhead);
    return depths;
}

int linkDepth(int before, int after) { return std::min(before, after + 1); }

} // namespace planloom::planners::dapple
