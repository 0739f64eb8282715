// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/graph_data.h"
#include "engine/gnn/random.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace planloom::gnn {
namespace {

/// W. W. Zachary, "An information flow model for conflict and fission in small groups", 1977, figure 3.
constexpr std::pair<std::int32_t, std::int32_t> kKarateEdges[] = {
    {0, 1},   {0, 2},   {0, 3},   {0, 4},   {0, 5},   {0, 6},   {0, 7},   {0, 8},   {0, 10},  {0, 11},
    {0, 12},  {0, 13},  {0, 17},  {0, 19},  {0, 21},  {0, 31},  {1, 2},   {1, 3},   {1, 7},   {1, 13},
    {1, 17},  {1, 19},  {1, 21},  {1, 30},  {2, 3},   {2, 7},   {2, 8},   {2, 9},   {2, 13},  {2, 27},
    {2, 28},  {2, 32},  {3, 7},   {3, 12},  {3, 13},  {4, 6},   {4, 10},  {5, 6},   {5, 10},  {5, 16},
    {6, 16},  {8, 30},  {8, 32},  {8, 33},  {9, 33},  {13, 33}, {14, 32}, {14, 33}, {15, 32}, {15, 33},
    {18, 32}, {18, 33}, {19, 33}, {20, 32}, {20, 33}, {22, 32}, {22, 33}, {23, 25}, {23, 27}, {23, 29},
    {23, 32}, {23, 33}, {24, 25}, {24, 27}, {24, 31}, {25, 31}, {26, 29}, {26, 33}, {27, 33}, {28, 31},
    {28, 33}, {29, 32}, {29, 33}, {30, 32}, {30, 33}, {31, 32}, {31, 33}, {32, 33}};
constexpr std::int64_t kKarateNodes = 34;
/// Members who followed the officer when the club split.
constexpr std::int64_t kOfficers[] = {9, 14, 15, 18, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33};

/// Standard normal numbers by Box and Muller's method.
class NormalStream {
public:
    explicit NormalStream(std::uint64_t seed) : m_units(seed) {}
    double next()
    {
        const double radius = std::sqrt(-2 * std::log(1 - m_units.next()));
        return radius * std::cos(2 * std::numbers::pi * m_units.next());
    }

private:
    UnitStream m_units;
};

Status checkModel(const BlockModel &model)
{
    constexpr std::int64_t kMostNodes = std::int64_t{1} << 31;
    constexpr std::int64_t kMostWidth = 65536;
    if (model.blocks < 1 || model.blockNodes < 1 || model.blockNodes > kMostNodes / model.blocks)
        return badInput(fmt::format("{} blocks of {} nodes: give at least one of each, and at most 2^31 nodes in all",
                                    model.blocks, model.blockNodes));
    if (model.width < 1 || model.width > kMostWidth)
        return badInput(fmt::format("{} features a node; give 1 to {}", model.width, kMostWidth));
    const auto inside = static_cast<double>(model.blockNodes - 1);
    const auto outside = static_cast<double>(model.blockNodes * (model.blocks - 1));
    if (!(model.degreeInside >= 0) || model.degreeInside > inside)
        return badInput(fmt::format("a mean degree of {} inside blocks of {} nodes; give 0 to {}", model.degreeInside,
                                    model.blockNodes, inside));
    if (!(model.degreeOutside >= 0) || model.degreeOutside > outside)
        return badInput(fmt::format("a mean degree of {} to other blocks with {} nodes; give 0 to {}",
                                    model.degreeOutside, outside, outside));
    if (!std::isfinite(model.separation))
        return badInput("the separation of the blocks is not a number");
    return {};
}

std::vector<Edge> blockEdges(const BlockModel &model, std::uint64_t seed)
{
    UnitStream units(seed);
    const auto nodeOf = [&](std::int32_t block) {
        return block * model.blockNodes
            + static_cast<std::int64_t>(units.next() * static_cast<double>(model.blockNodes));
    };
    std::vector<Edge> edges;
    const auto inside = std::llround(static_cast<double>(model.blockNodes) * model.degreeInside / 2);
    for (std::int32_t block = 0; block < model.blocks; ++block) {
        for (std::int64_t i = 0; i < inside; ++i) {
            const std::int64_t a = nodeOf(block);
            edges.push_back({a, nodeOf(block)});
        }
    }
    const auto outside = std::llround(static_cast<double>(model.blockNodes * model.blocks) * model.degreeOutside / 2);
    for (std::int64_t i = 0; model.blocks > 1 && i < outside; ++i) {
        const auto first = static_cast<std::int32_t>(units.next() * model.blocks);
        const auto second = static_cast<std::int32_t>(units.next() * (model.blocks - 1));
        const std::int64_t a = nodeOf(first);
        edges.push_back({a, nodeOf(second >= first ? second + 1 : second)});
    }
    return edges;
}

} // namespace

GraphData karateClub()
{
    GraphData graph;
    graph.source = "karate";
    std::vector<Edge> edges;
    for (const auto &[a, b] : kKarateEdges)
        edges.push_back({a, b});
    setEdges(graph, kKarateNodes, std::move(edges));
    graph.labels.assign(static_cast<std::size_t>(kKarateNodes), 0);
    for (const std::int64_t node : kOfficers)
        graph.labels[static_cast<std::size_t>(node)] = 1;
    graph.width = kKarateNodes; // one-hot: the members have no features of their own
    graph.features.assign(static_cast<std::size_t>(kKarateNodes * kKarateNodes), 0);
    for (std::int64_t node = 0; node < kKarateNodes; ++node)
        graph.features[static_cast<std::size_t>(node * kKarateNodes + node)] = 1;
    return graph;
}

Result<GraphData> blockModelGraph(const BlockModel &model)
{
    if (Status status = checkModel(model); !status)
        return status.error();
    const std::int64_t nodes = model.blockNodes * model.blocks;
    GraphData graph;
    graph.source = fmt::format("sbm:blocks={},nodes={},inside={},outside={},width={},separation={},seed={}",
                               model.blocks, model.blockNodes, model.degreeInside, model.degreeOutside, model.width,
                               model.separation, model.seed);
    setEdges(graph, nodes, blockEdges(model, scramble(model.seed)));
    graph.width = model.width;
    NormalStream normal(scramble(model.seed ^ 1));
    std::vector<double> means(static_cast<std::size_t>(model.blocks * model.width));
    for (double &mean : means)
        mean = model.separation * normal.next();
    for (std::int64_t node = 0; node < nodes; ++node) {
        const std::int64_t block = node / model.blockNodes;
        graph.labels.push_back(static_cast<std::int32_t>(block));
        for (std::int64_t i = 0; i < model.width; ++i)
            graph.features.push_back(
                static_cast<float>(means[static_cast<std::size_t>(block * model.width + i)] + normal.next()));
    }
    return graph;
}

} // namespace planloom::gnn
