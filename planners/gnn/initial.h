// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/gnn/evaluation.h"

#include <cstdint>
#include <optional>

namespace planloom::planners::gnn {

/// The placement that the search starts from.
struct InitialPlacement {
    Placement machineOf;
    double busiestPort = 0; ///< seconds an iteration of the busiest direction of a card, with mean bytes
    std::int64_t tries = 0; ///< roles that were placed, with those that were taken back
};

/// Initial feasible solution: each trainer with its samplers, then each parameter server, on the machine where they fit
/// whole and the busiest card stays least busy (ties: the lowest machine); where no machine takes a group whole, its
/// members one by one, trainer first; where nothing fits, back to the group before. Complete: it finds a placement if
/// there is one within @p mostTries.
///
/// Errors: Infeasible, naming the resource and the role that fit nowhere, or that the tries ran out; Cancelled.
/// Cost: a try costs O(machines * (connections of the role + machines)).
Result<InitialPlacement> initialPlacement(const Job &job, Progress &progress,
                                          std::int64_t mostTries = std::int64_t{1} << 20);

/// Colocation as DGL advises it: each trainer and its samplers on the machine of a graph store, in turn, and parameter
/// servers in turn over the machines. Nothing if that does not fit.
std::optional<Placement> colocatedPlacement(const Job &job);

} // namespace planloom::planners::gnn
