// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::runtime {

/// Memory use of a rank.
struct MemoryUse {
    std::int64_t arena = 0; ///< the arena's peak (Arena::peak)
    std::int64_t process =
        0; ///< most that was ever resident of the whole process: arena, code, libraries and their allocations
    std::int64_t shared = 0; ///< of it, segments that ranks of one machine share: each counts the pages that it touched

    /// The process's own memory outside its arena.
    [[nodiscard]] std::int64_t beyondArena() const { return process > arena + shared ? process - arena - shared : 0; }
};

/// This process's MemoryUse::process and shared so far, from /proc; 0 if unavailable.
MemoryUse memoryUse();

} // namespace planloom::runtime
