// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

// A block works on one row at a time: normalisation, softmax, cross-entropy.
namespace planloom::cuda {

/// y = (x - mean) * inverse deviation * scale + bias; without @c centred RMS normalisation. With b: x = a + b, kept in
/// sum.
struct RowNorm {
    From a, b, scale, bias; ///< b, bias: data may be nullptr
    To y, sum;              ///< sum: only with b
    To mean, inverse;       ///< data may be nullptr
    std::int64_t rows = 0, size = 0;
    float epsilon = 0;
    int centred = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < rows; row += block.count) {
            const std::int64_t begin = row * size;
            if (b.data != nullptr)
                block.items(size, [&](std::int64_t i) { sum.put(begin + i, a.at(begin + i) + b.at(begin + i)); });
            const From x = b.data != nullptr ? From{sum.data, sum.kind} : a;
            const float share = 1.0F / static_cast<float>(size);
            float centre = 0;
            if (centred != 0)
                centre = block.sum<float>(size, [&](std::int64_t i) { return x.at(begin + i); }) * share;
            const float squares = block.sum<float>(size, [&](std::int64_t i) {
                const float distance = x.at(begin + i) - centre;
                return distance * distance;
            });
            const float inv = 1.0F / sqrtf(squares * share + epsilon);
            block.items(size, [&](std::int64_t i) {
                const float value = (x.at(begin + i) - centre) * inv * scale.at(i);
                y.put(begin + i, bias.data != nullptr ? value + bias.at(i) : value);
            });
            block.items(1, [&](std::int64_t) {
                if (mean.data != nullptr)
                    mean.put(row, centre);
                if (inverse.data != nullptr)
                    inverse.put(row, inv);
            });
        }
    }
};

/// dx of RowNorm, plus the addend if it is given.
struct RowNormGradient {
    From dy, x, scale, mean, inverse, addend; ///< mean, addend: data may be nullptr
    To dx;
    std::int64_t rows = 0, size = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < rows; row += block.count) {
            const std::int64_t begin = row * size;
            const bool centred = mean.data != nullptr;
            const float centre = centred ? mean.at(row) : 0.0F;
            const float inv = inverse.at(row);
            const float share = 1.0F / static_cast<float>(size);
            float mid = 0;
            if (centred)
                mid = block.sum<float>(size, [&](std::int64_t i) { return dy.at(begin + i) * scale.at(i); }) * share;
            const float slope = inv * inv * share * block.sum<float>(size, [&](std::int64_t i) {
                return dy.at(begin + i) * scale.at(i) * (x.at(begin + i) - centre);
            });
            block.items(size, [&](std::int64_t i) {
                const float value = inv * (dy.at(begin + i) * scale.at(i) - mid - (x.at(begin + i) - centre) * slope);
                dx.put(begin + i, addend.data != nullptr ? value + addend.at(begin + i) : value);
            });
        }
    }
};

/// The sums over the rows that make the gradients of scale and bias: a block adds up one part of the rows of `lanes`
/// columns.
struct ColumnNormGradient {
    From dy, x, mean, inverse;                 ///< mean: data may be nullptr
    float *dScale = nullptr, *dBias = nullptr; ///< (parts, size); dBias may be nullptr
    std::int64_t rows = 0, size = 0;
    int lanes = 1;
    std::int64_t parts = 1;
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t blocks() const { return (size + lanes - 1) / lanes * parts; }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t share = (rows + parts - 1) / parts;
        for (std::int64_t item = block.index; item < blocks(); item += block.count) {
            const std::int64_t first = item % parts * share;
            const std::int64_t left = rows - first < share ? rows - first : share;
            const std::int64_t begin = item / parts * lanes;
            block.sumLanes<Two<float>>(
                lanes, left > 0 ? left : 0,
                [&](int lane, std::int64_t i) {
                    if (begin + lane >= size)
                        return Two<float>{};
                    const std::int64_t row = first + i;
                    const std::int64_t at = row * size + begin + lane;
                    const float centre = mean.data != nullptr ? mean.at(row) : 0.0F;
                    const float gradient = dy.at(at);
                    return Two<float>{gradient * (x.at(at) - centre) * inverse.at(row), gradient};
                },
                [&](int lane, const Two<float> &sum) {
                    if (begin + lane >= size)
                        return;
                    dScale[item % parts * size + begin + lane] = sum.a;
                    if (dBias != nullptr)
                        dBias[item % parts * size + begin + lane] = sum.b;
                });
        }
    }
};

/// Over the middle of (outer, n, inner).
struct SoftmaxRows {
    From x;
    To y;
    std::int64_t outer = 1, n = 1, inner = 1;
    int logarithm = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < outer * inner; row += block.count) {
            const std::int64_t begin = row / inner * n * inner + row % inner;
            const float most = block.largest(n, [&](std::int64_t i) { return x.at(begin + i * inner); });
            const float sum = block.sum<float>(n, [&](std::int64_t i) { return expf(x.at(begin + i * inner) - most); });
            const float logSum = logf(sum);
            block.items(n, [&](std::int64_t i) {
                const float shifted = x.at(begin + i * inner) - most;
                y.put(begin + i * inner, logarithm != 0 ? shifted - logSum : expf(shifted) / sum);
            });
        }
    }
};

/// dx from dy and y: y (dy - sum(dy y)), of the logarithm dy - exp(y) sum(dy).
struct SoftmaxRowsGradient {
    From dy, y;
    To dx;
    std::int64_t outer = 1, n = 1, inner = 1;
    int logarithm = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < outer * inner; row += block.count) {
            const std::int64_t begin = row / inner * n * inner + row % inner;
            const float sum = block.sum<float>(n, [&](std::int64_t i) {
                const std::int64_t at = begin + i * inner;
                return logarithm != 0 ? dy.at(at) : dy.at(at) * y.at(at);
            });
            block.items(n, [&](std::int64_t i) {
                const std::int64_t at = begin + i * inner;
                dx.put(at, logarithm != 0 ? dy.at(at) - expf(y.at(at)) * sum : y.at(at) * (dy.at(at) - sum));
            });
        }
    }
};

/// Per row of logits: (largest, log of the sum of exponentials), and the row's loss.
struct CrossEntropyRows {
    From logits;
    const std::int64_t *labels = nullptr;
    To stats; ///< (rows, 2)
    float *losses = nullptr;
    std::int64_t rows = 0, classes = 0, ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < rows; row += block.count) {
            const std::int64_t begin = row * classes;
            const float most = block.largest(classes, [&](std::int64_t i) { return logits.at(begin + i); });
            const float sum =
                block.sum<float>(classes, [&](std::int64_t i) { return expf(logits.at(begin + i) - most); });
            const float logSum = most + logf(sum);
            block.items(1, [&](std::int64_t) {
                const std::int64_t label = labels[row];
                const bool known = label >= 0 && label < classes;
                const float loss = known ? logSum - logits.at(begin + label) : NAN;
                losses[row] = label == ignored ? 0.0F : loss;
                if (stats.data != nullptr) {
                    stats.put(2 * row, most);
                    stats.put(2 * row + 1, logSum);
                }
            });
        }
    }
};

/// One block: the mean of the losses over the rows that count, at least 1 of them; and their number.
struct CrossEntropyMean {
    const float *losses = nullptr; ///< nullptr: only the number
    const std::int64_t *labels = nullptr;
    To loss;
    float *counted = nullptr;
    std::int64_t rows = 0, ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const double number =
            block.sum<double>(rows, [&](std::int64_t row) { return labels[row] != ignored ? 1.0 : 0.0; });
        const double divisor = number > 1 ? number : 1;
        const double sum = losses == nullptr
            ? 0
            : block.sum<double>(rows, [&](std::int64_t row) { return static_cast<double>(losses[row]); });
        block.items(1, [&](std::int64_t) {
            if (losses != nullptr)
                loss.put(0, static_cast<float>(sum / divisor));
            if (counted != nullptr)
                *counted = static_cast<float>(divisor);
        });
    }
};

/// dLogits = (softmax - label) dLoss / counted.
struct CrossEntropyGradient {
    From dLoss, logits;
    const std::int64_t *labels = nullptr;
    From stats;
    const float *counted = nullptr;
    To dx;
    std::int64_t rows = 0, classes = 0, ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(rows * classes, [&](std::int64_t i) {
            const std::int64_t row = i / classes;
            const std::int64_t label = labels[row];
            const float scale = label == ignored ? 0.0F : dLoss.at(0) / *counted;
            const float probability = expf(logits.at(i) - stats.at(2 * row + 1));
            dx.put(i, scale * probability - (i % classes == label ? scale : 0.0F));
        });
    }
};

} // namespace planloom::cuda
