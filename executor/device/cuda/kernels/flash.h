// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/attention.h"
#include "executor/device/cuda/kernels/groups.h"

// Attention in bfloat16 on tensor cores (Dao, FlashAttention-2, 2023, sections 3.1 and 3.2), for heads of D = 64 or
// 128. A warp has 16 rows of a tile, and what it makes of them stays in its registers: scores are one product's result
// and the next one's left factor. Gradients are made by two kernels, each sum by one warp in a fixed order: the same
// bits every time.
namespace planloom::cuda {

inline constexpr int kFlashThreads = 128;
inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kLn2 = 0.6931471805599453F;

/// Where a block works.
struct FlashPlace {
    std::int64_t sample, head;
    int first; ///< token
};

/// What the kernels have in common: a warp has M times 16 rows of its block's tile, blocks walk tiles of @p Steps rows.
template <int D, int M, int Steps>
struct FlashTiles {
    static constexpr int kSteps = Steps;
    static constexpr int kRows = 4 * 16 * M;   ///< of a block's own tile
    static constexpr int kColumns = D / 16;    ///< of 16 elements
    static constexpr int kStage = kSteps * D;  ///< elements
    using Row = std::uint32_t[M][kColumns][4]; ///< a warp's rows, as left factors
    using Scores = float[M][kSteps / 8][4];
    using Sums = float[M][D / 8][4];
    using Each = float[M][2]; ///< a number for each row of a thread

    AttentionShape shape;

    [[nodiscard]] PLANLOOM_KERNEL_CODE int tokens() const { return static_cast<int>(shape.t); }
    [[nodiscard]] PLANLOOM_KERNEL_CODE const std::uint16_t *qkv(std::int64_t sample, std::int64_t head) const
    {
        return static_cast<const std::uint16_t *>(shape.qkv.data) + shape.packed(sample, 0, head);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t stride() const { return (shape.heads + 2 * shape.kvHeads) * D; }
    /// Tiles of the tokens of a head.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t tilesOfHead() const { return (shape.t + kRows - 1) / kRows; }

    /// f(m, row of two that are 8 apart) of a thread.
    template <class F>
    PLANLOOM_KERNEL_CODE static void forRows(F f)
    {
        unrolled<2 * M>([&](int i) { f(i / 2, i % 2); });
    }
    /// f(j, i) for a thread's elements of the scores in each row of m: those of a column follow each other.
    template <class F>
    PLANLOOM_KERNEL_CODE static void forColumns(F f)
    {
        unrolled<kSteps / 2>([&](int j) { f(j / 4, j % 4); });
    }
    /// The same in row @p half of two.
    template <class F>
    PLANLOOM_KERNEL_CODE static void forScores(int half, F f)
    {
        unrolled<kSteps / 4>([&](int j) { f(j / 2, 2 * half + j % 2); });
    }
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
    /// A warp's rows of a tile of kRows.
    PLANLOOM_KERNEL_CODE static void leftOf(Block &block, HalfTile<D> tile, Held<Row> &row)
    {
        unrolled<M * kColumns>([&](int k) {
            tile.left(
                block, [&](int t) -> std::uint32_t(&)[4] { return row(t)[k / kColumns][k % kColumns]; },
                [=](int t) { return (t / kWarp * M + k / kColumns) * 16; }, k % kColumns * 16);
        });
    }
    /// scores = rows times the transpose of a tile of kSteps rows.
    PLANLOOM_KERNEL_CODE static void score(Block &block, Held<Row> &row, HalfTile<D> tile, Held<Scores> &scores)
    {
        Held<std::uint32_t[4]> pair;
        alone(block, [&](int t) {
            unrolled<M * kSteps / 2>([&](int i) { scores(t)[i / (kSteps / 2)][i / 4 % (kSteps / 8)][i % 4] = 0; });
        });
        unrolled<kColumns>([&](int k) {
            unrolled<kSteps / 16>([&](int j) {
                tile.rightTurned(
                    block, [&](int t) -> std::uint32_t(&)[4] { return pair(t); }, j * 16, k * 16);
                forRows([&](int m, int half) {
                    multiply(
                        block, [&](int t) -> float(&)[4] { return scores(t)[m][2 * j + half]; },
                        [&](int t) -> std::uint32_t(&)[4] { return row(t)[m][k]; },
                        [&](int t) { return pair(t) + 2 * half; });
                });
            });
        });
    }
    /// sums += weights, rounded to bfloat16, times a tile of kSteps rows.
    PLANLOOM_KERNEL_CODE static void addTo(Block &block, Held<Sums> &sums, Held<Scores> &weights, HalfTile<D> tile)
    {
        Held<std::uint32_t[M][4]> left;
        Held<std::uint32_t[4]> pair;
        unrolled<kSteps / 16>([&](int k) {
            alone(block, [&](int t) {
                unrolled<4 * M>([&](int i) {
                    const auto &w = weights(t)[i / 4][2 * k + i % 4 / 2];
                    left(t)[i / 4][i % 4] = packed(w[i % 2 * 2], w[i % 2 * 2 + 1]);
                });
            });
            unrolled<kColumns>([&](int j) {
                tile.right(
                    block, [&](int t) -> std::uint32_t(&)[4] { return pair(t); }, k * 16,
                    [=](int /*thread*/) { return j * 16; });
                forRows([&](int m, int half) {
                    multiply(
                        block, [&](int t) -> float(&)[4] { return sums(t)[m][2 * j + half]; },
                        [&](int t) -> std::uint32_t(&)[4] { return left(t)[m]; },
                        [&](int t) { return pair(t) + 2 * half; });
                });
            });
        });
    }
    PLANLOOM_KERNEL_CODE static void clear(Block &block, Held<Sums> &sums)
    {
        alone(block,
              [&](int t) { unrolled<M * D / 2>([&](int i) { sums(t)[i / (D / 2)][i / 4 % (D / 8)][i % 4] = 0; }); });
    }
    /// A row of a thread's in the block's tile, and the column of element @p i of tile @p j in the walked one.
    PLANLOOM_KERNEL_CODE static int rowOf(int t, int m, int half)
    {
        return (t / kWarp * M + m) * 16 + t % kWarp / 4 + half * 8;
    }
    PLANLOOM_KERNEL_CODE static int columnOf(int t, int j, int i) { return j * 8 + t % 4 * 2 + i % 2; }

    /// Rows of @p sums times their factor(t, m, half) to rows from @p first on at @p to, which are @p stride apart.
    template <class F>
    PLANLOOM_KERNEL_CODE void store(Block &block, Held<Sums> &sums, F factor, std::uint16_t *to, std::int64_t stride,
                                    int first) const
    {
        alone(block, [&](int t) {
            forRows([&](int m, int half) {
                const int token = first + rowOf(t, m, half);
                if (token >= tokens())
                    return;
                const float by = factor(t, m, half);
                std::uint16_t *row = to + token * stride + t % 4 * 2;
                unrolled<D / 8>([&](int j) {
                    const auto &two = sums(t)[m][j];
                    *reinterpret_cast<std::uint32_t *>(row + j * 8) =
                        packed(two[2 * half] * by, two[2 * half + 1] * by);
                });
            });
        });
    }
    /// The four threads of each row joined.
    template <class J>
    PLANLOOM_KERNEL_CODE static void joinRows(Block &block, Held<Each> &each, J join)
    {
        forRows([&](int m, int half) {
            joinFours(
                block, [&](int t) -> float & { return each(t)[m][half]; }, join);
        });
    }
};

/// Y, and the logarithm of each query's sum of exponentials.
template <int D>
struct FlashForward : FlashTiles<D, D == 64 ? 2 : 1, D == 64 ? 64 : 32> {
    using Tiles = FlashTiles<D, D == 64 ? 2 : 1, D == 64 ? 64 : 32>;
    using Tiles::shape;
    static constexpr int kSteps = Tiles::kSteps;
    /// Floats of Block::extra: two stages of keys and values.
    static constexpr std::int64_t kExtra = 4 * Tiles::kStage / 2;
    static_assert(2 * Tiles::kStage == Tiles::kRows * D, "the queries come where the values will be");

    std::uint16_t *y = nullptr; ///< (N, T, heads D)
    float *logSumExp = nullptr; ///< (N, heads, T), or nullptr

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t perHead = this->tilesOfHead();
        for (std::int64_t work = block.index; work < shape.n * shape.heads * perHead; work += block.count)
            query(block,
                  {work / perHead / shape.heads, work / perHead % shape.heads,
                   static_cast<int>(perHead - 1 - work % perHead) * Tiles::kRows}); // long ones first
    }
    PLANLOOM_KERNEL_CODE void query(Block &block, FlashPlace at) const
    {
        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const std::int64_t kv = at.head / (shape.heads / shape.kvHeads);
        const std::uint16_t *keys = this->qkv(at.sample, shape.heads + kv);
        const std::uint16_t *values = this->qkv(at.sample, shape.heads + shape.kvHeads + kv);
        const auto stage = [&](int number) { return HalfTile<D>{memory + number * Tiles::kStage}; };

        Copies copies;
        Held<typename Tiles::Row> q;
        this->template fill<Tiles::kRows>(block, copies, stage(2), this->qkv(at.sample, at.head), this->stride(),
                                          at.first);
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
        const int end =
            shape.causal != 0 && at.first + Tiles::kRows < this->tokens() ? at.first + Tiles::kRows : this->tokens();
        const int steps = (end + kSteps - 1) / kSteps;
        const float scale = shape.scale * kLog2E;
        const std::int64_t *mask = shape.mask != nullptr ? shape.mask + at.sample * shape.t : nullptr;

        Held<typename Tiles::Sums> sums;
        Held<typename Tiles::Scores> scores;
        Held<typename Tiles::Each> most, total, larger;
        Tiles::clear(block, sums);
        alone(block, [&](int t) {
            Tiles::forRows([&](int m, int half) {
                most(t)[m][half] = -INFINITY;
                total(t)[m][half] = 0;
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
                Tiles::forRows([&](int m, int half) {
                    if (!whole)
                        hide(scores(t)[m], at.first + Tiles::rowOf(t, m, half), half, base, t, mask);
                    float top = most(t)[m][half];
                    Tiles::forScores(half, [&](int j, int i) { top = fmaxf(top, scores(t)[m][j][i]); });
                    larger(t)[m][half] = top;
                });
            });
            Tiles::joinRows(block, larger, [](float a, float b) { return fmaxf(a, b); });
            alone(block, [&](int t) {
                Tiles::forRows([&](int m, int half) {
                    const float now = larger(t)[m][half];
                    const float top = now == -INFINITY ? 0.0F : now * scale;
                    const float keep = powerOfTwo(most(t)[m][half] * scale - top);
                    most(t)[m][half] = now;
                    float sum = total(t)[m][half] * keep;
                    Tiles::forScores(half, [&](int j, int i) {
                        float &weight = scores(t)[m][j][i];
                        weight = powerOfTwo(weight * scale - top);
                        sum += weight;
                    });
                    total(t)[m][half] = sum;
                    unrolled<D / 8>([&](int j) {
                        sums(t)[m][j][2 * half] *= keep;
                        sums(t)[m][j][2 * half + 1] *= keep;
                    });
                });
            });
            Tiles::addTo(block, sums, scores, stage(2 + step % 2));
            meet(block);
        }
        Tiles::joinRows(block, total, [](float a, float b) { return a + b; });
        this->store(
            block, sums,
            [&](int t, int m, int half) { return total(t)[m][half] > 0 ? 1.0F / total(t)[m][half] : 0.0F; },
            y + (at.sample * shape.t * shape.heads + at.head) * D, shape.heads * D, at.first);
        alone(block, [&](int t) {
            if (logSumExp == nullptr || t % 4 != 0)
                return;
            Tiles::forRows([&](int m, int half) {
                const int token = at.first + Tiles::rowOf(t, m, half);
                if (token < this->tokens())
                    logSumExp[(at.sample * shape.heads + at.head) * shape.t + token] =
                        total(t)[m][half] > 0 ? most(t)[m][half] * shape.scale + logf(total(t)[m][half]) : 0.0F;
            });
        });
    }

private:
    /// What query @p token does not see does not count.
    PLANLOOM_KERNEL_CODE void hide(float (&scores)[kSteps / 8][4], int token, int half, int base, int t,
                                   const std::int64_t *mask) const
    {
        Tiles::forScores(half, [&](int j, int i) {
            const int key = base + Tiles::columnOf(t, j, i);
            if (key >= this->tokens() || (shape.causal != 0 && key > token) || (mask != nullptr && mask[key] == 0))
                scores[j][i] = -INFINITY;
        });
    }
};

/// What both gradients read. Weights are computed again from the scores.
struct FlashSaved {
    AttentionShape shape;
    const std::uint16_t *dy = nullptr; ///< (N, T, heads D)
    const float *logSumExp = nullptr;  ///< (N, heads, T)
    const float *means = nullptr;      ///< (N, heads, T): sums of dY Y
    std::uint16_t *dQkv = nullptr;     ///< as qkv
};

/// The same with a kernel's tiles.
template <int D, int M, int Steps>
struct FlashGradient : FlashTiles<D, M, Steps> {
    using FlashTiles<D, M, Steps>::shape;
    FlashSaved saved;

    explicit FlashGradient(const FlashSaved &given) : saved(given) { shape = given.shape; }
    [[nodiscard]] PLANLOOM_KERNEL_CODE const std::uint16_t *gradient(std::int64_t sample, std::int64_t head) const
    {
        return saved.dy + (sample * shape.t * shape.heads + head) * D;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::uint16_t *result(std::int64_t sample, std::int64_t head) const
    {
        return saved.dQkv + shape.packed(sample, 0, head);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t statistics(std::int64_t sample, std::int64_t head) const
    {
        return (sample * shape.heads + head) * shape.t;
    }
};

template <int D>
using FlashSteps = FlashGradient<D, 1, D == 64 ? 64 : 32>;

/// The sums of dY Y of each query.
template <int D>
struct FlashMeans {
    FlashSaved saved;
    const std::uint16_t *y = nullptr;
    float *made = nullptr; ///< saved.means

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = saved.shape;
        block.grid(s.n * s.t * s.heads, [&](std::int64_t row) {
            float sum = 0;
            unrolled<D / 8>([&](int i) {
                float a[8], b[8];
                loadSeveral(From{saved.dy, Kind::BF16}, row * D + i * 8, a);
                loadSeveral(From{y, Kind::BF16}, row * D + i * 8, b);
                unrolled<8>([&](int k) { sum += a[k] * b[k]; });
            });
            std::int64_t token = row;
            const std::int64_t head = restOf(token, s.heads);
            std::int64_t sample = token;
            token = restOf(sample, s.t);
            made[(sample * s.heads + head) * s.t + token] = sum;
        });
    }
};

/// dQ: a block has a tile of queries and walks the keys that these see.
template <int D>
struct FlashQueryGradient : FlashSteps<D> {
    using Tiles = FlashTiles<D, 1, D == 64 ? 64 : 32>;
    using Tiles::shape;
    static constexpr int kSteps = Tiles::kSteps;
    /// Floats of Block::extra: at first the queries and gradients, then two stages of keys and values.
    static constexpr std::int64_t kExtra = 4 * Tiles::kStage / 2;
    static_assert(2 * Tiles::kRows * D <= 4 * Tiles::kStage, "");

    explicit FlashQueryGradient(const FlashSaved &given) : FlashSteps<D>(given) {}
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t perHead = this->tilesOfHead();
        for (std::int64_t work = block.index; work < shape.n * shape.heads * perHead; work += block.count)
            query(block,
                  {work / perHead / shape.heads, work / perHead % shape.heads,
                   static_cast<int>(perHead - 1 - work % perHead) * Tiles::kRows});
    }
    PLANLOOM_KERNEL_CODE void query(Block &block, FlashPlace at) const
    {
        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const std::int64_t kv = at.head / (shape.heads / shape.kvHeads);
        const std::uint16_t *keys = this->qkv(at.sample, shape.heads + kv);
        const std::uint16_t *values = this->qkv(at.sample, shape.heads + shape.kvHeads + kv);
        const auto stage = [&](int number) { return HalfTile<D>{memory + number * Tiles::kStage}; };
        const std::int64_t *mask = shape.mask != nullptr ? shape.mask + at.sample * shape.t : nullptr;

        Copies copies;
        Held<typename Tiles::Row> q, upper;
        const HalfTile<D> first{memory}, second{memory + Tiles::kRows * D};
        this->template fill<Tiles::kRows>(block, copies, first, this->qkv(at.sample, at.head), this->stride(),
                                          at.first);
        this->template fill<Tiles::kRows>(block, copies, second, this->gradient(at.sample, at.head), shape.heads * D,
                                          at.first);
        copies.close();
        copies.template wait<0>();
        meet(block);
        Tiles::leftOf(block, first, q);
        Tiles::leftOf(block, second, upper);
        meet(block);

        Held<typename Tiles::Sums> sums;
        Held<typename Tiles::Scores> weights, gradients;
        Held<typename Tiles::Each> logs, mids;
        Tiles::clear(block, sums);
        alone(block, [&](int t) {
            Tiles::forRows([&](int m, int half) {
                const int token = at.first + Tiles::rowOf(t, m, half);
                const std::int64_t row = this->statistics(at.sample, at.head) + token;
                logs(t)[m][half] = token < this->tokens() ? this->saved.logSumExp[row] * kLog2E : INFINITY;
                mids(t)[m][half] = token < this->tokens() ? this->saved.means[row] : 0.0F;
            });
        });
        const auto bring = [&](int step) {
            this->template fill<kSteps>(block, copies, stage(step % 2), keys, this->stride(), step * kSteps);
            this->template fill<kSteps>(block, copies, stage(2 + step % 2), values, this->stride(), step * kSteps);
            copies.close();
        };
        const int end =
            shape.causal != 0 && at.first + Tiles::kRows < this->tokens() ? at.first + Tiles::kRows : this->tokens();
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
                const auto weigh = [&](auto sees) {
                    Tiles::forColumns([&](int j, int i) {
                        const float exponent = weights(t)[0][j][i] * scale - logs(t)[0][i / 2];
                        const float weight = sees(j, i) ? powerOfTwo(exponent) : 0.0F;
                        float &gradient = gradients(t)[0][j][i];
                        gradient = weight * (gradient - mids(t)[0][i / 2]);
                    });
                };
                if (whole)
                    weigh([](int, int) { return true; });
                else
                    weigh([&](int j, int i) {
                        const int key = base + Tiles::columnOf(t, j, i);
                        return key < this->tokens()
                            && (shape.causal == 0 || key <= at.first + Tiles::rowOf(t, 0, i / 2))
                            && (mask == nullptr || mask[key] != 0);
                    });
            });
            Tiles::addTo(block, sums, gradients, stage(step % 2));
            meet(block);
        }
        this->store(
            block, sums, [&](int /*t*/, int /*m*/, int /*half*/) { return shape.scale; },
            this->result(at.sample, at.head), this->stride(), at.first);
    }
};

/// dK and dV: a block has a tile of keys and walks the queries that see them, of all heads that share the keys. Scores
/// are turned: a warp has 16 keys.
template <int D>
struct FlashKeyGradient : FlashSteps<D> {
    using Tiles = FlashTiles<D, 1, D == 64 ? 64 : 32>;
    using Tiles::shape;
    static constexpr int kSteps = Tiles::kSteps;
    /// Floats of Block::extra: two stages of queries, gradients of results, and two numbers for each of them.
    static constexpr std::int64_t kExtra = 4 * Tiles::kStage / 2 + 4 * kSteps;

    explicit FlashKeyGradient(const FlashSaved &given) : FlashSteps<D>(given) {}
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t perHead = this->tilesOfHead();
        for (std::int64_t work = block.index; work < shape.n * shape.kvHeads * perHead; work += block.count)
            keys(block,
                 {work / perHead / shape.kvHeads, work / perHead % shape.kvHeads,
                  static_cast<int>(work % perHead) * Tiles::kRows});
    }
    PLANLOOM_KERNEL_CODE void keys(Block &block, FlashPlace at) const
    {
        auto *memory = reinterpret_cast<std::uint16_t *>(block.extra);
        const std::int64_t group = shape.heads / shape.kvHeads;
        const auto stage = [&](int number) { return HalfTile<D>{memory + number * Tiles::kStage}; };
        float *statistics = block.extra + 4 * Tiles::kStage / 2;
        const auto logsOf = [&](int step) { return statistics + step % 2 * 2 * kSteps; };

        Copies copies;
        Held<typename Tiles::Row> k, v;
        this->template fill<Tiles::kRows>(block, copies, stage(0), this->qkv(at.sample, shape.heads + at.head),
                                          this->stride(), at.first);
        this->template fill<Tiles::kRows>(block, copies, stage(2),
                                          this->qkv(at.sample, shape.heads + shape.kvHeads + at.head), this->stride(),
                                          at.first);
        copies.close();
        copies.template wait<0>();
        meet(block);
        Tiles::leftOf(block, stage(0), k);
        Tiles::leftOf(block, stage(2), v);
        meet(block);

        Held<typename Tiles::Sums> dK, dV;
        Held<typename Tiles::Scores> weights, gradients;
        Held<bool[2]> seen;
        Tiles::clear(block, dK);
        Tiles::clear(block, dV);
        alone(block, [&](int t) {
            for (int half = 0; half < 2; ++half) {
                const int key = at.first + Tiles::rowOf(t, 0, half);
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
                const float *from =
                    (t < kSteps ? this->saved.logSumExp : this->saved.means) + this->statistics(at.sample, head);
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
            const bool whole =
                base + kSteps <= this->tokens() && (shape.causal == 0 || base >= at.first + Tiles::kRows);
            alone(block, [&](int t) {
                const auto weigh = [&](auto sees) {
                    Tiles::forColumns([&](int j, int i) {
                        float &weight = weights(t)[0][j][i];
                        const float exponent = weight * scale - logs[Tiles::columnOf(t, j, i)] * kLog2E;
                        weight = seen(t)[i / 2] && sees(j, i) ? powerOfTwo(exponent) : 0.0F;
                    });
                };
                if (whole)
                    weigh([](int, int) { return true; });
                else
                    weigh([&](int j, int i) {
                        const int query = base + Tiles::columnOf(t, j, i);
                        return query < this->tokens()
                            && (shape.causal == 0 || at.first + Tiles::rowOf(t, 0, i / 2) <= query);
                    });
            });
            Tiles::addTo(block, dV, weights, stage(2 + step % 2));
            Tiles::score(block, v, stage(2 + step % 2), gradients);
            alone(block, [&](int t) {
                Tiles::forColumns([&](int j, int i) {
                    float &gradient = gradients(t)[0][j][i];
                    gradient = weights(t)[0][j][i] * (gradient - logs[kSteps + Tiles::columnOf(t, j, i)]);
                });
            });
            Tiles::addTo(block, dK, gradients, stage(step % 2));
            meet(block);
        }
        this->store(
            block, dK, [&](int /*t*/, int /*m*/, int /*half*/) { return shape.scale; },
            this->result(at.sample, shape.heads + at.head), this->stride(), at.first);
        this->store(
            block, dV, [](int /*t*/, int /*m*/, int /*half*/) { return 1.0F; },
            this->result(at.sample, shape.heads + shape.kvHeads + at.head), this->stride(), at.first);
    }
};

} // namespace planloom::cuda
