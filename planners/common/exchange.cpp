// SPDX-License-Identifier: Apache-2.0
#include "planners/common/exchange.h"

#include "planners/common/averaging_delay.h"
#include "planners/common/changed_candidates.h"
#include "planners/common/exchange_seconds.h"
#include "planners/common/exchange_tables.h"
#include "planners/common/exchange_warnings.h"
#include "planners/common/simulated_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

namespace planloom::planners {
namespace {

/// withBestDelay() by the plan's own times; its own delay is the longest of its round.
Status findDelay(plan::Plan &plan, const Problem &problem, std::vector<std::string> &notes)
{
    const auto times = averagingTimes(plan, problem.subject);
    if (!times)
        return times.error();
    plan::DelayedAveraging &averaging = plan.exchange.averaging;
    averaging = withBestDelay(averaging, times->step, times->exchange);
    if (averaging.merge == plan::Merge::Convex)
        notes.push_back(fmt::format("delay {} takes the least time for the same progress, of which merge=convex throws "
                                    "away {:.0f} % with each step of delay",
                                    averaging.delay,
                                    100 * (1 - averaging.localWeight) / static_cast<double>(averaging.localSteps)));
    return {};
}

Status estimateAveraging(PlanReport &report, const Problem &problem)
{
    const auto times = averagingTimes(report.plan, problem.subject);
    if (!times)
        return times.error();
    const plan::DelayedAveraging &averaging = report.plan.exchange.averaging;
    plan::Estimate &estimate = report.plan.estimate;
    estimate["averaging_step_seconds"] = times->step;
    estimate["averaging_exchange_seconds"] = times->exchange;
    estimate["averaging_hidden_share"] = times->hiddenShare(report.predicted.iterationSeconds, averaging);
    estimate["averaging_effective_share"] = averaging.effectiveShare();
    if (averaging.effectiveShare() > 0)
        estimate["averaging_effective_step_seconds"] = report.predicted.iterationSeconds / averaging.effectiveShare();
    return {};
}

/// Replaces @p setting of @p settings; false if it is none of them.
bool takeSetting(std::string &settings, std::string_view setting, std::string_view instead)
{
    const std::size_t at = settings.find(setting);
    const std::size_t end = at + setting.size();
    if (at == std::string::npos || (end < settings.size() && settings[end] != ','))
        return false;
    settings.replace(at, setting.size(), instead);
    return true;
}

/// Sums end in the next step where that simulates faster.
void findAcrossSteps(plan::Plan &plan, const Problem &problem, std::vector<std::string> &notes)
{
    const auto secondsOf = [&](bool acrossSteps) {
        plan::Plan tried = plan;
        tried.exchange.acrossSteps = acrossSteps;
        const Result<double> seconds = stepSeconds(tried, problem.subject);
        return seconds ? *seconds : std::numeric_limits<double>::infinity();
    };
    constexpr double kNoticed = 1 - 1e-6;
    const double within = secondsOf(false), across = secondsOf(true);
    plan.exchange.acrossSteps = across < kNoticed * within;
    notes.push_back(plan.exchange.acrossSteps
                        ? fmt::format("sums of gradients may end in the next step: a step takes {:.1f} % less",
                                      100 * (1 - across / within))
                        : "sums of gradients end in their step, as the next one would not be faster, or this plan "
                          "needs them there");
}

/// What of an average is not hidden, and what helps.
void noteHidden(PlanReport &report)
{
    const plan::DelayedAveraging &averaging = report.plan.exchange.averaging;
    constexpr double kAll = 0.99;
    const plan::Estimate &estimate = report.plan.estimate;
    const double hidden = estimate.at("averaging_hidden_share");
    if (hidden >= kAll || averaging.delay == 0) // local SGD waits for its averages
        return;
    const bool longEnough = static_cast<double>(averaging.delay) * estimate.at("averaging_step_seconds")
        >= kAll * estimate.at("averaging_exchange_seconds");
    const char *why = "delay=auto finds a delay that is as long as the average";
    if (longEnough)
        why =
            "collectives inside of the replicas wait behind it, or the cores that ranks share have no time left for it";
    else if (averaging.merge == plan::Merge::Convex)
        why = "with merge=convex delay=auto finds the delay with the least time for the same progress";
    report.notes.push_back(fmt::format("{:.0f} % of the average is hidden; {}", 100 * hidden, why));
}

} // namespace

Result<ExchangeRequest> exchangeRequest(std::string_view text)
{
    std::string settings(text);
    ExchangeRequest request;
    request.findsDelay = takeSetting(settings, ",delay=auto", ",delay=0");
    request.findsAcrossSteps = takeSetting(settings, ",across_steps=auto", "");
    auto exchange = plan::exchangeFromText(settings);
    if (!exchange)
        return exchange.error();
    request.exchange = *std::move(exchange);
    request.findsScheduling = text.find(",scheduling=") == std::string_view::npos;
    return request;
}

Result<PlanReport> withExchange(PlanReport report, const Problem &problem, const ExchangeRequest &request)
{
    plan::Plan plan = report.plan;
    plan.exchange = request.exchange;
    const bool sharded =
        std::any_of(plan.stages.begin(), plan.stages.end(), [](const plan::Stage &stage) { return stage.zero > 0; });
    if (plan.exchange.averages() && problem.zero == 0 && sharded) {
        for (plan::Stage &stage : plan.stages)
            stage.zero = 0;
        report.notes.push_back("the ZeRO that the planner chose is left out, as exchange dasgd needs whole states on "
                               "every replica");
    }
    if (request.findsDelay) // while tables are chosen, all that a round can hide
        plan.exchange.averaging.delay = plan.exchange.averaging.localSteps;
    if (plan.exchange.policy == plan::ExchangePolicy::Sparse)
        if (Status filled = fillInTables(plan, problem, request.findsScheduling, report.notes); !filled)
            return filled.error();
    if (request.findsDelay)
        if (Status found = findDelay(plan, problem, report.notes); !found)
            return found.error();
    if (request.findsAcrossSteps)
        findAcrossSteps(plan, problem, report.notes);
    auto changed = finish(std::move(plan), problem);
    if (!changed)
        return changed;
    if (!changed->predicted.fits && request.exchange.policy == plan::ExchangePolicy::Sparse
        && request.exchange.averages())
        return infeasible(fmt::format("the plan {} does not fit with rows on their way and the snapshots that are "
                                      "averaged; plan with smaller batches, or with merge=convex, which needs half of "
                                      "the snapshots",
                                      plan::notation(changed->plan)));
    if (!changed->predicted.fits && request.exchange.policy == plan::ExchangePolicy::Sparse)
        return infeasible(
            fmt::format("the plan {} does not fit with exchange embrace, whose rows need room on their way; "
                        "plan with smaller batches, or exchange by all-reduce",
                        plan::notation(changed->plan)));
    if (!changed->predicted.fits)
        return infeasible(
            fmt::format("the plan {} fits without exchange {}, not with the snapshots that it averages; plan with "
                        "merge=convex, which needs half of them, or on larger devices",
                        plan::notation(changed->plan), plan::name(request.exchange.policy)));
    changed->notes = std::move(report.notes);
    if (plan::textOf(changed->plan.exchange) != plan::textOf(report.plan.exchange))
        takeSimulated(*changed);
    if (changed->plan.exchange.averages()) {
        if (Status estimated = estimateAveraging(*changed, problem); !estimated)
            return estimated.error();
    }
    for (std::string &warning : exchangeWarnings(changed->plan))
        changed->notes.push_back(std::move(warning));
    if (changed->plan.exchange.averages())
        noteHidden(*changed);
    changed->complete = report.complete;
    const auto sameExchange = [&](plan::Plan &candidate) -> Status {
        candidate.exchange = changed->plan.exchange;
        dropDecayOfRows(candidate);
        return {};
    };
    changed->alternatives = changedCandidates(std::move(report.alternatives), problem, sameExchange);
    changed->pareto = changedCandidates(std::move(report.pareto), problem, sameExchange);
    return changed;
}

} // namespace planloom::planners
