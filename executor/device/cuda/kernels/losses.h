// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/elementwise.h"
#include "executor/device/cuda/kernels/picks.h"
#include "executor/device/cuda/kernels/rows.h"

// Losses of elements, losses whose rows lie in shards, and the scores of validation.
namespace planloom::cuda {

/// A function of an element and its target, and its slope.
struct ElementError {
    enum class Kind : std::int32_t { Squared, Absolute, Huber, Logistic };
    Kind kind = Kind::Squared;
    float delta = 1; ///< of Huber

    [[nodiscard]] PLANLOOM_KERNEL_CODE float value(float x, float target) const
    {
        const float size = fabsf(x - target);
        switch (kind) {
        case Kind::Absolute: return size;
        case Kind::Huber: {
            const float inner = size < delta ? size : delta;
            return inner * (size - 0.5F * inner);
        }
        case Kind::Logistic: return (x > 0.0F ? x : 0.0F) - x * target + log1pf(expf(-fabsf(x)));
        default: return size * size;
        }
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float slope(float x, float target) const
    {
        const float distance = x - target;
        switch (kind) {
        case Kind::Absolute: return static_cast<float>(distance > 0.0F) - static_cast<float>(distance < 0.0F);
        case Kind::Huber: return function::clamped(distance, -delta, delta);
        case Kind::Logistic: return function::logistic(x) - target;
        default: return 2.0F * distance;
        }
    }
};

/// Per block: the sum of the errors of its share, and how many count. What does not count may be anything.
struct ElementLossSums {
    ElementError error;
    From x, targets;                    ///< x: data may be nullptr, then they are only counted
    const std::uint8_t *mask = nullptr; ///< may be nullptr
    Two<double> *sums = nullptr;
    std::int64_t elements = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t share = (elements + block.count - 1) / block.count;
        const std::int64_t first = block.index * share;
        const std::int64_t left = elements - first < share ? elements - first : share;
        block.sumLanes<Two<double>>(
            1, left > 0 ? left : 0,
            [&](int, std::int64_t i) {
                if (mask != nullptr && mask[first + i] == 0)
                    return Two<double>{};
                const float own = x.data != nullptr ? error.value(x.at(first + i), targets.at(first + i)) : 0.0F;
                return Two<double>{static_cast<double>(own), 1.0};
            },
            [&](int, const Two<double> &sum) { sums[block.index] = sum; });
    }
};

/// One block: share times the mean of the sums over what counts, at least 1; and that number.
struct ElementLossMean {
    const Two<double> *sums = nullptr;
    std::int64_t count = 0;
    double share = 1;
    To loss; ///< data may be nullptr
    double *counted = nullptr;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const double sum = block.sum<double>(count, [&](std::int64_t i) { return sums[i].a; });
        const double all = block.sum<double>(count, [&](std::int64_t i) { return sums[i].b; });
        const double divisor = all > 1 ? all : 1;
        block.items(1, [&](std::int64_t) {
            if (loss.data != nullptr)
                loss.put(0, static_cast<float>(share * sum / divisor));
            *counted = divisor;
        });
    }
};

/// dx of a loss that is a mean over elements.
struct ElementLossGradient {
    ElementError error;
    From dLoss, x, targets;
    const std::uint8_t *mask = nullptr;
    const double *counted = nullptr;
    double share = 1;
    To dx;
    std::int64_t elements = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(elements, [&](std::int64_t i) {
            const auto scale = static_cast<float>(share * static_cast<double>(dLoss.at(0)) / *counted);
            const bool counts = mask == nullptr || mask[i] != 0;
            dx.put(i, counts ? scale * error.slope(x.at(i), targets.at(i)) : 0.0F);
        });
    }
};

// --- Rows in shards: statistics are (largest, sum of exponentials, the label's logit)
// -----------------------------------

/// Per row of a shard of the classes: largest logit, sum of exponentials, the label's logit.
struct LossStatistics {
    LogitRows all;
    const std::int64_t *labels = nullptr; ///< shifted
    To y;                                 ///< (rows, 3)
    std::int64_t ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        all.each(block, [&](std::int64_t row, const Peak &peak) {
            const std::int64_t label = labels[row];
            const bool absent = label == kElsewhere || label == ignored;
            const bool own = !absent && label >= 0 && label < all.classes;
            y.put(3 * row, peak.most);
            y.put(3 * row + 1, peak.sum);
            y.put(3 * row + 2, own ? all.logits.at(row * all.classes + label) : (absent ? 0.0F : NAN));
        });
    }
};

/// Of all parts of the classes.
struct CombineLossStatistics {
    From x; ///< (parts, rows, 3)
    To y;   ///< (rows, 3)
    std::int64_t parts = 1, rows = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(rows, [&](std::int64_t row) {
            float most = x.at(3 * row);
            for (std::int64_t p = 1; p < parts; ++p) {
                const float own = x.at(3 * (rows * p + row));
                most = most < own ? own : most;
            }
            float sum = 0;
            float target = 0;
            for (std::int64_t p = 0; p < parts; ++p) {
                const std::int64_t at = 3 * (rows * p + row);
                sum += x.at(at + 1) * expf(x.at(at) - most);
                target += x.at(at + 2);
            }
            y.put(3 * row, most);
            y.put(3 * row + 1, sum);
            y.put(3 * row + 2, target);
        });
    }
};

/// Each row's loss, which CrossEntropyMean takes the mean of.
struct LossesOfStatistics {
    From x;
    const std::int64_t *labels = nullptr;
    To stats; ///< (rows, 2); data may be nullptr
    float *losses = nullptr;
    std::int64_t rows = 0, ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(rows, [&](std::int64_t row) {
            const float logSum = x.at(3 * row) + logf(x.at(3 * row + 1));
            losses[row] = labels[row] == ignored ? 0.0F : logSum - x.at(3 * row + 2);
            if (stats.data != nullptr) {
                stats.put(2 * row, x.at(3 * row));
                stats.put(2 * row + 1, logSum);
            }
        });
    }
};

/// One block: dLoss times the number of own rows that count by that of all, at least 1 each.
struct LossRowShare {
    From dLoss;
    To y;
    const std::int64_t *own = nullptr, *all = nullptr;
    std::int64_t ownRows = 0, allRows = 0, ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const double mine = counted(block, own, ownRows);
        const double whole = counted(block, all, allRows);
        block.items(1, [&](std::int64_t) {
            y.put(0, static_cast<float>(static_cast<double>(dLoss.at(0)) * (mine / whole)));
        });
    }

private:
    PLANLOOM_KERNEL_CODE double counted(Block &block, const std::int64_t *labels, std::int64_t rows) const
    {
        const double count = block.sum<double>(rows, [&](std::int64_t i) { return labels[i] != ignored ? 1.0 : 0.0; });
        return count > 1 ? count : 1;
    }
};

// --- Scores ---------------------------------------------------------------------------------------------------------

/// Cross-entropy, whether the label is the first of the largest, and 1, of rows that count.
struct RowScore {
    double crossEntropy, right, rows;
};

/// Each block, of its rows. Logits (rows, width), or statistics as above.
struct ScoreRows {
    From values;
    const std::int64_t *labels = nullptr;
    RowScore *scores = nullptr;
    std::int64_t rows = 0, width = 0, ignored = 0;
    int statistics = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        RowScore sum{0, 0, 0};
        for (std::int64_t row = block.index; row < rows; row += block.count) {
            const std::int64_t label = labels[row];
            if (label == ignored) // the same for all threads
                continue;
            const std::int64_t begin = row * width;
            double loss = 0;
            bool right = false;
            if (statistics != 0) {
                loss = ::log(static_cast<double>(values.at(begin + 1))) + static_cast<double>(values.at(begin))
                    - static_cast<double>(values.at(begin + 2));
                right = values.at(begin + 2) >= values.at(begin);
            } else {
                const float most = block.largest(width, [&](std::int64_t i) { return values.at(begin + i); });
                const double all = block.sum<double>(width, [&](std::int64_t i) {
                    return static_cast<double>(expf(values.at(begin + i) - most));
                });
                const double before = block.sum<double>(label < width ? label : width, [&](std::int64_t i) {
                    return values.at(begin + i) == most ? 1.0 : 0.0;
                });
                const float own = values.at(begin + label);
                loss = ::log(all) + static_cast<double>(most) - static_cast<double>(own);
                right = own == most && before == 0;
            }
            sum.crossEntropy += loss;
            sum.right += right ? 1 : 0;
            sum.rows += 1;
        }
        block.items(1, [&](std::int64_t) { scores[block.index] = sum; });
    }
};

/// One block: the sum of @c count scores.
struct SumOfScores {
    const RowScore *scores = nullptr;
    RowScore *result = nullptr;
    std::int64_t count = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const double loss = block.sum<double>(count, [&](std::int64_t i) { return scores[i].crossEntropy; });
        const double right = block.sum<double>(count, [&](std::int64_t i) { return scores[i].right; });
        const double rows = block.sum<double>(count, [&](std::int64_t i) { return scores[i].rows; });
        block.items(1, [&](std::int64_t) { *result = {loss, right, rows}; });
    }
};

} // namespace planloom::cuda
