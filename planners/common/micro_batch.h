// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <cstdint>
#include <vector>

namespace planloom::planners {

/// Samples of a micro-batch on one device that a planner should try, ascending: as set in the problem; else the profile
/// batch of a layer profile (at most the batch); else powers of two up to the batch and kMostMicroBatch.
std::vector<std::int64_t> microBatchChoices(const Problem &problem);
inline constexpr std::int64_t kMostMicroBatch = 64;

} // namespace planloom::planners
