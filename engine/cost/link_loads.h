// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/cluster/routes.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace planloom::cost {

/// Bytes over each direction of each link; a half-duplex link has one lane for both. Cost: the links of the routes that
/// are added.
class LinkLoads {
public:
    explicit LinkLoads(const cluster::Cluster &cluster) : m_cluster(cluster) {}

    void add(DeviceId from, DeviceId to, double bytes)
    {
        double latency = 0;
        cluster::walkRoute(m_cluster.routes(), m_cluster.links(), m_cluster.vertexOf(from), m_cluster.vertexOf(to),
                           [&](std::size_t index, std::size_t start, std::size_t) {
                               const cluster::Link &link = m_cluster.links()[index];
                               m_loads.emplace_back(2 * index + (link.fullDuplex && link.a != start ? 1 : 0), bytes);
                               latency += link.latency.value();
                           });
        m_latency = std::max(m_latency, latency);
    }

    /// Seconds of the link that is busy longest, at the rate that @p rate names.
    [[nodiscard]] double busiest(double cluster::Link::*rate)
    {
        if (m_loads.size() > 2 * m_cluster.links().size())
            return busiestOfMany(rate);
        std::sort(m_loads.begin(), m_loads.end());
        double longest = 0;
        double load = 0;
        for (std::size_t i = 0; i < m_loads.size(); ++i) {
            load = i > 0 && m_loads[i].first == m_loads[i - 1].first ? load + m_loads[i].second : m_loads[i].second;
            longest = std::max(longest, load / (m_cluster.links()[m_loads[i].first / 2].*rate));
        }
        return longest;
    }

    /// Of the longest route.
    [[nodiscard]] double latency() const { return m_latency; }

private:
    [[nodiscard]] double busiestOfMany(double cluster::Link::*rate) const
    {
        std::vector<double> sums(2 * m_cluster.links().size(), 0.0);
        for (const auto &[lane, bytes] : m_loads)
            sums[lane] += bytes;
        double longest = 0;
        for (std::size_t lane = 0; lane < sums.size(); ++lane)
            longest = std::max(longest, sums[lane] / (m_cluster.links()[lane / 2].*rate));
        return longest;
    }

    const cluster::Cluster &m_cluster;
    std::vector<std::pair<std::size_t, double>> m_loads;
    double m_latency = 0;
};

} // namespace planloom::cost
