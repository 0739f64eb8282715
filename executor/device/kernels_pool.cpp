// SPDX-License-Identifier: Apache-2.0
// Pooling over windows and over whole images. A plane (one sample's channel) is the unit of work.
#include "executor/device/kernel_support.h"
#include "executor/device/parallel.h"
#include "executor/device/spatial.h"

#include <algorithm>
#include <limits>

namespace planloom::device {

namespace {

/// One axis of a window that slides; a missing dimension has size 1.
struct Axis {
    std::int64_t size = 1, positions = 1, kernel = 1, stride = 1, pad = 0, padEnd = 0, dilation = 1;

    /// Taps [first, last) of the window at @p position that lie inside the input.
    [[nodiscard]] std::int64_t origin(std::int64_t position) const { return position * stride - pad; }
    [[nodiscard]] std::int64_t firstTap(std::int64_t position) const
    {
        const std::int64_t at = origin(position);
        return at >= 0 ? 0 : (-at + dilation - 1) / dilation;
    }
    [[nodiscard]] std::int64_t lastTap(std::int64_t position) const
    {
        const std::int64_t room = size - origin(position);
        return room <= 0 ? 0 : std::min(kernel, (room - 1) / dilation + 1);
    }
    /// Taps that lie in the input or its declared padding.
    [[nodiscard]] std::int64_t paddedTaps(std::int64_t position) const
    {
        const std::int64_t room = size + padEnd - origin(position);
        return room <= 0 ? 0 : std::min(kernel, (room - 1) / dilation + 1);
    }
};

/// Where a window lies.
struct Place {
    std::int64_t depth, row, column;
};

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
                const std::int64_t line = (sheet + vertical.origin(place.row) + i * vertical.dilation) * horizontal.size + horizontal.origin(place.column);
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
            const bool better = best < 0 || plane[i] > value; // chosen, not branched on: which tap wins is anybody's guess
            best = better ? i : best;
            value = better ? plane[i] : value;
        });
        return best;
    }

    /// What an average divides by.
    [[nodiscard]] float divisor(const Place &place) const
    {
        const auto taps = [](const Axis &axis, std::int64_t at) { return axis.lastTap(at) - axis.firstTap(at); };
        const std::int64_t inside = taps(deep, place.depth) * taps(vertical, place.row) * taps(horizontal, place.column);
        const std::int64_t padded = deep.paddedTaps(place.depth) * vertical.paddedTaps(place.row) * horizontal.paddedTaps(place.column);
        return static_cast<float>(std::max<std::int64_t>(1, countPad ? padded : inside));
    }

    /// Calls f(plane) in parallel.
    template <class F>
    void forPlanes(F f) const
    {
        parallelFor(planes, rowGrain(outputArea() * deep.kernel * vertical.kernel * horizontal.kernel), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t plane = begin; plane < end; ++plane)
                f(plane);
        });
    }
};

Axis axisOf(const Sliding &sliding, std::size_t d, std::int64_t size, std::int64_t positions)
{
    return {size, positions, sliding.kernel[d], sliding.strides[d], sliding.padBegin[d], sliding.padEnd[d], sliding.dilations[d]};
}

Result<Pool> poolOf(const Request &request, const Dims &x, const Dims &y)
{
    auto sliding = slidingOf(request, x, request.op.integers("kernel_shape"));
    if (!sliding)
        return sliding.error();
    if (y.size() != x.size() || x[0] != y[0] || x[1] != y[1])
        return wrong(request, text(x) + " does not pool to " + text(y));
    const bool ceiling = request.op.integer("ceil_mode") != 0;
    for (std::size_t d = 0; d < sliding->kernel.size(); ++d) {
        const std::int64_t positions = sliding->positions(d, x[d + 2]);
        if (y[d + 2] != positions && !(ceiling && y[d + 2] == positions + 1))
            return wrong(request, text(x) + " does not pool to " + text(y));
    }
    Pool pool;
    pool.planes = x[0] * x[1];
    pool.countPad = request.op.integer("count_include_pad") != 0;
    const std::size_t last = sliding->kernel.size() - 1;
    pool.horizontal = axisOf(*sliding, last, x[last + 2], y[last + 2]);
    if (last >= 1)
        pool.vertical = axisOf(*sliding, last - 1, x[last + 1], y[last + 1]);
    if (last == 2)
        pool.deep = axisOf(*sliding, 0, x[2], y[2]);
    return pool;
}

Made makeMaxPool(const Request &request)
{
    auto pool = poolOf(request, request.in(0), request.out());
    if (!pool)
        return pool.error();
    if (request.hasOutput(1) && request.out(1) != request.out())
        return wrong(request, "Indices should be " + text(request.out()) + ", got " + text(request.out(1)));
    const bool columnMajor = request.op.integer("storage_order") != 0; // of Indices
    return makeFunction([pool = *pool, columnMajor](Inputs in, Outputs out) {
        const auto named = [&](std::int64_t i) {
            const std::int64_t rows = pool.vertical.size;
            const std::int64_t columns = pool.horizontal.size;
            return columnMajor && pool.deep.size == 1 ? i % columns * rows + i / columns : i;
        };
        std::int64_t *indices = out.size() > 1 ? ints(out[1]) : nullptr;
        pool.forPlanes([&](std::int64_t plane) {
            const float *x = floats(in[0]) + plane * pool.inputArea();
            float *y = floats(out[0]) + plane * pool.outputArea();
            pool.forPositions([&](std::int64_t at, const Place &place) {
                const std::int64_t best = pool.firstMaximum(x, place);
                y[at] = best < 0 ? 0.0F : x[best];
                if (indices != nullptr)
                    indices[plane * pool.outputArea() + at] = plane * pool.inputArea() + (best < 0 ? best : named(best));
            });
        });
    });
}

Made makeMaxPoolGrad(const Request &request)
{
    auto pool = poolOf(request, request.out(), request.in(0));
    if (!pool)
        return pool.error();
    if (request.in(1) != request.out())
        return wrong(request, "X " + text(request.in(1)) + " and dX " + text(request.out()) + " differ");
    return makeFunction([pool = *pool](Inputs in, Outputs out) {
        pool.forPlanes([&](std::int64_t plane) {
            const float *dy = floats(in[0]) + plane * pool.outputArea();
            const float *x = floats(in[1]) + plane * pool.inputArea();
            float *dx = floats(out[0]) + plane * pool.inputArea();
            std::fill(dx, dx + pool.inputArea(), 0.0F);
            pool.forPositions([&](std::int64_t at, const Place &place) {
                const std::int64_t best = pool.firstMaximum(x, place);
                if (best >= 0)
                    dx[best] += dy[at];
            });
        });
    });
}

Made makeAveragePool(const Request &request)
{
    auto pool = poolOf(request, request.in(0), request.out());
    if (!pool)
        return pool.error();
    return makeFunction([pool = *pool](Inputs in, Outputs out) {
        pool.forPlanes([&](std::int64_t plane) {
            const float *x = floats(in[0]) + plane * pool.inputArea();
            float *y = floats(out[0]) + plane * pool.outputArea();
            pool.forPositions([&](std::int64_t at, const Place &place) {
                float sum = 0;
                pool.forTaps(place, [&](std::int64_t i) { sum += x[i]; });
                y[at] = sum / pool.divisor(place);
            });
        });
    });
}

Made makeAveragePoolGrad(const Request &request)
{
    auto pool = poolOf(request, request.out(), request.in(0));
    if (!pool)
        return pool.error();
    return makeFunction([pool = *pool](Inputs in, Outputs out) {
        pool.forPlanes([&](std::int64_t plane) {
            const float *dy = floats(in[0]) + plane * pool.outputArea();
            float *dx = floats(out[0]) + plane * pool.inputArea();
            std::fill(dx, dx + pool.inputArea(), 0.0F);
            pool.forPositions([&](std::int64_t at, const Place &place) {
                const float share = dy[at] / pool.divisor(place);
                pool.forTaps(place, [&](std::int64_t i) { dx[i] += share; });
            });
        });
    });
}

struct Planes {
    std::int64_t count = 0, area = 0;
};

/// @p x: the images, one of which makes one element of @p y.
Result<Planes> planesOf(const Request &request, const Dims &x, const Dims &y)
{
    if (x.size() < 3 || product(y) != x[0] * x[1] || product(x, 2, x.size()) == 0)
        return wrong(request, text(x) + " does not pool to " + text(y));
    return Planes{x[0] * x[1], product(x, 2, x.size())};
}

template <class F>
void forPlanes(const Planes &planes, F f)
{
    parallelFor(planes.count, rowGrain(planes.area), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t plane = begin; plane < end; ++plane)
            f(plane);
    });
}

Made makeGlobalAverage(const Request &request)
{
    auto planes = planesOf(request, request.in(0), request.out());
    if (!planes)
        return planes.error();
    return makeFunction([planes = *planes](Inputs in, Outputs out) {
        forPlanes(planes, [&](std::int64_t plane) {
            const float *x = floats(in[0]) + plane * planes.area;
            double sum = 0;
            for (std::int64_t i = 0; i < planes.area; ++i)
                sum += static_cast<double>(x[i]);
            floats(out[0])[plane] = static_cast<float>(sum / static_cast<double>(planes.area));
        });
    });
}

Made makeGlobalAverageGrad(const Request &request)
{
    auto planes = planesOf(request, request.out(), request.in(0));
    if (!planes)
        return planes.error();
    return makeFunction([planes = *planes](Inputs in, Outputs out) {
        forPlanes(planes, [&](std::int64_t plane) {
            float *dx = floats(out[0]) + plane * planes.area;
            std::fill(dx, dx + planes.area, floats(in[0])[plane] / static_cast<float>(planes.area));
        });
    });
}

Made makeGlobalMax(const Request &request)
{
    auto planes = planesOf(request, request.in(0), request.out());
    if (!planes)
        return planes.error();
    return makeFunction([planes = *planes](Inputs in, Outputs out) {
        forPlanes(planes, [&](std::int64_t plane) {
            const float *x = floats(in[0]) + plane * planes.area;
            floats(out[0])[plane] = *std::max_element(x, x + planes.area);
        });
    });
}

Made makeGlobalMaxGrad(const Request &request)
{
    auto planes = planesOf(request, request.out(), request.in(0));
    if (!planes)
        return planes.error();
    if (request.in(1) != request.out())
        return wrong(request, "X " + text(request.in(1)) + " and dX " + text(request.out()) + " differ");
    return makeFunction([planes = *planes](Inputs in, Outputs out) {
        forPlanes(planes, [&](std::int64_t plane) {
            const float *x = floats(in[1]) + plane * planes.area;
            float *dx = floats(out[0]) + plane * planes.area;
            std::fill(dx, dx + planes.area, 0.0F);
            dx[std::max_element(x, x + planes.area) - x] = floats(in[0])[plane];
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"AveragePool", "f", "f", makeAveragePool},
    {"AveragePoolGrad", "f", "f", makeAveragePoolGrad},
    {"GlobalAveragePool", "f", "f", makeGlobalAverage},
    {"GlobalAveragePoolGrad", "f", "f", makeGlobalAverageGrad},
    {"GlobalMaxPool", "f", "f", makeGlobalMax},
    {"GlobalMaxPoolGrad", "fff", "f", makeGlobalMaxGrad},
    {"MaxPool", "f", "fi?", makeMaxPool},
    {"MaxPoolGrad", "fff", "f", makeMaxPoolGrad},
};

} // namespace

std::span<const KernelEntry> poolingKernels() { return kEntries; }

} // namespace planloom::device
