// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/plan/training.h"
#include "engine/program/program.h"

namespace planloom::profiler {

/// Measures what a rank of @p program does about the rows of a table that is exchanged by rows (the one that looks up
/// most ids in a step): which rows the members look up, and rows that are packed and unpacked. Adds to Profile::extra
/// cost::kSecondsPerRowId and cost::kSecondsPerRowPiece, medians over some tens of steps with ids by Zipf's law; the
/// second is what is left behind the time that the bytes take by "optimizer_seconds_per_parameter", if that is there.
/// Does nothing where there is no such table. Takes the memory of all rows, with a member's columns.
void measureRowWork(const program::Program &program, const plan::Optimizer &optimizer, cost::Profile &profile);

} // namespace planloom::profiler
