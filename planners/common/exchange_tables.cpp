// SPDX-License-Identifier: Apache-2.0
#include "planners/common/exchange_tables.h"

#include "engine/plan/training.h"
#include "engine/plan/validate_tables.h"
#include "planners/common/exchange_seconds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

namespace planloom::planners {
namespace {

using plan::ExchangeScheduling;
using plan::SparseTable;
using plan::TableStrategy;

/// The fastest way of each of @p names in turn. Returns the seconds of a step then.
double chooseWays(plan::Plan &plan, const Problem &problem, const std::vector<std::string> &names)
{
    std::vector<SparseTable> &tables = plan.exchange.sparse.tables;
    for (const std::string &name : names)
        tables.push_back({name, TableStrategy::AllReduce, false});
    double fastest = std::numeric_limits<double>::infinity();
    for (SparseTable &table : tables) {
        SparseTable best = table;
        for (const SparseTable &way : tableWays(table.parameter, plan.exchange.sparse.scheduling)) {
            table = way;
            const Result<double> seconds = stepSeconds(plan, problem.subject);
            if (seconds && *seconds < fastest) {
                fastest = *seconds;
                best = way;
            }
        }
        table = best;
    }
    return fastest;
}

Status findTables(plan::Plan &plan, const Problem &problem, bool findsScheduling)
{
    const std::vector<std::string> names = plan::lookedUpTables(*problem.subject.graph);
    if (names.empty())
        return badInput(fmt::format("model {} has no table that is looked up by an input and by nothing else, so that "
                                    "exchange embrace has nothing to do; tied tables can be untied, or exchange by "
                                    "all-reduce",
                                    problem.subject.graph->name()));
    if (!findsScheduling) {
        chooseWays(plan, problem, names);
        return {};
    }
    double fastest = std::numeric_limits<double>::infinity();
    plan::Plan best = plan;
    for (const plan::ExchangeSchedulingRow &row : plan::kExchangeSchedulings) {
        plan::Plan tried = plan;
        tried.exchange.sparse.scheduling = row.scheduling;
        const double seconds = chooseWays(tried, problem, names);
        if (!(seconds < fastest) && row.scheduling != ExchangeScheduling::Fifo)
            continue;
        fastest = seconds;
        best = std::move(tried);
    }
    plan = std::move(best);
    return {};
}

/// Why table @p index is not exchanged by rows.
std::string whyWhole(plan::Plan plan, const Problem &problem, std::size_t index)
{
    plan.exchange.sparse.tables[index].strategy = TableStrategy::AllToAll;
    const Result<double> seconds = stepSeconds(plan, problem.subject);
    return seconds ? ", which simulates fastest" : "; by rows: " + seconds.error().message;
}

std::string noMatch(const std::string &pattern, const Problem &problem)
{
    const std::vector<std::string> tables = plan::lookedUpTables(*problem.subject.graph);
    return fmt::format("exchange embrace: \"{}\" matches no table of model {} that is looked up by an input and by "
                       "nothing else; {}",
                       pattern, problem.subject.graph->name(),
                       tables.empty() ? "it has none: tied tables can be untied, or exchange by all-reduce"
                                      : fmt::format("it has {}", fmt::join(tables, ", ")));
}

Status expandPatterns(plan::Plan &plan, const Problem &problem)
{
    std::vector<SparseTable> expanded;
    for (const SparseTable &table : plan.exchange.sparse.tables) {
        if (table.parameter.find('*') == std::string::npos) {
            expanded.push_back(table);
            continue;
        }
        const std::size_t before = expanded.size();
        for (const std::string &name : plan::lookedUpTables(*problem.subject.graph))
            if (plan::matches(table.parameter, name))
                expanded.push_back({name, table.strategy, table.split});
        if (expanded.size() == before)
            return badInput(noMatch(table.parameter, problem));
    }
    plan.exchange.sparse.tables = std::move(expanded);
    return {};
}

} // namespace

std::vector<SparseTable> tableWays(const std::string &table, ExchangeScheduling scheduling)
{
    std::vector<SparseTable> ways;
    for (const plan::TableStrategyRow &row : plan::kTableStrategies) {
        ways.push_back({table, row.strategy, false});
        if (scheduling == ExchangeScheduling::TwoDimensional && row.strategy != TableStrategy::AllReduce)
            ways.push_back({table, row.strategy, true});
    }
    return ways;
}

std::vector<std::string> dropDecayOfRows(plan::Plan &plan)
{
    std::vector<std::string> names;
    for (const SparseTable &table : plan.exchange.sparse.tables) {
        const plan::ParameterSettings settings = plan::settingsOf(plan.optimizer, table.parameter, 2);
        if (settings.weightDecay == 0 || plan.exchange.tableOf(table.parameter) == nullptr)
            continue;
        plan.optimizer.groups.insert(plan.optimizer.groups.begin(), {table.parameter, 0, settings.learningRateFactor});
        names.push_back(table.parameter);
    }
    return names;
}

Status fillInTables(plan::Plan &plan, const Problem &problem, bool findsScheduling, std::vector<std::string> &notes)
{
    if (!plan.exchange.sparse.tables.empty()) {
        if (Status expanded = expandPatterns(plan, problem); !expanded)
            return expanded;
    } else {
        if (Status found = findTables(plan, problem, findsScheduling); !found)
            return found;
        for (std::size_t t = 0; t < plan.exchange.sparse.tables.size(); ++t)
            if (plan.exchange.sparse.tables[t].strategy == TableStrategy::AllReduce)
                notes.push_back(fmt::format("table {} is summed up as a whole{}",
                                            plan.exchange.sparse.tables[t].parameter, whyWhole(plan, problem, t)));
    }
    for (const std::string &table : dropDecayOfRows(plan))
        notes.push_back(
            fmt::format("weight decay of table {} is 0, as a step updates the rows that it looks up alone", table));
    return {};
}

} // namespace planloom::planners
