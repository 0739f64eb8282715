// SPDX-License-Identifier: Apache-2.0
#include "planners/planner.h"

namespace planloom::planners {

std::vector<const Planner *> allPlanners() { return {}; }

Result<const Planner *> findPlanner(const std::string &name)
{
    std::string known;
    for (const Planner *planner : allPlanners()) {
        if (planner->name() == name)
            return planner;
        known += (known.empty() ? "" : ", ") + planner->name();
    }
    return notFound("there is no planner '" + name + "'; choose one of " + known);
}

} // namespace planloom::planners
