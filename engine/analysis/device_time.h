// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/analysis/collectives.h"
#include "engine/trace/level_of_detail.h"

#include <cstdint>
#include <vector>

namespace planloom::analysis {

/// What a device does in a window of time. Each instant counts once, by the first that holds: it computes; data moves;
/// it waits for others in a transfer or collective; it has no work. Nanoseconds.
struct DeviceTime {
    std::int32_t rank = 0;
    std::int64_t window = 0;
    std::int64_t computing = 0;
    std::int64_t moving = 0;        ///< communication that nothing hides
    std::int64_t waiting = 0;       ///< likewise, before the last member has come
    std::int64_t withoutWork = 0;   ///< nothing runs on it
    std::int64_t communication = 0; ///< all of it, with waiting
    std::int64_t hidden = 0;        ///< of it, beside computation

    /// Of communication; 0 without any.
    [[nodiscard]] double hiddenShare() const
    {
        return communication > 0 ? static_cast<double>(hidden) / static_cast<double>(communication) : 0;
    }
};

/// Of ranks with compute records (Work::Compute or Update); processes of the host have none. Waiting: by groups of
/// transfers and collectives in traces of ours, else by @p collectives. Cost: O(n log n) of records in the window.
std::vector<DeviceTime> deviceTimes(const trace::Trace &trace, trace::Window window, const Collectives &collectives);

/// The sums of all; rank -1.
DeviceTime total(const std::vector<DeviceTime> &devices);

} // namespace planloom::analysis
