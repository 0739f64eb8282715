// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of (N, C, ...): a channel is one work item, its sums are made in double.
#include "executor/device/kernel_support.h"
#include "executor/device/parallel.h"
#include "executor/device/simd.h"

#include <array>

namespace planloom::device {

namespace {

struct Shape {
    std::int64_t n = 0, channels = 0, area = 0;
    double epsilon = 0;
    double momentum = 0;
    bool training = true;

    [[nodiscard]] std::int64_t at(std::int64_t sample, std::int64_t channel) const { return (sample * channels + channel) * area; }
    [[nodiscard]] double count() const { return static_cast<double>(n * area); }
};

/// Sum over a run of (x - shift) * (y - shift2).
PLANLOOM_CLONES double centredProducts(const float *x, double shift, const float *y, double shift2, std::int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += (static_cast<double>(x[i]) - shift) * (static_cast<double>(y[i]) - shift2);
    return sum;
}

PLANLOOM_CLONES double total(const float *x, std::int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += static_cast<double>(x[i]);
    return sum;
}

PLANLOOM_CLONES void affine(const float *x, float factor, float shift, float *y, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] * factor + shift;
}

/// dx = a dy + b x + c
PLANLOOM_CLONES void affineGradient(const float *dy, const float *x, float a, float b, float c, float *dx, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = a * dy[i] + b * x[i] + c;
}

struct Statistics {
    double mean = 0, variance = 0;
};

Statistics statistics(const Shape &shape, const float *x, std::int64_t channel)
{
    Statistics result;
    for (std::int64_t sample = 0; sample < shape.n; ++sample)
        result.mean += total(x + shape.at(sample, channel), shape.area);
    result.mean /= shape.count();
    for (std::int64_t sample = 0; sample < shape.n; ++sample) {
        const float *run = x + shape.at(sample, channel);
        result.variance += centredProducts(run, result.mean, run, result.mean, shape.area);
    }
    result.variance /= shape.count();
    return result;
}

/// The running statistics are State: the one input that a kernel writes. As in ONNX, momentum is the weight of what was.
void track(float *running, std::size_t channel, double momentum, double current)
{
    running[channel] = static_cast<float>(momentum * static_cast<double>(running[channel]) + (1.0 - momentum) * current);
}

void normaliseChannel(const Shape &shape, Inputs in, Outputs out, std::int64_t channel)
{
    const auto c = static_cast<std::size_t>(channel);
    auto *runningMean = static_cast<float *>(const_cast<void *>(in[3]));
    auto *runningVariance = static_cast<float *>(const_cast<void *>(in[4]));
    Statistics now{static_cast<double>(runningMean[c]), static_cast<double>(runningVariance[c])};
    if (shape.training) {
        now = statistics(shape, floats(in[0]), channel);
        track(runningMean, c, shape.momentum, now.mean);
        track(runningVariance, c, shape.momentum, now.variance);
    }
    const double inverse = 1.0 / std::sqrt(now.variance + shape.epsilon);
    const double factor = inverse * static_cast<double>(floats(in[1])[c]);
    const double shift = static_cast<double>(floats(in[2])[c]) - now.mean * factor;
    for (std::int64_t sample = 0; sample < shape.n; ++sample) {
        const std::int64_t at = shape.at(sample, channel);
        affine(floats(in[0]) + at, static_cast<float>(factor), static_cast<float>(shift), floats(out[0]) + at, shape.area);
    }
    if (out.size() > 1 && out[1] != nullptr)
        floats(out[1])[c] = static_cast<float>(now.mean);
    if (out.size() > 2 && out[2] != nullptr)
        floats(out[2])[c] = static_cast<float>(inverse);
}

void differentiateChannel(const Shape &shape, Inputs in, Outputs out, std::int64_t channel)
{
    const auto c = static_cast<std::size_t>(channel);
    const float *dy = floats(in[0]);
    const float *x = floats(in[1]);
    const auto mean = static_cast<double>(floats(in[3])[c]);
    const auto inverse = static_cast<double>(floats(in[4])[c]);
    double sum = 0;
    double projected = 0;
    for (std::int64_t sample = 0; sample < shape.n; ++sample) {
        const std::int64_t at = shape.at(sample, channel);
        sum += total(dy + at, shape.area);
        projected += centredProducts(dy + at, 0.0, x + at, mean, shape.area);
    }
    const double factor = static_cast<double>(floats(in[2])[c]) * inverse;
    // dx = factor (dy - mean(dy) - (x - mean) inverse^2 mean(dy (x - mean))); constant statistics leave the first term only.
    const double slope = shape.training ? -factor * inverse * inverse * projected / shape.count() : 0.0;
    const double shift = shape.training ? -factor * sum / shape.count() - slope * mean : 0.0;
    for (std::int64_t sample = 0; sample < shape.n; ++sample) {
        const std::int64_t at = shape.at(sample, channel);
        affineGradient(dy + at, x + at, static_cast<float>(factor), static_cast<float>(slope), static_cast<float>(shift), floats(out[0]) + at, shape.area);
    }
    if (out.size() > 1 && out[1] != nullptr)
        floats(out[1])[c] = static_cast<float>(projected * inverse);
    if (out.size() > 2 && out[2] != nullptr)
        floats(out[2])[c] = static_cast<float>(sum);
}

/// @p like: the input that is normalised, whose channels the arguments in @p perChannel must match.
Result<Shape> shapeOf(const Request &request, std::size_t like, std::span<const std::size_t> perChannel)
{
    const Dims &dims = request.in(like);
    if (dims.size() < 2 || dims != request.out())
        return wrong(request, "needs (N, C, ...), got " + text(dims) + " and " + text(request.out()));
    Shape shape{dims[0], dims[1], product(dims, 2, dims.size()), request.op.number("epsilon", 1e-5), request.op.number("momentum", 0.9),
                request.op.integer("training_mode", 1) != 0};
    for (const std::size_t i : perChannel) {
        if (request.inputs[i].elements() != shape.channels)
            return wrong(request, text(request.in(i)) + " should have one element for each of " + std::to_string(shape.channels) + " channels");
    }
    for (std::size_t i = 1; i < request.outputs.size(); ++i) {
        if (request.outputs[i].present && request.outputs[i].elements() != shape.channels)
            return wrong(request, "output " + text(request.out(i)) + " should have one element a channel");
    }
    return shape;
}

Made makeForward(const Request &request)
{
    constexpr std::array<std::size_t, 4> kPerChannel{1, 2, 3, 4};
    auto shape = shapeOf(request, 0, kPerChannel);
    if (!shape)
        return shape.error();
    return makeFunction([shape = *shape](Inputs in, Outputs out) {
        parallelFor(shape.channels, rowGrain(shape.n * shape.area), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t channel = begin; channel < end; ++channel)
                normaliseChannel(shape, in, out, channel);
        });
    });
}

Made makeGradient(const Request &request)
{
    constexpr std::array<std::size_t, 3> kPerChannel{2, 3, 4};
    auto shape = shapeOf(request, 1, kPerChannel);
    if (!shape)
        return shape.error();
    if (request.in(0) != request.in(1))
        return wrong(request, "dY " + text(request.in(0)) + " and X " + text(request.in(1)) + " differ");
    return makeFunction([shape = *shape](Inputs in, Outputs out) {
        parallelFor(shape.channels, rowGrain(shape.n * shape.area), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t channel = begin; channel < end; ++channel)
                differentiateChannel(shape, in, out, channel);
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"BatchNormalization", "fffff", "ff?f?", makeForward},
    {"BatchNormalizationGrad", "fffff", "ff?f?", makeGradient},
};

} // namespace

std::span<const KernelEntry> batchNormKernels() { return kEntries; }

} // namespace planloom::device
