// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/placement.h"

#include <algorithm>

namespace planloom::planners::dapple {
namespace {

std::optional<std::vector<DeviceId>> firstOf(const std::vector<std::vector<DeviceId>> &pools, std::size_t count)
{
    std::vector<DeviceId> chosen;
    for (const std::vector<DeviceId> &pool : pools)
        for (const DeviceId device : pool)
            if (chosen.size() < count)
                chosen.push_back(device);
    if (chosen.size() < count)
        return std::nullopt;
    return chosen;
}

/// One device of each pool in turn.
std::optional<std::vector<DeviceId>> inTurn(const std::vector<std::vector<DeviceId>> &pools, std::size_t count)
{
    std::vector<DeviceId> chosen;
    for (std::size_t round = 0; chosen.size() < count; ++round) {
        const std::size_t before = chosen.size();
        for (const std::vector<DeviceId> &pool : pools)
            if (round < pool.size() && chosen.size() < count)
                chosen.push_back(pool[round]);
        if (chosen.size() == before)
            return std::nullopt;
    }
    return chosen;
}

} // namespace

const char *name(Placement placement)
{
    switch (placement) {
    case Placement::FreshFirst: return "fresh";
    case Placement::AppendFirst: return "append";
    case Placement::ScatterFirst: return "scatter";
    }
    return "?";
}

Occupancy::Occupancy(const cluster::Cluster &cluster)
    : m_cluster(&cluster),
      m_taken(cluster.devices().size(), false),
      m_free(cluster.devices().size())
{
}

std::vector<DeviceId> Occupancy::freeDevices() const
{
    std::vector<DeviceId> devices;
    for (const cluster::Device &device : m_cluster->devices())
        if (!taken(device.id))
            devices.push_back(device.id);
    return devices;
}

void Occupancy::take(const std::vector<DeviceId> &devices)
{
    for (const DeviceId device : devices) {
        m_free -= m_taken[device.index()] ? 0 : 1;
        m_taken[device.index()] = true;
    }
}

bool Occupancy::used(NodeId node) const
{
    const auto &devices = m_cluster->nodes()[node.index()].devices;
    return std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return taken(device); });
}

std::vector<DeviceId> Occupancy::freeOf(NodeId node) const
{
    std::vector<DeviceId> devices;
    for (const DeviceId device : m_cluster->nodes()[node.index()].devices)
        if (!taken(device))
            devices.push_back(device);
    return devices;
}

std::optional<std::vector<DeviceId>> Occupancy::choose(Placement placement, std::size_t count, ScatterOver over) const
{
    if (count == 0 || count > m_free)
        return std::nullopt;
    const bool none = m_free == m_taken.size();
    std::vector<std::vector<DeviceId>> pools;
    for (const cluster::Node &node : m_cluster->nodes()) {
        const bool wantsUsed = placement != Placement::FreshFirst;
        const bool every = placement == Placement::ScatterFirst && (none || over == ScatterOver::AllMachines);
        if (every || used(node.id) == wantsUsed)
            pools.push_back(freeOf(node.id));
    }
    auto chosen = placement == Placement::ScatterFirst ? inTurn(pools, count) : firstOf(pools, count);
    if (chosen)
        std::sort(chosen->begin(), chosen->end());
    return chosen;
}

std::vector<std::vector<DeviceId>> Occupancy::choices(const std::vector<Placement> &placements, std::size_t count,
                                                      ScatterOver over) const
{
    std::vector<std::vector<DeviceId>> all;
    for (const Placement placement : placements) {
        auto chosen = choose(placement, count, over);
        if (chosen && std::find(all.begin(), all.end(), *chosen) == all.end())
            all.push_back(*std::move(chosen));
    }
    return all;
}

} // namespace planloom::planners::dapple
