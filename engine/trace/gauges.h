// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <cstdint>
#include <vector>

namespace planloom::trace {

/// A value over time, such as the rate of a clock, as a lane of a device (Work::Device): its slices are spans in which
/// the value stays on one level. Levels are rows of the table of tasks that follow each other, from 0 to full scale,
/// called like "power/340 W", with the lane's name first.
struct Gauge {
    std::int32_t lane = 0;
    std::int32_t first = 0; ///< row of level 0
    std::int32_t levels = 0;

    /// Of full scale, 0 to 1, of the level in row @p task.
    [[nodiscard]] double share(std::int32_t task) const;
};

/// Those of a trace. Cost: O(tasks * lanes of devices).
std::vector<Gauge> gaugesOf(const Tables &tables);

} // namespace planloom::trace
