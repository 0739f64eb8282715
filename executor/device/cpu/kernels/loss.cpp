// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy in one pass over the logits; the probabilities are never stored.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

namespace planloom::device {

namespace {

PLANLOOM_CLONES void rowStatistics(const float *x, std::int64_t n, float *maximum, float *logSumExp)
{
    const float m = simd::maximum(x, n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += simd::exp(x[i] - m);
    *maximum = m;
    *logSumExp = m + std::log(sum);
}

PLANLOOM_CLONES void rowGradient(const float *x, std::int64_t n, float logSumExp, float scale, float *dx)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = scale * simd::exp(x[i] - logSumExp);
}

struct Shape {
    std::int64_t rows = 0, classes = 0, ignore = -100;
};

/// The number of rows that count, at least 1.
double divisor(const Shape &shape, const std::int64_t *labels)
{
    std::int64_t counted = 0;
    for (std::int64_t r = 0; r < shape.rows; ++r)
        counted += labels[r] != shape.ignore ? 1 : 0;
    return static_cast<double>(std::max<std::int64_t>(1, counted));
}

Result<Shape> shapeOf(const Request &request, std::size_t logits)
{
    const Dims &dims = request.in(logits);
    if (dims.empty() || dims.back() <= 0)
        return wrong(request, "logits must be (M, V), got " + text(dims));
    const Shape shape{product(dims, 0, dims.size() - 1), dims.back(), request.op.integer("ignore_index", -100)};
    if (request.inputs[logits + 1].elements() != shape.rows)
        return wrong(request, "logits " + text(dims) + " and labels " + text(request.in(logits + 1)) + " do not fit");
    return shape;
}

Made makeLoss(const Request &request)
{
    auto made = shapeOf(request, 0);
    if (!made)
        return made.error();
    if (request.outputs[0].elements() != 1 || (request.hasOutput(1) && request.outputs[1].elements() != 2 * made->rows))
        return wrong(request, "outputs should be a scalar and (M, 2)");
    return makeFunction([shape = *made, losses = std::vector<float>(static_cast<std::size_t>(made->rows))](
                            Inputs in, Outputs out) mutable {
        const float *logits = floats(in[0]);
        const std::int64_t *labels = ints(in[1]);
        float *stats = out.size() > 1 ? floats(out[1]) : nullptr;
        float *rowLoss = losses.data();
        parallelFor(shape.rows, rowGrain(shape.classes), [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                const float *x = logits + r * shape.classes;
                float maximum = 0;
                float logSumExp = 0;
                rowStatistics(x, shape.classes, &maximum, &logSumExp);
                if (stats != nullptr) {
                    stats[2 * r] = maximum;
                    stats[2 * r + 1] = logSumExp;
                }
                const std::int64_t label = labels[r];
                const bool known = label >= 0
                    && label < shape.classes; // a label outside makes the loss NaN: seen at once, nothing read
                const float loss = known ? logSumExp - x[label] : std::numeric_limits<float>::quiet_NaN();
                rowLoss[r] = label == shape.ignore ? 0.0F : loss;
            }
        });
        double sum = 0;
        for (std::int64_t r = 0; r < shape.rows; ++r)
            sum += static_cast<double>(rowLoss[r]);
        *floats(out[0]) = static_cast<float>(sum / divisor(shape, labels));
    });
}

Made makeLossGrad(const Request &request)
{
    auto made = shapeOf(request, 1);
    if (!made)
        return made.error();
    if (request.inputs[0].elements() != 1 || request.inputs[3].elements() != 2 * made->rows
        || request.outputs[0].elements() != made->rows * made->classes)
        return wrong(request, "dLoss, Stats and dLogits do not fit logits " + text(request.in(1)));
    return makeFunction([shape = *made](Inputs in, Outputs out) {
        const float *logits = floats(in[1]);
        const std::int64_t *labels = ints(in[2]);
        const float *stats = floats(in[3]);
        float *gradient = floats(out[0]);
        const auto scale = static_cast<float>(static_cast<double>(*floats(in[0])) / divisor(shape, labels));
        parallelFor(shape.rows, rowGrain(shape.classes), [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                const std::int64_t label = labels[r];
                float *dx = gradient + r * shape.classes;
                rowGradient(logits + r * shape.classes, shape.classes, stats[2 * r + 1],
                            label == shape.ignore ? 0.0F : scale, dx);
                if (label != shape.ignore && label >= 0 && label < shape.classes)
                    dx[label] -= scale;
            }
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"SoftmaxCrossEntropyLoss", "fi", "ff?", makeLoss},
    {"SoftmaxCrossEntropyLossGrad", "ffif", "f", makeLossGrad},
};

} // namespace

std::span<const KernelEntry> lossKernels() { return kEntries; }

} // namespace planloom::device
