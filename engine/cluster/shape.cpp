// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/shape.h"

#include "engine/cluster/routes.h"

#include <algorithm>
#include <numeric>

namespace planloom::cluster {
namespace {

// The text before a number in a description names the counted thing.
enum Mark : std::int32_t { kNextDevice = -2, kMet = -3, kRoot = -4, kUnordered = -5 };

} // namespace

Shapes::Shapes(const Cluster &cluster)
    : m_cluster(cluster),
      m_vertex(cluster.vertices().size()),
      m_node(cluster.nodes().size()),
      m_block(cluster.routes().top.size()),
      m_leg(static_cast<std::size_t>(cluster.routes().legs))
{
}

std::int32_t Shapes::of(std::span<const DeviceId> devices)
{
    m_description.clear();
    for (const DeviceId device : devices) {
        const auto node = m_node.of(m_cluster.device(device).node.index());
        m_description.insert(m_description.end(),
                             {kNextDevice, static_cast<std::int32_t>(m_cluster.device(device).type), node.number});
        describeWay(m_cluster.vertexOf(device));
    }
    describeOrder(devices);
    for (Numbers *numbers : {&m_vertex, &m_node, &m_block, &m_leg})
        numbers->forget();
    return m_known.try_emplace(m_description, static_cast<std::int32_t>(m_known.size())).first->second;
}

/// The blocks from @p vertex up to one that an earlier device came by, or to the root.
void Shapes::describeWay(std::size_t vertex)
{
    const Routes &routes = m_cluster.routes();
    while (true) {
        const auto here = m_vertex.of(vertex);
        if (!here.isNew) {
            m_description.insert(m_description.end(), {kMet, here.number});
            return;
        }
        if (routes.block[vertex] < 0) {
            m_description.insert(m_description.end(), {kRoot, static_cast<std::int32_t>(vertex)});
            return;
        }
        const auto index = static_cast<std::size_t>(routes.block[vertex]);
        const auto block = m_block.of(index);
        const std::int32_t leg =
            routes.leg[vertex] < 0 ? -1 : m_leg.of(static_cast<std::size_t>(routes.leg[vertex])).number;
        m_description.insert(m_description.end(), {routes.role[vertex], leg, block.number});
        if (!block.isNew)
            return;
        m_description.push_back(routes.kind[index]);
        vertex = static_cast<std::size_t>(routes.top[index]);
    }
}

/// Some figures are worked out in the order of ids.
void Shapes::describeOrder(std::span<const DeviceId> devices)
{
    if (std::is_sorted(devices.begin(), devices.end()))
        return;
    std::vector<std::int32_t> byId(devices.size());
    std::iota(byId.begin(), byId.end(), 0);
    std::sort(byId.begin(), byId.end(), [&](std::int32_t a, std::int32_t b) {
        return devices[static_cast<std::size_t>(a)] < devices[static_cast<std::size_t>(b)];
    });
    m_description.push_back(kUnordered);
    m_description.insert(m_description.end(), byId.begin(), byId.end());
}

} // namespace planloom::cluster
