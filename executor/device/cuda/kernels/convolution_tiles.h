// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/images.h"
#include "executor/device/cuda/kernels/tensor_cores.h"

// The gradient of a convolution's weights on tensor cores: bfloat16, channels last, in multiples of 64.
namespace planloom::cuda {

/// dW of one tap and 64 x 64 channels by a block, over one of @c splits parts of all pixels: a product of dY, turned,
/// and the pixels of X that this tap reads. A warp has 32 x 32 of them.
struct WeightGradientTiles {
    static constexpr int kSide = 64; ///< channels, and pixels of a step
    static constexpr int kThreads = 128;
    /// Floats of Block::extra: two stages of both tensors.
    static constexpr std::int64_t kExtra = 4 * kSide * kSide / 2;

    Convolution shape;
    const std::uint16_t *x = nullptr, *dy = nullptr;
    float *parts = nullptr; ///< (splits, channels of y, taps, channels of x)
    std::int64_t splits = 1;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t tiles() const
    {
        return shape.y.channels / kSide * (shape.x.channels / kSide) * shape.windows.taps();
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t steps() const
    {
        return (shape.y.samples * shape.y.pixels + kSide - 1) / kSide;
    }

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t work = block.index; work < splits * tiles(); work += block.count)
            tile(block, work / tiles(), work % tiles());
    }

private:
    PLANLOOM_KERNEL_CODE void tile(Block &block, std::int64_t split, std::int64_t number) const
    {
        const std::int64_t taps = shape.windows.taps();
        const std::int64_t tap = restOf(number, taps);
        const std::int64_t in = restOf(number, shape.x.channels / kSide) * kSide;
        const std::int64_t out = number * kSide;
        const std::int64_t share = (steps() + splits - 1) / splits;
        const std::int64_t begin = split * share;
        const std::int64_t end = begin + share < steps() ? begin + share : steps();

        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const auto stage = [&](std::int64_t which) { return HalfTile<kSide>{memory + which * kSide * kSide}; };
        Copies copies;
        const auto bring = [&](std::int64_t step) {
            stage(step % 2).template fill<kSide>(block, copies, [&](int row) -> const std::uint16_t * {
                const std::int64_t pixel = step * kSide + row;
                return pixel < shape.y.samples * shape.y.pixels ? dy + pixel * shape.y.channels + out : nullptr;
            });
            stage(2 + step % 2).template fill<kSide>(block, copies, [&](int row) {
                return source(step * kSide + row, tap, in);
            });
            copies.close();
        };

        Held<float[2][4][4]> sums;
        Held<std::uint32_t[2][4]> left;
        Held<std::uint32_t[4]> pair;
        alone(block, [&](int t) {
            PLANLOOM_UNROLLED
            for (int i = 0; i < 32; ++i)
                sums(t)[i / 16][i / 4 % 4][i % 4] = 0;
        });
        if (begin < end)
            bring(begin);
        for (std::int64_t step = begin; step < end; ++step) {
            if (step + 1 < end) {
                bring(step + 1);
                copies.template wait<1>();
            } else {
                copies.template wait<0>();
            }
            meet(block);
            PLANLOOM_UNROLLED
            for (int k = 0; k < kSide / 16; ++k) {
                PLANLOOM_UNROLLED
                for (int m = 0; m < 2; ++m)
                    stage(step % 2).leftTurned(
                        block, [&](int t) -> std::uint32_t(&)[4] { return left(t)[m]; }, k * 16,
                        [=](int t) { return rowsOf(t) + m * 16; });
                PLANLOOM_UNROLLED
                for (int j = 0; j < 2; ++j) {
                    stage(2 + step % 2)
                        .right(
                            block, [&](int t) -> std::uint32_t(&)[4] { return pair(t); }, k * 16,
                            [=](int t) { return columnsOf(t) + j * 16; });
                    PLANLOOM_UNROLLED
                    for (int i = 0; i < 4; ++i)
                        multiply(
                            block, [&](int t) -> float(&)[4] { return sums(t)[i / 2][2 * j + i % 2]; },
                            [&](int t) -> std::uint32_t(&)[4] { return left(t)[i / 2]; },
                            [&](int t) { return pair(t) + i % 2 * 2; });
                }
            }
            meet(block);
        }
        alone(block, [&](int t) {
            PLANLOOM_UNROLLED
            for (int i = 0; i < 32; ++i) {
                const int row = rowsOf(t) + i / 16 * 16 + t % kWarp / 4 + i % 4 / 2 * 8;
                const int column = columnsOf(t) + i / 4 % 4 * 8 + t % 4 * 2 + i % 2;
                parts[((split * shape.y.channels + out + row) * taps + tap) * shape.x.channels + in + column] =
                    sums(t)[i / 16][i / 4 % 4][i % 4];
            }
        });
    }
    /// Of a thread's warp: where its channels of dY and X begin in the tile.
    PLANLOOM_KERNEL_CODE static int rowsOf(int t) { return t / kWarp / 2 * 32; }
    PLANLOOM_KERNEL_CODE static int columnsOf(int t) { return t / kWarp % 2 * 32; }

    /// Channels from @p in on of the pixel that @p tap reads for output @p number; nullptr: one of the padding.
    [[nodiscard]] PLANLOOM_KERNEL_CODE const std::uint16_t *source(std::int64_t number, std::int64_t tap,
                                                                   std::int64_t in) const
    {
        std::int64_t sample = number;
        const std::int64_t pixel = restOf(sample, shape.y.pixels);
        if (sample >= shape.y.samples)
            return nullptr;
        std::int64_t at[3];
        shape.windows.split(pixel, false, at);
        std::int64_t offset[3];
        for (int d = 2; d >= 0; --d)
            offset[d] = restOf(tap, shape.windows.axes[d].kernel);
        std::int64_t from = sample;
        for (int d = 0; d < 3; ++d) {
            const device::WindowAxis &axis = shape.windows.axes[d];
            const std::int64_t place = axis.origin(at[d]) + offset[d] * axis.dilation;
            if (place < 0 || place >= axis.size)
                return nullptr;
            from = from * axis.size + place;
        }
        return x + from * shape.x.channels + in;
    }
};

/// What the parts of WeightGradientTiles sum up to, as weights lie.
struct WeightGradientSums {
    const float *parts = nullptr;
    To dw; ///< (outputs, inputs, taps)
    std::int64_t splits = 1, outputs = 1, inputs = 1, taps = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t n = outputs * inputs * taps;
        block.grid(n, [&](std::int64_t i) {
            float sum = 0;
            for (std::int64_t split = 0; split < splits; ++split)
                sum += parts[split * n + i];
            std::int64_t row = i;
            const std::int64_t input = restOf(row, inputs);
            const std::int64_t tap = restOf(row, taps);
            dw.put((row * inputs + input) * taps + tap, sum);
        });
    }
};

} // namespace planloom::cuda
