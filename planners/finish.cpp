// SPDX-License-Identifier: Apache-2.0
#include "planners/planner.h"

#include "planners/common/why.h"

namespace planloom::planners {
namespace {

constexpr std::size_t kMaxAlternatives = 10;

} // namespace

Result<PlanReport> planAndExplain(const Planner &planner, const Problem &problem, const Options &options, Progress &progress)
{
    Result<PlanReport> report = planner.plan(problem, options, progress);
    if (!report)
        return report;
    return withReasons(*std::move(report), problem);
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
