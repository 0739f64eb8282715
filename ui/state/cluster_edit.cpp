// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/cluster_edit.h"

#include <algorithm>

namespace planloom::ui {

namespace {

using cluster::Cluster;

/// The parts of a changed cluster that differ from the original.
struct Figures {
    std::vector<cluster::DeviceType> types;
    std::vector<cluster::Link> links;
    cluster::TwoLevelRates rates;
};

Figures figuresOf(const Cluster &cluster)
{
    return {{cluster.types().begin(), cluster.types().end()},
            {cluster.links().begin(), cluster.links().end()},
            cluster.twoLevel()};
}

Result<Cluster> rebuild(const Cluster &cluster, const Figures &figures)
{
    cluster::ClusterBuilder builder(cluster.name());
    for (const cluster::DeviceType &type : figures.types)
        builder.type(type);
    for (const cluster::Node &node : cluster.nodes())
        builder.node(node.name, node.cores, node.host);
    // Devices make their own vertices: going by vertices keeps both in their order.
    for (const cluster::Vertex &vertex : cluster.vertices()) {
        if (vertex.kind == cluster::Vertex::Kind::Device)
            builder.device(vertex.node, cluster.device(vertex.device).type, vertex.name);
        else
            builder.vertex(vertex);
    }
    for (const cluster::Link &link : figures.links)
        builder.link(link);
    if (cluster.commModel() == cluster::CommModel::TwoLevel)
        builder.twoLevel(figures.rates);
    return std::move(builder).build();
}

bool isNetwork(const cluster::Link &link) { return link.kind == cluster::Link::Kind::Network; }

} // namespace

Result<Cluster> withType(const Cluster &cluster, std::size_t type, const cluster::DeviceType &changed)
{
    Figures figures = figuresOf(cluster);
    figures.types[type] = changed;
    return rebuild(cluster, figures);
}

Result<Cluster> withLinks(const Cluster &cluster, std::span<const std::size_t> links,
                          const std::function<void(cluster::Link &)> &change)
{
    Figures figures = figuresOf(cluster);
    for (const std::size_t link : links)
        change(figures.links[link]);
    return rebuild(cluster, figures);
}

Result<Cluster> withRates(const Cluster &cluster, const cluster::TwoLevelRates &rates)
{
    Figures figures = figuresOf(cluster);
    figures.rates = rates;
    return rebuild(cluster, figures);
}

double slowestNetwork(const Cluster &cluster)
{
    if (cluster.commModel() == cluster::CommModel::TwoLevel && cluster.nodes().size() > 1)
        return cluster.twoLevel().interPointToPoint;
    const bool any = std::ranges::any_of(cluster.links(), isNetwork);
    double slowest = 0;
    for (const cluster::Link &link : cluster.links())
        if ((!any || isNetwork(link)) && (slowest == 0 || link.pointToPoint < slowest))
            slowest = link.pointToPoint;
    return slowest;
}

Result<Cluster> withNetworkSpeed(const Cluster &cluster, double factor)
{
    Figures figures = figuresOf(cluster);
    const bool any = std::ranges::any_of(figures.links, isNetwork);
    for (cluster::Link &link : figures.links)
        if (!any || isNetwork(link)) {
            link.pointToPoint *= factor;
            link.collective *= factor;
        }
    figures.rates.interPointToPoint *= factor;
    figures.rates.interCollective *= factor;
    return rebuild(cluster, figures);
}

std::vector<std::size_t> linksLike(const Cluster &cluster, std::size_t link)
{
    const cluster::Link &model = cluster.links()[link];
    std::vector<std::size_t> alike;
    for (std::size_t i = 0; i < cluster.links().size(); ++i) {
        const cluster::Link &each = cluster.links()[i];
        if (each.kind == model.kind && each.pointToPoint == model.pointToPoint && each.collective == model.collective
            && each.latency == model.latency && each.fullDuplex == model.fullDuplex)
            alike.push_back(i);
    }
    return alike;
}

const char *kindName(cluster::Link::Kind kind)
{
    switch (kind) {
    case cluster::Link::Kind::NvLink: return "NVLink";
    case cluster::Link::Kind::Pcie: return "PCIe";
    case cluster::Link::Kind::Network: return "network";
    case cluster::Link::Kind::Memory: return "memory";
    }
    return "";
}

} // namespace planloom::ui
