// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/cost.h"

#include <algorithm>
#include <limits>

namespace planloom::cost {
namespace {

using cluster::Cluster;
using cluster::Link;

/// Bytes over each direction of each link; a half-duplex link has one lane for both.
class LinkLoads {
public:
    explicit LinkLoads(const Cluster &cluster) : m_cluster(cluster) {}

    void add(DeviceId from, DeviceId to, double bytes)
    {
        std::size_t at = m_cluster.vertexOf(from);
        double latency = 0;
        for (const std::size_t index : m_cluster.route(from, to)) {
            const Link &link = m_cluster.links()[index];
            const bool forwards = link.a == at;
            m_loads.emplace_back(2 * index + (link.fullDuplex && !forwards ? 1 : 0), bytes);
            latency += link.latency.value();
            at = forwards ? link.b : link.a;
        }
        m_latency = std::max(m_latency, latency);
    }

    /// Seconds of the link that is busy longest, at the rate that @p rate names.
    [[nodiscard]] double busiest(double Link::*rate)
    {
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
    const Cluster &m_cluster;
    std::vector<std::pair<std::size_t, double>> m_loads;
    double m_latency = 0;
};

/// DAPPLE's release decides from the smallest and the largest id; a node's devices have consecutive ids.
bool crosses(const Cluster &cluster, std::span<const DeviceId> devices)
{
    const auto [least, most] = std::minmax_element(devices.begin(), devices.end());
    return cluster.device(*least).node != cluster.device(*most).node;
}

double transferTwoLevel(const Cluster &cluster, std::span<const DeviceId> from, std::span<const DeviceId> to, double bytes)
{
    const cluster::TwoLevelRates &rates = cluster.twoLevel();
    if (crosses(cluster, to))
        return bytes / rates.interCollective;
    const NodeId home = cluster.device(to.front()).node;
    const auto outside = std::count_if(from.begin(), from.end(), [&](DeviceId sender) { return cluster.device(sender).node != home; });
    if (outside == 0)
        return bytes / rates.intraNode;
    return bytes / static_cast<double>(from.size()) * static_cast<double>(outside) / rates.interPointToPoint;
}

double transferOverLinks(const Cluster &cluster, std::span<const DeviceId> from, std::span<const DeviceId> to, double bytes)
{
    LinkLoads loads(cluster);
    const auto senders = static_cast<double>(from.size());
    const auto receivers = static_cast<double>(to.size());
    // Both sides cut the same samples, into equal slices: walk over the pieces that a sender and a receiver have in common.
    double begin = 0;
    for (std::size_t i = 0, j = 0; i < from.size() && j < to.size();) {
        const double sent = static_cast<double>(i + 1) / senders;
        const double received = static_cast<double>(j + 1) / receivers;
        const double end = std::min(sent, received);
        if (end > begin)
            loads.add(from[i], to[j], bytes * (end - begin));
        begin = end;
        i += sent <= received;
        j += received <= sent;
    }
    return loads.busiest(&Link::pointToPoint) + loads.latency();
}

double allReduceTwoLevel(const Cluster &cluster, std::span<const DeviceId> devices, double moved)
{
    if (crosses(cluster, devices))
        return moved / cluster.twoLevel().interCollective;
    return moved / cluster.twoLevel().intraNode / static_cast<double>(devices.size() / 2);
}

/// Devices of @p sorted by node.
std::vector<std::vector<DeviceId>> byNode(const Cluster &cluster, const std::vector<DeviceId> &sorted)
{
    std::vector<std::vector<DeviceId>> nodes;
    for (const DeviceId device : sorted) {
        if (nodes.empty() || cluster.device(nodes.back().back()).node != cluster.device(device).node)
            nodes.emplace_back();
        nodes.back().push_back(device);
    }
    return nodes;
}

/// @p rings rings at once, each with its part of the bytes. Ring r begins each node r places later, so that nodes with a port per
/// device are left through all of them, as NCCL's channels do.
double ringsTime(const Cluster &cluster, const std::vector<std::vector<DeviceId>> &nodes, std::size_t count, std::size_t rings, double moved)
{
    LinkLoads loads(cluster);
    for (std::size_t r = 0; r < rings; ++r) {
        std::vector<DeviceId> ring;
        ring.reserve(count);
        for (const std::vector<DeviceId> &node : nodes) {
            const std::size_t start = r * node.size() / rings;
            for (std::size_t i = 0; i < node.size(); ++i)
                ring.push_back(node[(start + i) % node.size()]);
        }
        for (std::size_t i = 0; i < count; ++i)
            loads.add(ring[i], ring[(i + 1) % count], moved / static_cast<double>(rings));
    }
    return loads.busiest(&Link::collective) + 2 * static_cast<double>(count - 1) * loads.latency();
}

double allReduceOverLinks(const Cluster &cluster, std::span<const DeviceId> devices, double moved)
{
    std::vector<DeviceId> sorted(devices.begin(), devices.end());
    std::sort(sorted.begin(), sorted.end());
    const auto nodes = byNode(cluster, sorted);
    const double oneRing = ringsTime(cluster, nodes, sorted.size(), 1, moved);
    std::size_t rings = std::numeric_limits<std::size_t>::max();
    for (const auto &node : nodes)
        rings = std::min(rings, node.size());
    if (nodes.size() == 1 || rings == 1)
        return oneRing;
    return std::min(oneRing, ringsTime(cluster, nodes, sorted.size(), rings, moved));
}

/// Linear between two points; below the first its time, which is latency, beyond the last in proportion to the bytes.
double onCurve(const std::vector<CurvePoint> &curve, double bytes)
{
    const auto above = std::lower_bound(curve.begin(), curve.end(), bytes, [](const CurvePoint &point, double wanted) { return point.bytes < wanted; });
    if (above == curve.begin())
        return above->seconds.value();
    if (above == curve.end())
        return curve.back().seconds.value() * bytes / curve.back().bytes;
    const CurvePoint &below = *std::prev(above);
    const double share = (bytes - below.bytes) / (above->bytes - below.bytes);
    return below.seconds.value() + share * (above->seconds.value() - below.seconds.value());
}

/// An all-reduce of so many bytes moves twice what the collective does.
double comparableAllReduce(Collective kind, double bytes, double members)
{
    return kind == Collective::AllReduce || kind == Collective::Broadcast ? bytes : bytes * members;
}

} // namespace

std::string curveName(Collective kind, std::size_t members)
{
    return std::string(name(kind)) + "/" + std::to_string(members);
}

const std::vector<CurvePoint> *CostModel::curve(const std::string &name, std::span<const DeviceId> devices) const
{
    if (!m_profile || crosses(*m_cluster, devices) || m_profile->deviceType != m_cluster->typeOf(devices.front()).name)
        return nullptr;
    const auto it = m_profile->curves.find(name);
    return it != m_profile->curves.end() && !it->second.empty() ? &it->second : nullptr;
}

Seconds CostModel::collective(Collective kind, std::span<const DeviceId> devices, double bytes) const
{
    if (devices.size() < 2 || !(bytes > 0))
        return Seconds(0);
    if (const auto *measured = curve(curveName(kind, devices.size()), devices))
        return Seconds(onCurve(*measured, bytes));
    if (kind == Collective::AllReduce)
        return allReduce(devices, bytes);
    return allReduce(devices, comparableAllReduce(kind, bytes, static_cast<double>(devices.size()))) * 0.5;
}

Seconds CostModel::collectiveAtOnce(Collective kind, std::span<const std::vector<DeviceId>> groups, double bytes) const
{
    Seconds slowest(0);
    for (const std::vector<DeviceId> &group : groups)
        slowest = std::max(slowest, collective(kind, group, bytes));
    return slowest;
}

Seconds CostModel::transfer(std::span<const DeviceId> from, std::span<const DeviceId> to, double bytes) const
{
    if (from.empty() || to.empty() || !(bytes > 0))
        return Seconds(0);
    if (m_cluster->commModel() == cluster::CommModel::TwoLevel)
        return Seconds(transferTwoLevel(*m_cluster, from, to, bytes));
    std::vector<DeviceId> ends(from.begin(), from.end());
    ends.insert(ends.end(), to.begin(), to.end());
    if (const auto *measured = curve(kMessageCurve, ends)) // each message goes its own way through memory: the largest one counts
        return Seconds(onCurve(*measured, bytes / static_cast<double>(std::max(from.size(), to.size()))));
    return Seconds(transferOverLinks(*m_cluster, from, to, bytes));
}

Seconds CostModel::allReduce(std::span<const DeviceId> devices, double bytes) const
{
    if (devices.size() < 2 || !(bytes > 0))
        return Seconds(0);
    const auto count = static_cast<double>(devices.size());
    const double moved = 2 * (count - 1) / count * bytes; // by every device, in a ring
    if (m_cluster->commModel() == cluster::CommModel::TwoLevel)
        return Seconds(allReduceTwoLevel(*m_cluster, devices, moved));
    if (const auto *measured = curve(curveName(Collective::AllReduce, devices.size()), devices))
        return Seconds(onCurve(*measured, bytes));
    if (m_profile && !crosses(*m_cluster, devices) && m_profile->deviceType == m_cluster->typeOf(devices.front()).name) {
        const auto measured = m_profile->extra.find("allreduce_bytes_per_second");
        if (measured != m_profile->extra.end() && measured->second > 0)
            return Seconds(moved / measured->second);
    }
    return Seconds(allReduceOverLinks(*m_cluster, devices, moved));
}

} // namespace planloom::cost
