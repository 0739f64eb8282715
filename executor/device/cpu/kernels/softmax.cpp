// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along any axis, as operators of their own.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

namespace planloom::device {

namespace {

/// Copies a line of n elements, `step` apart, to where they are neighbours.
void pick(const float *x, std::int64_t n, std::int64_t step, float *line)
{
    for (std::int64_t i = 0; i < n; ++i)
        line[i] = x[i * step];
}

void put(const float *line, std::int64_t n, std::int64_t step, float *y)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i * step] = line[i];
}

PLANLOOM_CLONES void softmaxLine(const float *x, float *y, std::int64_t n)
{
    const float m = simd::maximum(x, n);
    const float base = m == -std::numeric_limits<float>::infinity() ? 0.0F : m;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) {
        y[i] = simd::exp(x[i] - base);
        sum += y[i];
    }
    const float factor = 1.0F / sum;
    for (std::int64_t i = 0; i < n; ++i)
        y[i] *= factor;
}

PLANLOOM_CLONES void logSoftmaxLine(const float *x, float *y, std::int64_t n)
{
    const float m = simd::maximum(x, n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += simd::exp(x[i] - m);
    const float shift = m + std::log(sum);
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] - shift;
}

PLANLOOM_CLONES void softmaxGradLine(const float *dy, const float *y, float *dx, std::int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += dy[i] * y[i];
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = y[i] * (dy[i] - sum);
}

PLANLOOM_CLONES void logSoftmaxGradLine(const float *dy, const float *y, float *dx, std::int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += dy[i];
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = dy[i] - simd::exp(y[i]) * sum;
}

/// Calls f(offset, thread) for the first element of every line. Threads share whole pieces out, so that each has its
/// own scratch.
template <class F>
void forLines(const AxisView &view, int threads, F f)
{
    const std::int64_t lines = view.outer * view.inner;
    const std::int64_t grain = rowGrain(view.n);
    parallelItems((lines + grain - 1) / grain, threads, [&](std::int64_t piece, int thread) {
        for (std::int64_t line = piece * grain; line < std::min(lines, (piece + 1) * grain); ++line)
            f(line / view.inner * view.n * view.inner + line % view.inner, thread);
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

using Line = void (*)(const float *, float *, std::int64_t);
using GradientLine = void (*)(const float *, const float *, float *, std::int64_t);

/// Lines that are not contiguous go through scratch: up to three for each thread.
struct Scratch {
    explicit Scratch(const AxisView &view)
        : n(view.n),
          threads(threadCount()),
          lines(static_cast<std::size_t>(view.inner > 1 ? 3 * threads * view.n : 0))
    {
    }
    [[nodiscard]] float *line(int thread, int which) { return lines.data() + (3 * thread + which) * n; }
    std::int64_t n;
    int threads;
    std::vector<float> lines;
};

template <Line line>
Made makeForward(const Request &request)
{
    auto view = linesOf(request);
    if (!view)
        return view.error();
    return makeFunction([view = *view, scratch = Scratch(*view)](Inputs in, Outputs out) mutable {
        forLines(view, scratch.threads, [&](std::int64_t at, int thread) {
            const float *x = floats(in[0]) + at;
            float *y = floats(out[0]) + at;
            if (view.inner == 1)
                return line(x, y, view.n);
            pick(x, view.n, view.inner, scratch.line(thread, 0));
            line(scratch.line(thread, 0), scratch.line(thread, 1), view.n);
            put(scratch.line(thread, 1), view.n, view.inner, y);
        });
    });
}

template <GradientLine line>
Made makeGradient(const Request &request)
{
    auto view = linesOf(request);
    if (!view)
        return view.error();
    return makeFunction([view = *view, scratch = Scratch(*view)](Inputs in, Outputs out) mutable {
        forLines(view, scratch.threads, [&](std::int64_t at, int thread) {
            const float *dy = floats(in[0]) + at;
            const float *y = floats(in[1]) + at;
            float *dx = floats(out[0]) + at;
            if (view.inner == 1)
                return line(dy, y, dx, view.n);
            pick(dy, view.n, view.inner, scratch.line(thread, 0));
            pick(y, view.n, view.inner, scratch.line(thread, 1));
            line(scratch.line(thread, 0), scratch.line(thread, 1), scratch.line(thread, 2), view.n);
            put(scratch.line(thread, 2), view.n, view.inner, dx);
        });
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
