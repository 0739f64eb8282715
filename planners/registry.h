// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <string>
#include <vector>

namespace planloom::planners {

/// Everything built in, in the order that `planloom planners` prints.
std::vector<const Planner *> allPlanners();
/// Error: NotFound that lists the names.
Result<const Planner *> findPlanner(const std::string &name);

} // namespace planloom::planners
