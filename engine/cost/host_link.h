// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/cost/cost.h"

namespace planloom::cost {

/// Copies between a device and its host tier.
struct HostLink {
    double bandwidth = 0; ///< bytes/s, each way
    double load = 0;      ///< seconds by which operators beside a copy take longer, for each second of it
};

/// Of a GPU 35 % of a link of 32 GiB/s, as measured by DELTA's authors. A processor's host tier is memory like its own,
/// and its own cores copy: as fast as @p profile (may be null) has measured, else by the memory's bandwidth, as a copy
/// reads and writes it.
HostLink hostLink(const cluster::DeviceType &type, const Profile *profile);

} // namespace planloom::cost
