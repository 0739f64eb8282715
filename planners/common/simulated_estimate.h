// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners {

/// The estimate of @p report's plan, which was changed behind its planner: its time and speed-up become those of the
/// simulated plan as it is, and what the planner knows of another step alone (its bounds, times with overlap and of the
/// exchange) is left out.
void takeSimulated(PlanReport &report);

} // namespace planloom::planners
