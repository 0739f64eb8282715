// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cluster/cluster.h"

#include <vector>

namespace planloom::planners::whale {

/// How physical devices are given to task graphs (Whale §3.1 and §3.3.2).
struct Placement {
    bool intraNode = true; ///< a copy of the model stays inside of a node where it can; otherwise its devices come from
                           ///< all nodes in turn
    bool memorySorted =
        true; ///< within a copy, earlier task graphs, which keep more activations, get the larger memories
};

/// Per task graph, per copy of the whole model: the devices. Task graph i asked for counts[i] of them; K devices make K
/// / sum(counts) copies (nested data parallelism). Error: Infeasible, with the numbers that would do, where the sum
/// does not divide K.
Result<std::vector<std::vector<std::vector<DeviceId>>>> virtualDevices(const cluster::Cluster &cluster,
                                                                       const std::vector<int> &counts,
                                                                       const Placement &placement);

} // namespace planloom::planners::whale
