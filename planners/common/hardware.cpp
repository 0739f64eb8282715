// SPDX-License-Identifier: Apache-2.0
#include "planners/common/hardware.h"

#include <fmt/format.h>

#include <cmath>

namespace planloom::planners {
namespace {

/// Adds a cluster's nodes to a builder, as often as asked.
class Copier {
public:
    Copier(const cluster::Cluster &cluster, double memoryFactor) : m_cluster(cluster), m_builder(cluster.name())
    {
        for (cluster::DeviceType type : cluster.types()) {
            type.memory = Bytes(std::llround(static_cast<double>(type.memory.value()) * memoryFactor));
            m_builder.type(std::move(type));
        }
        if (cluster.commModel() == cluster::CommModel::TwoLevel)
            m_builder.twoLevel(cluster.twoLevel());
    }

    void add(int copies)
    {
        m_places.assign(static_cast<std::size_t>(copies), std::vector<std::size_t>(m_cluster.vertices().size(), 0));
        const bool oneNode = m_cluster.nodes().size() == 1;
        if (oneNode)
            m_builder.node(m_cluster.nodes().front().name, m_cluster.nodes().front().cores);
        for (int copy = 0; copy < copies; ++copy)
            addDevices(copy, oneNode);
        for (int copy = 0; copy < copies; ++copy)
            addLinks(copy, oneNode);
    }

    Result<cluster::Cluster> build() && { return std::move(m_builder).build(); }

private:
    [[nodiscard]] static std::string named(const std::string &name, int copy)
    {
        return copy == 0 ? name : fmt::format("{}+{}", name, copy);
    }

    void addDevices(int copy, bool oneNode)
    {
        for (const cluster::Node &node : m_cluster.nodes()) {
            const NodeId id = oneNode ? node.id : m_builder.node(named(node.name, copy), node.cores);
            for (const DeviceId device : node.devices) {
                const DeviceId added =
                    m_builder.device(id, m_cluster.device(device).type, named(m_cluster.device(device).name, copy));
                m_places[static_cast<std::size_t>(copy)][m_cluster.vertexOf(device)] = m_builder.vertexOf(added);
            }
        }
    }

    /// The common connection of all copies: the network, or the switches of the only node.
    [[nodiscard]] static bool isShared(const cluster::Vertex &vertex, bool oneNode)
    {
        return vertex.kind == cluster::Vertex::Kind::Network
            || (oneNode && vertex.kind != cluster::Vertex::Kind::Device);
    }

    void addLinks(int copy, bool oneNode)
    {
        const auto vertices = m_cluster.vertices();
        std::vector<std::size_t> &places = m_places[static_cast<std::size_t>(copy)];
        for (std::size_t v = 0; v < vertices.size(); ++v) {
            cluster::Vertex vertex = vertices[v];
            if (vertex.kind == cluster::Vertex::Kind::Device)
                continue;
            if (copy > 0 && isShared(vertex, oneNode)) {
                places[v] = m_places.front()[v];
                continue;
            }
            vertex.name = named(vertex.name, copy);
            if (vertex.node.valid())
                vertex.node =
                    NodeId(vertex.node.value
                           + static_cast<std::int64_t>(copy) * static_cast<std::int64_t>(m_cluster.nodes().size()));
            places[v] = m_builder.vertex(std::move(vertex));
        }
        for (cluster::Link link : m_cluster.links()) {
            if (copy > 0 && isShared(vertices[link.a], oneNode) && isShared(vertices[link.b], oneNode))
                continue;
            link.a = places[link.a];
            link.b = places[link.b];
            m_builder.link(link);
        }
    }

    const cluster::Cluster &m_cluster;
    cluster::ClusterBuilder m_builder;
    std::vector<std::vector<std::size_t>> m_places; ///< per copy and vertex: where it is now
};

} // namespace

Result<cluster::Cluster> withMemory(const cluster::Cluster &cluster, double factor)
{
    Copier copier(cluster, factor);
    copier.add(1);
    return std::move(copier).build();
}

Result<cluster::Cluster> withCopies(const cluster::Cluster &cluster, int copies)
{
    Copier copier(cluster, 1);
    copier.add(copies);
    return std::move(copier).build();
}

} // namespace planloom::planners
