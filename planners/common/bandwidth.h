// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

namespace planloom::planners {

/// Bytes/s of one transfer between two different devices that has the way to itself: the narrowest link on its route,
/// or the two-level rules' figure. O(route length).
double bandwidthBetween(const cluster::Cluster &cluster, DeviceId from, DeviceId to);

} // namespace planloom::planners
