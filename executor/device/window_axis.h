// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/everywhere.h"

#include <cstdint>

namespace planloom::device {

/// One axis of a window that slides; a missing dimension has size 1.
struct WindowAxis {
    std::int64_t size = 1, positions = 1, kernel = 1, stride = 1, pad = 0, padEnd = 0, dilation = 1;

    [[nodiscard]] PLANLOOM_EVERYWHERE std::int64_t origin(std::int64_t position) const
    {
        return position * stride - pad;
    }
    /// Taps [first, last) of the window at @p position that lie inside the input.
    [[nodiscard]] PLANLOOM_EVERYWHERE std::int64_t firstTap(std::int64_t position) const
    {
        const std::int64_t at = origin(position);
        return at >= 0 ? 0 : quotient(-at + dilation - 1, dilation);
    }
    [[nodiscard]] PLANLOOM_EVERYWHERE std::int64_t lastTap(std::int64_t position) const
    {
        return tapsIn(size - origin(position));
    }
    /// Taps that lie in the input or its declared padding.
    [[nodiscard]] PLANLOOM_EVERYWHERE std::int64_t paddedTaps(std::int64_t position) const
    {
        return tapsIn(size + padEnd - origin(position));
    }
    /// Positions [first, last) whose windows reach element @p at; with dilation some of them pass over it.
    [[nodiscard]] PLANLOOM_EVERYWHERE std::int64_t firstPosition(std::int64_t at) const
    {
        const std::int64_t reach = at + pad - (kernel - 1) * dilation;
        return reach <= 0 ? 0 : quotient(reach + stride - 1, stride);
    }
    [[nodiscard]] PLANLOOM_EVERYWHERE std::int64_t lastPosition(std::int64_t at) const
    {
        const std::int64_t last = quotient(at + pad, stride) + 1;
        return last < positions ? last : positions;
    }

private:
    /// Of numbers from 0 on; GPUs divide 32 bits several times faster.
    [[nodiscard]] PLANLOOM_EVERYWHERE static std::int64_t quotient(std::int64_t number, std::int64_t divisor)
    {
        if (divisor == 1)
            return number;
        return ((number | divisor) >> 32) == 0
            ? static_cast<std::uint32_t>(number) / static_cast<std::uint32_t>(divisor)
            : number / divisor;
    }
    [[nodiscard]] PLANLOOM_EVERYWHERE std::int64_t tapsIn(std::int64_t room) const
    {
        if (room <= 0)
            return 0;
        const std::int64_t taps = quotient(room - 1, dilation) + 1;
        return taps < kernel ? taps : kernel;
    }
};

} // namespace planloom::device
