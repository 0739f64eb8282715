// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/rounds.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace planloom::compare {

/// What a step of a trace consists of, on the mean over the ranks that compute. Times are nanoseconds a step.
///
/// Each instant of a rank counts once in `exclusive`: as the work that its compute lanes do; else as that of the host;
/// else as communication that nothing hides; else as waiting for the other members of a transfer or collective; else as
/// idle. These sum up to `length`, to the rounding of a nanosecond each.
struct StepParts {
    struct Part {
        trace::KindInfo kind;       ///< name, hue and texture of a kind of task
        std::int64_t exclusive = 0; ///< see above
        std::int64_t busy = 0;      ///< all of it, also beside other work; without waiting
    };
    std::vector<Part> parts;      ///< in the order of the trace's table of kinds; those that occur
    std::int64_t waiting = 0;     ///< exclusive
    std::int64_t idle = 0;        ///< exclusive
    std::int64_t length = 0;      ///< of a step
    std::map<int, double> stages; ///< seconds a step that a rank of the stage computes, by stage
    double computing = 0;         ///< share of the step in which compute lanes work
    std::int64_t steps = 0;       ///< that the means are over
    trace::Window window;         ///< of the round whose length is the median
};

/// Of the steady rounds of @p trace (trace::steadyRounds) the middle third by length: the typical step, without stalls
/// that single steps had. No records: length 0. Cost: O(records log records).
StepParts stepParts(const trace::Trace &trace);

} // namespace planloom::compare
