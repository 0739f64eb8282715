// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

// Copies between shapes, reductions, tables.
namespace planloom::cuda {

/// Elements of 1, 2, 4 or 8 bytes from one strided view to another.
struct StridedMove {
    const void *from = nullptr;
    void *to = nullptr;
    int elementBytes = 4;
    std::int64_t fromOffset = 0, toOffset = 0;
    std::int64_t n = 0;
    Loops<2> loops;

    template <class T>
    PLANLOOM_KERNEL_CODE void move(std::int64_t at, std::int64_t target) const
    {
        static_cast<T *>(to)[toOffset + target] = static_cast<const T *>(from)[fromOffset + at];
    }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t at[2];
            loops.at(i, at);
            switch (elementBytes) {
            case 1: move<std::uint8_t>(at[0], at[1]); break;
            case 2: move<std::uint16_t>(at[0], at[1]); break;
            case 4: move<std::uint32_t>(at[0], at[1]); break;
            default: move<std::uint64_t>(at[0], at[1]); break;
            }
        });
    }
};

/// Each output element, by one block: the sum, mean, largest or smallest of x over the inner loops.
struct Reduce {
    enum class How : std::int32_t { Sum, Mean, Largest, Smallest };
    From x;
    To y;
    How how = How::Sum;
    std::int64_t outputs = 0, each = 0;
    Loops<1> outer; ///< over outputs
    Loops<1> inner; ///< over what is reduced
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t o = block.index; o < outputs; o += block.count) {
            std::int64_t base[1];
            outer.at(o, base);
            const auto element = [&](std::int64_t i) {
                std::int64_t at[1];
                inner.at(i, at);
                return x.at(base[0] + at[0]);
            };
            float result = 0;
            if (how == How::Largest)
                result = block.largest(each, element);
            else if (how == How::Smallest)
                result = -block.largest(each, [&](std::int64_t i) { return -element(i); });
            else
                result = block.sum<float>(each, element);
            if (how == How::Mean)
                result /= static_cast<float>(each);
            block.items(1, [&](std::int64_t) { y.put(o, result); });
        }
    }
};

/// dx = dy / each, broadcast over what was reduced: the gradient of a mean.
struct SpreadMean {
    From dy;
    To dx;
    float share = 1;
    std::int64_t n = 0;
    Loops<1> loops;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t at[1];
            loops.at(i, at);
            dx.put(i, dy.at(at[0]) * share);
        });
    }
};

/// y (outer, indices, inner) = rows of x (outer, size, inner); NaN for an index outside, or 0 if @c zeros.
struct Gather {
    From x;
    const std::int64_t *indices = nullptr;
    To y;
    std::int64_t outer = 1, size = 1, count = 1, inner = 1;
    int zeros = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(outer * count * inner, [&](std::int64_t i) {
            const std::int64_t row = i / inner;
            std::int64_t index = indices[row % count];
            index = index < 0 && zeros == 0 ? index + size : index;
            const bool inside = index >= 0 && index < size;
            const float outside = zeros != 0 ? 0.0F : NAN;
            y.put(i, inside ? x.at((row / count * size + index) * inner + i % inner) : outside);
        });
    }
};

/// dx (size, inner) (+)= the sum of the rows of dy (count, inner) with each index, in their order: a block per row of
/// the table, so that nothing is added out of order.
struct GatherGradient {
    From dy;
    const std::int64_t *indices = nullptr;
    To dx;
    std::int64_t size = 1, count = 1, inner = 1;
    int zeros = 0; ///< negative indices are no rows
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < size; row += block.count)
            block.items(inner, [&](std::int64_t column) {
                float sum = 0;
                for (std::int64_t i = 0; i < count; ++i) {
                    const std::int64_t index = indices[i] < 0 && zeros == 0 ? indices[i] + size : indices[i];
                    if (index == row)
                        sum += dy.at(i * inner + column);
                }
                dx.put(row * inner + column, sum);
            });
    }
};

} // namespace planloom::cuda
