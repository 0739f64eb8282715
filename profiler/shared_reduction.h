// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/units.h"

namespace planloom::profiler {

/// Bytes per second that each of @p ranks moves in an all-reduce of @p bytes through memory that they share: 2 (n-1)/n
/// of the bytes, over the median time. As Open MPI does it: every byte is copied into a shared segment, summed from
/// there, and copied out again.
double sharedReductionRate(int ranks, Bytes bytes);

} // namespace planloom::profiler
