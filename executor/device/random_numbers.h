// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/everywhere.h"

#include <cstdint>

namespace planloom::device {

/// Number @p counter of a key's sequence, uniform in [0, 2^32): SplitMix64 (Steele, Lea and Flood, Fast Splittable
/// Pseudorandom Number Generators, OOPSLA 2014) at a place of its sequence.
PLANLOOM_EVERYWHERE std::uint32_t drawNumber(std::uint64_t key, std::uint64_t counter)
{
    std::uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return static_cast<std::uint32_t>((z ^ (z >> 31U)) >> 32U);
}

/// What Dropout of one ratio does in a pass.
struct DropRule {
    std::uint64_t key = 0;
    std::uint64_t first = 0; ///< counter of the slice's first element
    std::uint32_t limit = 0; ///< numbers below it drop
    float scale = 1;         ///< of what is kept

    [[nodiscard]] PLANLOOM_EVERYWHERE bool keeps(std::int64_t element) const
    {
        return limit == 0 || drawNumber(key, first + static_cast<std::uint64_t>(element)) >= limit;
    }
};

} // namespace planloom::device
