// SPDX-License-Identifier: Apache-2.0
#include "planners/common/explain.h"

#include "planners/common/remedy.h"
#include "planners/common/why.h"

namespace planloom::planners {

Result<PlanReport> planAndExplain(const Planner &planner, const Problem &problem, const Options &options,
                                  Progress &progress)
{
    Result<PlanReport> report = planner.plan(problem, options, progress);
    if (!report)
        return withRemedy(report.error(), planner, problem, options, progress);
    return explained(*std::move(report), problem);
}

PlanReport explained(PlanReport report, const Problem &problem)
{
    if (!report.complete)
        report.plan.estimate["stopped_early"] = 1;
    return withReasons(std::move(report), problem);
}

Error withRemedy(Error error, const Planner &planner, const Problem &problem, const Options &options,
                 Progress &progress)
{
    if (error.code != ErrorCode::Infeasible)
        return error;
    const std::optional<Remedy> remedy = remedyFor(planner, problem, options, progress);
    if (remedy)
        error.message += "; one fits with " + remedy->text;
    else if (!progress.stopped())
        error.message += "; neither its options, smaller micro-batches or batches, ZeRO, an optimizer without state, "
                         "larger devices nor more of them were found to help";
    return error;
}

} // namespace planloom::planners
