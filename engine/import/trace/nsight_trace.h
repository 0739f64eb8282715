// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/trace/foreign_trace.h"

namespace planloom::import {

/// The database that `nsys export --type sqlite` writes (NVIDIA Nsight Systems, "SQLite Schema Reference"; versions
/// differ in columns, so that those are read which are there).
///
/// A process is a rank, with its threads as lanes: calls of CUDA's runtime and ranges of NVTX; and so is each GPU that
/// it uses, with its streams: kernels, copies, memory sets, graphs. A range of NVTX that is called like a step
/// ("iteration 5") numbers the slices behind it. Samples, counters, the system's calls and ranges that never ended are
/// counted in the notes.
///
/// The database is opened for reading alone; views, triggers and virtual tables are not touched. Memory: 32 bytes a
/// slice and its names. Errors: Io, BadInput for a database that is damaged or another program's, Cancelled.
Result<ForeignTrace> readNsightTrace(const std::string &path, Progress &progress);

} // namespace planloom::import
