// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/trace/foreign_trace.h"

namespace planloom::import {

/// A trace of Perfetto's SDK (perfetto.dev, "TrackEvent": packets of track events, plain, compressed in packets, or the
/// whole file by gzip).
///
/// Processes are ranks, their threads and tracks lanes. Slices are pairs of begin and end, or a complete event of the
/// older form; times of all clocks are turned into the trace's own by the clock snapshots. Counters are lanes with
/// levels; instants and packets of other sources (scheduling, memory, logs) are counted in the notes. A file that was
/// cut short is read to its end.
///
/// The file is read packet by packet: memory is 32 bytes a slice and its names. Errors: Io, BadInput (with the byte)
/// for what is no trace, Cancelled.
Result<ForeignTrace> readPerfettoTrace(const std::string &path, Progress &progress);

} // namespace planloom::import
