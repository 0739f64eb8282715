// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/program/program.h"

namespace planloom::profiler {

/// Measures what a rank of @p program does about the rows of a table that is exchanged by rows (the one that looks up
/// most ids in a step): which rows the members look up, and rows that are packed, unpacked and added up. Adds to
/// Profile::extra cost::kSecondsPerRowId, kSecondsPerRowPiece, kSecondsPerRowNumber, kSecondsPerAddedRow and
/// kSecondsPerAddedNumber, from medians over some tens of steps with ids by Zipf's law; what a row takes, and a number
/// of it, from rows of all columns and of as many as one of the members has. Does nothing where there is no such table.
/// Takes the memory of the table.
void measureRowWork(const program::Program &program, cost::Profile &profile);

} // namespace planloom::profiler
