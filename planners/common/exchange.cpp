// SPDX-License-Identifier: Apache-2.0
#include "planners/common/exchange.h"

#include "engine/compile/compile.h"
#include "engine/plan/training.h"
#include "engine/plan/validate_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace planloom::planners {
namespace {

struct AveragingTimes {
    double step = 0;     ///< seconds, without the average
    double exchange = 0; ///< seconds of one average, on the rank where it takes longest
};

/// By the plan's own Program, with averages that take no time.
Result<AveragingTimes> averagingTimes(const plan::Plan &plan, const Problem &problem)
{
    auto program = compile::compilePlan(plan, problem.subject, {.bodies = false, .fold = true});
    if (!program)
        return program.error();
    std::vector<double> onRank(program->ranks.size(), 0);
    for (program::Task &task : program->tasks) {
        const auto *exchange = task.as<program::Exchange>();
        if (exchange == nullptr || !exchange->averages)
            continue;
        onRank[task.rank.index()] += task.duration.value();
        task.duration = Seconds(0);
    }
    const Result<double> step = simulate::iterationSeconds(*program);
    if (!step)
        return step.error();
    return AveragingTimes{*step, *std::max_element(onRank.begin(), onRank.end())};
}

/// Fills in the delay that hides the average.
Status findDelay(plan::Plan &plan, const Problem &problem)
{
    plan::DelayedAveraging &averaging = plan.exchange.averaging;
    averaging.delay = averaging.localSteps;
    const auto times = averagingTimes(plan, problem);
    if (!times)
        return times.error();
    constexpr double kRounding = 1e-9;
    averaging.delay = static_cast<std::int64_t>(std::ceil(times->exchange / times->step - kRounding));
    averaging.localSteps = std::max(averaging.localSteps, averaging.delay);
    return {};
}

Status estimateAveraging(PlanReport &report, const Problem &problem)
{
    const auto times = averagingTimes(report.plan, problem);
    if (!times)
        return times.error();
    const plan::DelayedAveraging &averaging = report.plan.exchange.averaging;
    const double exposed =
        (report.predicted.iterationSeconds - times->step) * static_cast<double>(averaging.localSteps);
    plan::Estimate &estimate = report.plan.estimate;
    estimate["averaging_step_seconds"] = times->step;
    estimate["averaging_exchange_seconds"] = times->exchange;
    // Without a delay all of it is waited for, but for what snapshots and merges make of the times.
    const double hidden = averaging.delay == 0 ? 0 : 1 - exposed / times->exchange;
    estimate["averaging_hidden_share"] = times->exchange > 0 ? std::clamp(hidden, 0.0, 1.0) : 1;
    estimate["averaging_effective_share"] = averaging.effectiveShare();
    return {};
}

/// What the settings cost or risk.
void warn(PlanReport &report)
{
    const plan::DelayedAveraging &averaging = report.plan.exchange.averaging;
    constexpr double kMuch = 0.7;
    if (averaging.effectiveShare() < kMuch)
        report.notes.push_back(fmt::format("merge=convex with this delay keeps {:.0f} % of the steps' progress; "
                                           "merge=corrected keeps all of it",
                                           100 * averaging.effectiveShare()));
    if (averaging.merge == plan::Merge::Corrected && averaging.delay % 2 == 1)
        report.notes.push_back(
            "merge=corrected with an odd delay becomes unstable at lower learning rates than SGD does; "
            "an even delay does not");
    constexpr double kAll = 0.99;
    const plan::Estimate &estimate = report.plan.estimate;
    const double hidden = estimate.at("averaging_hidden_share");
    if (hidden >= kAll || averaging.delay == 0) // local SGD waits for its averages
        return;
    const bool longEnough = static_cast<double>(averaging.delay) * estimate.at("averaging_step_seconds")
        >= kAll * estimate.at("averaging_exchange_seconds");
    report.notes.push_back(fmt::format("{:.0f} % of the average is hidden; {}", 100 * hidden,
                                       longEnough ? "collectives inside of the replicas wait behind it"
                                                  : "delay=auto finds a delay that is as long as the average"));
}

/// Rows of tables are not decayed: a step updates those that it looks up.
void dropDecay(plan::Plan &plan, std::vector<std::string> &notes)
{
    for (const plan::SparseTable &table : plan.exchange.sparse.tables) {
        const plan::ParameterSettings settings = plan::settingsOf(plan.optimizer, table.parameter, 2);
        if (settings.weightDecay == 0 || plan.exchange.tableOf(table.parameter) == nullptr)
            continue;
        plan.optimizer.groups.insert(plan.optimizer.groups.begin(), {table.parameter, 0, settings.learningRateFactor});
        notes.push_back(fmt::format("weight decay of table {} is 0, as a step updates the rows that it looks up alone",
                                    table.parameter));
    }
}

/// Simulated seconds of a step; nothing where the plan cannot have the exchange.
std::optional<double> secondsOf(plan::Plan plan, const Problem &problem)
{
    std::vector<std::string> notes;
    dropDecay(plan, notes);
    const auto program = compile::compilePlan(plan, problem.subject, {.bodies = false, .fold = true});
    const Result<double> seconds = program ? simulate::iterationSeconds(*program) : Result<double>(program.error());
    return seconds ? std::optional(*seconds) : std::nullopt;
}

/// Each table that is looked up, with the strategy that simulates fastest beside those of the tables before it.
Status findTables(plan::Plan &plan, const Problem &problem, std::vector<std::string> &notes)
{
    std::vector<plan::SparseTable> &tables = plan.exchange.sparse.tables;
    for (const std::string &name : plan::lookedUpTables(*problem.subject.graph))
        tables.push_back({name, plan::TableStrategy::AllReduce, true});
    if (tables.empty())
        return badInput(fmt::format("model {} has no table that is looked up by an input and by nothing else, so that "
                                    "exchange embrace has nothing to do; tied tables can be untied, or exchange by "
                                    "all-reduce",
                                    problem.subject.graph->name()));
    for (plan::SparseTable &table : tables) {
        double fastest = std::numeric_limits<double>::infinity();
        plan::TableStrategy best = plan::TableStrategy::AllReduce;
        for (const plan::TableStrategyRow &row : plan::kTableStrategies) {
            table.strategy = row.strategy;
            const std::optional<double> seconds = secondsOf(plan, problem);
            if (seconds && *seconds < fastest) {
                fastest = *seconds;
                best = row.strategy;
            }
        }
        table.strategy = best;
        if (best == plan::TableStrategy::AllReduce)
            notes.push_back(fmt::format("table {} is summed up as a whole, which simulates fastest or is all that this "
                                        "plan allows",
                                        table.parameter));
    }
    return {};
}

/// Alternatives with the exchange of the chosen plan, fastest first.
std::vector<Candidate> withSameExchange(std::vector<Candidate> candidates, const plan::Exchange &exchange,
                                        const Problem &problem)
{
    std::vector<Candidate> kept;
    for (Candidate &candidate : candidates) {
        candidate.plan.exchange = exchange;
        if (exchange.policy == plan::ExchangePolicy::Sparse) {
            std::vector<std::string> notes;
            dropDecay(candidate.plan, notes);
        }
        auto report = finish(candidate.plan, problem);
        if (!report || !report->predicted.fits)
            continue;
        candidate.simulatedSeconds = report->predicted.iterationSeconds;
        candidate.peakBytes = 0;
        for (const simulate::DeviceReport &device : report->predicted.devices)
            candidate.peakBytes = std::max(candidate.peakBytes, device.peakBytes);
        kept.push_back(std::move(candidate));
    }
    std::stable_sort(kept.begin(), kept.end(),
                     [](const Candidate &a, const Candidate &b) { return a.simulatedSeconds < b.simulatedSeconds; });
    return kept;
}

} // namespace

Result<ExchangeRequest> exchangeRequest(std::string_view text)
{
    constexpr std::string_view kAuto = "delay=auto";
    std::string settings(text);
    ExchangeRequest request;
    if (const std::size_t at = settings.find("," + std::string(kAuto)); at != std::string::npos) {
        const std::size_t end = at + 1 + kAuto.size();
        if (end == settings.size() || settings[end] == ',') {
            settings.replace(at, end - at, ",delay=0");
            request.findsDelay = true;
        }
    }
    auto exchange = plan::exchangeFromText(settings);
    if (!exchange)
        return exchange.error();
    request.exchange = *std::move(exchange);
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
    if (request.findsDelay)
        if (Status found = findDelay(plan, problem); !found)
            return found.error();
    if (plan.exchange.policy == plan::ExchangePolicy::Sparse) {
        if (Status found = plan.exchange.sparse.tables.empty() ? findTables(plan, problem, report.notes) : Status();
            !found)
            return found.error();
        dropDecay(plan, report.notes);
    }
    auto changed = finish(std::move(plan), problem);
    if (!changed)
        return changed;
    if (!changed->predicted.fits && plan.exchange.policy == plan::ExchangePolicy::Sparse)
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
    if (changed->plan.exchange.averages()) {
        if (Status estimated = estimateAveraging(*changed, problem); !estimated)
            return estimated.error();
        warn(*changed);
    }
    changed->complete = report.complete;
    changed->alternatives = withSameExchange(std::move(report.alternatives), changed->plan.exchange, problem);
    changed->pareto = withSameExchange(std::move(report.pareto), changed->plan.exchange, problem);
    return changed;
}

} // namespace planloom::planners
