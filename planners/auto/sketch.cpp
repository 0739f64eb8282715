// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/sketch.h"

#include <algorithm>

namespace planloom::planners::automatic {
namespace {

/// The least divisor of @p devices that leaves at most @p windows units.
std::size_t unitOf(std::size_t devices, std::size_t windows)
{
    std::size_t unit = 1;
    while (devices % unit != 0 || devices / unit > windows)
        ++unit;
    return unit;
}

} // namespace

std::vector<DeviceLine> deviceLines(const cluster::Cluster &cluster, std::size_t windows)
{
    DeviceLine byId{"ids", {}, unitOf(cluster.devices().size(), windows)};
    for (const cluster::Device &device : cluster.devices())
        byId.devices.push_back(device.id);
    std::vector<DeviceLine> lines{byId};
    if (cluster.types().size() > 1) {
        DeviceLine turned = byId;
        turned.name = "types turned";
        std::stable_sort(turned.devices.begin(), turned.devices.end(), [&cluster](DeviceId a, DeviceId b) {
            return cluster.device(a).type > cluster.device(b).type;
        });
        if (turned.devices == byId.devices)
            std::stable_sort(turned.devices.begin(), turned.devices.end(), [&cluster](DeviceId a, DeviceId b) {
                return cluster.device(a).type < cluster.device(b).type;
            });
        if (turned.devices != byId.devices)
            lines.push_back(std::move(turned));
    }
    return lines;
}

} // namespace planloom::planners::automatic
