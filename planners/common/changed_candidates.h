// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <functional>

namespace planloom::planners {

/// @p candidates with @p change in their plans, predicted anew, the fastest first; without those that it fails for,
/// that are invalid with it, or do not fit. Cost: a simulation for each.
std::vector<Candidate> changedCandidates(std::vector<Candidate> candidates, const Problem &problem,
                                         const std::function<Status(plan::Plan &)> &change);

} // namespace planloom::planners
