// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/sparse_exchange.h"

#include <fmt/format.h>

#include <algorithm>

namespace planloom::plan {
namespace {

template <class Row, std::size_t n>
std::string listOf(const Row (&table)[n])
{
    std::string names;
    for (const Row &row : table)
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
}

constexpr std::string_view kSplit = "split";
constexpr std::string_view kWhole = "whole";

/// "embedding:all-to-all:split"; strategy and split may be left out.
Result<SparseTable> tableFromText(std::string_view text)
{
    SparseTable table;
    const std::size_t colon = text.find(':');
    table.parameter = text.substr(0, colon);
    if (table.parameter.empty())
        return badInput(
            fmt::format("table \"{}\" of exchange embrace has no name; write PARAMETER[:STRATEGY[:split]]", text));
    if (colon == std::string_view::npos)
        return table;
    text.remove_prefix(colon + 1);
    const std::size_t second = text.find(':');
    const auto strategy = findTableStrategy(text.substr(0, second));
    if (!strategy)
        return strategy.error();
    table.strategy = *strategy;
    if (second == std::string_view::npos)
        return table;
    const std::string_view split = text.substr(second + 1);
    if (split != kSplit && split != kWhole)
        return badInput(
            fmt::format("rows of table {} are exchanged \"{}\"; give split or whole", table.parameter, split));
    table.split = split == kSplit;
    return table;
}

} // namespace

const char *name(TableStrategy strategy) { return kTableStrategies[static_cast<std::size_t>(strategy)].name; }

Result<TableStrategy> findTableStrategy(std::string_view name)
{
    for (const TableStrategyRow &row : kTableStrategies)
        if (name == row.name)
            return row.strategy;
    return badInput(fmt::format("table strategy \"{}\" is not known; there is {}", name, listOf(kTableStrategies)));
}

const char *name(ExchangeScheduling scheduling)
{
    return kExchangeSchedulings[static_cast<std::size_t>(scheduling)].name;
}

Result<ExchangeScheduling> findExchangeScheduling(std::string_view name)
{
    for (const ExchangeSchedulingRow &row : kExchangeSchedulings)
        if (name == row.name)
            return row.scheduling;
    return badInput(
        fmt::format("exchange scheduling \"{}\" is not known; there is {}", name, listOf(kExchangeSchedulings)));
}

std::size_t SparseExchange::placeOf(std::string_view parameter) const
{
    for (std::size_t t = 0; t < tables.size(); ++t)
        if (tables[t].parameter == parameter)
            return t + 1;
    return 0;
}

std::string textOf(const SparseExchange &exchange)
{
    std::string text = fmt::format("scheduling={}", name(exchange.scheduling));
    const char *before = ",tables=";
    for (const SparseTable &table : exchange.tables) {
        text += fmt::format("{}{}:{}:{}", before, table.parameter, name(table.strategy), table.split ? kSplit : kWhole);
        before = "+";
    }
    return text;
}

Status set(SparseExchange &exchange, std::string_view key, std::string_view value)
{
    if (key == "scheduling") {
        const auto scheduling = findExchangeScheduling(value);
        if (scheduling)
            exchange.scheduling = *scheduling;
        return scheduling ? Status() : scheduling.error();
    }
    if (key != "tables")
        return badInput(fmt::format(
            "exchange embrace has no setting \"{}\"; it has scheduling, tables, dense and across_steps", key));
    while (true) {
        const std::size_t plus = value.find('+');
        auto table = tableFromText(value.substr(0, plus));
        if (!table)
            return table.error();
        exchange.tables.push_back(*std::move(table));
        if (plus == std::string_view::npos)
            return {};
        value.remove_prefix(plus + 1);
    }
}

} // namespace planloom::plan
