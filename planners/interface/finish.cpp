// SPDX-License-Identifier: Apache-2.0
#include "planners/interface/planner.h"

#include "planners/interface/shared_cores.h"

#include <algorithm>

namespace planloom::planners {
namespace {

constexpr std::size_t kMaxAlternatives = 10;

/// Formulas of papers give each device a core of its own.
void shareCores(plan::Plan &plan, const plan::Subject &subject)
{
    const double least = sharedCoreSeconds(plan, subject);
    const auto seconds = plan.estimate.find("iteration_seconds");
    if (least <= 0 || seconds == plan.estimate.end() || seconds->second >= least)
        return;
    if (const auto speedup = plan.estimate.find("speedup_over_one_device"); speedup != plan.estimate.end())
        speedup->second *= seconds->second / least;
    seconds->second = least;
}

} // namespace

Result<PlanReport> finish(plan::Plan plan, const Problem &problem, std::vector<Candidate> alternatives)
{
    Result<simulate::Simulation> simulation = simulate::simulatePlan(plan, problem.subject, {false, false});
    if (!simulation)
        return simulation.error();
    PlanReport report;
    shareCores(plan, problem.subject);
    report.plan = std::move(plan);
    report.predicted = std::move(simulation->report);
    report.plan.predictedJson = simulate::toJson(report.predicted);
    if (alternatives.size() > kMaxAlternatives)
        alternatives.resize(kMaxAlternatives);
    report.alternatives = std::move(alternatives);
    return report;
}

} // namespace planloom::planners
