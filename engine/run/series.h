// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What single processes of a run leave of each step, as no other process needs it: files of the run's folder
/// (resources/docs/formats/run.md).
namespace planloom::run {

inline constexpr const char *kLossesFolder = "losses"; ///< rN.csv: of replica N, from 0
inline constexpr const char *kRowsFolder = "rows";     ///< tN.csv: of table N of the Program, from 0

/// The file's name below the run's folder.
std::string lossesFile(std::int64_t replica);
std::string rowsFile(std::int64_t table);

/// The mean loss of each step over the samples of one replica, whose parameters are averaged with others' now and then
/// only: before the step's update, by parameters of its own.
struct ReplicaLosses {
    std::vector<std::int64_t> steps;
    std::vector<double> losses; ///< NaN: no number
};
std::string lossesHead();
/// With its end, into @p to, of @p size characters, 64 at least; how many there are. Allocates nothing.
std::size_t lossesLine(std::int64_t step, double loss, char *to, std::size_t size);
/// Error: BadInput, naming the line.
Result<ReplicaLosses> lossesFromCsv(std::string_view text);

/// Rows of a table that all replicas look up in a step, each replica's counted for itself.
struct RowCounts {
    double ids = 0;     ///< look-ups
    double unique = 0;  ///< rows: those that a replica looks up several times once
    double prior = 0;   ///< those of them that some replica looks up in the next step
    double delayed = 0; ///< the others, whose gradients travel in the next step
    friend bool operator==(const RowCounts &, const RowCounts &) = default;
};

/// Of a table that is exchanged by rows (plan::SparseExchange).
struct RowSeries {
    std::string table;
    std::int64_t rows = 0; ///< of the table
    std::int64_t replicas = 0;
    bool splits = false;  ///< prior and delayed rows travel apart, and are counted
    bool counted = false; ///< `expected` is by counts of the profile, else by Zipf's law
    RowCounts expected;   ///< of a step, by the plan
    std::vector<std::int64_t> steps;
    std::vector<RowCounts> counts; ///< by step
};
/// All but the steps.
std::string rowsHead(const RowSeries &series);
/// As lossesLine().
std::size_t rowsLine(std::int64_t step, const RowCounts &counts, bool splits, char *to, std::size_t size);
/// Error: BadInput, naming the line.
Result<RowSeries> rowsFromCsv(std::string_view text);

/// Of a series @p text that begins with @p head: that head and the lines of steps before @p firstStep, with which a run
/// goes on; of another text the head alone.
std::string keptBefore(std::string_view text, const std::string &head, std::int64_t firstStep);

} // namespace planloom::run
