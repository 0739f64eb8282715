// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

// Attention whose matrix of scores is never stored (Dao et al., FlashAttention, 2022, section 3.1; its gradient by
// tiles as in Dao, FlashAttention-2, 2023, section 3.1), by tiles of queries and keys in shared memory, without tensor
// cores.
namespace planloom::cuda {

/// Queries, keys and values as they lie in (N, T, (heads + 2 kvHeads) D). A query sees keys up to itself if causal, and
/// those whose mask (N, T) is not 0.
struct AttentionShape {
    From qkv;
    const std::int64_t *mask = nullptr;
    std::int64_t n = 0, t = 0, heads = 0, kvHeads = 0, d = 0;
    float scale = 1;
    int causal = 0;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t packed(std::int64_t sample, std::int64_t token,
                                                           std::int64_t head) const
    {
        return ((sample * t + token) * (heads + 2 * kvHeads) + head) * d;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool sees(std::int64_t sample, std::int64_t query, std::int64_t key) const
    {
        return (causal == 0 || key <= query) && (mask == nullptr || mask[sample * t + key] != 0);
    }
};

/// Rows of a tile in shared memory, each a float longer than D, so that threads on neighbouring rows do not wait for
/// each other.
struct TileRows {
    float *data = nullptr;
    std::int64_t d = 0;
    [[nodiscard]] PLANLOOM_KERNEL_CODE float *row(std::int64_t number) const { return data + number * (d + 1); }
    /// The memory behind @p rows of them.
    [[nodiscard]] PLANLOOM_KERNEL_CODE float *behind(std::int64_t rows) const { return row(rows); }

    /// Rows [0, rows): f(row, element), which is 0 for those at @p known and behind.
    template <class F>
    PLANLOOM_KERNEL_CODE void fill(Block &block, std::int64_t rows, std::int64_t known, F f) const
    {
        block.items(rows * d, [&](std::int64_t i) { row(i / d)[i % d] = i / d < known ? f(i / d, i % d) : 0.0F; });
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE static float dot(const float *a, const float *b, std::int64_t n)
    {
        float sum = 0;
        for (std::int64_t i = 0; i < n; ++i)
            sum += a[i] * b[i];
        return sum;
    }
};

PLANLOOM_KERNEL_CODE std::int64_t leastOf(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Su et al., RoFormer, 2021, in the half-split form of LLaMA's checkpoints: of queries and keys, element i of a head
/// turns together with element i + D / 2.
struct Rotate {
    From x;
    To y;
    const float *cosines = nullptr; ///< (T, pairs), then as many sines
    std::int64_t t = 0, half = 0, turned = 0, heads = 0, tokens = 0;
    std::int64_t pairs = 0; ///< half at most; the elements behind them stay
    float direction = 1;    ///< -1: back
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(tokens * heads * half, [&](std::int64_t number) {
            const std::int64_t i = number % half;
            const std::int64_t head = number / half % heads;
            const std::int64_t token = number / half / heads;
            const bool turns = head < turned && i < pairs;
            const std::int64_t at = (token * heads + head) * 2 * half + (i < pairs ? i : i + pairs);
            const std::int64_t partner = at + (i < pairs ? pairs : half - pairs);
            const float a = x.at(at);
            const float b = x.at(partner);
            const std::int64_t angle = token % t * pairs + i;
            const float cosine = turns ? cosines[angle] : 1.0F;
            const float sine = turns ? direction * cosines[t * pairs + angle] : 0.0F;
            y.put(at, a * cosine - b * sine);
            y.put(partner, b * cosine + a * sine);
        });
    }
};

/// Tiles of @c queries x @c keys.
struct AttentionTiles {
    std::int64_t queries = 16, keys = 32;
    /// Floats of Block::extra that the three kernels need.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t forward(std::int64_t d) const
    {
        return 2 * (queries + keys) * (d + 1) + queries * (keys + 3);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t queryGradient(std::int64_t d) const
    {
        return (3 * queries + 2 * keys) * (d + 1) + queries * keys;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t keyGradient(std::int64_t d) const
    {
        return (2 * queries + 4 * keys) * (d + 1) + 2 * queries * keys;
    }
};

/// A block makes a tile of queries' results, key tile by key tile.
struct AttentionForward {
    AttentionShape shape;
    AttentionTiles tiles;
    To y;         ///< (N, T, heads D)
    To logSumExp; ///< (N, heads, T); data may be nullptr
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = shape;
        const std::int64_t perHead = (s.t + tiles.queries - 1) / tiles.queries;
        const TileRows q{block.extra, s.d};
        const TileRows sums{q.behind(tiles.queries), s.d};
        const TileRows k{sums.behind(tiles.queries), s.d};
        const TileRows v{k.behind(tiles.keys), s.d};
        float *weights = v.behind(tiles.keys);
        float *most = weights + tiles.queries * tiles.keys;
        float *total = most + tiles.queries;
        float *keep = total + tiles.queries;
        for (std::int64_t work = block.index; work < s.n * s.heads * perHead; work += block.count) {
            const std::int64_t first = work % perHead * tiles.queries;
            const std::int64_t head = work / perHead % s.heads;
            const std::int64_t sample = work / perHead / s.heads;
            const std::int64_t kv = head / (s.heads / s.kvHeads);
            const std::int64_t known = leastOf(tiles.queries, s.t - first);
            q.fill(block, tiles.queries, known, [&](std::int64_t row, std::int64_t i) {
                return s.qkv.at(s.packed(sample, first + row, head) + i) * s.scale;
            });
            sums.fill(block, tiles.queries, 0, [](std::int64_t, std::int64_t) { return 0.0F; });
            block.items(tiles.queries, [&](std::int64_t row) {
                most[row] = -INFINITY;
                total[row] = 0;
            });
            const std::int64_t end = s.causal != 0 ? first + known : s.t;
            for (std::int64_t base = 0; base < end; base += tiles.keys) {
                const std::int64_t keys = leastOf(tiles.keys, s.t - base);
                k.fill(block, tiles.keys, keys, [&](std::int64_t row, std::int64_t i) {
                    return s.qkv.at(s.packed(sample, base + row, s.heads + kv) + i);
                });
                v.fill(block, tiles.keys, keys, [&](std::int64_t row, std::int64_t i) {
                    return s.qkv.at(s.packed(sample, base + row, s.heads + s.kvHeads + kv) + i);
                });
                block.items(tiles.queries * tiles.keys, [&](std::int64_t i) {
                    const std::int64_t query = i / tiles.keys;
                    const std::int64_t key = i % tiles.keys;
                    const bool seen = query < known && key < keys && s.sees(sample, first + query, base + key);
                    weights[i] = seen ? TileRows::dot(q.row(query), k.row(key), s.d) : -INFINITY;
                });
                block.items(tiles.queries, [&](std::int64_t row) {
                    float larger = most[row];
                    for (std::int64_t key = 0; key < keys; ++key)
                        larger = larger < weights[row * tiles.keys + key] ? weights[row * tiles.keys + key] : larger;
                    keep[row] = larger == -INFINITY ? 1.0F : expf(most[row] - larger);
                    most[row] = larger;
                });
                block.items(tiles.queries * tiles.keys, [&](std::int64_t i) {
                    const float larger = most[i / tiles.keys];
                    weights[i] = larger == -INFINITY ? 0.0F : expf(weights[i] - larger);
                });
                block.items(tiles.queries, [&](std::int64_t row) {
                    float sum = 0;
                    for (std::int64_t key = 0; key < keys; ++key)
                        sum += weights[row * tiles.keys + key];
                    total[row] = total[row] * keep[row] + sum;
                });
                block.items(tiles.queries * s.d, [&](std::int64_t i) {
                    const std::int64_t row = i / s.d;
                    float sum = sums.row(row)[i % s.d] * keep[row];
                    for (std::int64_t key = 0; key < keys; ++key)
                        sum += weights[row * tiles.keys + key] * v.row(key)[i % s.d];
                    sums.row(row)[i % s.d] = sum;
                });
            }
            block.items(known * s.d, [&](std::int64_t i) {
                const std::int64_t row = i / s.d;
                const float all = total[row];
                y.put(((sample * s.t + first + row) * s.heads + head) * s.d + i % s.d,
                      all > 0 ? sums.row(row)[i % s.d] / all : 0.0F);
                if (i % s.d == 0 && logSumExp.data != nullptr)
                    logSumExp.put((sample * s.heads + head) * s.t + first + row,
                                  all > 0 ? most[row] + logf(all) : 0.0F);
            });
        }
    }
};

/// What the gradient reads of the forward pass, and the sum of dY Y of each query, which AttentionMeans makes.
struct AttentionSaved {
    From dy, y, logSumExp;
    float *means = nullptr; ///< (N, heads, T)

    /// Where row @p token of @p head begins in Y.
    [[nodiscard]] PLANLOOM_KERNEL_CODE static std::int64_t rowOf(const AttentionShape &s, std::int64_t sample,
                                                                 std::int64_t token, std::int64_t head)
    {
        return ((sample * s.t + token) * s.heads + head) * s.d;
    }
};

/// Per row, the sum of dO * O, which the gradient of the softmax subtracts.
struct AttentionMeans {
    AttentionShape shape;
    AttentionSaved saved;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = shape;
        block.grid(s.n * s.heads * s.t, [&](std::int64_t row) {
            const std::int64_t at = AttentionSaved::rowOf(s, row / s.t / s.heads, row % s.t, row / s.t % s.heads);
            float sum = 0;
            for (std::int64_t i = 0; i < s.d; ++i)
                sum += saved.dy.at(at + i) * saved.y.at(at + i);
            saved.means[row] = sum;
        });
    }
};

/// Both gradients compute a tile's weights again, and the gradients of its scores.
struct AttentionGradientTile {
    const AttentionShape &s;
    const AttentionSaved &saved;
    TileRows q, dy, k, v; ///< q times the scale

    /// Of @p query and @p key of the tiles, which begin at @p firstQuery and @p firstKey.
    PLANLOOM_KERNEL_CODE void weigh(std::int64_t sample, std::int64_t head, std::int64_t firstQuery, std::int64_t query,
                                    std::int64_t firstKey, std::int64_t key, float &weight, float &gradient) const
    {
        weight = gradient = 0;
        if (firstQuery + query >= s.t || firstKey + key >= s.t || !s.sees(sample, firstQuery + query, firstKey + key))
            return;
        const std::int64_t row = (sample * s.heads + head) * s.t + firstQuery + query;
        weight = expf(TileRows::dot(q.row(query), k.row(key), s.d) - saved.logSumExp.at(row));
        gradient = weight * (TileRows::dot(dy.row(query), v.row(key), s.d) - saved.means[row]);
    }
    PLANLOOM_KERNEL_CODE void loadQueries(Block &block, std::int64_t sample, std::int64_t head, std::int64_t first,
                                          std::int64_t count) const
    {
        const std::int64_t known = leastOf(count, s.t - first);
        q.fill(block, count, known, [&](std::int64_t row, std::int64_t i) {
            return s.qkv.at(s.packed(sample, first + row, head) + i) * s.scale;
        });
        dy.fill(block, count, known, [&](std::int64_t row, std::int64_t i) {
            return saved.dy.at(AttentionSaved::rowOf(s, sample, first + row, head) + i);
        });
    }
    PLANLOOM_KERNEL_CODE void loadKeys(Block &block, std::int64_t sample, std::int64_t kv, std::int64_t first,
                                       std::int64_t count) const
    {
        const std::int64_t known = leastOf(count, s.t - first);
        k.fill(block, count, known, [&](std::int64_t row, std::int64_t i) {
            return s.qkv.at(s.packed(sample, first + row, s.heads + kv) + i);
        });
        v.fill(block, count, known, [&](std::int64_t row, std::int64_t i) {
            return s.qkv.at(s.packed(sample, first + row, s.heads + s.kvHeads + kv) + i);
        });
    }
};

/// dQ: a block has a tile of queries.
struct AttentionQueryGradient {
    AttentionShape shape;
    AttentionTiles tiles;
    AttentionSaved saved;
    To dQkv;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = shape;
        const std::int64_t perHead = (s.t + tiles.queries - 1) / tiles.queries;
        const TileRows q{block.extra, s.d};
        const TileRows dy{q.behind(tiles.queries), s.d};
        const TileRows sums{dy.behind(tiles.queries), s.d};
        const TileRows k{sums.behind(tiles.queries), s.d};
        const TileRows v{k.behind(tiles.keys), s.d};
        float *gradients = v.behind(tiles.keys);
        const AttentionGradientTile tile{s, saved, q, dy, k, v};
        for (std::int64_t work = block.index; work < s.n * s.heads * perHead; work += block.count) {
            const std::int64_t first = work % perHead * tiles.queries;
            const std::int64_t head = work / perHead % s.heads;
            const std::int64_t sample = work / perHead / s.heads;
            const std::int64_t known = leastOf(tiles.queries, s.t - first);
            tile.loadQueries(block, sample, head, first, tiles.queries);
            sums.fill(block, tiles.queries, 0, [](std::int64_t, std::int64_t) { return 0.0F; });
            const std::int64_t end = s.causal != 0 ? first + known : s.t;
            for (std::int64_t base = 0; base < end; base += tiles.keys) {
                tile.loadKeys(block, sample, head / (s.heads / s.kvHeads), base, tiles.keys);
                block.items(tiles.queries * tiles.keys, [&](std::int64_t i) {
                    float weight = 0;
                    tile.weigh(sample, head, first, i / tiles.keys, base, i % tiles.keys, weight, gradients[i]);
                });
                block.items(tiles.queries * s.d, [&](std::int64_t i) {
                    float sum = 0;
                    for (std::int64_t key = 0; key < tiles.keys; ++key)
                        sum += gradients[i / s.d * tiles.keys + key] * k.row(key)[i % s.d];
                    sums.row(i / s.d)[i % s.d] += sum;
                });
            }
            block.items(known * s.d, [&](std::int64_t i) {
                dQkv.put(s.packed(sample, first + i / s.d, head) + i % s.d, sums.row(i / s.d)[i % s.d] * s.scale);
            });
        }
    }
};

/// dK and dV: a block has a tile of keys, and goes through the queries of all heads that share them.
struct AttentionKeyGradient {
    AttentionShape shape;
    AttentionTiles tiles;
    AttentionSaved saved;
    To dQkv;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = shape;
        const std::int64_t group = s.heads / s.kvHeads;
        const std::int64_t perHead = (s.t + tiles.keys - 1) / tiles.keys;
        const TileRows q{block.extra, s.d};
        const TileRows dy{q.behind(tiles.queries), s.d};
        const TileRows k{dy.behind(tiles.queries), s.d};
        const TileRows v{k.behind(tiles.keys), s.d};
        const TileRows keySums{v.behind(tiles.keys), s.d};
        const TileRows valueSums{keySums.behind(tiles.keys), s.d};
        float *gradients = valueSums.behind(tiles.keys);
        float *weights = gradients + tiles.queries * tiles.keys;
        const AttentionGradientTile tile{s, saved, q, dy, k, v};
        for (std::int64_t work = block.index; work < s.n * s.kvHeads * perHead; work += block.count) {
            const std::int64_t first = work % perHead * tiles.keys;
            const std::int64_t kv = work / perHead % s.kvHeads;
            const std::int64_t sample = work / perHead / s.kvHeads;
            tile.loadKeys(block, sample, kv, first, tiles.keys);
            keySums.fill(block, tiles.keys, 0, [](std::int64_t, std::int64_t) { return 0.0F; });
            valueSums.fill(block, tiles.keys, 0, [](std::int64_t, std::int64_t) { return 0.0F; });
            const std::int64_t begin = s.causal != 0 ? first / tiles.queries * tiles.queries : 0;
            for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head)
                for (std::int64_t base = begin; base < s.t; base += tiles.queries) {
                    tile.loadQueries(block, sample, head, base, tiles.queries);
                    block.items(tiles.queries * tiles.keys, [&](std::int64_t i) {
                        tile.weigh(sample, head, base, i / tiles.keys, first, i % tiles.keys, weights[i], gradients[i]);
                    });
                    block.items(tiles.keys * s.d, [&](std::int64_t i) {
                        float keySum = 0;
                        float valueSum = 0;
                        for (std::int64_t query = 0; query < tiles.queries; ++query) {
                            const std::int64_t at = query * tiles.keys + i / s.d;
                            keySum += gradients[at] * q.row(query)[i % s.d]; // q has the scale
                            valueSum += weights[at] * dy.row(query)[i % s.d];
                        }
                        keySums.row(i / s.d)[i % s.d] += keySum;
                        valueSums.row(i / s.d)[i % s.d] += valueSum;
                    });
                }
            block.items(leastOf(tiles.keys, s.t - first) * s.d, [&](std::int64_t i) {
                const std::int64_t key = first + i / s.d;
                dQkv.put(s.packed(sample, key, s.heads + kv) + i % s.d, keySums.row(i / s.d)[i % s.d]);
                dQkv.put(s.packed(sample, key, s.heads + s.kvHeads + kv) + i % s.d, valueSums.row(i / s.d)[i % s.d]);
            });
        }
    }
};

} // namespace planloom::cuda
