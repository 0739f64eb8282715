// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::memory {

/// How long copies between a device and its host tier take: the walk, its replay, the compiled tasks and what chooses
/// releases all ask here.
struct CopyTimes {
    double bandwidthOut = 1; ///< bytes/s, to the host
    double bandwidthIn = 1;  ///< bytes/s, to the device
    double latency = 0;      ///< seconds of every copy beside its bytes

    /// Of one copy, @p out: to the host.
    [[nodiscard]] double seconds(bool out, std::int64_t bytes) const
    {
        return static_cast<double>(bytes) / (out ? bandwidthOut : bandwidthIn) + latency;
    }
    /// To the host and back.
    [[nodiscard]] double roundTrip(std::int64_t bytes) const { return seconds(true, bytes) + seconds(false, bytes); }
};

} // namespace planloom::memory
