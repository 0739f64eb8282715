// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <string>
#include <vector>

namespace planloom::planners {

/// Fills in @p plan's tables (plan::SparseExchange): patterns with `*` become the tables that they match, and where
/// none is named each table of the model gets the strategy that simulates fastest beside those of the tables before it;
/// so does the scheduling if @p findsScheduling. Of equally fast ones the simplest. Tables that are exchanged by rows
/// lose their weight decay. @p notes: what was decided and is not as it was asked for. Errors: BadInput (no such
/// table). Cost: up to nine simulations a table.
Status fillInTables(plan::Plan &plan, const Problem &problem, bool findsScheduling, std::vector<std::string> &notes);

/// How table @p table may be exchanged under @p scheduling, simplest first.
std::vector<plan::SparseTable> tableWays(const std::string &table, plan::ExchangeScheduling scheduling);

/// Rows of tables are not decayed, as a step updates those alone that it looks up: adds groups of parameters to
/// @p plan's optimizer where that is needed. Returns the tables' names.
std::vector<std::string> dropDecayOfRows(plan::Plan &plan);

} // namespace planloom::planners
