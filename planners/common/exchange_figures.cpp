// SPDX-License-Identifier: Apache-2.0
#include "planners/common/exchange_figures.h"

#include "engine/cost/looked_up_rows.h"
#include "engine/plan/validate_tables.h"
#include "engine/simulate/simulate.h"
#include "planners/common/counted.h"
#include "planners/common/exchange_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace planloom::planners {
namespace {

using plan::ExchangePolicy;
using plan::TableStrategy;

constexpr std::int64_t kMostBatches = 1000; ///< times the plan's one

/// The setting of @p table in @p plan; of one that it does not name, the sum of the whole gradient.
plan::SparseTable settingOf(const plan::Plan &plan, const std::string &table)
{
    const auto &all = plan.exchange.sparse.tables;
    const auto known = std::ranges::find(all, table, &plan::SparseTable::parameter);
    return known != all.end() ? *known : plan::SparseTable{table, TableStrategy::AllReduce, false};
}

plan::Plan withTable(plan::Plan plan, const plan::SparseTable &setting)
{
    auto &all = plan.exchange.sparse.tables;
    const auto known = std::ranges::find(all, setting.parameter, &plan::SparseTable::parameter);
    (known != all.end() ? *known : all.emplace_back()) = setting;
    return plan;
}

/// What a replica looks up of it, once a Program has it.
void takeRows(TableFigures &figures, const program::Program &program, const plan::Plan &plan,
              const plan::Subject &subject)
{
    const auto table = std::ranges::find(program.tables, figures.parameter, &program::Table::parameter);
    if (figures.replicas > 0 || table == program.tables.end())
        return;
    figures.replicas = static_cast<std::int64_t>(program.team(table->team).size());
    const std::int64_t samples = (plan.globalBatch + figures.replicas - 1) / figures.replicas;
    const auto rowsOf = [&](std::int64_t ofReplica) {
        return cost::lookedUpRows(subject.costs->profile().get(), figures.parameter, figures.rows,
                                  ofReplica * table->idsPerSample, figures.replicas);
    };
    figures.lookedUp = rowsOf(samples);
    constexpr double kNext = 1.3; // times the batch before
    constexpr double kNearlyAll = 0.999;
    for (std::int64_t each = 1; each <= kMostBatches * samples;
         each = std::max<std::int64_t>(each + 1, std::llround(static_cast<double>(each) * kNext))) {
        figures.byBatch.push_back({static_cast<double>(each * figures.replicas), rowsOf(each).unique});
        if (figures.byBatch.back().unique >= kNearlyAll * static_cast<double>(figures.rows)) {
            const std::int64_t most = std::max(each, kMostBatches * samples);
            figures.byBatch.push_back({static_cast<double>(most * figures.replicas), rowsOf(most).unique});
            return;
        }
    }
}

ExchangeChoice choiceOf(std::string name, const plan::Plan &plan, const plan::Subject &subject, bool asPlanned)
{
    ExchangeChoice choice{std::move(name), {}, {}, asPlanned};
    if (const auto seconds = exchangeSeconds(plan, subject))
        choice.seconds = *seconds;
    else
        choice.refusal = seconds.error().text();
    return choice;
}

/// From 0 to twice @p localSteps, each, or as many as are drawn well.
std::vector<std::int64_t> delaysFor(std::int64_t localSteps)
{
    constexpr std::int64_t kMost = 32;
    const std::int64_t last = 2 * localSteps;
    const std::int64_t steps = std::min(last, kMost);
    std::vector<std::int64_t> delays;
    for (std::int64_t k = 0; k <= steps; ++k)
        delays.push_back(last / steps * k + last % steps * k / steps);
    return delays;
}

plan::Plan withAverages(plan::Plan plan, std::int64_t localSteps, std::int64_t delay)
{
    plan.exchange.averaging.localSteps = localSteps;
    plan.exchange.averaging.delay = delay;
    return plan;
}

struct Method {
    std::string name;
    plan::Plan plan;
    bool asPlanned = false;

    [[nodiscard]] double effectiveShare() const
    {
        return plan.exchange.averages() ? plan.exchange.averaging.effectiveShare() : 1;
    }
};

/// With the plan's rounds.
std::vector<Method> methodsOf(const plan::Plan &plan, const AveragingTimes &times)
{
    const plan::DelayedAveraging &own = plan.exchange.averaging;
    Method synchronous{"synchronous", plan};
    const bool byRows = plan.exchange.policy == ExchangePolicy::Sparse;
    plan::Exchange &summed = synchronous.plan.exchange;
    (byRows ? summed.dense : summed.policy) = ExchangePolicy::AllReduce;
    Method local{"local SGD", withAverages(plan, own.localSteps, 0)};
    local.plan.exchange.averaging.localWeight = 0;
    local.asPlanned = local.plan.exchange.averaging == own;
    Method overlapped{"CoCoD", withAverages(plan, own.localSteps, own.localSteps)};
    plan::DelayedAveraging &whole = overlapped.plan.exchange.averaging;
    whole.merge = plan::Merge::Corrected;
    whole.localWeight = 0;
    overlapped.asPlanned = whole == own;
    const std::int64_t delay = own.delay > 0 ? own.delay : std::min(own.localSteps, times.leastDelay());
    Method delayed{fmt::format("DaSGD, d = {}", delay), withAverages(plan, own.localSteps, delay)};
    delayed.asPlanned = !overlapped.asPlanned && delayed.plan.exchange.averaging == own;
    return {std::move(synchronous), std::move(local), std::move(overlapped), std::move(delayed)};
}

} // namespace

double TableFigures::sentBytes(TableStrategy strategy, double of, double unique) const
{
    const double others = of - 1;
    const double lookedUpBytes = unique * static_cast<double>(columns) * 4;
    switch (strategy) {
    case TableStrategy::AllReduce: return 2 * others / of * static_cast<double>(bytes());
    case TableStrategy::AllGather: return others * lookedUpBytes;
    case TableStrategy::AllToAll: // of rows that are looked up, and of their gradients
    case TableStrategy::ParameterServer: return 2 * others / of * lookedUpBytes;
    }
    return 0;
}

std::optional<double> TableFigures::batchWith(double density) const
{
    const double wanted = density * static_cast<double>(rows);
    const auto behind =
        std::ranges::find_if(byBatch, [wanted](const BatchRows &point) { return point.unique >= wanted; });
    if (behind == byBatch.end())
        return std::nullopt;
    if (behind == byBatch.begin())
        return behind->batch;
    const BatchRows &before = *std::prev(behind);
    return before.batch + (behind->batch - before.batch) * (wanted - before.unique) / (behind->unique - before.unique);
}

const TableWay *TableFigures::fastest() const
{
    const TableWay *best = nullptr;
    for (const TableWay &way : ways)
        if (way.refusal.empty() && (best == nullptr || way.seconds < best->seconds))
            best = &way;
    return best;
}

Result<std::vector<TableFigures>> tableFigures(const plan::Plan &plan, const plan::Subject &subject, Progress &progress)
{
    const std::vector<std::string> names = plan::lookedUpTables(*subject.graph);
    const plan::ExchangeScheduling scheduling = plan.exchange.sparse.scheduling;
    Counted counted(progress, names.size() * tableWays({}, scheduling).size());
    std::vector<TableFigures> all;
    for (const std::string &name : names) {
        const graph::Shape &shape = subject.graph->tensor(subject.graph->find(name)).shape;
        TableFigures figures{name, shape[0].size, shape[1].size, plan.globalBatch, 0, {}, {}, {}};
        const plan::SparseTable own = settingOf(plan, name);
        for (const plan::SparseTable &table : tableWays(name, scheduling)) {
            if (!counted.next(fmt::format("{}: {}", name, plan::name(table.strategy))))
                return cancelled();
            const bool splits = plan::isByRows(own) && plan.exchange.sparse.delays(own);
            TableWay way{table, 0, {}, table.strategy == own.strategy && table.split == splits};
            const auto program = programWithExchange(withTable(plan, table), subject);
            const auto seconds = program ? simulate::iterationSeconds(*program) : Result<double>(program.error());
            if (program)
                takeRows(figures, *program, plan, subject);
            if (seconds)
                way.seconds = *seconds;
            else
                way.refusal = seconds.error().text();
            figures.ways.push_back(std::move(way));
        }
        all.push_back(std::move(figures));
    }
    return all;
}

Result<std::vector<ExchangeChoice>> schedulingFigures(const plan::Plan &plan, const plan::Subject &subject,
                                                      Progress &progress)
{
    Counted counted(progress, std::size(plan::kExchangeSchedulings));
    std::vector<ExchangeChoice> choices;
    for (const plan::ExchangeSchedulingRow &row : plan::kExchangeSchedulings) {
        if (!counted.next(row.name))
            return cancelled();
        plan::Plan tried = plan;
        tried.exchange.sparse.scheduling = row.scheduling;
        choices.push_back(choiceOf(row.name, tried, subject, row.scheduling == plan.exchange.sparse.scheduling));
    }
    return choices;
}

Result<AveragingFigures> averagingFigures(const plan::Plan &plan, const plan::Subject &subject, Progress &progress)
{
    const plan::DelayedAveraging &averaging = plan.exchange.averaging;
    const std::vector<std::int64_t> delays = delaysFor(averaging.localSteps);
    constexpr std::size_t kMethods = 4;
    Counted counted(progress, 1 + kMethods + delays.size());
    AveragingFigures figures;
    if (!counted.next("as planned"))
        return cancelled();
    const auto times = averagingTimes(plan, subject);
    const auto seconds = stepSeconds(plan, subject);
    if (!times || !seconds)
        return times ? seconds.error() : times.error();
    figures.times = *times;
    figures.seconds = *seconds;
    figures.hiddenShare = times->hiddenShare(*seconds, averaging);
    for (const Method &method : methodsOf(plan, *times)) {
        if (!counted.next(method.name))
            return cancelled();
        figures.methods.push_back(choiceOf(method.name, method.plan, subject, method.asPlanned));
        figures.methods.back().effectiveShare = method.effectiveShare();
    }
    for (const std::int64_t delay : delays) {
        if (!counted.next(fmt::format("delay {}", delay)))
            return cancelled();
        const std::int64_t rounds = std::max(averaging.localSteps, delay);
        const auto delayed = stepSeconds(withAverages(plan, rounds, delay), subject);
        if (delayed) // rounds may be too long for a plan
            figures.byDelay.push_back({delay, rounds, *delayed});
    }
    return figures;
}

} // namespace planloom::planners
