// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/cost.h"

#include "engine/cost/link_loads.h"
#include "engine/cost/prefix_sums.h"

#include <algorithm>

namespace planloom::cost {
namespace {

using cluster::Cluster;
using cluster::Link;

/// DAPPLE's release decides from the smallest and the largest id; a node's devices have consecutive ids.
bool crosses(const Cluster &cluster, std::span<const DeviceId> devices)
{
    const auto [least, most] = std::minmax_element(devices.begin(), devices.end());
    return cluster.device(*least).node != cluster.device(*most).node;
}

double transferTwoLevel(const Cluster &cluster, std::span<const DeviceId> from, std::span<const DeviceId> to,
                        double bytes)
{
    const cluster::TwoLevelRates &rates = cluster.twoLevel();
    if (crosses(cluster, to))
        return bytes / rates.interCollective;
    const NodeId home = cluster.device(to.front()).node;
    const auto outside =
        std::count_if(from.begin(), from.end(), [&](DeviceId sender) { return cluster.device(sender).node != home; });
    if (outside == 0)
        return bytes / rates.intraNode;
    return bytes / static_cast<double>(from.size()) * static_cast<double>(outside) / rates.interPointToPoint;
}

double transferOverLinks(const Cluster &cluster, std::span<const DeviceId> from, std::span<const DeviceId> to,
                         double bytes)
{
    LinkLoads loads(cluster);
    const auto senders = static_cast<double>(from.size());
    const auto receivers = static_cast<double>(to.size());
    // Both sides cut the same samples, into equal slices: walk over the pieces that a sender and a receiver have in
    // common.
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

/// Linear between two points; below the first its time, which is latency, beyond the last in proportion to the bytes.
double onCurve(const std::vector<CurvePoint> &curve, double bytes)
{
    const auto above = std::lower_bound(curve.begin(), curve.end(), bytes,
                                        [](const CurvePoint &point, double wanted) { return point.bytes < wanted; });
    if (above == curve.begin())
        return above->seconds.value();
    if (above == curve.end())
        return curve.back().seconds.value() * bytes / curve.back().bytes;
    const CurvePoint &below = *std::prev(above);
    const double share = (bytes - below.bytes) / (above->bytes - below.bytes);
    return below.seconds.value() + share * (above->seconds.value() - below.seconds.value());
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

namespace {

/// Bytes a second that a profile found collectives of one machine to move, for devices that it holds for; else 0.
double measuredRate(const Profile *profile, const Cluster &cluster, std::span<const DeviceId> devices)
{
    if (profile == nullptr || crosses(cluster, devices) || profile->deviceType != cluster.typeOf(devices.front()).name)
        return 0;
    const auto measured = profile->extra.find("allreduce_bytes_per_second");
    return measured != profile->extra.end() ? measured->second : 0;
}

/// An all-reduce of so many bytes moves twice the bytes of the collective.
double comparableAllReduce(Collective kind, double bytes, double members)
{
    return kind == Collective::AllReduce || kind == Collective::Broadcast ? bytes : bytes * members;
}

} // namespace

Seconds CostModel::collective(Collective kind, std::span<const DeviceId> devices, double bytes) const
{
    if (devices.size() < 2 || !(bytes > 0))
        return Seconds(0);
    if (const auto *measured = curve(curveName(kind, devices.size()), devices))
        return Seconds(onCurve(*measured, bytes));
    if (kind == Collective::AllReduce)
        return allReduce(devices, bytes);
    const bool overLinks =
        m_cluster->commModel() == cluster::CommModel::Links && measuredRate(m_profile.get(), *m_cluster, devices) <= 0;
    if (overLinks)
        return m_sums->links.of(*m_cluster, {{devices.begin(), devices.end()}})->cost(kind, bytes).seconds;
    return allReduce(devices, comparableAllReduce(kind, bytes, static_cast<double>(devices.size()))) * 0.5;
}

Seconds CostModel::unequalAllToAll(std::span<const DeviceId> devices, double largest, double mean) const
{
    const Seconds most = collective(Collective::AllToAll, devices, largest);
    const auto *message = devices.size() > 1 ? curve(kMessageCurve, devices) : nullptr;
    if (message == nullptr || !(mean < largest))
        return most;
    const Seconds port(onCurve(*message, largest * static_cast<double>(devices.size() - 1)));
    return std::min(most, std::max(port, collective(Collective::AllToAll, devices, mean)));
}

Seconds CostModel::collectiveAtOnce(Collective kind, std::span<const std::vector<DeviceId>> groups, double bytes) const
{
    const bool alone = groups.size() < 2 || m_cluster->commModel() == cluster::CommModel::TwoLevel;
    const bool inside = std::none_of(groups.begin(), groups.end(),
                                     [&](const auto &group) { return group.empty() || crosses(*m_cluster, group); });
    if (!alone && !inside && groups.front().size() > 1 && bytes > 0)
        return m_sums->links.of(*m_cluster, {groups.begin(), groups.end()})->cost(kind, bytes).seconds;
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
    if (const auto *measured =
            curve(kMessageCurve, ends)) // each message goes its own way through memory: the largest one counts
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
    if (const double rate = measuredRate(m_profile.get(), *m_cluster, devices); rate > 0)
        return Seconds(moved / rate);
    return m_sums->links.of(*m_cluster, {{devices.begin(), devices.end()}})->cost(Collective::AllReduce, bytes).seconds;
}

} // namespace planloom::cost
