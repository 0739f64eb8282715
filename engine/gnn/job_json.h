// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/volumes.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::gnn {

/// The content of a job file (`planloom.gnn-job/1`, resources/docs/formats/gnn-job.md).
struct JobFile {
    Job job;
    std::int32_t iterations = 1;
    /// Volumes are counted in this graph (a folder, as written: relative to the job file); empty: the file has them.
    std::string graphFolder;
    SampleOptions sampling;
    std::vector<std::int32_t> homes; ///< per sampler: its home part
    double modelBytes = 0;
};

/// The job without volumes where the file names a graph; checkJob() is for the caller, once it has them.
/// Errors (BadInput): a field that is missing, of the wrong kind or out of range, roles that name no machine, resource
/// or trainer of the file; with the line.
Result<JobFile> jobFromJson(std::string_view text);

} // namespace planloom::gnn
