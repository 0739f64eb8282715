// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"

namespace planloom::profiler {

/// Copies between a rank's memory and a host tier in memory, as a memory policy on a processor makes them: by one
/// thread, on the cores of the rank.
struct HostCopies {
    double bytesPerSecond = 0; ///< of a copy with nothing beside it
    double load = 0; ///< seconds by which operators beside a copy take longer, for each second that it takes alone
};

/// Of @p ranks at the same time, with @p threads OpenMP threads each (0: a share of the cores); medians of a few
/// rounds. Takes about 0.2 s, and 64 MiB for each rank.
HostCopies measureHostCopies(int ranks, int threads);

/// Into Profile::extra: host_copy_bytes_per_second, host_copy_load.
void addTo(cost::Profile &profile, const HostCopies &copies);

} // namespace planloom::profiler
