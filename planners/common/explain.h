// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners {

/// Runs @p planner, and then fills in the explanation of its plan (plan::Why). A plan that
/// cannot be explained, which a plan that was simulated can, is handed on as it stands; one that is the best so far is
/// marked so. Where nothing fits, the error suggests a remedy.
Result<PlanReport> planAndExplain(const Planner &planner, const Problem &problem, const Options &options,
                                  Progress &progress);

/// The two halves of it, for who times the search alone. A report's plan with its reasons and, if the search was
/// stopped, with `stopped_early` in its estimate.
PlanReport explained(PlanReport report, const Problem &problem);
/// An Infeasible error with the smallest change that helps, which is searched for with @p planner itself; other errors
/// as they are.
Error withRemedy(Error error, const Planner &planner, const Problem &problem, const Options &options,
                 Progress &progress);

} // namespace planloom::planners
