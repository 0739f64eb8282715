// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/pairs.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace planloom::cluster {
namespace {

PairFigures figuresBetween(const Cluster &cluster, std::string name, DeviceId from, DeviceId to)
{
    PairFigures figures{std::move(name),
                        cluster.device(from).node == cluster.device(to).node,
                        std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::infinity(),
                        {}};
    for (const std::size_t index : cluster.route(from, to)) {
        const Link &link = cluster.links()[index];
        figures.pointToPoint = std::min(figures.pointToPoint, link.pointToPoint);
        figures.collective = std::min(figures.collective, link.collective);
        figures.latency += link.latency;
    }
    return figures;
}

} // namespace

std::vector<PairFigures> pairFigures(const Cluster &cluster)
{
    std::vector<PairFigures> all;
    for (const Node &node : cluster.nodes()) {
        if (node.devices.size() > 1)
            all.push_back(figuresBetween(cluster, node.name, node.devices[0], node.devices[1]));
    }
    for (std::size_t a = 0; a < cluster.nodes().size(); ++a) {
        for (std::size_t b = a + 1; b < cluster.nodes().size(); ++b) {
            const Node &from = cluster.nodes()[a], &to = cluster.nodes()[b];
            all.push_back(figuresBetween(cluster, fmt::format("{} - {}", from.name, to.name), from.devices.front(),
                                         to.devices.front()));
        }
    }
    return all;
}

} // namespace planloom::cluster
