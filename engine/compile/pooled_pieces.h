// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/parts.h"
#include "engine/compile/stage_memory.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// Whether a part is the first or the last of its pass.
struct Ends {
    bool opens = false;
    bool closes = false;
};

/// What becomes one task of a part of a pass under a memory policy: a copy, or a run of operators.
struct PooledPiece {
    bool copies = false;
    bool again = false; ///< operators that run again
    bool opens = false; ///< of the pass itself, its first run
    bool closes = false;
    std::vector<std::int32_t> events; ///< of the course, in order; a copy has one, a run that only ends its pass none
    Seconds seconds;                  ///< of a run
};

/// The tasks of @p part of pass @p pass of micro-batch @p m, whose operators take @p whole once, in order, or what
/// a run has measured of them. There is at least one run of the pass itself. A run ends where a copy waits for it, and
/// begins where it waits for one.
std::vector<PooledPiece> piecesOf(const StageMemory &memory, Pass pass, std::int64_t m, const PassPart &part, Ends ends,
                                  Seconds whole);

} // namespace planloom::compile
