// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel_support.h"

// How kernels that work channel by channel see an image tensor, whatever its layout: as runs of floats of which float i
// belongs to channel i % width of a group of channels. Row-major tensors have groups of one channel, blocked ones of
// the device's block length, which divides kLanes: so a vector of kLanes floats always has the same channels in the
// same places.
namespace planloom::device {

inline constexpr std::int64_t kLanes = 16;

/// Images as runs of consecutive numbers of one channel, or of a group of channels.
struct ChannelRuns {
    std::int64_t samples = 0, channels = 0, area = 0;
    std::int64_t width = 1; ///< channels a group

    [[nodiscard]] std::int64_t groups() const { return channels / width; }
    [[nodiscard]] std::int64_t runLength() const { return area * width; }
    /// Where the run of @p group in @p sample begins.
    [[nodiscard]] std::int64_t at(std::int64_t sample, std::int64_t group) const
    {
        return (sample * groups() + group) * runLength();
    }
    [[nodiscard]] double count() const { return static_cast<double>(samples * area); }
};

/// Channels that lie side by side in a tensor of this layout.
std::int64_t blockWidth(graph::Layout layout);

/// @p argument is (N, C, ...).
ChannelRuns channelRuns(const Argument &argument);

} // namespace planloom::device
