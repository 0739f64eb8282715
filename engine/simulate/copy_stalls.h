// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::simulate {

/// A time in which a rank's compute lane stands still, as its next task waits for a copy of a memory policy alone.
struct CopyStall {
    RankId rank;
    TaskId copy;            ///< that ends last
    std::int64_t begin = 0; ///< nanoseconds of the trace
    std::int64_t end = 0;
};

/// Of all ranks, in the order of @p records, which are of one step of @p program, by either clock, and sorted by start
/// within each lane. Cost: O(records and dependencies).
std::vector<CopyStall> copyStalls(const program::Program &program, std::span<const trace::Record> records);

} // namespace planloom::simulate
