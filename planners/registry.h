// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <string>
#include <vector>

namespace planloom::planners {

/// Everything built in, in the order that `planloom planners` prints.
std::vector<const Planner *> allPlanners();
/// Planners of problems that are more than a model on a cluster: what they need besides, they say. Not among
/// allPlanners(), whose answers can be compared.
std::vector<const Planner *> jobPlanners();
/// Of either kind. Error: NotFound that lists the names.
Result<const Planner *> findPlanner(const std::string &name);

} // namespace planloom::planners
