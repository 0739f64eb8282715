// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/window_axis.h"

#include <algorithm>
#include <limits>

// Where the windows of a pooling operator lie.
namespace planloom::device {

using Axis = WindowAxis;

/// Where a window lies.
struct Place {
    std::int64_t depth, row, column;
};

/// Windows over planes of up to three dimensions.
struct Pool {
    std::int64_t planes = 0;
    Axis deep, vertical, horizontal;
    bool countPad = false;

    [[nodiscard]] std::int64_t inputArea() const { return deep.size * vertical.size * horizontal.size; }
    [[nodiscard]] std::int64_t outputArea() const { return deep.positions * vertical.positions * horizontal.positions; }

    /// Calls f(output index in the plane, place).
    template <class F>
    void forPositions(F f) const
    {
        std::int64_t at = 0;
        for (std::int64_t d = 0; d < deep.positions; ++d) {
            for (std::int64_t r = 0; r < vertical.positions; ++r) {
                for (std::int64_t c = 0; c < horizontal.positions; ++c)
                    f(at++, Place{d, r, c});
            }
        }
    }

    /// Calls f(input index in the plane) for every tap of the window at @p place that lies inside.
    template <class F>
    void forTaps(const Place &place, F f) const
    {
        const std::int64_t left = horizontal.firstTap(place.column);
        const std::int64_t right = horizontal.lastTap(place.column);
        for (std::int64_t k = deep.firstTap(place.depth); k < deep.lastTap(place.depth); ++k) {
            const std::int64_t sheet = (deep.origin(place.depth) + k * deep.dilation) * vertical.size;
            for (std::int64_t i = vertical.firstTap(place.row); i < vertical.lastTap(place.row); ++i) {
                const std::int64_t line = (sheet + vertical.origin(place.row) + i * vertical.dilation) * horizontal.size
                    + horizontal.origin(place.column);
                for (std::int64_t j = left; j < right; ++j)
                    f(line + j * horizontal.dilation);
            }
        }
    }

    /// Index of the first maximum under the window, -1 if it lies in the padding altogether.
    [[nodiscard]] std::int64_t firstMaximum(const float *plane, const Place &place) const
    {
        std::int64_t best = -1;
        float value = -std::numeric_limits<float>::infinity();
        forTaps(place, [&](std::int64_t i) {
            const bool better =
                best < 0 || plane[i] > value; // chosen, not branched on: the winning tap cannot be predicted
            best = better ? i : best;
            value = better ? plane[i] : value;
        });
        return best;
    }

    /// The divisor of an average.
    [[nodiscard]] float divisor(const Place &place) const
    {
        const auto taps = [](const Axis &axis, std::int64_t at) { return axis.lastTap(at) - axis.firstTap(at); };
        const std::int64_t inside =
            taps(deep, place.depth) * taps(vertical, place.row) * taps(horizontal, place.column);
        const std::int64_t padded =
            deep.paddedTaps(place.depth) * vertical.paddedTaps(place.row) * horizontal.paddedTaps(place.column);
        return static_cast<float>(std::max<std::int64_t>(1, countPad ? padded : inside));
    }

    /// Calls f(plane) in parallel.
    template <class F>
    void forPlanes(F f) const
    {
        parallelFor(planes, rowGrain(outputArea() * deep.kernel * vertical.kernel * horizontal.kernel),
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t plane = begin; plane < end; ++plane)
                            f(plane);
                    });
    }
};

/// The windows that make @p y of @p x. Errors: BadInput, Unsupported.
Result<Pool> poolOf(const Request &request, const Dims &x, const Dims &y);

// The same operators on blocked tensors (kernels/pool_blocked.cpp).
Made makeBlockedMaxPool(const Request &request);
Made makeBlockedMaxPoolGrad(const Request &request);
Made makeBlockedAveragePool(const Request &request);
Made makeBlockedAveragePoolGrad(const Request &request);
Made makeBlockedGlobalAverage(const Request &request);
Made makeBlockedGlobalAverageGrad(const Request &request);

} // namespace planloom::device
