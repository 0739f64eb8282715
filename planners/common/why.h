// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/simulate/simulate.h"
#include "planners/planner.h"

#include <optional>
#include <vector>

namespace planloom::planners {

/// What the time and memory of a simulated plan consist of, and what limits each stage and the iteration: what is paid for most, computing, waiting for
/// a link, or computing again for want of memory. @p simulation must have a trace. Cost: O(records log records).
plan::Why whyOf(const plan::Plan &plan, const plan::Subject &subject, const program::Program &program, const simulate::Simulation &simulation);

/// The same for a plan that is compiled and simulated for it. Errors are those of compile and simulate.
Result<plan::Why> explain(const plan::Plan &plan, const plan::Subject &subject);

/// What @p other would have been, and how it differs from @p chosen; long lists of differences are cut short.
plan::RunnerUp runnerUpOf(const plan::Plan &chosen, const plan::Plan &other, double seconds);

/// The first of @p alternatives, best first, that is another plan than @p chosen.
std::optional<plan::RunnerUp> runnerUpAmong(const plan::Plan &chosen, const std::vector<Candidate> &alternatives);

/// Fills in @p report why its plan is what it is. A plan that cannot be compiled and simulated, which no planner returns, is handed back as it is.
PlanReport withReasons(PlanReport report, const Problem &problem);

} // namespace planloom::planners
