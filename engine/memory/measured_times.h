// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::memory {

/// What a rank has measured of its stage for a policy with plan::MemoryClock::Measured.
struct MeasuredTimes {
    /// Per micro-batch, per operator of the stage: seconds, once; 0: it did not run by itself. Those beside a copy are
    /// as they were, longer than alone.
    std::vector<double> operators;
    std::int64_t copyBytes = 0; ///< of the copies that were measured, alone; 0: none
    double secondsOut = 0;      ///< of one to the host
    double secondsIn = 0;       ///< of one back

    /// Bytes/s beside @p latency seconds, which a copy takes in any case; those may be a part of what was measured, but
    /// not all.
    [[nodiscard]] double bandwidth(bool out, double latency) const
    {
        const double seconds = out ? secondsOut : secondsIn;
        return static_cast<double>(copyBytes) / std::max(seconds - latency, seconds / 10);
    }
    friend bool operator==(const MeasuredTimes &, const MeasuredTimes &) = default;
};

/// Those of a run.
struct RunTimes {
    std::int64_t fromStep = 0; ///< the first step by the course that follows from them
    std::vector<MeasuredTimes> ranks;
    friend bool operator==(const RunTimes &, const RunTimes &) = default;
};

/// The text of a run's measured.json (resources/docs/formats/run.md), and back, to the bit. Errors: BadInput, naming
/// the line and the field.
std::string toJson(const RunTimes &times);
Result<RunTimes> runTimesFromJson(std::string_view text);

} // namespace planloom::memory
