// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/gnn/graph_data.h"
#include "engine/gnn/job.h"
#include "engine/gnn/volumes.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace planloom::cli {

/// Of what `place` writes.
inline constexpr const char *kPlacementSchema = "planloom.placement/1";

/// A job with its volumes, and the graph that they were counted in.
struct LoadedJob {
    gnn::Job job;
    std::optional<gnn::GraphData> graph;
    gnn::SampleOptions sampling;
    std::vector<std::int32_t> homes;
};
/// Reads the job and counts its volumes where it names a graph, which takes as long as to draw all its mini-batches.
/// Errors: those of reading, gnn::jobFromJson, data::readGraphFolder, gnn::checkJob.
Result<LoadedJob> loadJob(const std::string &path);

/// Prints sizes, neighbours and parts of @p graph. Its keys are those of `graph --json`.
nlohmann::ordered_json graphResult(const gnn::GraphData &graph, Output &output);

} // namespace planloom::cli
