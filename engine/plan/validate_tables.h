// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <string>
#include <vector>

namespace planloom::plan {

/// Parameters of @p graph that can be exchanged by rows: tables that one operator reads, by ids that are an input.
std::vector<std::string> lookedUpTables(const graph::Graph &graph);

/// validate()'s part on tables that are exchanged by rows, once stages and optimizer are valid. Errors: BadInput, each
/// naming the table and the fix.
Status checkTables(const Plan &plan, const Subject &subject);

} // namespace planloom::plan
