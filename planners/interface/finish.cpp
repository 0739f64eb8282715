// SPDX-License-Identifier: Apache-2.0
#include "planners/interface/planner.h"

namespace planloom::planners {
namespace {

constexpr std::size_t kMaxAlternatives = 10;

} // namespace

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
