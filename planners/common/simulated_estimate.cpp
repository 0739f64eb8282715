// SPDX-License-Identifier: Apache-2.0
#include "planners/common/simulated_estimate.h"

namespace planloom::planners {

void takeSimulated(PlanReport &report)
{
    plan::Estimate &estimate = report.plan.estimate;
    for (const char *other : {"all_reduce_seconds", "iteration_seconds_with_overlap", "speedup_with_overlap",
                              "lower_bound_seconds", "gap", "space_bound_seconds"})
        estimate.erase(other);
    const double simulated = report.predicted.iterationSeconds;
    const auto seconds = estimate.find("iteration_seconds");
    if (seconds == estimate.end() || simulated <= 0)
        return;
    if (const auto speedup = estimate.find("speedup_over_one_device"); speedup != estimate.end())
        speedup->second *= seconds->second / simulated;
    seconds->second = simulated;
}

} // namespace planloom::planners
