// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

// Updates of many parameters by one kernel.
namespace planloom::cuda {

/// A run of parameters, as device::UpdateRange; `first`: elements in the ranges before it.
struct ParameterRange {
    float *parameter;
    float *gradient;
    float *states[4];
    std::uint16_t *copy;
    std::int64_t count;
    std::int64_t first;
    float rateFactor;
    float decay;
    std::int32_t tensor;
};

/// All ranges of an update, in device memory.
struct ParameterRanges {
    const ParameterRange *at = nullptr;
    std::int64_t count = 0;
    std::int64_t elements = 0;

    /// The range of element @p i of all.
    PLANLOOM_KERNEL_CODE const ParameterRange &of(std::int64_t i) const
    {
        std::int64_t low = 0;
        for (std::int64_t high = count; high - low > 1;) {
            const std::int64_t middle = (low + high) / 2;
            if (at[middle].first <= i)
                low = middle;
            else
                high = middle;
        }
        return at[low];
    }
};

/// Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2; bias corrections in rate and
/// rootScale.
struct AdamW {
    ParameterRanges ranges;
    float rate = 0, beta1 = 0, restOf1 = 0, beta2 = 0, restOf2 = 0, epsilon = 0, scale = 1, rootScale = 1;
    double inverseCorrection1 = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(ranges.elements, [&](std::int64_t number) {
            const ParameterRange &range = ranges.of(number);
            const std::int64_t i = number - range.first;
            const float own = rate * range.rateFactor;
            const float keep = static_cast<float>(1.0 - static_cast<double>(own) * static_cast<double>(range.decay));
            const float step = static_cast<float>(static_cast<double>(own) * inverseCorrection1);
            const float gradient = scale * range.gradient[i];
            const float first = beta1 * range.states[0][i] + restOf1 * gradient;
            const float second = beta2 * range.states[1][i] + restOf2 * gradient * gradient;
            range.states[0][i] = first;
            range.states[1][i] = second;
            const float updated = keep * range.parameter[i] - step * (first / (sqrtf(second) * rootScale + epsilon));
            range.parameter[i] = updated;
            range.gradient[i] = 0.0F;
            if (range.copy != nullptr)
                range.copy[i] = narrow(updated);
        });
    }
};

/// A step of SGD with momentum over all ranges.
struct Sgd {
    ParameterRanges ranges;
    float rate = 0, momentum = 0, scale = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(ranges.elements, [&](std::int64_t number) {
            const ParameterRange &range = ranges.of(number);
            const std::int64_t i = number - range.first;
            float step = scale * range.gradient[i] + range.decay * range.parameter[i];
            if (range.states[0] != nullptr) {
                step += momentum * range.states[0][i];
                range.states[0][i] = step;
            }
            const float updated = range.parameter[i] - rate * range.rateFactor * step;
            range.parameter[i] = updated;
            range.gradient[i] = 0.0F;
            if (range.copy != nullptr)
                range.copy[i] = narrow(updated);
        });
    }
};

/// Per block, the sum of the squared gradients of its share.
struct SquaredNorm {
    ParameterRanges ranges;
    double *sums = nullptr;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t each = (ranges.elements + block.count - 1) / block.count;
        const std::int64_t begin = block.index * each;
        const std::int64_t left = ranges.elements - begin;
        const double sum = block.sum<double>(left < each ? (left > 0 ? left : 0) : each, [&](std::int64_t i) {
            const ParameterRange &range = ranges.of(begin + i);
            const double gradient = static_cast<double>(range.gradient[begin + i - range.first]);
            return gradient * gradient;
        });
        block.items(1, [&](std::int64_t) { sums[block.index] = sum; });
    }
};

/// One block: the sum of @c count sums.
struct SumOfSums {
    const double *sums = nullptr;
    double *result = nullptr;
    std::int64_t count = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const double sum = block.sum<double>(count, [&](std::int64_t i) { return sums[i]; });
        block.items(1, [&](std::int64_t) { *result = sum; });
    }
};

} // namespace planloom::cuda
