// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace planloom::planners::dapple {

/// How many forwards stage i of S runs before its first backward (DAPPLE §5.3): K_i. S and i count compute stages.
enum class Warmup : std::uint8_t {
    A,          ///< S - i: for little communication
    B,          ///< 2 (S - i) - 1: for communication comparable with compute; A over the list with network stages
    AllForwards ///< M: GPipe
};

/// K_i of every stage, capped by @p most (limit by memory, D; at least 1 each) and @p microBatches. Never increases
/// along the pipeline: a stage that waited for more forwards than its predecessor sends before a first gradient would
/// wait for ever. Nor is a stage more than kMostAhead ahead of the next (policy B's step): behind a stage that memory
/// holds back, more would only fill its inbox.
inline constexpr int kMostAhead = 2;
std::vector<int> warmupDepths(Warmup policy, const std::vector<int> &most, std::int64_t microBatches);

/// Depth of the network stage between stages of depths @p before and @p after: as many forwards as the sender has in
/// flight, at most one more than the receiver. With policy B it is S' - x, the published depth over the list with
/// network stages.
int linkDepth(int before, int after);

} // namespace planloom::planners::dapple
