// SPDX-License-Identifier: Apache-2.0
// Losses that are the mean of a function of each element and its target.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <cmath>

namespace planloom::device {

namespace {

struct SquaredError {
    explicit SquaredError(const graph::Op &) {}
    [[nodiscard]] float value(float x, float target) const { return (x - target) * (x - target); }
    [[nodiscard]] float slope(float x, float target) const { return 2 * (x - target); }
};

struct AbsoluteError {
    explicit AbsoluteError(const graph::Op &) {}
    [[nodiscard]] float value(float x, float target) const { return std::fabs(x - target); }
    [[nodiscard]] float slope(float x, float target) const
    {
        return static_cast<float>(x > target) - static_cast<float>(x < target);
    }
};

/// A square up to delta, a line beyond (Huber 1964).
struct HuberError {
    explicit HuberError(const graph::Op &op) : delta(static_cast<float>(op.number("delta", 1))) {}
    [[nodiscard]] float value(float x, float target) const
    {
        const float size = std::fabs(x - target);
        const float inner = std::min(size, delta);
        return inner * (size - 0.5F * inner);
    }
    [[nodiscard]] float slope(float x, float target) const { return std::min(std::max(x - target, -delta), delta); }
    float delta;
};

/// max(x, 0) - x t + log(1 + e^-|x|), which is exact for large logits, too.
struct LogisticError {
    explicit LogisticError(const graph::Op &) {}
    [[nodiscard]] float value(float x, float target) const
    {
        return std::max(x, 0.0F) - x * target + std::log1p(simd::exp(-std::fabs(x)));
    }
    [[nodiscard]] float slope(float x, float target) const { return simd::sigmoid(x) - target; }
};

/// Elements of the loss, and the piece that one sum is over.
struct Extent {
    std::int64_t elements = 0;
    [[nodiscard]] std::int64_t pieces() const { return (elements + kGrain - 1) / kGrain; }
};

/// The number of elements that count, at least 1.
double countedElements(const Extent &extent, const std::uint8_t *mask)
{
    if (mask == nullptr)
        return static_cast<double>(std::max<std::int64_t>(1, extent.elements));
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < extent.elements; ++i)
        counted += mask[i] != 0 ? 1 : 0;
    return static_cast<double>(std::max<std::int64_t>(1, counted));
}

const std::uint8_t *maskOf(Inputs in, std::size_t at)
{
    return in.size() > at ? static_cast<const std::uint8_t *>(in[at]) : nullptr;
}

Result<Extent> extentOf(const Request &request, std::size_t x)
{
    const bool masked = request.hasInput(x + 2);
    if (request.in(x + 1) != request.in(x) || (masked && request.in(x + 2) != request.in(x)))
        return wrong(request, "targets and mask must be " + text(request.in(x)));
    return Extent{request.inputs[x].elements()};
}

/// Values that do not count may be anything, also NaN.
template <class Error>
double sumOf(const Error &error, const float *x, const float *targets, const std::uint8_t *mask, std::int64_t begin,
             std::int64_t end)
{
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i)
        sum += mask == nullptr || mask[i] != 0 ? static_cast<double>(error.value(x[i], targets[i])) : 0.0;
    return sum;
}

template <class Error>
Made makeElementLoss(const Request &request)
{
    const auto made = extentOf(request, 0);
    if (!made)
        return made.error();
    if (request.outputs[0].elements() != 1)
        return wrong(request, "the loss is a scalar");
    return makeFunction(
        [extent = *made, error = Error(request.op), share = request.op.number("share", 1),
         sums = std::vector<double>(static_cast<std::size_t>(made->pieces()))](Inputs in, Outputs out) mutable {
            const float *x = floats(in[0]);
            const float *targets = floats(in[1]);
            const std::uint8_t *mask = maskOf(in, 2);
            double *pieces = sums.data();
            parallelFor(extent.elements, kGrain, [=, &error](std::int64_t begin, std::int64_t end) {
                pieces[begin / kGrain] = sumOf(error, x, targets, mask, begin, end);
            });
            double sum = 0;
            for (const double piece : sums)
                sum += piece;
            *floats(out[0]) = static_cast<float>(share * sum / countedElements(extent, mask));
        });
}

template <class Error>
Made makeElementLossGrad(const Request &request)
{
    const auto made = extentOf(request, 1);
    if (!made)
        return made.error();
    if (request.inputs[0].elements() != 1 || request.out() != request.in(1))
        return wrong(request, "dLoss and dX do not fit X " + text(request.in(1)));
    return makeFunction(
        [extent = *made, error = Error(request.op), share = request.op.number("share", 1)](Inputs in, Outputs out) {
            const float *x = floats(in[1]);
            const float *targets = floats(in[2]);
            const std::uint8_t *mask = maskOf(in, 3);
            float *gradient = floats(out[0]);
            const auto scale =
                static_cast<float>(share * static_cast<double>(*floats(in[0])) / countedElements(extent, mask));
            parallelFor(extent.elements, kGrain, [=, &error](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i)
                    gradient[i] = mask == nullptr || mask[i] != 0 ? scale * error.slope(x[i], targets[i]) : 0.0F;
            });
        });
}

constexpr KernelEntry kEntries[] = {
    {"MeanSquaredErrorLoss", "ffb?", "f", makeElementLoss<SquaredError>},
    {"MeanSquaredErrorLossGrad", "fffb?", "f", makeElementLossGrad<SquaredError>},
    {"MeanAbsoluteErrorLoss", "ffb?", "f", makeElementLoss<AbsoluteError>},
    {"MeanAbsoluteErrorLossGrad", "fffb?", "f", makeElementLossGrad<AbsoluteError>},
    {"HuberLoss", "ffb?", "f", makeElementLoss<HuberError>},
    {"HuberLossGrad", "fffb?", "f", makeElementLossGrad<HuberError>},
    {"SigmoidCrossEntropyLoss", "ffb?", "f", makeElementLoss<LogisticError>},
    {"SigmoidCrossEntropyLossGrad", "fffb?", "f", makeElementLossGrad<LogisticError>},
};

} // namespace

std::span<const KernelEntry> elementLossKernels() { return kEntries; }

} // namespace planloom::device
