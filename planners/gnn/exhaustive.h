// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/gnn/evaluation.h"

#include "engine/base/progress.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace planloom::planners::gnn {

/// Calls @p visit for each feasible placement, in lexicographic order of the movable roles' machines, until it returns
/// false. Roles that do not fit cut off all that follows from them. @p stopped, if given, is asked now and then, as
/// there may be many beginnings of a placement and no placement; true ends the loop.
void eachFeasible(const Job &job, const std::function<bool(const Placement &)> &visit,
                  const std::function<bool()> &stopped = {});

/// The feasible placements of @p job, counted up to @p most + 1. Cost: machines^roles / what does not fit, no schedule.
/// Error: Cancelled.
Result<std::int64_t> countFeasible(const Job &job, std::int64_t most, const Progress &progress);

/// What all placements come to, or those that were tried until a stop.
struct Exhaustive {
    Placement best; ///< of equal ones the first
    double bestSeconds = 0;
    double medianSeconds = 0; ///< of an even number the upper one of the two in the middle
    double worstSeconds = 0;
    std::int64_t feasible = 0;
    std::int64_t tried = 0;         ///< of them: fewer if it was stopped
    std::vector<Placement> leading; ///< the best few, `best` first
    [[nodiscard]] bool cancelled() const { return tried < feasible; }
};

/// Every feasible placement's seconds. Errors: Infeasible (there is none), Unsupported (more than @p most, found out
/// before any is tried), Cancelled (before any was tried). Cost: countFeasible(), and a schedule each.
Result<Exhaustive> exhaustivePlacement(const Job &job, TransferPolicy policy, std::int64_t most, Progress &progress);

} // namespace planloom::planners::gnn
