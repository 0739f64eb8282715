// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/localize.h"

#include <map>
#include <string>
#include <vector>

namespace planloom::sharding {

/// Requested layouts along one dimension of the mesh.
struct LineRequest {
    Line line;
    std::map<std::string, Sbp> pins;  ///< by the exact name of a tensor
    std::vector<Sbp> inputs;          ///< per entry of TrainingGraph::inputs
    std::vector<const Sbp *> outputs; ///< per entry of TrainingGraph::outputs; nullptr: as it falls
};

/// The graph of one device of the line, and how tensors are split over it.
struct LineResult {
    graph::TrainingGraph local;
    std::vector<Sbp> parameters;
    std::vector<bool> partialGradients; ///< per parameter: its gradient is a sum over the line
    std::vector<Sbp> outputs;
    std::map<std::string, Sbp> chosen;
};

/// Shards @p logical, which may be local to other dimensions already, over one line of devices.
Result<LineResult> shardLine(const graph::TrainingGraph &logical, const LineRequest &request);

} // namespace planloom::sharding
