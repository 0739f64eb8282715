// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/sampled_graph.h"

#include "engine/base/files.h"
#include "executor/data/graph_folder.h"

#include <QDir>
#include <QFileInfo>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace planloom::ui {

namespace {

/// The kHubShare of nodes with most neighbours; of equally many the first.
std::vector<std::int64_t> hubsOf(const gnn::GraphData &graph)
{
    std::vector<std::int64_t> nodes(static_cast<std::size_t>(graph.nodes()));
    std::iota(nodes.begin(), nodes.end(), 0);
    const auto count = std::max<std::int64_t>(1, std::llround(kHubShare * static_cast<double>(graph.nodes())));
    const auto hubs = nodes.begin() + std::min(count, graph.nodes());
    std::nth_element(nodes.begin(), hubs, nodes.end(), [&graph](std::int64_t a, std::int64_t b) {
        const std::size_t ofA = graph.neighbours(a).size();
        const std::size_t ofB = graph.neighbours(b).size();
        return ofA != ofB ? ofA > ofB : a < b;
    });
    nodes.erase(hubs, nodes.end());
    return nodes;
}

} // namespace

std::vector<GraphPart> partsOf(const gnn::GraphData &graph)
{
    std::vector<GraphPart> parts(static_cast<std::size_t>(graph.parts()));
    const auto partOf = [&graph](std::int64_t node) {
        return graph.part.empty() ? std::size_t{0}
                                  : static_cast<std::size_t>(graph.part[static_cast<std::size_t>(node)]);
    };
    for (std::int64_t node = 0; node < graph.nodes(); ++node) {
        GraphPart &part = parts[partOf(node)];
        ++part.nodes;
        part.labelled += graph.labels[static_cast<std::size_t>(node)] >= 0 ? 1 : 0;
        for (const std::int64_t other : graph.neighbours(node)) {
            const bool cut = partOf(other) != partOf(node);
            part.cut += cut ? 1 : 0;
            part.edges += cut || node < other ? 1 : 0;
        }
    }
    for (const std::int64_t hub : hubsOf(graph))
        ++parts[partOf(hub)].hubs;
    return parts;
}

Result<SampledGraph> readSampledGraph(const QString &folder)
{
    const QString path = QDir(folder).absolutePath();
    auto graph = data::readGraphFolder(path.toStdString());
    if (!graph)
        return graph.error();
    const auto note = readFile(path.toStdString() + "/graph.json");
    if (!note)
        return note.error();
    auto parts = partsOf(*graph);
    return SampledGraph{path, std::make_shared<const gnn::GraphData>(*std::move(graph)), sha256(*note),
                        std::move(parts)};
}

bool holdsGraph(const QString &folder) { return data::isGraphFolder(folder.toStdString()); }

} // namespace planloom::ui
