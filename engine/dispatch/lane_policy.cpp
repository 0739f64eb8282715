// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/lane_policy.h"

#include "engine/dispatch/policies/policies.h"

#include <string>

namespace planloom::dispatch {

std::vector<const LanePolicy *> allLanePolicies() { return {&firstInFirstOut(), &urgentSends(), &byPriority()}; }

Result<const LanePolicy *> findLanePolicy(std::string_view name)
{
    std::string known;
    for (const LanePolicy *policy : allLanePolicies()) {
        if (name.empty() || policy->name() == name)
            return policy;
        known += (known.empty() ? "" : ", ") + std::string(policy->name());
    }
    return notFound("there is no lane policy '" + std::string(name) + "'; schedule.lane_policy is one of " + known);
}

} // namespace planloom::dispatch
