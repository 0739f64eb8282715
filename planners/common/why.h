// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/simulate/simulate.h"
#include "planners/interface/planner.h"

namespace planloom::planners {

/// Breakdown of the time and memory of a simulated plan, and the limit of each stage and of the iteration: the price
/// for most, computing, waiting for a link, or computing again for want of memory. @p simulation must have a trace.
/// Of a plan with roles the ranks' work alone, which is simulated for it. Cost: O(records log records).
plan::Why whyOf(const plan::Plan &plan, const plan::Subject &subject, const program::Program &program,
                const simulate::Simulation &simulation);

/// The same for a plan that is compiled and simulated for it. Errors are those of compile and simulate.
Result<plan::Why> explain(const plan::Plan &plan, const plan::Subject &subject);

/// The figures of @p other, and its differences from @p chosen but for names; long lists of differences are cut short.
plan::RunnerUp runnerUpOf(const plan::Plan &chosen, const plan::Plan &other, double seconds);

/// Adds the explanation of its plan to @p report, and keeps distinct() alternatives. A plan that cannot be compiled and
/// simulated, which no planner returns, is handed back as it is.
PlanReport withReasons(PlanReport report, const Problem &problem);

} // namespace planloom::planners
