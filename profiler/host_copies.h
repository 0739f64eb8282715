// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace planloom::profiler {

/// Bytes per second at which a thread copies between a rank's memory and a host tier in memory, as memory policies on
/// a processor have it, with nothing beside it but @p ranks doing so at the same time; a median. Takes about 0.05 s,
/// and 64 MiB for each rank.
double hostCopyRate(int ranks);

} // namespace planloom::profiler
