// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/attention.h"
#include "executor/device/cuda/kernels/tensor_cores.h"

// Attention in bfloat16 on tensor cores (Dao, FlashAttention-2, 2023, sections 3.1 and 3.2), for heads of D = 64 or
// 128. A warp has 16 rows of a tile, and what it makes of them stays in its registers: scores are one product's result
// and the next one's left factor. Gradients are made by two kernels, each sum by one warp in a fixed order: the same
// bits every time.
//
// Loops over a thread's elements and over steps stand written out in each kernel: with the same loops as functions that
// take functions the gradients took 322 instead of 239 us (12 heads of 64, 8 x 1,024 tokens, an H200). What is changed
// here is to be timed on a GPU.
namespace planloom::cuda {

inline constexpr int kFlashThreads = kMostHolders; ///< as HalfTile::fill() needs
inline constexpr int kFlashRows = 64;              ///< of a block's own tile where a warp has 16 of them

/// Rows of the tiles that a block walks.
template <int D>
inline constexpr int kFlashSteps = D == 64 ? 64 : 32;

/// Where a block works.
struct FlashPlace {
    std::int64_t sample, head;
    int first; ///< token
};

/// What the kernels have in common.
template <int D>
struct FlashTiles {
    static constexpr int kSteps = kFlashSteps<D>;
    static constexpr int kColumns = D / 16; ///< of 16 elements
    using Row = std::uint32_t[kColumns][4]; ///< a warp's 16 rows of D, as left factors
    using Scores = float[kSteps / 8][4];
    using Sums = float[D / 8][4];

    AttentionShape shape;

    [[nodiscard]] PLANLOOM_KERNEL_CODE int tokens() const { return static_cast<int>(shape.t); }
    [[nodiscard]] PLANLOOM_KERNEL_CODE const std::uint16_t *qkv(std::int64_t sample, std::int64_t head) const
    {
        return static_cast<const std::uint16_t *>(shape.qkv.data) + shape.packed(sample, 0, head);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t stride() const { return (shape.heads + 2 * shape.kvHeads) * D; }

    /// Tokens [first, first + Rows) of a head whose rows are @p stride apart; zeros behind the last token.
    template <int Rows>
    PLANLOOM_KERNEL_CODE void fill(Block &block, Copies &copies, HalfTile<D> tile, const std::uint16_t *head,
                                   std::int64_t stride, int first) const
    {
        const int t = tokens();
        tile.template fill<Rows>(block, copies, [=](int row) -> const std::uint16_t * {
            return first + row < t ? head + (first + row) * stride : nullptr;
        });
    }
    /// A warp's rows of a tile of M times kFlashRows: 16 of each kFlashRows.
    template <int M>
    PLANLOOM_KERNEL_CODE static void leftOf(Block &block, HalfTile<D> tile, Held<Row> (&row)[M])
    {
        PLANLOOM_UNROLLED
        for (int m = 0; m < M; ++m)
            PLANLOOM_UNROLLED
        for (int k = 0; k < kColumns; ++k)
            tile.left(
                block, [&](int t) -> std::uint32_t(&)[4] { return row[m](t)[k]; },
                [=](int t) { return m * kFlashRows + t / kWarp * 16; }, k * 16);
    }
    /// scores = rows times the transpose of a tile of kSteps rows.
    template <int M>
    PLANLOOM_KERNEL_CODE static void score(Block &block, Held<Row> (&row)[M], HalfTile<D> tile,
                                           Held<Scores> (&scores)[M])
    {
        Held<std::uint32_t[4]> pair;
        alone(block, [&](int t) {
            PLANLOOM_UNROLLED
            for (int m = 0; m < M; ++m)
                PLANLOOM_UNROLLED
            for (int j = 0; j < kSteps / 8; ++j)
                PLANLOOM_UNROLLED
            for (int i = 0; i < 4; ++i)
                scores[m](t)[j][i] = 0;
        });
        PLANLOOM_UNROLLED
        for (int k = 0; k < kColumns; ++k)
            PLANLOOM_UNROLLED
        for (int j = 0; j < kSteps / 16; ++j) {
            tile.rightTurned(
                block, [&](int t) -> std::uint32_t(&)[4] { return pair(t); }, j * 16, k * 16);
            PLANLOOM_UNROLLED
            for (int m = 0; m < M; ++m)
                PLANLOOM_UNROLLED
            for (int half = 0; half < 2; ++half)
                multiply(
                    block, [&](int t) -> float(&)[4] { return scores[m](t)[2 * j + half]; },
                    [&](int t) -> std::uint32_t(&)[4] { return row[m](t)[k]; },
                    [&](int t) { return pair(t) + 2 * half; });
        }
    }
    /// sums += weights, rounded to bfloat16, times a tile of kSteps rows.
    template <int M>
    PLANLOOM_KERNEL_CODE static void addTo(Block &block, Held<Sums> (&sums)[M], Held<Scores> (&weights)[M],
                                           HalfTile<D> tile)
    {
        Held<std::uint32_t[4]> left[M];
        Held<std::uint32_t[4]> pair;
        PLANLOOM_UNROLLED
        for (int k = 0; k < kSteps / 16; ++k) {
            alone(block, [&](int t) {
                PLANLOOM_UNROLLED
                for (int m = 0; m < M; ++m) {
                    const Scores &w = weights[m](t);
                    PLANLOOM_UNROLLED
                    for (int i = 0; i < 4; ++i)
                        left[m](t)[i] = packed(w[2 * k + i / 2][i % 2 * 2], w[2 * k + i / 2][i % 2 * 2 + 1]);
                }
            });
            PLANLOOM_UNROLLED
            for (int j = 0; j < kColumns; ++j) {
                tile.right(
                    block, [&](int t) -> std::uint32_t(&)[4] { return pair(t); }, k * 16,
                    [=](int /*thread*/) { return j * 16; });
                PLANLOOM_UNROLLED
                for (int m = 0; m < M; ++m)
                    PLANLOOM_UNROLLED
                for (int half = 0; half < 2; ++half)
                    multiply(
                        block, [&](int t) -> float(&)[4] { return sums[m](t)[2 * j + half]; },
                        [&](int t) -> std::uint32_t(&)[4] { return left[m](t); },
                        [&](int t) { return pair(t) + 2 * half; });
            }
        }
    }
    PLANLOOM_KERNEL_CODE static void clear(Block &block, Held<Sums> &sums)
    {
        alone(block, [&](int t) {
            PLANLOOM_UNROLLED
            for (int j = 0; j < D / 8; ++j)
                PLANLOOM_UNROLLED
            for (int i = 0; i < 4; ++i)
                sums(t)[j][i] = 0;
        });
    }
    /// Row and column of element @p i of tile @p j of a thread's, within the block's tile and the walked one.
    PLANLOOM_KERNEL_CODE static int rowOf(int t, int i) { return t / kWarp * 16 + t % kWarp / 4 + i / 2 * 8; }
    PLANLOOM_KERNEL_CODE static int columnOf(int t, int j, int i) { return j * 8 + t % 4 * 2 + i % 2; }

    /// Rows of @p sums times their factor(t, 0 or 1) to rows from @p first on at @p to, which are @p stride apart.
    template <class F>
    PLANLOOM_KERNEL_CODE void store(Block &block, Held<Sums> &sums, F factor, std::uint16_t *to, std::int64_t stride,
                                    int first) const
    {
        alone(block, [&](int t) {
            PLANLOOM_UNROLLED
            for (int half = 0; half < 2; ++half) {
                const int token = first + rowOf(t, 2 * half);
                if (token >= tokens())
                    continue;
                const float by = factor(t, half);
                std::uint16_t *row = to + token * stride + t % 4 * 2;
                PLANLOOM_UNROLLED
                for (int j = 0; j < D / 8; ++j) {
                    const std::uint32_t both = packed(sums(t)[j][2 * half] * by, sums(t)[j][2 * half + 1] * by);
                    *reinterpret_cast<std::uint32_t *>(row + j * 8) = both;
                }
            }
        });
    }
};

/// Y, and the logarithm of each query's sum of exponentials.
template <int D>
struct FlashForward : FlashTiles<D> {
    using Tiles = FlashTiles<D>;
    using Tiles::shape;
    static constexpr int kSteps = Tiles::kSteps;
    static constexpr int kM = D == 64 ? 2 : 1; ///< times 16 queries of a warp
    static constexpr int kRows = kM * kFlashRows;
    static_assert(kRows == 2 * kSteps, "the queries come where the values will be");
    /// Floats of Block::extra: two stages of keys and values.
    static constexpr std::int64_t kExtra = 4 * kSteps * D / 2;

    std::uint16_t *y = nullptr; ///< (N, T, heads D)
    float *logSumExp = nullptr; ///< (N, heads, T), or nullptr

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t tilesOfHead() const { return (shape.t + kRows - 1) / kRows; }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t perHead = tilesOfHead();
        for (std::int64_t work = block.index; work < shape.n * shape.heads * perHead; work += block.count)
            query(block,
                  {work / perHead / shape.heads, work / perHead % shape.heads,
                   static_cast<int>(perHead - 1 - work % perHead) * kRows}); // long ones first
    }
    PLANLOOM_KERNEL_CODE void query(Block &block, FlashPlace at) const
    {
        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const std::int64_t kv = at.head / (shape.heads / shape.kvHeads);
        const std::uint16_t *keys = this->qkv(at.sample, shape.heads + kv);
        const std::uint16_t *values = this->qkv(at.sample, shape.heads + shape.kvHeads + kv);
        const auto stage = [&](int number) { return HalfTile<D>{memory + number * kSteps * D}; };

        Copies copies;
        Held<typename Tiles::Row> q[kM];
        this->template fill<kRows>(block, copies, stage(2), this->qkv(at.sample, at.head), this->stride(), at.first);
        copies.close();
        const auto bring = [&](int step) {
            this->template fill<kSteps>(block, copies, stage(step % 2), keys, this->stride(), step * kSteps);
            if (step == 0) { // the queries are still where its values will be
                copies.close();
                copies.template wait<1>();
                meet(block);
                Tiles::leftOf(block, stage(2), q);
                meet(block);
            }
            this->template fill<kSteps>(block, copies, stage(2 + step % 2), values, this->stride(), step * kSteps);
            copies.close();
        };
        const int end = shape.causal != 0 && at.first + kRows < this->tokens() ? at.first + kRows : this->tokens();
        const int steps = (end + kSteps - 1) / kSteps;
        const float scale = shape.scale * kLog2E;
        const std::int64_t *mask = shape.mask != nullptr ? shape.mask + at.sample * shape.t : nullptr;

        Held<typename Tiles::Sums> sums[kM];
        Held<typename Tiles::Scores> scores[kM];
        Held<float[2]> most[kM], total[kM], larger[kM];
        const auto forEach = [](auto f) { // of a thread's rows
            PLANLOOM_UNROLLED
            for (int m = 0; m < kM; ++m)
                PLANLOOM_UNROLLED
            for (int half = 0; half < 2; ++half)
                f(m, half);
        };
        PLANLOOM_UNROLLED
        for (int m = 0; m < kM; ++m)
            Tiles::clear(block, sums[m]);
        alone(block, [&](int t) {
            forEach([&](int m, int half) {
                most[m](t)[half] = -INFINITY;
                total[m](t)[half] = 0;
            });
        });
        bring(0);
        for (int step = 0; step < steps; ++step) {
            if (step + 1 < steps) {
                bring(step + 1);
                copies.template wait<1>();
            } else {
                copies.template wait<0>();
            }
            meet(block);
            Tiles::score(block, q, stage(step % 2), scores);
            const int base = step * kSteps;
            const bool whole =
                mask == nullptr && base + kSteps <= this->tokens() && (shape.causal == 0 || base + kSteps <= at.first);
            alone(block, [&](int t) {
                PLANLOOM_UNROLLED
                for (int m = 0; m < kM; ++m)
                    if (!whole)
                        hide(scores[m](t), at.first + m * kFlashRows, base, t, mask);
                forEach([&](int m, int half) {
                    float top = most[m](t)[half];
                    PLANLOOM_UNROLLED
                    for (int j = 0; j < kSteps / 8; ++j)
                        top = fmaxf(top, fmaxf(scores[m](t)[j][2 * half], scores[m](t)[j][2 * half + 1]));
                    larger[m](t)[half] = top;
                });
            });
            forEach([&](int m, int half) {
                joinFours(
                    block, [&](int t) -> float & { return larger[m](t)[half]; },
                    [](float a, float b) { return fmaxf(a, b); });
            });
            alone(block, [&](int t) {
                forEach([&](int m, int half) {
                    const float now = larger[m](t)[half];
                    const float top = now == -INFINITY ? 0.0F : now * scale;
                    const float keep = powerOfTwo(most[m](t)[half] * scale - top);
                    most[m](t)[half] = now;
                    float sum = total[m](t)[half] * keep;
                    PLANLOOM_UNROLLED
                    for (int j = 0; j < kSteps / 8; ++j)
                        PLANLOOM_UNROLLED
                    for (int i = 2 * half; i < 2 * half + 2; ++i) {
                        float &weight = scores[m](t)[j][i];
                        weight = powerOfTwo(weight * scale - top);
                        sum += weight;
                    }
                    total[m](t)[half] = sum;
                    PLANLOOM_UNROLLED
                    for (int j = 0; j < D / 8; ++j) {
                        sums[m](t)[j][2 * half] *= keep;
                        sums[m](t)[j][2 * half + 1] *= keep;
                    }
                });
            });
            Tiles::addTo(block, sums, scores, stage(2 + step % 2));
            meet(block);
        }
        forEach([&](int m, int half) {
            joinFours(
                block, [&](int t) -> float & { return total[m](t)[half]; }, [](float a, float b) { return a + b; });
        });
        PLANLOOM_UNROLLED
        for (int m = 0; m < kM; ++m)
            this->store(
                block, sums[m],
                [&](int t, int half) { return total[m](t)[half] > 0 ? 1.0F / total[m](t)[half] : 0.0F; },
                y + (at.sample * shape.t * shape.heads + at.head) * D, shape.heads * D, at.first + m * kFlashRows);
        alone(block, [&](int t) {
            if (logSumExp == nullptr || t % 4 != 0)
                return;
            forEach([&](int m, int half) {
                const int token = at.first + m * kFlashRows + Tiles::rowOf(t, 2 * half);
                const float sum = total[m](t)[half];
                if (token < this->tokens())
                    logSumExp[(at.sample * shape.heads + at.head) * shape.t + token] =
                        sum > 0 ? most[m](t)[half] * shape.scale + logf(sum) : 0.0F;
            });
        });
    }

private:
    /// What a query does not see does not count.
    PLANLOOM_KERNEL_CODE void hide(typename Tiles::Scores &scores, int first, int base, int t,
                                   const std::int64_t *mask) const
    {
        PLANLOOM_UNROLLED
        for (int j = 0; j < kSteps / 8; ++j)
            PLANLOOM_UNROLLED
        for (int i = 0; i < 4; ++i) {
            const int key = base + Tiles::columnOf(t, j, i);
            if (key >= this->tokens() || (shape.causal != 0 && key > first + Tiles::rowOf(t, i))
                || (mask != nullptr && mask[key] == 0))
                scores[j][i] = -INFINITY;
        }
    }
};

/// What both gradients read. Weights are computed again from the scores.
template <int D>
struct FlashGradient : FlashTiles<D> {
    using FlashTiles<D>::shape;
    const std::uint16_t *dy = nullptr; ///< (N, T, heads D)
    const float *logSumExp = nullptr;  ///< (N, heads, T)
    const float *means = nullptr;      ///< (N, heads, T): sums of dY Y
    std::uint16_t *dQkv = nullptr;     ///< as qkv

    [[nodiscard]] PLANLOOM_KERNEL_CODE const std::uint16_t *gradient(std::int64_t sample, std::int64_t head) const
    {
        return dy + (sample * shape.t * shape.heads + head) * D;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::uint16_t *result(std::int64_t sample, std::int64_t head) const
    {
        return dQkv + shape.packed(sample, 0, head);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t statistics(std::int64_t sample, std::int64_t head) const
    {
        return (sample * shape.heads + head) * shape.t;
    }
};

/// The sums of dY Y of each query.
template <int D>
struct FlashMeans : FlashGradient<D> {
    using FlashTiles<D>::shape;
    const std::uint16_t *y = nullptr;
    float *made = nullptr;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(shape.n * shape.t * shape.heads, [&](std::int64_t row) {
            const auto *a = reinterpret_cast<const std::uint32_t *>(this->dy + row * D);
            const auto *b = reinterpret_cast<const std::uint32_t *>(y + row * D);
            float sum = 0;
            PLANLOOM_UNROLLED
            for (int i = 0; i < D / 2; i += 4) {
                std::uint32_t left[4], right[4];
                load(left, a + i);
                load(right, b + i);
                PLANLOOM_UNROLLED
                for (int k = 0; k < 4; ++k)
                    sum += widen(static_cast<std::uint16_t>(left[k])) * widen(static_cast<std::uint16_t>(right[k]))
                        + widen(static_cast<std::uint16_t>(left[k] >> 16))
                            * widen(static_cast<std::uint16_t>(right[k] >> 16));
            }
            std::int64_t token = row / shape.heads;
            const std::int64_t head = row % shape.heads;
            const std::int64_t sample = token / shape.t;
            token %= shape.t;
            made[this->statistics(sample, head) + token] = sum;
        });
    }

private:
    PLANLOOM_KERNEL_CODE static void load(std::uint32_t (&to)[4], const std::uint32_t *from)
    {
#ifdef __CUDA_ARCH__
        const uint4 four = *reinterpret_cast<const uint4 *>(from);
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
#else
        memcpy(to, from, sizeof to);
#endif
    }
};

/// dQ: a block has a tile of queries and walks the keys that these see.
template <int D>
struct FlashQueryGradient : FlashGradient<D> {
    using Tiles = FlashTiles<D>;
    using Tiles::shape;
    static constexpr int kSteps = Tiles::kSteps;
    static constexpr std::int64_t kExtra = 4 * kSteps * D / 2; ///< two stages of keys and values

    explicit FlashQueryGradient(const FlashGradient<D> &common) : FlashGradient<D>(common) {}
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t perHead = (shape.t + kFlashRows - 1) / kFlashRows;
        for (std::int64_t work = block.index; work < shape.n * shape.heads * perHead; work += block.count)
            query(block,
                  {work / perHead / shape.heads, work / perHead % shape.heads,
                   static_cast<int>(perHead - 1 - work % perHead) * kFlashRows});
    }
    PLANLOOM_KERNEL_CODE void query(Block &block, FlashPlace at) const
    {
        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const std::int64_t kv = at.head / (shape.heads / shape.kvHeads);
        const std::uint16_t *keys = this->qkv(at.sample, shape.heads + kv);
        const std::uint16_t *values = this->qkv(at.sample, shape.heads + shape.kvHeads + kv);
        const auto stage = [&](int number) { return HalfTile<D>{memory + number * kSteps * D}; };
        const std::int64_t *mask = shape.mask != nullptr ? shape.mask + at.sample * shape.t : nullptr;

        Copies copies;
        Held<typename Tiles::Row> q[1], upper[1];
        this->template fill<kFlashRows>(block, copies, stage(0), this->qkv(at.sample, at.head), this->stride(),
                                        at.first);
        this->template fill<kFlashRows>(block, copies, stage(2), this->gradient(at.sample, at.head), shape.heads * D,
                                        at.first);
        copies.close();
        copies.template wait<0>();
        meet(block);
        Tiles::leftOf(block, stage(0), q);
        Tiles::leftOf(block, stage(2), upper);
        meet(block);

        Held<typename Tiles::Sums> sums[1];
        Held<typename Tiles::Scores> weights[1], gradients[1];
        Held<float[2]> logs, mids;
        Tiles::clear(block, sums[0]);
        alone(block, [&](int t) {
            for (int half = 0; half < 2; ++half) {
                const int token = at.first + Tiles::rowOf(t, 2 * half);
                const std::int64_t row = this->statistics(at.sample, at.head) + token;
                logs(t)[half] = token < this->tokens() ? this->logSumExp[row] * kLog2E : INFINITY;
                mids(t)[half] = token < this->tokens() ? this->means[row] : 0.0F;
            }
        });
        const auto bring = [&](int step) {
            this->template fill<kSteps>(block, copies, stage(step % 2), keys, this->stride(), step * kSteps);
            this->template fill<kSteps>(block, copies, stage(2 + step % 2), values, this->stride(), step * kSteps);
            copies.close();
        };
        const int end =
            shape.causal != 0 && at.first + kFlashRows < this->tokens() ? at.first + kFlashRows : this->tokens();
        const int steps = (end + kSteps - 1) / kSteps;
        const float scale = shape.scale * kLog2E;
        bring(0);
        for (int step = 0; step < steps; ++step) {
            if (step + 1 < steps) {
                bring(step + 1);
                copies.template wait<1>();
            } else {
                copies.template wait<0>();
            }
            meet(block);
            Tiles::score(block, q, stage(step % 2), weights);
            Tiles::score(block, upper, stage(2 + step % 2), gradients);
            const int base = step * kSteps;
            const bool whole =
                mask == nullptr && base + kSteps <= this->tokens() && (shape.causal == 0 || base + kSteps <= at.first);
            alone(block, [&](int t) {
                PLANLOOM_UNROLLED
                for (int j = 0; j < kSteps / 8; ++j)
                    PLANLOOM_UNROLLED
                for (int i = 0; i < 4; ++i) {
                    const int key = base + Tiles::columnOf(t, j, i);
                    const bool seen = whole
                        || (key < this->tokens() && (shape.causal == 0 || key <= at.first + Tiles::rowOf(t, i))
                            && (mask == nullptr || mask[key] != 0));
                    const float weight = seen ? powerOfTwo(weights[0](t)[j][i] * scale - logs(t)[i / 2]) : 0.0F;
                    gradients[0](t)[j][i] = weight * (gradients[0](t)[j][i] - mids(t)[i / 2]);
                }
            });
            Tiles::addTo(block, sums, gradients, stage(step % 2));
            meet(block);
        }
        this->store(
            block, sums[0], [&](int /*t*/, int /*half*/) { return shape.scale; }, this->result(at.sample, at.head),
            this->stride(), at.first);
    }
};

/// dK and dV: a block has a tile of keys and walks the queries that see them, of all heads that share the keys. Scores
/// are turned: a warp has 16 keys.
template <int D>
struct FlashKeyGradient : FlashGradient<D> {
    using Tiles = FlashTiles<D>;
    using Tiles::shape;
    static constexpr int kSteps = Tiles::kSteps;
    /// Floats of Block::extra: two stages of queries, gradients of results, and two numbers for each of them.
    static constexpr std::int64_t kExtra = 4 * kSteps * D / 2 + 4 * kSteps;

    explicit FlashKeyGradient(const FlashGradient<D> &common) : FlashGradient<D>(common) {}
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t perHead = (shape.t + kFlashRows - 1) / kFlashRows;
        for (std::int64_t work = block.index; work < shape.n * shape.kvHeads * perHead; work += block.count)
            keys(block,
                 {work / perHead / shape.kvHeads, work / perHead % shape.kvHeads,
                  static_cast<int>(work % perHead) * kFlashRows});
    }
    PLANLOOM_KERNEL_CODE void keys(Block &block, FlashPlace at) const
    {
        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const std::int64_t group = shape.heads / shape.kvHeads;
        const auto stage = [&](int number) { return HalfTile<D>{memory + number * kSteps * D}; };
        float *statistics = block.extra + 4 * kSteps * D / 2;
        const auto logsOf = [&](int step) { return statistics + step % 2 * 2 * kSteps; };

        Copies copies;
        Held<typename Tiles::Row> k[1], v[1];
        this->template fill<kFlashRows>(block, copies, stage(0), this->qkv(at.sample, shape.heads + at.head),
                                        this->stride(), at.first);
        this->template fill<kFlashRows>(block, copies, stage(2),
                                        this->qkv(at.sample, shape.heads + shape.kvHeads + at.head), this->stride(),
                                        at.first);
        copies.close();
        copies.template wait<0>();
        meet(block);
        Tiles::leftOf(block, stage(0), k);
        Tiles::leftOf(block, stage(2), v);
        meet(block);

        Held<typename Tiles::Sums> dK[1], dV[1];
        Held<typename Tiles::Scores> weights[1], gradients[1];
        Held<bool[2]> seen;
        Tiles::clear(block, dK[0]);
        Tiles::clear(block, dV[0]);
        alone(block, [&](int t) {
            for (int half = 0; half < 2; ++half) {
                const int key = at.first + Tiles::rowOf(t, 2 * half);
                seen(t)[half] =
                    key < this->tokens() && (shape.mask == nullptr || shape.mask[at.sample * shape.t + key] != 0);
            }
        });
        const int begin = shape.causal != 0 ? at.first / kSteps : 0; // the first tile of queries that sees these keys
        const int perHead = (this->tokens() + kSteps - 1) / kSteps - begin;
        const int steps = perHead * static_cast<int>(group);
        const auto bring = [&](int step) {
            const std::int64_t head = at.head * group + step / perHead;
            const int base = (begin + step % perHead) * kSteps;
            this->template fill<kSteps>(block, copies, stage(step % 2), this->qkv(at.sample, head), this->stride(),
                                        base);
            this->template fill<kSteps>(block, copies, stage(2 + step % 2), this->gradient(at.sample, head),
                                        shape.heads * D, base);
            alone(block, [&](int t) {
                if (t >= 2 * kSteps)
                    return;
                const float *from = (t < kSteps ? this->logSumExp : this->means) + this->statistics(at.sample, head);
                const int token = base + t % kSteps;
                const bool there = token < this->tokens();
                copies.template add<4>(logsOf(step) + t, there ? from + token : from, there);
            });
            copies.close();
        };
        const float scale = shape.scale * kLog2E;
        bring(0);
        for (int step = 0; step < steps; ++step) {
            if (step + 1 < steps) {
                bring(step + 1);
                copies.template wait<1>();
            } else {
                copies.template wait<0>();
            }
            meet(block);
            Tiles::score(block, k, stage(step % 2), weights);
            const int base = (begin + step % perHead) * kSteps;
            const float *logs = logsOf(step);
            const bool whole = base + kSteps <= this->tokens() && (shape.causal == 0 || base >= at.first + kFlashRows);
            alone(block, [&](int t) {
                PLANLOOM_UNROLLED
                for (int j = 0; j < kSteps / 8; ++j)
                    PLANLOOM_UNROLLED
                for (int i = 0; i < 4; ++i) {
                    const int column = Tiles::columnOf(t, j, i);
                    const bool sees = seen(t)[i / 2]
                        && (whole
                            || (base + column < this->tokens()
                                && (shape.causal == 0 || at.first + Tiles::rowOf(t, i) <= base + column)));
                    weights[0](t)[j][i] = sees ? powerOfTwo(weights[0](t)[j][i] * scale - logs[column] * kLog2E) : 0.0F;
                }
            });
            Tiles::addTo(block, dV, weights, stage(2 + step % 2));
            Tiles::score(block, v, stage(2 + step % 2), gradients);
            alone(block, [&](int t) {
                PLANLOOM_UNROLLED
                for (int j = 0; j < kSteps / 8; ++j)
                    PLANLOOM_UNROLLED
                for (int i = 0; i < 4; ++i)
                    gradients[0](t)[j][i] =
                        weights[0](t)[j][i] * (gradients[0](t)[j][i] - logs[kSteps + Tiles::columnOf(t, j, i)]);
            });
            Tiles::addTo(block, dK, gradients, stage(step % 2));
            meet(block);
        }
        this->store(
            block, dK[0], [&](int /*t*/, int /*half*/) { return shape.scale; },
            this->result(at.sample, shape.heads + at.head), this->stride(), at.first);
        this->store(
            block, dV[0], [](int /*t*/, int /*half*/) { return 1.0F; },
            this->result(at.sample, shape.heads + shape.kvHeads + at.head), this->stride(), at.first);
    }
};

} // namespace planloom::cuda
