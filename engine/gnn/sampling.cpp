// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/sampling.h"

#include "engine/gnn/random.h"

#include <fmt/format.h>

#include <cmath>

namespace planloom::gnn {

Status checkFanout(const Fanout &fanout)
{
    for (const std::int64_t neighbours : {fanout.first, fanout.second}) {
        if (neighbours < 1 || neighbours > kMostFanout)
            return badInput(
                fmt::format("a fan-out of {}; draw 1 to {} neighbours at each hop", neighbours, kMostFanout));
    }
    return {};
}

std::uint64_t drawOf(std::uint64_t seed, std::int64_t step, std::int64_t seedNode, std::int64_t hop, std::int64_t slot)
{
    const std::uint64_t ofStep = scramble(scramble(seed) ^ static_cast<std::uint64_t>(step));
    const std::uint64_t ofNode = scramble(ofStep ^ static_cast<std::uint64_t>(seedNode));
    return scramble(ofNode ^ (static_cast<std::uint64_t>(hop) << 32 | static_cast<std::uint64_t>(slot)));
}

std::int64_t drawnNeighbour(const GraphData &graph, std::int64_t node, std::uint64_t draw)
{
    const auto neighbours = graph.neighbours(node);
    if (neighbours.empty())
        return node;
    return neighbours[static_cast<std::size_t>(toUnit(draw) * static_cast<double>(neighbours.size()))];
}

void sampleTreeInto(const GraphData &graph, const Fanout &fanout, std::uint64_t seed, std::int64_t step,
                    std::int64_t node, std::span<std::int64_t> first, std::span<std::int64_t> second)
{
    for (std::int64_t j = 0; j < fanout.first; ++j) {
        const std::int64_t neighbour = drawnNeighbour(graph, node, drawOf(seed, step, node, 1, j));
        first[static_cast<std::size_t>(j)] = neighbour;
        for (std::int64_t k = 0; k < fanout.second; ++k) {
            const std::int64_t slot = j * fanout.second + k;
            second[static_cast<std::size_t>(slot)] =
                drawnNeighbour(graph, neighbour, drawOf(seed, step, node, 2, slot));
        }
    }
}

SampledTree sampleTree(const GraphData &graph, const Fanout &fanout, std::uint64_t seed, std::int64_t step,
                       std::int64_t node)
{
    SampledTree tree;
    tree.first.resize(static_cast<std::size_t>(fanout.first));
    tree.second.resize(static_cast<std::size_t>(fanout.first * fanout.second));
    sampleTreeInto(graph, fanout, seed, step, node, tree.first, tree.second);
    return tree;
}

namespace {

/// Appends the entries of @p node in the tree of @p seedNode; the first one is at @p slot of hop @p hop. Returns how
/// many there are.
std::int64_t appendEntries(const GraphData &graph, const ListDraws &draws, std::int64_t seedNode, std::int64_t node,
                           std::int64_t hop, std::int64_t slot, std::vector<std::int64_t> &places)
{
    const auto neighbours = graph.neighbours(node);
    const auto degree = static_cast<std::int64_t>(neighbours.size());
    const std::int64_t drawn = hop == 1 ? draws.fanout.first : draws.fanout.second;
    if (takenWhole(degree, drawn, draws.whole)) {
        places.insert(places.end(), neighbours.begin(), neighbours.end());
        return degree;
    }
    for (std::int64_t k = 0; k < drawn; ++k)
        places.push_back(drawnNeighbour(graph, node, drawOf(draws.seed, draws.step, seedNode, hop, slot + k)));
    return drawn;
}

} // namespace

void appendTree(const GraphData &graph, const ListDraws &draws, std::int64_t node, std::vector<std::int64_t> &places)
{
    places.push_back(node);
    const std::size_t first = places.size();
    const std::int64_t entries = appendEntries(graph, draws, node, node, 1, 0, places);
    for (std::int64_t j = 0; j < entries; ++j) {
        const std::int64_t entry = places[first + static_cast<std::size_t>(j)];
        appendEntries(graph, draws, node, entry, 2, j * draws.fanout.second, places);
    }
}

double convolutionFactor(std::int64_t degree, std::int64_t other, std::int64_t entries)
{
    const auto own = static_cast<double>(degree);
    return own / static_cast<double>(entries) / std::sqrt((own + 1) * (static_cast<double>(other) + 1));
}

double loopFactor(std::int64_t degree) { return 1 / (static_cast<double>(degree) + 1); }

} // namespace planloom::gnn
