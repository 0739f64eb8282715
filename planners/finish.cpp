// SPDX-License-Identifier: Apache-2.0
#include "planners/planner.h"

#include "planners/common/remedy.h"
#include "planners/common/why.h"

namespace planloom::planners {
namespace {

constexpr std::size_t kMaxAlternatives = 10;

} // namespace

Result<PlanReport> planAndExplain(const Planner &planner, const Problem &problem, const Options &options, Progress &progress)
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

Error withRemedy(Error error, const Planner &planner, const Problem &problem, const Options &options, Progress &progress)
{
    if (error.code != ErrorCode::Infeasible)
        return error;
    const std::optional<Remedy> remedy = remedyFor(planner, problem, options, progress);
    if (remedy)
        error.message += "; one fits with " + remedy->text;
    else if (!progress.stopped())
        error.message += "; neither its options, smaller micro-batches or batches, ZeRO, an optimizer without state, larger devices nor more of them were found to help";
    return error;
}

Result<PlanReport> finish(plan::Plan plan, const Problem &problem, std::vector<Candidate> alternatives)
{
    Result<simulate::Simulation> simulation = simulate::simulatePlan(plan, problem.subject, {false, false});
    if (!simulation)
        return simulation.error();
    PlanReport report;
    report.plan = std::move(plan);
    report.predicted = std::move(simulation->report);
    report.plan.predictedJson = simulate::toJson(report.predicted);
    if (alternatives.size() > kMaxAlternatives)
        alternatives.resize(kMaxAlternatives);
    report.alternatives = std::move(alternatives);
    return report;
}

} // namespace planloom::planners
