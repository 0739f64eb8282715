// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners {

/// @p problem on devices that hold every plan, for searches that know no memory limit.
Result<Problem> withoutMemoryLimit(const Problem &problem);

/// @p report, which a planner found without the limit, on the devices of @p problem: simulated again. The plan may not
/// fit.
Result<PlanReport> onDevicesOf(const Problem &problem, PlanReport report);

} // namespace planloom::planners
