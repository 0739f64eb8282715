// SPDX-License-Identifier: Apache-2.0
// Attention over packed Q|K|V without the T x T matrix: tiles of scores live in per-thread scratch, a running maximum and sum
// make the softmax (Dao et al., FlashAttention, 2022, algorithms 1 and 4). Every output element is written by one work item in
// a fixed order, so results do not depend on the number of threads.
#include "executor/device/kernel_support.h"
#include "executor/device/onednn.h"
#include "executor/device/parallel.h"
#include "executor/device/simd.h"

#include <array>

namespace planloom::device {

namespace {

// Queries and keys of a tile: two tiles of 64 x 128 floats (64 KiB) stay in a second-level cache beside the rows that they are made of.
constexpr std::int64_t kQueryTile = 64;
constexpr std::int64_t kKeyTile = 128;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Shape {
    std::int64_t n = 0, t = 0, heads = 0, kvHeads = 0, d = 0;
    bool causal = false;
    float scale = 1;

    [[nodiscard]] std::int64_t packed() const { return (heads + 2 * kvHeads) * d; } ///< floats from one token's row to the next
    [[nodiscard]] std::int64_t width() const { return heads * d; }
    [[nodiscard]] std::int64_t group() const { return heads / kvHeads; }
    /// Offsets of a head in a packed row.
    [[nodiscard]] std::int64_t q(std::int64_t head) const { return head * d; }
    [[nodiscard]] std::int64_t k(std::int64_t kvHead) const { return (heads + kvHead) * d; }
    [[nodiscard]] std::int64_t v(std::int64_t kvHead) const { return (heads + kvHeads + kvHead) * d; }
    /// Keys that queries [.., last) may see.
    [[nodiscard]] std::int64_t keysFor(std::int64_t lastQuery) const { return causal ? std::min(t, lastQuery) : t; }
};

/// Queries [q0, q0 + rows) against keys [k0, k0 + columns).
struct Tile {
    std::int64_t q0 = 0, rows = 0, k0 = 0, columns = 0;
};

/// Hides what a query may not see: later keys, if causal, and masked ones.
void hide(const Shape &shape, const Tile &tile, const std::int64_t *mask, float *scores)
{
    for (std::int64_t r = 0; r < tile.rows; ++r) {
        float *row = scores + r * kKeyTile;
        if (shape.causal) {
            for (std::int64_t c = std::max<std::int64_t>(0, tile.q0 + r + 1 - tile.k0); c < tile.columns; ++c)
                row[c] = kMinusInfinity;
        }
        if (mask != nullptr) {
            for (std::int64_t c = 0; c < tile.columns; ++c)
                row[c] = mask[tile.k0 + c] != 0 ? row[c] : kMinusInfinity;
        }
    }
}

/// Turns a row of scores into weights e^(s - m) under the new running maximum m, and returns the factor for what was summed so far.
PLANLOOM_CLONES float weighRow(float *row, std::int64_t n, float *maximum, float *sum)
{
    const float m = std::max(*maximum, simd::maximum(row, n));
    const float base = m == kMinusInfinity ? 0.0F : m; // nothing visible yet: every weight is e^-inf = 0
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t c = 0; c < n; ++c) {
        row[c] = simd::exp(row[c] - base);
        total += row[c];
    }
    const float factor = simd::exp(*maximum - base);
    *sum = *sum * factor + total;
    *maximum = m;
    return factor;
}

PLANLOOM_CLONES void scaleRow(float *y, std::int64_t n, float factor)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] *= factor;
}

/// p = e^(s - lse), then ds = p * (dp - delta) * scale, for one row.
PLANLOOM_CLONES void scoreGradient(float *s, float *dp, std::int64_t n, float lse, float delta, float scale)
{
    for (std::int64_t c = 0; c < n; ++c) {
        const float p = simd::exp(s[c] - lse);
        s[c] = p;
        dp[c] = p * (dp[c] - delta) * scale;
    }
}

PLANLOOM_CLONES float dot(const float *a, const float *b, std::int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += a[i] * b[i];
    return sum;
}

class Attention final : public Kernel {
public:
    explicit Attention(const Shape &shape)
        : m_shape(shape), m_threads(threadCount()), m_scratch(static_cast<std::size_t>(m_threads * kQueryTile * kKeyTile))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        const std::int64_t blocks = (m_shape.t + kQueryTile - 1) / kQueryTile;
        const std::int64_t *mask = in.size() > 1 ? ints(in[1]) : nullptr;
        parallelItems(m_shape.n * m_shape.heads * blocks, m_threads, [&](std::int64_t item, int thread) {
            const std::int64_t block = blocks - 1 - item % blocks; // the causal triangle's long rows first
            const std::int64_t head = item / blocks % m_shape.heads;
            const std::int64_t sample = item / blocks / m_shape.heads;
            const Tile rows{block * kQueryTile, std::min(kQueryTile, m_shape.t - block * kQueryTile), 0, 0};
            float *lse = out.size() > 1 ? floats(out[1]) : nullptr;
            attend(rows, sample, head, floats(in[0]), mask, floats(out[0]), lse, m_scratch.data() + thread * kQueryTile * kKeyTile);
        });
    }

private:
    void attend(Tile tile, std::int64_t sample, std::int64_t head, const float *qkv, const std::int64_t *mask, float *y, float *lse, float *scores) const
    {
        const Shape &s = m_shape;
        const std::int64_t kvHead = head / s.group();
        const float *rows = qkv + sample * s.t * s.packed();
        const float *q = rows + tile.q0 * s.packed() + s.q(head);
        const std::int64_t *sampleMask = mask != nullptr ? mask + sample * s.t : nullptr;
        float *out = y + (sample * s.t + tile.q0) * s.width() + head * s.d;
        std::array<float, kQueryTile> maximum;
        std::array<float, kQueryTile> sum{};
        maximum.fill(kMinusInfinity);
        const std::int64_t keys = s.keysFor(tile.q0 + tile.rows);
        for (tile.k0 = 0; tile.k0 < keys; tile.k0 += kKeyTile) {
            tile.columns = std::min(kKeyTile, keys - tile.k0);
            const float *k = rows + tile.k0 * s.packed() + s.k(kvHead);
            const float *v = rows + tile.k0 * s.packed() + s.v(kvHead);
            onednn::gemm(false, true, tile.rows, tile.columns, s.d, s.scale, q, s.packed(), k, s.packed(), 0.0F, scores, kKeyTile);
            hide(s, tile, sampleMask, scores);
            for (std::int64_t r = 0; r < tile.rows; ++r) {
                const auto at = static_cast<std::size_t>(r);
                const float factor = weighRow(scores + r * kKeyTile, tile.columns, &maximum[at], &sum[at]);
                if (tile.k0 > 0)
                    scaleRow(out + r * s.width(), s.d, factor);
            }
            onednn::gemm(false, false, tile.rows, s.d, tile.columns, 1.0F, scores, kKeyTile, v, s.packed(), tile.k0 > 0 ? 1.0F : 0.0F, out, s.width());
        }
        for (std::int64_t r = 0; r < tile.rows; ++r) {
            const auto at = static_cast<std::size_t>(r);
            scaleRow(out + r * s.width(), s.d, sum[at] > 0.0F ? 1.0F / sum[at] : 0.0F);
            if (lse != nullptr) // a query that sees nothing: 0, with which every later e^(-inf - lse) is 0
                lse[(sample * s.heads + head) * s.t + tile.q0 + r] = sum[at] > 0.0F ? maximum[at] + std::log(sum[at]) : 0.0F;
        }
    }

    Shape m_shape;
    int m_threads;
    std::vector<float> m_scratch;
};

/// One work item is a key/value head of a sample: it owns the columns of dQ, dK and dV that it adds up.
class AttentionGrad final : public Kernel {
public:
    explicit AttentionGrad(const Shape &shape)
        : m_shape(shape), m_threads(threadCount()), m_perThread(2 * kQueryTile * kKeyTile + shape.group() * shape.t),
          m_scratch(static_cast<std::size_t>(m_threads * m_perThread))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        m_dy = floats(in[0]);
        m_qkv = floats(in[1]);
        m_y = floats(in[2]);
        m_lse = floats(in[3]);
        m_mask = in.size() > 4 ? ints(in[4]) : nullptr;
        m_dqkv = floats(out[0]);
        parallelItems(m_shape.n * m_shape.kvHeads, m_threads, [&](std::int64_t item, int thread) {
            differentiate(item / m_shape.kvHeads, item % m_shape.kvHeads, m_scratch.data() + thread * m_perThread);
        });
    }

private:
    void differentiate(std::int64_t sample, std::int64_t kvHead, float *scratch) const
    {
        const Shape &s = m_shape;
        float *delta = scratch + 2 * kQueryTile * kKeyTile;
        for (std::int64_t g = 0; g < s.group(); ++g) {
            const std::int64_t base = sample * s.t * s.width() + (kvHead * s.group() + g) * s.d;
            for (std::int64_t i = 0; i < s.t; ++i)
                delta[g * s.t + i] = dot(m_dy + base + i * s.width(), m_y + base + i * s.width(), s.d);
        }
        for (std::int64_t k0 = 0; k0 < s.t; k0 += kKeyTile) {
            bool first = true;
            for (std::int64_t g = 0; g < s.group(); ++g) {
                const std::int64_t firstQuery = s.causal ? k0 / kQueryTile * kQueryTile : 0;
                for (std::int64_t q0 = firstQuery; q0 < s.t; q0 += kQueryTile) {
                    Tile tile{q0, std::min(kQueryTile, s.t - q0), k0, std::min(kKeyTile, s.t - k0)};
                    tileGradient(tile, sample, kvHead * s.group() + g, scratch, delta + g * s.t, first);
                    first = false;
                }
            }
        }
    }

    void tileGradient(const Tile &tile, std::int64_t sample, std::int64_t head, float *scratch, const float *delta, bool first) const
    {
        const Shape &s = m_shape;
        const std::int64_t kvHead = head / s.group();
        const std::int64_t queryRow = (sample * s.t + tile.q0) * s.packed();
        const std::int64_t keyRow = (sample * s.t + tile.k0) * s.packed();
        const float *q = m_qkv + queryRow + s.q(head);
        const float *k = m_qkv + keyRow + s.k(kvHead);
        const float *v = m_qkv + keyRow + s.v(kvHead);
        const float *dy = m_dy + (sample * s.t + tile.q0) * s.width() + head * s.d;
        const float *lse = m_lse + (sample * s.heads + head) * s.t + tile.q0;
        float *weights = scratch;
        float *gradient = scratch + kQueryTile * kKeyTile;
        onednn::gemm(false, true, tile.rows, tile.columns, s.d, s.scale, q, s.packed(), k, s.packed(), 0.0F, weights, kKeyTile);
        onednn::gemm(false, true, tile.rows, tile.columns, s.d, 1.0F, dy, s.width(), v, s.packed(), 0.0F, gradient, kKeyTile);
        hide(s, tile, m_mask != nullptr ? m_mask + sample * s.t : nullptr, weights);
        for (std::int64_t r = 0; r < tile.rows; ++r)
            scoreGradient(weights + r * kKeyTile, gradient + r * kKeyTile, tile.columns, lse[r], delta[tile.q0 + r], s.scale);
        const float keep = first ? 0.0F : 1.0F;
        onednn::gemm(true, false, tile.columns, s.d, tile.rows, 1.0F, weights, kKeyTile, dy, s.width(), keep, m_dqkv + keyRow + s.v(kvHead), s.packed());
        onednn::gemm(true, false, tile.columns, s.d, tile.rows, 1.0F, gradient, kKeyTile, q, s.packed(), keep, m_dqkv + keyRow + s.k(kvHead), s.packed());
        onednn::gemm(false, false, tile.rows, s.d, tile.columns, 1.0F, gradient, kKeyTile, k, s.packed(), tile.k0 > 0 ? 1.0F : 0.0F,
                     m_dqkv + queryRow + s.q(head), s.packed());
    }

    Shape m_shape;
    int m_threads;
    std::int64_t m_perThread;
    std::vector<float> m_scratch;
    const float *m_dy = nullptr, *m_qkv = nullptr, *m_y = nullptr, *m_lse = nullptr;
    const std::int64_t *m_mask = nullptr;
    float *m_dqkv = nullptr;
};

Result<Shape> shapeOf(const Request &request, const Dims &packed)
{
    Shape shape;
    shape.heads = request.op.integer("heads");
    shape.kvHeads = request.op.integer("kv_heads", shape.heads);
    shape.causal = request.op.integer("causal") != 0;
    if (packed.size() != 3)
        return wrong(request, "Q|K|V must be (N, T, C), got " + text(packed));
    if (shape.heads <= 0 || shape.kvHeads <= 0 || shape.heads % shape.kvHeads != 0)
        return wrong(request, "heads must be a positive multiple of kv_heads");
    const std::int64_t parts = shape.heads + 2 * shape.kvHeads;
    if (packed[2] <= 0 || packed[2] % parts != 0)
        return wrong(request, std::to_string(packed[2]) + " channels cannot be cut into " + std::to_string(parts) + " heads");
    shape.n = packed[0];
    shape.t = packed[1];
    shape.d = packed[2] / parts;
    shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.d)));
    return shape;
}

Status checkMask(const Request &request, std::size_t index, const Shape &shape)
{
    if (request.hasInput(index) && request.inputs[index].elements() != shape.n * shape.t)
        return wrong(request, "the mask must be (N, T), got " + text(request.in(index)));
    return {};
}

Made makeAttention(const Request &request)
{
    auto shape = shapeOf(request, request.in(0));
    if (!shape)
        return shape.error();
    if (auto status = checkMask(request, 1, *shape); !status)
        return status.error();
    if (request.outputs[0].elements() != shape->n * shape->t * shape->width())
        return wrong(request, "the output should be (N, T, heads * D), got " + text(request.out()));
    if (request.hasOutput(1) && request.outputs[1].elements() != shape->n * shape->t * shape->heads)
        return wrong(request, "LogSumExp should be (N, heads, T), got " + text(request.out(1)));
    return Made(std::make_unique<Attention>(*shape));
}

Made makeAttentionGrad(const Request &request)
{
    auto shape = shapeOf(request, request.in(1));
    if (!shape)
        return shape.error();
    if (auto status = checkMask(request, 4, *shape); !status)
        return status.error();
    const std::int64_t tokens = shape->n * shape->t;
    if (request.inputs[0].elements() != tokens * shape->width() || request.inputs[2].elements() != tokens * shape->width() ||
        request.inputs[3].elements() != tokens * shape->heads || request.out() != request.in(1))
        return wrong(request, "dY, Y, LogSumExp and dQKV do not fit " + text(request.in(1)));
    return Made(std::make_unique<AttentionGrad>(*shape));
}

constexpr KernelEntry kEntries[] = {
    {"Attention", "fi?", "ff?", makeAttention},
    {"AttentionGrad", "ffffi?", "f", makeAttentionGrad},
};

} // namespace

std::span<const KernelEntry> attentionKernels() { return kEntries; }

} // namespace planloom::device
