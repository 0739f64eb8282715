// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cores.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace planloom::cluster {
namespace {

/// CPU devices among @p devices, by node.
std::vector<int> countByNode(const Cluster &cluster, std::span<const DeviceId> devices)
{
    std::vector<int> counts(cluster.nodes().size());
    for (const DeviceId id : devices)
        counts[cluster.device(id).node.index()] += cluster.typeOf(id).isProcessor() ? 1 : 0;
    return counts;
}

bool isShared(const Node &node, int devices) { return node.cores > 0 && devices > node.cores; }

} // namespace

std::vector<std::int32_t> coresOf(const Cluster &cluster, std::span<const DeviceId> devices, int besides)
{
    std::vector<int> counts = countByNode(cluster, devices);
    counts.front() += besides;
    std::vector<std::int32_t> firstCore; // per node
    std::int32_t cores = 0;
    for (const Node &node : cluster.nodes()) {
        firstCore.push_back(cores);
        cores += isShared(node, counts[node.id.index()]) ? node.cores : 0;
    }
    std::vector<int> dealt(counts.size());
    std::vector<std::int32_t> core;
    core.reserve(devices.size());
    for (const DeviceId id : devices) {
        const std::size_t node = cluster.device(id).node.index();
        const bool shares = cluster.typeOf(id).isProcessor() && isShared(cluster.nodes()[node], counts[node]);
        core.push_back(shares ? firstCore[node] + dealt[node]++ % cluster.nodes()[node].cores : -1);
    }
    return core;
}

std::vector<std::string> sharedCoreNotes(const Cluster &cluster, std::span<const DeviceId> devices)
{
    const std::vector<int> counts = countByNode(cluster, devices);
    std::map<std::pair<int, int>, int> nodes; // by devices and cores
    for (const Node &node : cluster.nodes())
        if (const int count = counts[node.id.index()]; isShared(node, count))
            ++nodes[{count, node.cores}];
    std::vector<std::string> notes;
    for (const auto &[shape, alike] : nodes) {
        const auto [count, cores] = shape;
        notes.push_back(fmt::format("{} devices share {} core{}{}: times are those of {}{} devices a core", count,
                                    cores, cores == 1 ? "" : "s",
                                    alike > 1 ? fmt::format(" on each of {} nodes", alike) : "",
                                    count % cores == 0 ? "" : "up to ", (count + cores - 1) / cores));
    }
    return notes;
}

} // namespace planloom::cluster
