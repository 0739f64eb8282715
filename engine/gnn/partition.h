// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/graph_data.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace planloom::gnn {

/// How nodes are shared out over parts.
enum class PartitionMethod : std::uint8_t {
    Metis, ///< few edges between parts (Karypis and Kumar, 1998)
    Hash,  ///< by a hash of the node's number: the baseline
};
const char *name(PartitionMethod method); ///< "metis", "hash"
Result<PartitionMethod> partitionMethodFromName(std::string_view text);

/// How a graph is cut.
struct PartitionOptions {
    PartitionMethod method = PartitionMethod::Metis;
    std::int32_t parts = 2;
    std::uint64_t seed = 1;
    /// METIS: parts have about as many labelled nodes and about as many arcs, not only as many nodes.
    bool balanceTraining = false;
};

/// True if this build has METIS.
bool hasMetis();

/// A part for each node. The graph must have passed checkGraph(). METIS cuts recursively into up to 8 parts of small
/// graphs, where its k-way method cuts two to five times as many edges, and k-way else.
/// Errors: BadInput (no part, more parts than nodes), Unsupported (METIS is not in this build; more than 2^31 - 1 nodes
/// or arcs), Failed (METIS gave up).
Result<std::vector<std::int32_t>> partitionOf(const GraphData &graph, const PartitionOptions &options);

/// Arcs between parts and how uneven the parts are.
struct PartitionFigures {
    std::int64_t cutEdges = 0;
    double cutShare = 0;
    double nodesOverMean = 1; ///< largest part over mean
    double arcsOverMean = 1;
    double trainingOverMean = 1;           ///< labelled nodes
    std::int32_t partWithoutTraining = -1; ///< a part without labelled nodes; -1: none
};
PartitionFigures partitionFigures(const GraphData &graph, const std::vector<std::int32_t> &part);

namespace metis {
/// A part for each node, or what METIS returned instead of METIS_OK in @p failure.
std::vector<std::int32_t> cut(const GraphData &graph, const PartitionOptions &options, bool recursive, int &failure);
} // namespace metis

} // namespace planloom::gnn
