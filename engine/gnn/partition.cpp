// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/partition.h"

#include "engine/gnn/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace planloom::gnn {
namespace {

double largestOverMean(const std::vector<std::int64_t> &counts)
{
    std::int64_t sum = 0;
    for (const std::int64_t count : counts)
        sum += count;
    if (sum == 0)
        return 1;
    return static_cast<double>(*std::max_element(counts.begin(), counts.end())) * static_cast<double>(counts.size())
        / static_cast<double>(sum);
}

Result<std::vector<std::int32_t>> byMetis(const GraphData &graph, const PartitionOptions &options)
{
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (!hasMetis())
        return unsupported("this build has no METIS; install libmetis-dev and build again, or use hash parts");
    if (graph.nodes() > kMost || static_cast<std::int64_t>(graph.arcs.size()) > kMost)
        return unsupported(
            fmt::format("METIS numbers nodes and arcs with 32 bits, and the graph has {} and {}; use hash "
                        "parts",
                        graph.nodes(), graph.arcs.size()));
    constexpr std::int32_t kMostRecursive = 8;
    constexpr std::int64_t kSmall = 10000; // above it both methods cut alike and k-way is faster
    int failure = 0;
    auto part = metis::cut(graph, options, options.parts <= kMostRecursive && graph.nodes() <= kSmall, failure);
    if (failure != 0)
        return failed(fmt::format("METIS gave up with code {}; use fewer parts, or hash parts", failure));
    return part;
}

std::vector<std::int32_t> byHash(const GraphData &graph, const PartitionOptions &options)
{
    std::vector<std::int32_t> part;
    part.reserve(static_cast<std::size_t>(graph.nodes()));
    const std::uint64_t key = scramble(options.seed);
    for (std::int64_t node = 0; node < graph.nodes(); ++node)
        part.push_back(
            static_cast<std::int32_t>(toUnit(scramble(key ^ static_cast<std::uint64_t>(node))) * options.parts));
    return part;
}

/// Each part has a graph store, which holds some of the nodes.
Status checkEveryPart(const std::vector<std::int32_t> &part, std::int32_t parts)
{
    std::vector<char> used(static_cast<std::size_t>(parts));
    for (const std::int32_t own : part)
        used[static_cast<std::size_t>(own)] = 1;
    const auto empty = std::find(used.begin(), used.end(), 0);
    if (empty == used.end())
        return {};
    return badInput(fmt::format("part {} of {} would have none of the {} nodes; use fewer parts", empty - used.begin(),
                                parts, part.size()));
}

} // namespace

const char *name(PartitionMethod method) { return method == PartitionMethod::Metis ? "metis" : "hash"; }

Result<PartitionMethod> partitionMethodFromName(std::string_view text)
{
    for (const PartitionMethod method : {PartitionMethod::Metis, PartitionMethod::Hash}) {
        if (text == name(method))
            return method;
    }
    return notFound(fmt::format("\"{}\" is no way to make parts; there are metis and hash", text));
}

Result<std::vector<std::int32_t>> partitionOf(const GraphData &graph, const PartitionOptions &options)
{
    if (options.parts < 1 || options.parts > graph.nodes())
        return badInput(fmt::format("{} parts of a graph with {} nodes; give 1 to {}", options.parts, graph.nodes(),
                                    graph.nodes()));
    auto part = options.parts > 1 && options.method == PartitionMethod::Metis
        ? byMetis(graph, options)
        : Result<std::vector<std::int32_t>>(byHash(graph, options));
    if (!part)
        return part;
    if (Status full = checkEveryPart(*part, options.parts); !full)
        return full.error();
    return part;
}

PartitionFigures partitionFigures(const GraphData &graph, const std::vector<std::int32_t> &part)
{
    const auto parts = static_cast<std::size_t>(*std::max_element(part.begin(), part.end())) + 1;
    std::vector<std::int64_t> nodes(parts);
    std::vector<std::int64_t> arcs(parts);
    std::vector<std::int64_t> training(parts);
    PartitionFigures figures;
    for (std::int64_t node = 0; node < graph.nodes(); ++node) {
        const std::int32_t own = part[static_cast<std::size_t>(node)];
        const auto neighbours = graph.neighbours(node);
        ++nodes[static_cast<std::size_t>(own)];
        arcs[static_cast<std::size_t>(own)] += static_cast<std::int64_t>(neighbours.size());
        training[static_cast<std::size_t>(own)] += graph.labels[static_cast<std::size_t>(node)] >= 0 ? 1 : 0;
        for (const std::int64_t neighbour : neighbours)
            figures.cutEdges += part[static_cast<std::size_t>(neighbour)] != own ? 1 : 0;
    }
    figures.cutEdges /= 2;
    figures.cutShare =
        graph.edges() > 0 ? static_cast<double>(figures.cutEdges) / static_cast<double>(graph.edges()) : 0;
    figures.nodesOverMean = largestOverMean(nodes);
    figures.arcsOverMean = largestOverMean(arcs);
    figures.trainingOverMean = largestOverMean(training);
    const auto empty = std::find(training.begin(), training.end(), 0);
    if (empty != training.end())
        figures.partWithoutTraining = static_cast<std::int32_t>(empty - training.begin());
    return figures;
}

} // namespace planloom::gnn
