// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/pipedream/states.h"

#include <cstddef>
#include <vector>

namespace planloom::planners::pipedream {

/// Equal parts that are joined by equal links: the devices of a machine, the machines of a cluster.
struct Level {
    std::size_t parts = 1;
    double bandwidth = 0; ///< bytes/s between two of them
};

/// Layers of state `last` that are not in state `first` - 1 (all of them if `first` is 0), and the devices that
/// replicate them: they are numbered through the parts of the smallest level, then those of the next.
struct Stage {
    std::size_t first = 0;
    std::size_t last = 0;
    std::vector<std::size_t> devices;
    friend bool operator==(const Stage &, const Stage &) = default;
};

/// A pipeline over all devices.
struct Partition {
    double seconds = 0; ///< between two micro-batches in a pipeline that never drains: the slowest stage or transfer
    std::vector<Stage> stages;
    bool complete = true; ///< false: stopped, nothing was found
};

/// PipeDream's hierarchical partition (Narayanan et al., SOSP 2019, §3.1, in the form of its released optimizer):
/// within each level, smallest first, the best pipeline of every span of states on 1 .. parts parts; a level's best
/// pipelines on all parts are the next level's single stages. Replicas exchange 4 (m - 1) / m of their parameters'
/// bytes, boundaries 2 of their activations'. Exact for the recursion. O(levels * states^3 * parts^2) where states are
/// ordered, less with branches; O(states^2 * sum of parts) memory.
Partition partition(const std::vector<State> &states, const std::vector<Level> &levels, Progress &progress);

} // namespace planloom::planners::pipedream
