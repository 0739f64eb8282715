// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

// Attention whose matrix of scores is never stored (Dao et al., FlashAttention, 2022, section 3.1), one query or key a
// block, without tensor cores: for where cuDNN's is not there.
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
    /// @p query and @p key: where they begin.
    [[nodiscard]] PLANLOOM_KERNEL_CODE float score(std::int64_t query, std::int64_t key) const
    {
        float sum = 0;
        for (std::int64_t i = 0; i < d; ++i)
            sum += qkv.at(query + i) * qkv.at(key + i);
        return sum * scale;
    }
};

/// Su et al., RoFormer, 2021, in the half-split form of LLaMA's checkpoints: of queries and keys, element i of a head
/// turns together with element i + D / 2.
struct Rotate {
    From x;
    To y;
    const float *cosines = nullptr; ///< (T, D / 2), then as many sines
    std::int64_t t = 0, half = 0, turned = 0, heads = 0, tokens = 0;
    float direction = 1; ///< -1: back
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(tokens * heads * half, [&](std::int64_t number) {
            const std::int64_t i = number % half;
            const std::int64_t head = number / half % heads;
            const std::int64_t token = number / half / heads;
            const std::int64_t at = (token * heads + head) * 2 * half + i;
            const float a = x.at(at);
            const float b = x.at(at + half);
            const std::int64_t angle = token % t * half + i;
            const float cosine = head < turned ? cosines[angle] : 1.0F;
            const float sine = head < turned ? direction * cosines[t * half + angle] : 0.0F;
            y.put(at, a * cosine - b * sine);
            y.put(at + half, b * cosine + a * sine);
        });
    }
};

/// Block::extra: D sums, then a weight for each thread's key.
struct AttentionForward {
    AttentionShape shape;
    To y;         ///< (N, T, heads D)
    To logSumExp; ///< (N, heads, T); data may be nullptr
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = shape;
        float *sums = block.extra;
        float *weights = block.extra + s.d;
        for (std::int64_t row = block.index; row < s.n * s.heads * s.t; row += block.count) {
            const std::int64_t query = row % s.t;
            const std::int64_t head = row / s.t % s.heads;
            const std::int64_t sample = row / s.t / s.heads;
            const std::int64_t kv = head / (s.heads / s.kvHeads);
            const std::int64_t q = s.packed(sample, query, head);
            float most = -INFINITY;
            float total = 0;
            block.items(s.d, [&](std::int64_t i) { sums[i] = 0; });
            const std::int64_t end = s.causal != 0 ? query + 1 : s.t;
            for (std::int64_t base = 0; base < end; base += block.threads) {
                block.each([&](int thread) {
                    const std::int64_t key = base + thread;
                    weights[thread] = key < end && s.sees(sample, query, key)
                        ? s.score(q, s.packed(sample, key, s.heads + kv))
                        : -INFINITY;
                });
                const float here = block.reduce<float>([&](int thread) { return weights[thread]; }, true);
                const float larger = here > most ? here : most;
                if (larger == -INFINITY)
                    continue;
                const float keep = expf(most - larger);
                most = larger;
                block.each([&](int thread) { weights[thread] = expf(weights[thread] - larger); });
                total = total * keep + block.reduce<float>([&](int thread) { return weights[thread]; });
                const std::int64_t keys = end - base < block.threads ? end - base : block.threads;
                block.items(s.d, [&](std::int64_t i) {
                    float sum = sums[i] * keep;
                    for (std::int64_t k = 0; k < keys; ++k)
                        sum += weights[k] * s.qkv.at(s.packed(sample, base + k, s.heads + s.kvHeads + kv) + i);
                    sums[i] = sum;
                });
            }
            block.items(s.d, [&](std::int64_t i) {
                y.put((sample * s.t + query) * s.heads * s.d + head * s.d + i, total > 0 ? sums[i] / total : 0.0F);
                if (i == 0 && logSumExp.data != nullptr)
                    logSumExp.put(row, total > 0 ? most + logf(total) : 0.0F);
            });
        }
    }
};

struct AttentionSaved {
    From dy, y, logSumExp;

    /// Where row @p token of @p head begins in Y.
    [[nodiscard]] PLANLOOM_KERNEL_CODE static std::int64_t rowOf(const AttentionShape &s, std::int64_t sample,
                                                                 std::int64_t token, std::int64_t head)
    {
        return ((sample * s.t + token) * s.heads + head) * s.d;
    }
    /// The weight of a key for a query, and the gradient of its score: of dY = @p row, over the value at @p value.
    PLANLOOM_KERNEL_CODE void weigh(const AttentionShape &s, std::int64_t q, std::int64_t key, std::int64_t value,
                                    std::int64_t row, std::int64_t lse, float &weight, float &gradient) const
    {
        weight = expf(s.score(q, key) - logSumExp.at(lse));
        float own = 0;
        float mean = 0;
        for (std::int64_t i = 0; i < s.d; ++i) {
            own += dy.at(row + i) * s.qkv.at(value + i);
            mean += dy.at(row + i) * y.at(row + i);
        }
        gradient = weight * (own - mean) * s.scale;
    }
};

/// dQ. Block::extra as before.
struct AttentionQueryGradient {
    AttentionShape shape;
    AttentionSaved saved;
    To dQkv;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = shape;
        float *sums = block.extra;
        float *gradients = block.extra + s.d;
        for (std::int64_t row = block.index; row < s.n * s.heads * s.t; row += block.count) {
            const std::int64_t query = row % s.t;
            const std::int64_t head = row / s.t % s.heads;
            const std::int64_t sample = row / s.t / s.heads;
            const std::int64_t kv = head / (s.heads / s.kvHeads);
            const std::int64_t q = s.packed(sample, query, head);
            const std::int64_t dyRow = AttentionSaved::rowOf(s, sample, query, head);
            block.items(s.d, [&](std::int64_t i) { sums[i] = 0; });
            const std::int64_t end = s.causal != 0 ? query + 1 : s.t;
            for (std::int64_t base = 0; base < end; base += block.threads) {
                block.each([&](int thread) {
                    const std::int64_t key = base + thread;
                    gradients[thread] = 0;
                    float weight = 0;
                    if (key < end && s.sees(sample, query, key))
                        saved.weigh(s, q, s.packed(sample, key, s.heads + kv),
                                    s.packed(sample, key, s.heads + s.kvHeads + kv), dyRow, row, weight,
                                    gradients[thread]);
                });
                const std::int64_t keys = end - base < block.threads ? end - base : block.threads;
                block.items(s.d, [&](std::int64_t i) {
                    for (std::int64_t k = 0; k < keys; ++k)
                        sums[i] += gradients[k] * s.qkv.at(s.packed(sample, base + k, s.heads + kv) + i);
                });
            }
            block.items(s.d, [&](std::int64_t i) { dQkv.put(q + i, sums[i]); });
        }
    }
};

/// dK and dV. Block::extra: 2 D sums, then two numbers for each thread's query.
struct AttentionKeyGradient {
    AttentionShape shape;
    AttentionSaved saved;
    To dQkv;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const AttentionShape &s = shape;
        float *sums = block.extra;
        float *weights = block.extra + 2 * s.d;
        float *gradients = weights + block.threads;
        const std::int64_t group = s.heads / s.kvHeads;
        for (std::int64_t row = block.index; row < s.n * s.kvHeads * s.t; row += block.count) {
            const std::int64_t key = row % s.t;
            const std::int64_t kv = row / s.t % s.kvHeads;
            const std::int64_t sample = row / s.t / s.kvHeads;
            const std::int64_t k = s.packed(sample, key, s.heads + kv);
            const std::int64_t v = s.packed(sample, key, s.heads + s.kvHeads + kv);
            block.items(2 * s.d, [&](std::int64_t i) { sums[i] = 0; });
            const std::int64_t queries = group * s.t; // of all heads of the group
            for (std::int64_t base = 0; base < queries; base += block.threads) {
                block.each([&](int thread) {
                    weights[thread] = 0;
                    gradients[thread] = 0;
                    const std::int64_t query = (base + thread) % s.t;
                    const std::int64_t head = kv * group + (base + thread) / s.t;
                    if (base + thread < queries && s.sees(sample, query, key))
                        saved.weigh(s, s.packed(sample, query, head), k, v,
                                    AttentionSaved::rowOf(s, sample, query, head),
                                    (sample * s.heads + head) * s.t + query, weights[thread], gradients[thread]);
                });
                const std::int64_t here = queries - base < block.threads ? queries - base : block.threads;
                block.items(s.d, [&](std::int64_t i) {
                    for (std::int64_t at = 0; at < here; ++at) {
                        const std::int64_t query = (base + at) % s.t;
                        const std::int64_t head = kv * group + (base + at) / s.t;
                        sums[i] += gradients[at] * s.qkv.at(s.packed(sample, query, head) + i);
                        sums[s.d + i] += weights[at] * saved.dy.at(AttentionSaved::rowOf(s, sample, query, head) + i);
                    }
                });
            }
            block.items(s.d, [&](std::int64_t i) {
                dQkv.put(k + i, sums[i]);
                dQkv.put(v + i, sums[s.d + i]);
            });
        }
    }
};

} // namespace planloom::cuda
