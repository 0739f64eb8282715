// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

#include <string>
#include <vector>

namespace planloom::cluster {

/// The way between two devices.
struct PairFigures {
    std::string name;        ///< "n0" inside of a node, "n0 - n1" between two
    bool inside = false;     ///< of a node
    double pointToPoint = 0; ///< bytes/s of the narrowest link
    double collective = 0;   ///< likewise
    Seconds latency;         ///< of all links together
};

/// Inside of each node with several devices, the way between its first two; between every two nodes, the way between
/// their first devices; in this order. Cost: O(nodes^2).
std::vector<PairFigures> pairFigures(const Cluster &cluster);

} // namespace planloom::cluster
