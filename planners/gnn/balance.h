// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/gnn/explore.h"

#include <cstdint>
#include <vector>

namespace planloom::planners::gnn {

/// A descent by the load of the network cards.
struct Balanced {
    std::vector<Proposal> changes; ///< in order, from the start
    std::int64_t tried = 0;        ///< changes whose load was computed
    double busiestBefore = 0;      ///< seconds an iteration of the busiest direction of a card
    double busiest = 0;
    bool cancelled = false;
};

/// Moves and swaps that lower the load of the busiest cards, until none does. Each takes a role that sends or receives
/// over the busiest direction (or, where nothing helps there, over the next busiest) to where the potential of all
/// directions (Load::potential) gets least. On many machines the seconds of a schedule follow the busiest of equally
/// busy cards: single changes leave them as they are, and a Markov chain on them alone walks at random; the potential
/// falls with each card. Deterministic. Cost: a try costs O(connections of the role + machines), no schedule.
Balanced balance(const Job &job, const Placement &start, Progress &progress,
                 std::int64_t mostTries = std::int64_t{1} << 22);

} // namespace planloom::planners::gnn
