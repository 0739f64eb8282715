// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/spp/instance.h"

#include <cstddef>
#include <vector>

namespace planloom::planners::spp {

/// Layers [first, last) on the places [begin, end) of the line of devices.
struct Part {
    std::size_t first = 0, last = 0;
    std::size_t begin = 0, end = 0;
    [[nodiscard]] std::size_t replicas() const { return end - begin; }
    friend bool operator==(const Part &, const Part &) = default;
};

/// Stages and their devices (SPP, PRM).
struct Partition {
    std::vector<Part> parts;
    double load = 0; ///< W: seconds that the busiest stage (with its all-reduce) or channel works in an iteration;
                     ///< infinite: there is none
};

/// The time of part @p part and of the parts behind it, over a whole iteration.
double stageLoad(const Instance &instance, const Part &part);
double channelLoad(const Instance &instance, const Part &from, const Part &to);

/// Partition, replication and mapping (SPP, PRM): for each number of stages 1, 2 .. @p stages the partition of all
/// layers onto neighbouring places of the line, all of them used, with the least W. Exact (the least over all such
/// partitions). Windows begin and end at multiples of @p granule, which divides the devices. Equal W: fewer replicas of
/// the last stage, then of the one before, then later cuts. Stops early, with the best so far, when @p progress is
/// stopped. With N = devices / granule: O(stages * layers^2 * N^3) time at worst (candidates that cannot win are
/// skipped), O(stages * layers * N^2) memory.
std::vector<Partition> partitions(const Instance &instance, std::size_t stages, std::size_t granule,
                                  Progress &progress);

} // namespace planloom::planners::spp
