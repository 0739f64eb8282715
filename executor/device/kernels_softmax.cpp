// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along any axis, as operators of their own.
#include "executor/device/kernel_support.h"
#include "executor/device/parallel.h"
#include "executor/device/simd.h"

namespace planloom::device {

namespace {

// A line is n elements, `step` apart.
PLANLOOM_CLONES void softmaxLine(const float *x, float *y, std::int64_t n, std::int64_t step)
{
    float m = x[0];
    for (std::int64_t i = 1; i < n; ++i)
        m = std::max(m, x[i * step]);
    const float base = m == -std::numeric_limits<float>::infinity() ? 0.0F : m;
    float sum = 0;
    for (std::int64_t i = 0; i < n; ++i)
        y[i * step] = simd::exp(x[i * step] - base);
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += y[i * step];
    const float factor = 1.0F / sum;
    for (std::int64_t i = 0; i < n; ++i)
        y[i * step] *= factor;
}

PLANLOOM_CLONES void logSoftmaxLine(const float *x, float *y, std::int64_t n, std::int64_t step)
{
    float m = x[0];
    for (std::int64_t i = 1; i < n; ++i)
        m = std::max(m, x[i * step]);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += simd::exp(x[i * step] - m);
    const float shift = m + std::log(sum);
    for (std::int64_t i = 0; i < n; ++i)
        y[i * step] = x[i * step] - shift;
}

PLANLOOM_CLONES void softmaxGradLine(const float *dy, const float *y, float *dx, std::int64_t n, std::int64_t step)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += dy[i * step] * y[i * step];
    for (std::int64_t i = 0; i < n; ++i)
        dx[i * step] = y[i * step] * (dy[i * step] - sum);
}

PLANLOOM_CLONES void logSoftmaxGradLine(const float *dy, const float *y, float *dx, std::int64_t n, std::int64_t step)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += dy[i * step];
    for (std::int64_t i = 0; i < n; ++i)
        dx[i * step] = dy[i * step] - simd::exp(y[i * step]) * sum;
}

/// Calls f(offset) for the first element of every line.
template <class F>
void forLines(const AxisView &view, F f)
{
    parallelFor(view.outer * view.inner, rowGrain(view.n), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t line = begin; line < end; ++line)
            f(line / view.inner * view.n * view.inner + line % view.inner);
    });
}

Result<AxisView> linesOf(const Request &request)
{
    for (const Argument &input : request.inputs) {
        if (input.dims != request.out())
            return wrong(request, text(input.dims) + " and output " + text(request.out()) + " differ");
    }
    auto axis = resolveAxis(request, request.op.integer("axis", -1), request.in(0).size());
    if (!axis)
        return axis.error();
    const AxisView view = viewAt(request.in(0), *axis);
    if (view.n == 0)
        return wrong(request, "the axis has no elements");
    return view;
}

using Line = void (*)(const float *, float *, std::int64_t, std::int64_t);
using GradientLine = void (*)(const float *, const float *, float *, std::int64_t, std::int64_t);

template <Line line>
Made makeForward(const Request &request)
{
    auto view = linesOf(request);
    if (!view)
        return view.error();
    return makeFunction([view = *view](Inputs in, Outputs out) {
        forLines(view, [&](std::int64_t at) { line(floats(in[0]) + at, floats(out[0]) + at, view.n, view.inner); });
    });
}

template <GradientLine line>
Made makeGradient(const Request &request)
{
    auto view = linesOf(request);
    if (!view)
        return view.error();
    return makeFunction([view = *view](Inputs in, Outputs out) {
        forLines(view, [&](std::int64_t at) { line(floats(in[0]) + at, floats(in[1]) + at, floats(out[0]) + at, view.n, view.inner); });
    });
}

constexpr KernelEntry kEntries[] = {
    {"LogSoftmax", "f", "f", makeForward<logSoftmaxLine>},
    {"LogSoftmaxGrad", "ff", "f", makeGradient<logSoftmaxGradLine>},
    {"Softmax", "f", "f", makeForward<softmaxLine>},
    {"SoftmaxGrad", "ff", "f", makeGradient<softmaxGradLine>},
};

} // namespace

std::span<const KernelEntry> softmaxKernels() { return kEntries; }

} // namespace planloom::device
