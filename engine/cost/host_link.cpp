// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/host_link.h"

namespace planloom::cost {

HostLink hostLink(const cluster::DeviceType &type, const Profile *profile)
{
    constexpr double kMeasured = 0.35 * 32 * 1024 * 1024 * 1024; // bytes/s
    if (!type.isProcessor())
        return {kMeasured, 0};
    constexpr double kLoad = 1; // bench_memory on ResNet-50: steps are then predicted within 4 %, with 0 up to 9 % off
    HostLink link{type.memoryBandwidth > 0 ? type.memoryBandwidth / 2 : kMeasured, kLoad};
    if (profile == nullptr)
        return link;
    const auto rate = profile->extra.find("host_copy_bytes_per_second");
    if (rate != profile->extra.end() && rate->second > 0)
        link.bandwidth = rate->second;
    return link;
}

} // namespace planloom::cost
