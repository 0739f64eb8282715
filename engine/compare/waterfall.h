// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compare/step_parts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::compare {

/// From the time of A's step to that of B's, a step per kind of work. Nanoseconds; `from` and all `deltas` sum up to
/// `to`, exactly.
struct Waterfall {
    struct Delta {
        trace::KindInfo kind; ///< hue and texture; of waiting, idle time and the rest grey
        std::int64_t change = 0;
    };
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::vector<Delta> deltas; ///< without those that do not change
    std::string missing;       ///< why there is none; empty: it is there
};

/// @p from, @p to: seconds of a step. What the parts do not explain (tasks that are not traced, pauses between steps, a
/// median against a mean) is a delta of its own, "outside of tasks".
Waterfall waterfallOf(double from, double to, const StepParts &a, const StepParts &b);

} // namespace planloom::compare
