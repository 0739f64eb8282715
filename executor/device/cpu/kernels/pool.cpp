// SPDX-License-Identifier: Apache-2.0
// Pooling over windows and over whole images. A plane (one sample's channel) is the unit of work.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/pool_geometry.h"
#include "executor/device/cpu/spatial.h"

#include <algorithm>

namespace planloom::device {

namespace {

Axis axisOf(const Sliding &sliding, std::size_t d, std::int64_t size, std::int64_t positions)
{
    return {size,
            positions,
            sliding.kernel[d],
            sliding.strides[d],
            sliding.padBegin[d],
            sliding.padEnd[d],
            sliding.dilations[d]};
}

bool blocked(const Argument &argument) { return argument.layout == graph::Layout::Blocked; }

} // namespace

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

namespace {

Made makeMaxPool(const Request &request)
{
    if (blocked(request.inputs[0]))
        return makeBlockedMaxPool(request);
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
                    indices[plane * pool.outputArea() + at] =
                        plane * pool.inputArea() + (best < 0 ? best : named(best));
            });
        });
    });
}

Made makeMaxPoolGrad(const Request &request)
{
    if (blocked(request.outputs[0]))
        return makeBlockedMaxPoolGrad(request);
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
    if (blocked(request.inputs[0]))
        return makeBlockedAveragePool(request);
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
    if (blocked(request.outputs[0]))
        return makeBlockedAveragePoolGrad(request);
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
    if (blocked(request.inputs[0]))
        return makeBlockedGlobalAverage(request);
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
    if (blocked(request.outputs[0]))
        return makeBlockedGlobalAverageGrad(request);
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
