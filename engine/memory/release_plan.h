// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/course.h"
#include "engine/memory/walk.h"

#include <cstdint>
#include <vector>

namespace planloom::memory {

/// A storage that leaves right behind an operator, long before its next use, whether or not there is room then.
struct Release {
    std::int32_t behind = 0; ///< operator of the stream
    std::int32_t storage = 0;
    Decision::Action action = Decision::Action::Swap;
};

/// Chooses what leaves from the whole stream, as if its first run had been recorded; sorted by operator. Storages count
/// whose largest gap between two uses lies over the moment at which most bytes are alive.

/// Swaps what can be hidden in its gap, longest gap first, then what saves most bytes for a second of recomputing,
/// until
/// @p need bytes are free (Peng et al., Capuchin, 2020, §4).
std::vector<Release> capuchinReleases(const Stream &stream, const Limits &limits, std::int64_t need);

/// Covers @p need bytes at the least cost for each byte, a 0/1 knapsack solved greedily (Tang et al., ACM TACO, 2024,
/// doi 10.1145/3689338): a swap costs what its gap does not hide and @p traffic times its copies, recomputing the
/// operator and all its ancestors that are gone by then.
std::vector<Release> knapsackReleases(const Stream &stream, const Limits &limits, std::int64_t need, double traffic);

} // namespace planloom::memory
