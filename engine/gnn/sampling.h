// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/graph_data.h"

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::gnn {

/// The neighbourhood of one seed node, two hops, drawn with replacement. A pure function of (seed, step, node): any
/// rank draws the same trees, so losses and volumes do not depend on placement or partition.
struct SampledTree {
    std::vector<std::int64_t> first;  ///< fanout[0] neighbours of the node
    std::vector<std::int64_t> second; ///< fanout[1] neighbours of each of them, one after the other
};

/// Neighbours that are drawn for a node at each hop.
struct Fanout {
    std::int64_t first = 10;
    std::int64_t second = 5;
    [[nodiscard]] std::int64_t rows() const { return 1 + first + first * second; } ///< with the seed node itself
};
inline constexpr std::int64_t kMostFanout = 4096;
/// Error: BadInput (a fan-out below 1 or above kMostFanout).
Status checkFanout(const Fanout &fanout);

/// The draw of one neighbour: hop 1 or 2, slot j at hop 1 and j * fanout.second + k at hop 2.
std::uint64_t drawOf(std::uint64_t seed, std::int64_t step, std::int64_t seedNode, std::int64_t hop, std::int64_t slot);
/// The neighbour of @p node that a draw chooses; a node without neighbours takes itself.
std::int64_t drawnNeighbour(const GraphData &graph, std::int64_t node, std::uint64_t draw);

SampledTree sampleTree(const GraphData &graph, const Fanout &fanout, std::uint64_t seed, std::int64_t step,
                       std::int64_t node);
/// The same into memory of the caller: @p first has fanout.first places, @p second first * second. Allocates nothing.
void sampleTreeInto(const GraphData &graph, const Fanout &fanout, std::uint64_t seed, std::int64_t step,
                    std::int64_t node, std::span<std::int64_t> first, std::span<std::int64_t> second);

/// The trees of one step as lists of entries: the entries of a node are neighbours that are drawn, or, where
/// neighbourhoods are taken whole, each neighbour once of a node that has no more than would be drawn.
struct ListDraws {
    Fanout fanout;
    bool whole = false;
    std::uint64_t seed = 1;
    std::int64_t step = 0;
};
/// Whether each of @p degree neighbours is an entry, in place of @p drawn drawn ones.
constexpr bool takenWhole(std::int64_t degree, std::int64_t drawn, bool whole)
{
    return whole && degree > 0 && degree <= drawn;
}
/// Entries of a node with @p degree neighbours, of whom @p drawn are drawn.
constexpr std::int64_t entriesOf(std::int64_t degree, std::int64_t drawn, bool whole)
{
    return takenWhole(degree, drawn, whole) ? degree : drawn;
}
/// Appends @p node, its entries, and the entries of each of these to @p places.
void appendTree(const GraphData &graph, const ListDraws &draws, std::int64_t node, std::vector<std::int64_t> &places);

/// Factors of a graph convolution, 1 / sqrt((d_i + 1) (d_j + 1)), from the degrees of a node and of one of its
/// @p entries: d_i / entries times for each, so that the expected sum is that over all neighbours.
double convolutionFactor(std::int64_t degree, std::int64_t other, std::int64_t entries);
/// Of the node itself. Without neighbours it draws itself and counts once, here.
double loopFactor(std::int64_t degree);

} // namespace planloom::gnn
