// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/groups.h"
#include "executor/device/cuda/kernels/images.h"

// The gradient of a convolution's weights on tensor cores: images in bfloat16 with channels last, in multiples of 8.
namespace planloom::cuda {

/// Images of few channels with channels last in eights: zeros behind the last channel.
struct PadChannels {
    Images images;
    From x;
    std::uint16_t *y = nullptr; ///< (samples, pixels, 8)
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(images.samples * images.pixels, [&](std::int64_t i) {
            std::int64_t sample = i;
            const std::int64_t pixel = restOf(sample, images.pixels);
            float values[8] = {};
            unrolled<8>([&](int c) {
                if (c < images.channels)
                    values[c] = x.at(images.at(sample, c, pixel));
            });
            putSeveral(To{y, Kind::BF16}, i * 8, values);
        });
    }
};

/// dW of 64 outputs and 64 columns, of which a tap has one for each channel of X, by a block, over one of @c splits
/// parts of all pixels: a product of dY, turned, and what the taps read of X. A warp has 32 x 32 of them. Two axes at
/// most.
struct WeightGradientTiles {
    static constexpr int kSide = 64; ///< channels, columns, and pixels of a step
    static constexpr int kEight = 8; ///< columns of a piece of 16 bytes
    static constexpr int kThreads = kMostHolders;
    /// Floats of Block::extra: two stages of both tensors, and where the windows of two steps' pixels begin.
    static constexpr std::int64_t kExtra = 4 * kSide * kSide / 2 + 2 * 4 * kSide;

    Convolution shape;
    const std::uint16_t *x = nullptr, *dy = nullptr;
    float *parts = nullptr; ///< (splits, channels of y, taps, channels of x)
    std::int64_t splits = 1;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t columns() const { return shape.windows.taps() * shape.x.channels; }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t tiles() const
    {
        return (shape.y.channels + kSide - 1) / kSide * ((columns() + kSide - 1) / kSide);
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
    /// Where the window of an output begins: the first pixel of its sample, row and column in it.
    struct Origin {
        int sample, row, column, there;
    };
    /// What a thread brings of each window: channels of a tap.
    struct Tap {
        int row, column, there;
        std::int64_t channel;
    };

    [[nodiscard]] PLANLOOM_KERNEL_CODE Tap tapOf(std::int64_t column) const
    {
        if (column >= columns())
            return {0, 0, 0, 0};
        std::int64_t tap = column;
        const std::int64_t channel = restOf(tap, shape.x.channels);
        const device::WindowAxis &rows = shape.windows.axes[1];
        const device::WindowAxis &across = shape.windows.axes[2];
        const std::int64_t second = restOf(tap, across.kernel);
        return {static_cast<int>(tap * rows.dilation), static_cast<int>(second * across.dilation), 1, channel};
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE Origin originOf(std::int64_t number) const
    {
        std::int64_t sample = number;
        std::int64_t row = restOf(sample, shape.y.pixels);
        const device::WindowAxis &rows = shape.windows.axes[1];
        const device::WindowAxis &across = shape.windows.axes[2];
        const std::int64_t column = restOf(row, across.positions);
        return {static_cast<int>(sample * shape.x.pixels), static_cast<int>(rows.origin(row)),
                static_cast<int>(across.origin(column)), sample < shape.y.samples ? 1 : 0};
    }

    PLANLOOM_KERNEL_CODE void tile(Block &block, std::int64_t split, std::int64_t number) const
    {
        const std::int64_t in = restOf(number, (columns() + kSide - 1) / kSide) * kSide;
        const std::int64_t out = number * kSide;
        const std::int64_t share = (steps() + splits - 1) / splits;
        const std::int64_t begin = split * share;
        const std::int64_t end = begin + share < steps() ? begin + share : steps();
        const auto height = static_cast<int>(shape.windows.axes[1].size);
        const auto width = static_cast<int>(shape.windows.axes[2].size);
        const std::int64_t pixels = shape.y.samples * shape.y.pixels;

        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const auto stage = [&](std::int64_t which) { return HalfTile<kSide>{memory + which * kSide * kSide}; };
        auto *origins = reinterpret_cast<Origin *>(block.extra + 4 * kSide * kSide / 2);
        const auto originsOf = [&](std::int64_t step) { return origins + step % 2 * kSide; };
        const auto place = [&](std::int64_t step) {
            alone(block, [&](int t) {
                if (t < kSide)
                    originsOf(step)[t] = originOf(step * kSide + t);
            });
        };
        Copies copies;
        Held<Tap> taps;
        alone(block, [&](int t) { taps(t) = tapOf(in + t % kEight * kEight); });
        const auto bring = [&](std::int64_t step) {
            alone(block, [&](int t) {
                const Tap tap = taps(t);
                const std::int64_t own = out + t % kEight * kEight;
                PLANLOOM_UNROLLED
                for (int i = 0; i < kSide * kEight / kThreads; ++i) {
                    const int row = t / kEight + i * (kThreads / kEight);
                    const std::int64_t pixel = step * kSide + row;
                    const bool given = pixel < pixels && own < shape.y.channels;
                    copies.template add<16>(stage(step % 2).piece(row, t % kEight),
                                            given ? dy + pixel * shape.y.channels + own : dy, given);
                    const Origin origin = originsOf(step)[row];
                    const int y = origin.row + tap.row;
                    const int z = origin.column + tap.column;
                    const bool read =
                        tap.there != 0 && origin.there != 0 && y >= 0 && y < height && z >= 0 && z < width;
                    const std::int64_t from = (std::int64_t{origin.sample} + y * width + z) * shape.x.channels;
                    copies.template add<16>(stage(2 + step % 2).piece(row, t % kEight),
                                            read ? x + from + tap.channel : x, read);
                }
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
        if (begin < end) {
            place(begin);
            place(begin + 1);
            meet(block);
            bring(begin);
        }
        for (std::int64_t step = begin; step < end; ++step) {
            if (step + 1 < end) {
                bring(step + 1);
                copies.template wait<1>();
            } else {
                copies.template wait<0>();
            }
            meet(block);
            place(step + 2); // of this step's, which were read before
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
                const std::int64_t row = out + rowsOf(t) + i / 16 * 16 + t % kWarp / 4 + i % 4 / 2 * 8;
                const std::int64_t column = in + columnsOf(t) + i / 4 % 4 * 8 + t % 4 * 2 + i % 2;
                if (row < shape.y.channels && column < columns())
                    parts[(split * shape.y.channels + row) * columns() + column] = sums(t)[i / 16][i / 4 % 4][i % 4];
            }
        });
    }
    /// Of a thread's warp: where its channels of dY and columns begin in the tile.
    PLANLOOM_KERNEL_CODE static int rowsOf(int t) { return t / kWarp / 2 * 32; }
    PLANLOOM_KERNEL_CODE static int columnsOf(int t) { return t / kWarp % 2 * 32; }
};

/// What the parts of WeightGradientTiles sum up to, as weights lie.
struct WeightGradientSums {
    const float *parts = nullptr;
    To dw; ///< (outputs, inputs, taps)
    std::int64_t splits = 1, outputs = 1, inputs = 1, taps = 1;
    std::int64_t padded = 1; ///< inputs of the parts
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t n = outputs * padded * taps;
        block.grid(n, [&](std::int64_t i) {
            float sum = 0;
            for (std::int64_t split = 0; split < splits; ++split)
                sum += parts[split * n + i];
            std::int64_t row = i;
            const std::int64_t input = restOf(row, padded);
            const std::int64_t tap = restOf(row, taps);
            if (input < inputs)
                dw.put((row * inputs + input) * taps + tap, sum);
        });
    }
};

} // namespace planloom::cuda
