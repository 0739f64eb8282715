// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::gnn {

/// An undirected graph in compressed rows, with features and labels of its nodes. 8 bytes a node and an arc (each edge
/// is two arcs), 4 a feature, 4 a label and a part. A plain value; checkGraph() says whether it is consistent.
struct GraphData {
    static constexpr std::int32_t kNoLabel = -100; ///< such a node is a neighbour and never a seed

    std::string source;                ///< "karate", "sbm:...", "debian:bookworm/main/amd64"
    std::vector<std::int64_t> offsets; ///< nodes + 1: where the neighbours of each node begin
    std::vector<std::int64_t> arcs;    ///< neighbours, ascending within a node
    std::int64_t width = 0;            ///< features of a node
    std::vector<float> features;       ///< [node][width]
    std::vector<std::int32_t> labels;  ///< per node: 0 .. classes - 1, or kNoLabel
    std::vector<std::int32_t> part;    ///< per node: which part of the partition holds it; empty: not partitioned

    [[nodiscard]] std::int64_t nodes() const { return static_cast<std::int64_t>(labels.size()); }
    [[nodiscard]] std::int64_t edges() const { return static_cast<std::int64_t>(arcs.size()) / 2; }
    [[nodiscard]] std::int32_t classes() const; ///< largest label + 1
    [[nodiscard]] std::int32_t parts() const;   ///< largest part + 1; 1 if not partitioned
    [[nodiscard]] std::span<const std::int64_t> neighbours(std::int64_t node) const
    {
        const auto begin = static_cast<std::size_t>(offsets[static_cast<std::size_t>(node)]);
        const auto end = static_cast<std::size_t>(offsets[static_cast<std::size_t>(node) + 1]);
        return std::span(arcs).subspan(begin, end - begin);
    }
};

/// Between nodes a and b, in either order.
struct Edge {
    std::int64_t a = 0;
    std::int64_t b = 0;
};
/// Rows of an undirected graph. Loops and repeated edges are left out. Cost: O(edges log edges).
void setEdges(GraphData &graph, std::int64_t nodes, std::vector<Edge> edges);

/// Errors (BadInput), naming the node: no nodes or no edges, offsets that do not rise or do not end at the number of
/// arcs, neighbours that do not exist, are not ascending or repeat, a node that is its own neighbour, an edge in one
/// direction only, labels below 0 other than kNoLabel, features or parts of another number than nodes, features that
/// are not finite. Cost: O(arcs log degree).
Status checkGraph(const GraphData &graph);

/// Zachary's karate club (Zachary, 1977): 34 nodes, 78 edges, one feature bucket a node, labels 0 (Mr. Hi) and 1.
GraphData karateClub();

/// A planted partition: blocks of equal size with more edges inside than between.
struct BlockModel {
    std::int32_t blocks = 4;
    std::int64_t blockNodes = 250;
    double degreeInside = 8; ///< mean
    double degreeOutside = 2;
    std::int64_t width = 16;  ///< features
    double separation = 0.35; ///< of the blocks' means, in standard deviations of the noise
    std::uint64_t seed = 1;
};
/// Features are separation * (the block's mean vector of normal numbers) + normal noise; labels are the blocks.
/// Errors: BadInput (no block, no node, degrees that the sizes do not allow, more than 2^31 nodes).
Result<GraphData> blockModelGraph(const BlockModel &model);

} // namespace planloom::gnn
