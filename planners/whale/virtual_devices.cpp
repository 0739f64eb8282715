// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/virtual_devices.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace planloom::planners::whale {
namespace {

/// All devices, node by node, or the first of each node, then the second of each, and so on.
std::vector<DeviceId> enumerated(const cluster::Cluster &cluster, bool nodeByNode)
{
    std::vector<DeviceId> devices;
    std::size_t longest = 0;
    for (const cluster::Node &node : cluster.nodes()) {
        longest = std::max(longest, node.devices.size());
        if (nodeByNode)
            devices.insert(devices.end(), node.devices.begin(), node.devices.end());
    }
    for (std::size_t i = 0; !nodeByNode && i < longest; ++i)
        for (const cluster::Node &node : cluster.nodes())
            if (i < node.devices.size())
                devices.push_back(node.devices[i]);
    return devices;
}

Error doesNotDivide(int devices, int each)
{
    std::vector<int> good;
    for (int sum = 1; sum <= devices; ++sum)
        if (devices % sum == 0)
            good.push_back(sum);
    const auto above = std::lower_bound(good.begin(), good.end(), each);
    std::string near = above == good.begin() ? std::string() : fmt::format("{}", *(above - 1));
    if (above != good.end())
        near += fmt::format("{}{}", near.empty() ? "" : " or ", *above);
    return infeasible(fmt::format(
        "the task graphs ask for {} devices together, which does not divide the {} of the cluster; ask for {} together",
        each, devices, near));
}

} // namespace

Result<std::vector<std::vector<std::vector<DeviceId>>>> virtualDevices(const cluster::Cluster &cluster,
                                                                       const std::vector<int> &counts,
                                                                       const Placement &placement)
{
    const int each = std::accumulate(counts.begin(), counts.end(), 0);
    const auto all = static_cast<int>(cluster.devices().size());
    if (each < 1 || all % each != 0)
        return doesNotDivide(all, each);
    std::vector<DeviceId> devices = enumerated(cluster, placement.intraNode);
    std::vector<std::vector<std::vector<DeviceId>>> result(counts.size());
    auto next = devices.begin();
    for (int copy = 0; copy < all / each; ++copy) {
        if (placement.memorySorted)
            std::stable_sort(next, next + each, [&](DeviceId a, DeviceId b) {
                return cluster.typeOf(a).memory > cluster.typeOf(b).memory;
            });
        for (std::size_t i = 0; i < counts.size(); ++i) {
            result[i].emplace_back(next, next + counts[i]);
            next += counts[i];
        }
    }
    return result;
}

} // namespace planloom::planners::whale
