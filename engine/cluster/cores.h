// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::cluster {

/// Which processor core each of @p devices computes on, if a worker runs on each and workers are pinned in this order:
/// where CPU devices outnumber Node::cores they are dealt out to the cores in turn. Numbers are of the whole cluster;
/// -1: the device has cores of its own, or is none of a processor (its type is not called CPU...). @p besides: further
/// processes on the first machine, which are pinned to none of its cores.
std::vector<std::int32_t> coresOf(const Cluster &cluster, std::span<const DeviceId> devices, int besides = 0);

/// A line for each way in which @p devices share cores, such as "4 devices share 2 cores: times are those of 2 devices
/// a core". Empty if none do.
std::vector<std::string> sharedCoreNotes(const Cluster &cluster, std::span<const DeviceId> devices);

} // namespace planloom::cluster
