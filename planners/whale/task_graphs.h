// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <string>
#include <vector>

namespace planloom::planners::whale {

/// A part of the model that one strategy applies to.
struct TaskGraph {
    std::string name;
    std::size_t first = 0;
    std::size_t last = 0; ///< one past the end
    plan::Annotation::Kind kind = plan::Annotation::Kind::Replicate;
    int devices = 0; ///< of one copy of the model; 0: as many as there are
};

/// One task graph per annotated scope, in the model's order. Layers without annotation form separate task graphs with
/// the strategy of "*"; without one they join the task graph before them, and layers before the first the first (the
/// paper leaves both open).
Result<std::vector<TaskGraph>> annotatedTaskGraphs(const Problem &problem);

/// Gives task graphs without a number of devices the same number each, the largest for which all together
/// divide @p devices. Error: Infeasible where none are left.
Status resolveDevices(std::vector<TaskGraph> &taskGraphs, int devices);

} // namespace planloom::planners::whale
