// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::plan {

/// How replicas exchange what a batch looks up of a table; a row of kTableStrategies.
enum class TableStrategy : std::uint8_t { AllReduce, AllGather, AllToAll, ParameterServer };

/// The strategy as the plan file and the studio name it.
struct TableStrategyRow {
    TableStrategy strategy;
    const char *name;
    const char *about; ///< one line
};
inline constexpr TableStrategyRow kTableStrategies[] = {
    {TableStrategy::AllReduce, "all-reduce", "each replica holds the table; all of its gradient is summed"},
    {TableStrategy::AllGather, "all-gather",
     "each replica holds the table; ids and rows of its gradient go to all of them"},
    {TableStrategy::AllToAll, "all-to-all",
     "each replica holds some columns of the table; the rows that a batch looks up are exchanged"},
    {TableStrategy::ParameterServer, "parameter-server",
     "each replica holds some rows of the table, and serves them: others get those that their samples look up, and "
     "send their gradients back"},
};
const char *name(TableStrategy strategy);
/// Error: BadInput that lists the names.
Result<TableStrategy> findTableStrategy(std::string_view name);

/// In which order communication runs; a row of kExchangeSchedulings.
enum class ExchangeScheduling : std::uint8_t {
    Fifo,           ///< what is ready first goes first
    Horizontal,     ///< rows of tables go before sums of gradients, since the next step begins with them
    TwoDimensional, ///< and rows that the next step does not look up travel during that step
};
/// The scheduling as the plan file names it.
struct ExchangeSchedulingRow {
    ExchangeScheduling scheduling;
    const char *name;
};
inline constexpr ExchangeSchedulingRow kExchangeSchedulings[] = {
    {ExchangeScheduling::Fifo, "fifo"},
    {ExchangeScheduling::Horizontal, "horizontal"},
    {ExchangeScheduling::TwoDimensional, "2d"},
};
const char *name(ExchangeScheduling scheduling);
/// Error: BadInput that lists the names.
Result<ExchangeScheduling> findExchangeScheduling(std::string_view name);

/// A parameter that is only looked up, by rows, with ids that are an input of the model.
struct SparseTable {
    std::string parameter; ///< its name
    TableStrategy strategy = TableStrategy::AllToAll;
    bool split = true; ///< with scheduling 2d: rows that no replica looks up in the next step are exchanged during it
    friend bool operator==(const SparseTable &, const SparseTable &) = default;
};

/// True: a replica holds a part of the table, and gets the rows that its samples look up from others.
constexpr bool isCut(TableStrategy strategy)
{
    return strategy == TableStrategy::AllToAll || strategy == TableStrategy::ParameterServer;
}

/// False: its gradient is summed up as a whole.
constexpr bool isByRows(const SparseTable &table) { return table.strategy != TableStrategy::AllReduce; }

/// Exchange of tables by rows (Li et al., EmbRace, ICPP 2022). Other parameters are exchanged by Exchange::dense.
struct SparseExchange {
    ExchangeScheduling scheduling = ExchangeScheduling::TwoDimensional;
    std::vector<SparseTable> tables; ///< each parameter once; others that are looked up are exchanged as dense ones

    /// 0: not exchanged by rows; else its place in `tables`, from 1.
    [[nodiscard]] std::size_t placeOf(std::string_view parameter) const;
    /// True if some of its rows are exchanged a step later.
    [[nodiscard]] bool delays(const SparseTable &table) const
    {
        return scheduling == ExchangeScheduling::TwoDimensional && table.split;
    }
    friend bool operator==(const SparseExchange &, const SparseExchange &) = default;
};

/// "scheduling=2d,tables=embedding:all-to-all:split+wpe:all-reduce": what textOf(Exchange) appends.
std::string textOf(const SparseExchange &exchange);
/// Takes up a setting of that text. Error: BadInput that names the setting and the fix.
Status set(SparseExchange &exchange, std::string_view key, std::string_view value);

} // namespace planloom::plan
