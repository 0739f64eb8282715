// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/trace/trace.h"

#include <string>
#include <variant>
#include <vector>

namespace planloom::store {

/// What a query found. Rows have a cell for each column; no value stands for SQL's NULL.
struct QueryTable {
    using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;
    std::vector<std::string> columns;
    std::vector<std::vector<Cell>> rows;
};

/// Runs one SELECT of SQLite over @p trace, which it sees as these tables, times in seconds:
///
///     slices(task, kind, work, stage, micro_batch, rank, device, lane, step, start, duration)
///     tasks(number, task, kind, work, stage, micro_batch), devices(rank, device), lanes(number, lane, work)
///
/// Stages, micro-batches and steps that a slice does not have are NULL. Nothing else can be read or written: no files,
/// no other statements. Cost: some 0.5 s and 60 MB for a million slices, before the query. Errors: BadInput (SQL that
/// is wrong or no SELECT), Cancelled.
Result<QueryTable> queryTrace(const trace::Trace &trace, const std::string &sql, Progress &progress);

} // namespace planloom::store
