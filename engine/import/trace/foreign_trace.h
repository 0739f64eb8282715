// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/base/result.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::import {

/// A trace of another program.
struct ForeignTrace {
    trace::Trace trace;             ///< sorted; `dropped` counts the events that are not slices or could not be read
    std::vector<std::string> notes; ///< for the user: what was left out, and why
    std::int64_t origin = 0;        ///< what the file's clock showed at the trace's time 0, nanoseconds
    std::int32_t rank = -1;         ///< of the process in its training, where the file says so
};

/// How a file that holds a trace is written.
enum class TraceFormat {
    None,         ///< no trace of another program
    Events,       ///< the trace-event format: PyTorch's profiler, Chrome, our own export
    Nsight,       ///< the SQLite database that `nsys export --type sqlite` writes
    Perfetto,     ///< Perfetto's protocol buffers
    NsightReport, ///< a report of Nsight Systems, which only its own tools read
};

/// By the file's first bytes @p head, 4 KiB if there are so many, and its name.
TraceFormat traceFormat(const std::string &name, std::string_view head);
/// The same, of the file. None if it cannot be read.
TraceFormat traceFormat(const std::string &path);

/// Reads a trace of another program, of any format; what is none of them is read as events. Errors: those of the
/// format's reader; BadInput for a report of Nsight Systems, with the command that turns it into a database.
Result<ForeignTrace> readForeignTrace(const std::string &path, Progress &progress);

/// The same of a trace of ours (trace::readTrace()), too: whatever the file is. Notes are of other programs' only.
Result<ForeignTrace> readAnyTrace(const std::string &path, Progress &progress);

/// Several files, one for each rank of a training, as one trace: ranks are in the order that the files give their
/// processes, else in the order of @p paths. Where all files say which rank they are, or two names are the same,
/// names begin with the file's: "rank 3: python (GPU 3)", or "b.json: python".
///
/// Clocks that agree (the files' times overlap) are kept; else the files are laid over each other at the first step
/// that all of them have, or at their beginnings, and a note says so. A note says how far apart the steps begin.
/// Cost: the readers' and O(n log n). Errors: the readers', and BadInput if their times cannot be counted in 64 bits.
Result<ForeignTrace> readForeignTraces(const std::vector<std::string> &paths, Progress &progress);

} // namespace planloom::import
