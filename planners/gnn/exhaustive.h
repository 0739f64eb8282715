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

/// What all placements come to.
struct Exhaustive {
    Placement best; ///< empty if no placement is feasible; of equal ones the first
    double bestSeconds = 0;
    double medianSeconds = 0; ///< of an even number the upper one of the two in the middle
    double worstSeconds = 0;
    std::int64_t feasible = 0;
    std::vector<Placement> leading; ///< the best few, `best` first
};

/// Every feasible placement's seconds. Errors: Infeasible (there is none), Unsupported (more than @p most), Cancelled.
/// Cost: machines^roles / what does not fit, a schedule each.
Result<Exhaustive> exhaustivePlacement(const Job &job, TransferPolicy policy, std::int64_t most, Progress &progress);

} // namespace planloom::planners::gnn
