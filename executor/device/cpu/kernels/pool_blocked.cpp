// SPDX-License-Identifier: Apache-2.0
// Pooling of blocked tensors: a vector holds the same pixel of neighbouring channels, so that windows are walked once
// for all of them.
#include "executor/device/cpu/channel_lanes.h"
#include "executor/device/cpu/eight_floats.h"
#include "executor/device/cpu/pool_geometry.h"
#include "executor/device/cpu/simd.h"

namespace planloom::device {

namespace {

/// Half of the longest block, a whole one of the other: a plane here is eight channels of a sample.
constexpr std::int64_t kWide = 8;
using Counters = std::int32_t __attribute__((vector_size(kWide * sizeof(std::int32_t))));

/// Eight channels of a sample within a block of `width`.
struct Planes {
    std::int64_t width = kWide;

    [[nodiscard]] std::int64_t begin(std::int64_t plane, std::int64_t area) const
    {
        const std::int64_t halves = width / kWide;
        return plane / halves * area * width + plane % halves * kWide;
    }
};

// Flattened: callees are compiled for the oldest processor unless it is inlined into the clone.
[[gnu::flatten]] PLANLOOM_CLONES void maximum(const Pool &pool, std::int64_t stride, const float *x, float *y)
{
    pool.forPositions([&](std::int64_t position, const Place &place) {
        EightFloats best = EightFloats{} - std::numeric_limits<float>::infinity();
        bool any = false;
        pool.forTaps(place, [&](std::int64_t i) {
            const EightFloats v = load(x + i * stride);
            best = v > best ? v : best;
            any = true;
        });
        store(y + position * stride, any ? best : EightFloats{});
    });
}

[[gnu::flatten]] PLANLOOM_CLONES void maximumGradient(const Pool &pool, std::int64_t stride, const float *dy,
                                                      const float *x, float *dx)
{
    pool.forPositions([&](std::int64_t position, const Place &place) {
        EightFloats best = EightFloats{} - std::numeric_limits<float>::infinity();
        Counters winner{}; // the first maximum's number among the taps
        std::int32_t tap = 0;
        pool.forTaps(place, [&](std::int64_t i) {
            const EightFloats v = load(x + i * stride);
            const Counters better = v > best;
            winner = better ? Counters{} + tap : winner;
            best = better ? v : best;
            ++tap;
        });
        const EightFloats g = load(dy + position * stride);
        tap = 0;
        pool.forTaps(place, [&](std::int64_t i) {
            store(dx + i * stride, load(dx + i * stride) + (winner == tap ? g : EightFloats{}));
            ++tap;
        });
    });
}

[[gnu::flatten]] PLANLOOM_CLONES void average(const Pool &pool, std::int64_t stride, const float *x, float *y)
{
    pool.forPositions([&](std::int64_t position, const Place &place) {
        EightFloats sum{};
        pool.forTaps(place, [&](std::int64_t i) { sum += load(x + i * stride); });
        store(y + position * stride, sum / pool.divisor(place));
    });
}

[[gnu::flatten]] PLANLOOM_CLONES void averageGradient(const Pool &pool, std::int64_t stride, const float *dy, float *dx)
{
    pool.forPositions([&](std::int64_t position, const Place &place) {
        const EightFloats share = load(dy + position * stride) / pool.divisor(place);
        pool.forTaps(place, [&](std::int64_t i) { store(dx + i * stride, load(dx + i * stride) + share); });
    });
}

/// Plane by plane, and clears eight channels of a gradient.
void clear(float *dx, std::int64_t area, std::int64_t stride)
{
    for (std::int64_t i = 0; i < area; ++i)
        store(dx + i * stride, EightFloats{});
}

struct Blocked {
    Pool pool;
    Planes planes;
};

Result<Blocked> describe(const Request &request, const Dims &x, const Dims &y)
{
    auto pool = poolOf(request, x, y);
    if (!pool)
        return pool.error();
    pool->planes /= kWide;
    return Blocked{*pool, {blockWidth(graph::Layout::Blocked)}};
}

struct Global {
    std::int64_t planes = 0, area = 0;
    Planes where;
};

Global globalOf(const Argument &image)
{
    return {image.dims[0] * image.dims[1] / kWide,
            product(image.dims, 2, image.dims.size()),
            {blockWidth(image.layout)}};
}

template <class F>
void forPlanes(const Global &global, F f)
{
    parallelFor(global.planes, rowGrain(global.area * kWide), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t plane = begin; plane < end; ++plane)
            f(plane);
    });
}

} // namespace

Made makeBlockedMaxPool(const Request &request)
{
    auto made = describe(request, request.in(0), request.out());
    if (!made)
        return made.error();
    return makeFunction([how = *made](Inputs in, Outputs out) {
        how.pool.forPlanes([&](std::int64_t plane) {
            maximum(how.pool, how.planes.width, floats(in[0]) + how.planes.begin(plane, how.pool.inputArea()),
                    floats(out[0]) + how.planes.begin(plane, how.pool.outputArea()));
        });
    });
}

Made makeBlockedMaxPoolGrad(const Request &request)
{
    auto made = describe(request, request.out(), request.in(0));
    if (!made)
        return made.error();
    if (request.in(1) != request.out())
        return wrong(request, "X " + text(request.in(1)) + " and dX " + text(request.out()) + " differ");
    return makeFunction([how = *made](Inputs in, Outputs out) {
        how.pool.forPlanes([&](std::int64_t plane) {
            const std::int64_t inside = how.planes.begin(plane, how.pool.inputArea());
            clear(floats(out[0]) + inside, how.pool.inputArea(), how.planes.width);
            maximumGradient(how.pool, how.planes.width, floats(in[0]) + how.planes.begin(plane, how.pool.outputArea()),
                            floats(in[1]) + inside, floats(out[0]) + inside);
        });
    });
}

Made makeBlockedAveragePool(const Request &request)
{
    auto made = describe(request, request.in(0), request.out());
    if (!made)
        return made.error();
    return makeFunction([how = *made](Inputs in, Outputs out) {
        how.pool.forPlanes([&](std::int64_t plane) {
            average(how.pool, how.planes.width, floats(in[0]) + how.planes.begin(plane, how.pool.inputArea()),
                    floats(out[0]) + how.planes.begin(plane, how.pool.outputArea()));
        });
    });
}

Made makeBlockedAveragePoolGrad(const Request &request)
{
    auto made = describe(request, request.out(), request.in(0));
    if (!made)
        return made.error();
    return makeFunction([how = *made](Inputs in, Outputs out) {
        how.pool.forPlanes([&](std::int64_t plane) {
            float *dx = floats(out[0]) + how.planes.begin(plane, how.pool.inputArea());
            clear(dx, how.pool.inputArea(), how.planes.width);
            averageGradient(how.pool, how.planes.width, floats(in[0]) + how.planes.begin(plane, how.pool.outputArea()),
                            dx);
        });
    });
}

Made makeBlockedGlobalAverage(const Request &request)
{
    if (request.outputs[0].elements() != request.in(0)[0] * request.in(0)[1])
        return wrong(request, text(request.in(0)) + " does not pool to " + text(request.out()));
    return makeFunction([how = globalOf(request.inputs[0])](Inputs in, Outputs out) {
        forPlanes(how, [&](std::int64_t plane) {
            const float *x = floats(in[0]) + how.where.begin(plane, how.area);
            double sum[kWide] = {};
            for (std::int64_t i = 0; i < how.area; ++i)
                for (std::int64_t l = 0; l < kWide; ++l)
                    sum[l] += static_cast<double>(x[i * how.where.width + l]);
            for (std::int64_t l = 0; l < kWide; ++l)
                floats(out[0])[plane * kWide + l] = static_cast<float>(sum[l] / static_cast<double>(how.area));
        });
    });
}

Made makeBlockedGlobalAverageGrad(const Request &request)
{
    if (request.inputs[0].elements() != request.out()[0] * request.out()[1])
        return wrong(request, text(request.out()) + " does not pool to " + text(request.in(0)));
    return makeFunction([how = globalOf(request.outputs[0])](Inputs in, Outputs out) {
        forPlanes(how, [&](std::int64_t plane) {
            float *dx = floats(out[0]) + how.where.begin(plane, how.area);
            const EightFloats share = load(floats(in[0]) + plane * kWide) / static_cast<float>(how.area);
            for (std::int64_t i = 0; i < how.area; ++i)
                store(dx + i * how.where.width, share);
        });
    });
}

} // namespace planloom::device
