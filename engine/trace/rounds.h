// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/level_of_detail.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace planloom::trace {

/// A round of a trace (Rounds), all of whose steps have records.
struct Round {
    std::int64_t first = 0; ///< step
    std::int32_t steps = 1;
    /// From its first start to its last end or, where rounds overlap, to the next round's first start if that is
    /// earlier: before a pause (a checkpoint, a validation) all that is under way ends. Nanoseconds.
    Window window;
    std::int64_t paused = 0; ///< nanoseconds of the window in which none of its steps is under way: validations,
                             ///< checkpoints
    bool followed = false;   ///< the trace has the step behind it: nothing of the round itself is missing

    /// Of one step, on average, without pauses.
    [[nodiscard]] double secondsPerStep() const
    {
        return static_cast<double>(window.end - window.begin - paused) * 1e-9 / steps;
    }
};

/// From the first start of each step to its last end; of a step without records begin > end. Steps that no run has are
/// left out. Cost: O(records).
std::vector<Window> stepWindows(const Trace &trace);
/// Adds one record to them.
void addToSteps(const Record &record, std::vector<Window> &windows);

/// The whole rounds of a trace with the steps @p windows, oldest first, that a comparison goes by: without the first
/// one, which warms up, where there are others; without a last one that may be cut off, or whose end waits for all that
/// is under way, where rounds overlap and others are left. Steps stand for rounds, each for one, where no round is
/// whole (a trace of one step in a hundred). Cost: O(steps).
std::vector<Round> steadyRounds(const Rounds &rounds, std::span<const Window> windows);

/// The last of them; one that is followed, where there is any in the trace: the newest steps of a run that goes on
/// are not over. Empty: no records. Cost: O(steps of a round), unless many at the end are missing.
std::optional<Round> lastWholeRound(const Rounds &rounds, std::span<const Window> windows);

} // namespace planloom::trace
