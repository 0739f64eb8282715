// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <optional>
#include <string>

namespace planloom::planners {

/// A change of a problem or of a planner's options with which the planner finds a plan, verified by a run.
struct Remedy {
    std::string text; ///< "recompute=auto", "a micro-batch of 4", "20 GB on each V100"
    Problem problem;
    Options options;
};

/// The smallest change with which @p planner finds a plan for a problem without one. The cheapest change is
/// tried first: an option that asks for less memory, smaller micro-batches, ZeRO, a smaller batch, an optimizer without
/// state; then larger devices, more of them, a larger batch. None if nothing of that helps, or @p progress stopped.
/// Cost: up to some thirty runs of the planner on problems that it mostly finds nothing for.
std::optional<Remedy> remedyFor(const Planner &planner, const Problem &problem, const Options &options,
                                Progress &progress);

} // namespace planloom::planners
