// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/trace/foreign_trace.h"

namespace planloom::import {

/// A file in the trace-event format (Chrome, PyTorch's profiler, our own export), plain or compressed with gzip.
///
/// A process becomes a rank, a thread or stream a lane; slices of a thread that overlap, as nested calls do, get lanes
/// of their own, from the outermost inwards. Complete events and pairs of begin and end become records, counters lanes
/// with levels; flows, instants and asynchronous events are counted in the notes. Times keep their nanoseconds. The
/// step of a slice is its argument "step", or that of the "ProfilerStep#N" that it begins in. A file that was cut short
/// is read to its end.
///
/// The file is read in pieces: memory is 32 bytes a slice and what names take. Cost: about 3 s for a GB of text.
/// Errors: Io, BadInput (with the line) for what is no trace, Cancelled.
Result<ForeignTrace> readChromeTrace(const std::string &path, Progress &progress);

} // namespace planloom::import
