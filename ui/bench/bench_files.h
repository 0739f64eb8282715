// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"
#include "engine/plan/plan.h"
#include "engine/trace/trace.h"

#include <QString>

#include <cstdint>

namespace planloom::ui {

// Files that targets open. All are the same in each call with the same arguments. Errors: Io.

constexpr int kBenchRanks = 16; ///< of traces, with kBenchLanes lanes each: 48 lanes
constexpr int kBenchLanes = 3;

/// A trace of ours: steps of a hundred tasks on each lane. Written block by block: memory of a block.
Status writeBenchTrace(const QString &path, std::int64_t slices);
/// The same in the trace-event format as PyTorch's profiler writes it, about 140 bytes an event.
Status writeBenchEvents(const QString &path, std::int64_t slices);
/// A GPT of at least @p operators operators, as a model file. Returns how many it has.
Result<std::int64_t> writeBenchModel(const QString &path, std::int64_t operators);
/// A GPT with so many blocks, small enough to be planned for many stages.
Status writeBenchBlocks(const QString &path, int blocks);
/// Machines of eight GPUs, as a file: @p devices of them, a multiple of eight.
Status writeBenchCluster(const QString &path, int devices);
/// Folders of @p runs runs of @p document in @p folder, each of some steps, with losses, times and peaks that differ.
Status writeBenchRuns(const QString &folder, const plan::Document &document, double iterationSeconds, int runs);

} // namespace planloom::ui
