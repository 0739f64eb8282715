// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/groups.h"

// Rows of 16-bit elements that begin at any address, and the same transposed, without gaps: there every column is a row
// of a multiple of 8 elements, read and written by 16 bytes.
namespace planloom::cuda {

/// (rows, columns), @c leading elements from one row to the next. Rows are a multiple of 8.
struct RowsAndPiece {
    const void *from = nullptr;
    void *to = nullptr;
    std::int64_t rows = 0, columns = 0, leading = 0;

    // A block turns tiles of kSide by kSide in shared memory, as words of two rows. Columns lie an odd number of words
    // apart there, in different banks.
    static constexpr int kSide = 64;
    static constexpr int kPairs = kSide / 2;
    static constexpr int kPitch = kPairs + 1;
    static constexpr int kChunk = 8;  ///< elements of 16 bytes
    static constexpr int kAtOnce = 8; ///< items of a thread that are read before the first is written
    static constexpr std::int64_t kShared = std::int64_t{kSide} * kPitch; ///< floats

    /// One instruction, where the compiler makes four of an assignment.
    PLANLOOM_KERNEL_CODE static void putChunk(std::uint16_t *to, const Words &chunk)
    {
#ifdef __CUDA_ARCH__
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(chunk.at[0]),
                     "r"(chunk.at[1]), "r"(chunk.at[2]), "r"(chunk.at[3])
                     : "memory");
#else
        putWords(to, 0, chunk);
#endif
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t across() const { return (columns + kSide - 1) / kSide; }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t tiles() const { return across() * ((rows + kSide - 1) / kSide); }

    /// f(words, its first row, its first column, rows, columns) for the block's tiles.
    template <class F>
    PLANLOOM_KERNEL_CODE void eachTile(Block &block, F f) const
    {
        for (std::int64_t tile = block.index; tile < tiles(); tile += block.count) {
            std::int64_t down = tile;
            const std::int64_t column = restOf(down, across()) * kSide;
            const std::int64_t row = down * kSide;
            const auto least = [](std::int64_t n) { return static_cast<int>(n < kSide ? n : kSide); };
            f(reinterpret_cast<std::uint32_t *>(block.extra), row, column, least(rows - row), least(columns - column));
        }
    }
};

/// Columns at both ends of Y = X W' in bfloat16: of each row all but @c main, which begin where its address is a
/// multiple of 16 bytes. Rows of X (rows, inner) and W (columns, inner) are multiples of 8 elements.
struct EndColumns {
    const std::uint16_t *x = nullptr, *w = nullptr;
    std::uint16_t *y = nullptr;
    std::int64_t rows = 0, inner = 0, columns = 0, main = 0;

    /// Where they begin.
    [[nodiscard]] PLANLOOM_KERNEL_CODE static std::int64_t mainOf(std::int64_t row, std::int64_t columns)
    {
        return (8 - row % 8 * (columns % 8) % 8) % 8;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t items() const { return rows * (columns - main); }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(items(), [&](std::int64_t item) {
            std::int64_t row = item;
            const std::int64_t number = restOf(row, columns - main);
            const std::int64_t column = number < mainOf(row, columns) ? number : number + main;
            const std::int64_t pieces = inner / 8;
            float sum = 0;
            for (std::int64_t i = 0; i < pieces; ++i) {
                const Words a = wordsAt(x, row * pieces + i);
                const Words b = wordsAt(w, column * pieces + i);
                unrolled<8>([&](int e) { sum += Pack<std::uint16_t>::at(a, e) * Pack<std::uint16_t>::at(b, e); });
            }
            y[row * columns + column] = narrow(sum);
        });
    }
};

/// The piece of rows.
struct TurnRows : RowsAndPiece {
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        eachTile(block, [&](std::uint32_t *words, std::int64_t top, std::int64_t column, int height, int width) {
            const auto *x = static_cast<const std::uint16_t *>(from) + top * leading + column;
            auto *piece = static_cast<std::uint16_t *>(to) + column * rows + top;
            block.each([&](int t) {
                for (int first = t; first < kPairs * kSide; first += kAtOnce * block.threads) {
                    // All are read, also what is beside the tile, before the first is used.
                    std::uint16_t even[kAtOnce], odd[kAtOnce];
                    PLANLOOM_UNROLLED
                    for (int k = 0; k < kAtOnce; ++k) {
                        const int i = first + k * block.threads;
                        const int row = i / kSide * 2 < height ? i / kSide * 2 : 0;
                        const std::uint16_t *one = x + row * leading + (i % kSide < width ? i % kSide : 0);
                        even[k] = one[0];
                        odd[k] = one[leading];
                    }
                    PLANLOOM_UNROLLED
                    for (int k = 0; k < kAtOnce; ++k)
                        if (const int i = first + k * block.threads; i < kPairs * kSide)
                            words[i % kSide * kPitch + i / kSide] = even[k] | static_cast<std::uint32_t>(odd[k]) << 16;
                }
            });
            block.items(kSide * kSide / kChunk, [&](std::int64_t item) {
                const int own = static_cast<int>(item) / kChunk;
                const int row = static_cast<int>(item) % kChunk * kChunk;
                if (own >= width || row >= height)
                    return;
                const std::uint32_t *pairs = words + own * kPitch + row / 2;
                putChunk(piece + own * rows + row, {{pairs[0], pairs[1], pairs[2], pairs[3]}});
            });
        });
    }
};

/// The rows of a piece, plus one that is added to each.
struct TurnPiece : RowsAndPiece {
    From bias; ///< data may be nullptr

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        eachTile(block, [&](std::uint32_t *words, std::int64_t top, std::int64_t column, int height, int width) {
            const auto *piece = static_cast<const std::uint16_t *>(from) + column * rows + top;
            auto *y = static_cast<std::uint16_t *>(to) + top * leading + column;
            block.items(kSide * kSide / kChunk, [&](std::int64_t item) {
                const int own = static_cast<int>(item) / kChunk;
                const int row = static_cast<int>(item) % kChunk * kChunk;
                if (own >= width || row >= height)
                    return;
                const Words chunk = wordsAt(piece + own * rows + row, 0);
                for (int k = 0; k < 4; ++k)
                    words[own * kPitch + row / 2 + k] = chunk.at[k];
            });
            block.items(kPairs * kSide, [&](std::int64_t item) {
                const int i = static_cast<int>(item);
                const int row = i / kSide * 2;
                if (row >= height || i % kSide >= width)
                    return;
                const std::uint32_t pair = words[i % kSide * kPitch + i / kSide];
                std::uint16_t *one = y + row * leading + i % kSide;
                auto first = static_cast<std::uint16_t>(pair);
                auto second = static_cast<std::uint16_t>(pair >> 16);
                if (bias.data != nullptr) {
                    const float added = bias.at(column + i % kSide);
                    first = narrow(widen(first) + added);
                    second = narrow(widen(second) + added);
                }
                one[0] = first;
                one[leading] = second;
            });
        });
    }
};

} // namespace planloom::cuda
