// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::simulate {

/// Where a tensor that a memory policy moves is from `begin` to `end`, in nanoseconds of the trace.
struct Stay {
    enum class Where : std::uint8_t {
        Device,
        Leaving, ///< on the device, and a copy to the host is under way
        Host,
        Coming, ///< has its place on the device, and the copy from the host is under way
        Dropped,
    };
    Where where = Where::Device;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Where a tensor that a memory policy moves is during a step.
struct TensorStays {
    RankId rank;
    std::size_t moved = 0;   ///< in Rank::moved
    std::vector<Stay> stays; ///< one behind the other, from where it is made to its last use
};

/// Of every rank's moved tensors, in order, by @p records of one step of @p program, by either clock. Tensors whose
/// tasks were not recorded have no stays. Cost: O(records) and O(decisions log decisions).
std::vector<TensorStays> tensorStays(const program::Program &program, std::span<const trace::Record> records);

} // namespace planloom::simulate
