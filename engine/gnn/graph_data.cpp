// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/graph_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace planloom::gnn {
namespace {

std::size_t cell(std::int64_t i) { return static_cast<std::size_t>(i); }

Status checkRows(const GraphData &graph)
{
    const std::int64_t nodes = graph.nodes();
    if (nodes == 0)
        return badInput("the graph has no nodes; give at least one");
    if (graph.offsets.size() != cell(nodes) + 1)
        return badInput(fmt::format("there are {} offsets for {} nodes; there must be one more than nodes",
                                    graph.offsets.size(), nodes));
    if (graph.offsets.front() != 0)
        return badInput("the first offset is not 0; node 0's neighbours begin at 0");
    for (std::int64_t node = 0; node < nodes; ++node) {
        if (graph.offsets[cell(node) + 1] < graph.offsets[cell(node)])
            return badInput(fmt::format(
                "the offsets fall at node {}; give for each node where its neighbours begin, ascending", node));
    }
    if (graph.offsets.back() != static_cast<std::int64_t>(graph.arcs.size()))
        return badInput(
            fmt::format("the offsets end at {}, and there are {} neighbours; the last offset is their number",
                        graph.offsets.back(), graph.arcs.size()));
    if (graph.arcs.empty())
        return badInput("the graph has no edges; there is nothing to sample from");
    return {};
}

Status checkNeighbours(const GraphData &graph, std::int64_t node)
{
    std::int64_t before = -1;
    for (const std::int64_t neighbour : graph.neighbours(node)) {
        if (neighbour < 0 || neighbour >= graph.nodes())
            return badInput(fmt::format("node {} has the neighbour {}, and there are {} nodes; number them from 0",
                                        node, neighbour, graph.nodes()));
        if (neighbour == node)
            return badInput(fmt::format("node {} is its own neighbour; remove loops", node));
        if (neighbour <= before)
            return badInput(fmt::format(
                "the neighbours of node {} are not ascending, or {} repeats; sort them, each once", node, neighbour));
        const auto back = graph.neighbours(neighbour);
        if (!std::binary_search(back.begin(), back.end(), node))
            return badInput(fmt::format("node {} has the neighbour {}, and {} has not {}; give each edge in both "
                                        "directions",
                                        node, neighbour, neighbour, node));
        before = neighbour;
    }
    return {};
}

Status checkNodes(const GraphData &graph)
{
    const std::int64_t nodes = graph.nodes();
    if (graph.width < 1 || graph.features.size() != cell(nodes) * cell(graph.width))
        return badInput(fmt::format("there are {} features for {} nodes of {} each; give a row for each node",
                                    graph.features.size(), nodes, graph.width));
    const auto bad = std::find_if(graph.features.begin(), graph.features.end(),
                                  [](float feature) { return !std::isfinite(feature); });
    if (bad != graph.features.end())
        return badInput(fmt::format("node {} has a feature that is not finite; give numbers",
                                    (bad - graph.features.begin()) / graph.width));
    for (std::int64_t node = 0; node < nodes; ++node) {
        const std::int32_t label = graph.labels[cell(node)];
        if (label < 0 && label != GraphData::kNoLabel)
            return badInput(fmt::format("node {} has the label {}; labels are 0 and above, or {} for none", node, label,
                                        GraphData::kNoLabel));
    }
    if (graph.part.empty())
        return {};
    if (graph.part.size() != cell(nodes))
        return badInput(
            fmt::format("there are {} parts for {} nodes; give one for each node", graph.part.size(), nodes));
    const auto negative =
        std::find_if(graph.part.begin(), graph.part.end(), [](std::int32_t part) { return part < 0; });
    if (negative != graph.part.end())
        return badInput(
            fmt::format("node {} has the part {}; parts are 0 and above", negative - graph.part.begin(), *negative));
    return {};
}

} // namespace

std::int32_t GraphData::classes() const
{
    return labels.empty() ? 0 : std::max(0, *std::max_element(labels.begin(), labels.end()) + 1);
}

std::int32_t GraphData::parts() const { return part.empty() ? 1 : *std::max_element(part.begin(), part.end()) + 1; }

void setEdges(GraphData &graph, std::int64_t nodes, std::vector<Edge> edges)
{
    const std::size_t given = edges.size();
    edges.reserve(2 * given);
    for (std::size_t i = 0; i < given; ++i)
        edges.push_back({edges[i].b, edges[i].a});
    std::sort(edges.begin(), edges.end(),
              [](const Edge &x, const Edge &y) { return x.a != y.a ? x.a < y.a : x.b < y.b; });
    const auto end =
        std::unique(edges.begin(), edges.end(), [](const Edge &x, const Edge &y) { return x.a == y.a && x.b == y.b; });
    graph.offsets.assign(cell(nodes) + 1, 0);
    graph.arcs.clear();
    for (auto edge = edges.begin(); edge != end; ++edge) {
        if (edge->a == edge->b)
            continue;
        ++graph.offsets[cell(edge->a) + 1];
        graph.arcs.push_back(edge->b);
    }
    for (std::size_t i = 1; i < graph.offsets.size(); ++i)
        graph.offsets[i] += graph.offsets[i - 1];
}

Status checkGraph(const GraphData &graph)
{
    if (Status status = checkRows(graph); !status)
        return status;
    for (std::int64_t node = 0; node < graph.nodes(); ++node) {
        if (Status status = checkNeighbours(graph, node); !status)
            return status;
    }
    return checkNodes(graph);
}

} // namespace planloom::gnn
