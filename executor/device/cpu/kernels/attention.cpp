// SPDX-License-Identifier: Apache-2.0
// Attention over packed Q|K|V without the T x T matrix: tiles of scores live in per-thread scratch, a running maximum
// and sum make the softmax (Dao et al., FlashAttention, 2022, algorithms 1 and 4). Heads are copied from the packed
// rows into tiles that a cache holds well. Every output element is written by one work item in a fixed order, so
// results do not depend on the number of threads.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"
#include "executor/device/cpu/tile_product.h"
#include "executor/device/cpu/eight_floats.h"

#include <array>
#include <cstring>

namespace planloom::device {

namespace {

// Queries and keys of a tile: its scores and the rows that they are made of stay in a second-level cache. Both are
// whole groups of rows and columns.
constexpr std::int64_t kQueryTile = 4 * kTileRows;
constexpr std::int64_t kKeyTile = 9 * kTileColumns;
static_assert(kKeyTile % kTileRows == 0);
constexpr std::int64_t kScores = tileStride(kKeyTile); ///< floats from one query's scores to the next one's
/// Query tiles of a forward work item: each copy of a key tile serves them all.
constexpr std::int64_t kTilesPerBlock = 8;
constexpr std::int64_t kQueryBlock = kTilesPerBlock * kQueryTile;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Shape {
    std::int64_t n = 0, t = 0, heads = 0, kvHeads = 0, d = 0;
    bool causal = false;
    float scale = 1;

    [[nodiscard]] std::int64_t packed() const
    {
        return (heads + 2 * kvHeads) * d;
    } ///< floats from one token's row to the next
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

/// Hides the keys that a query may not see: later keys, if causal, and masked ones.
void hide(const Shape &shape, const Tile &tile, const std::int64_t *mask, float *scores)
{
    for (std::int64_t r = 0; r < tile.rows; ++r) {
        float *row = scores + r * kScores;
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

/// Turns a row of scores into weights e^(s - m) under the new running maximum m, and returns the factor for the sums
/// summed so far.
PLANLOOM_CLONES float weighRow(float *row, std::int64_t n, float *maximum, float *sum)
{
    const float m = std::max(*maximum, simd::maximum(row, n));
    const float base = m == kMinusInfinity ? 0.0F : m; // nothing visible yet: every weight is e^-inf = 0
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t c = 0; c < n; ++c) {
        const float weight = simd::exp(row[c] - base);
        row[c] = weight;
        total += weight;
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

/// p = e^(s - lse) in place of s, then ds = p * (dp - delta) in place of dp, for one row.
PLANLOOM_CLONES void scoreGradient(float *s, float *dp, std::int64_t n, float lse, float delta)
{
    for (std::int64_t c = 0; c < n; ++c) {
        const float p = simd::exp(s[c] - lse);
        s[c] = p;
        dp[c] = p * (dp[c] - delta);
    }
}

/// Rows of n floats, `stride` apart, into a tile, times `factor`.
PLANLOOM_CLONES void copyRows(const float *from, std::int64_t stride, std::int64_t rows, std::int64_t n, float factor,
                              float *tile)
{
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t i = 0; i < n; ++i)
            tile[r * tileStride(n) + i] = from[r * stride + i] * factor;
    }
}

/// Eight rows of eight floats, `stride` apart, as rows of a tile that hold their columns.
[[gnu::always_inline]] inline void copyEight(const float *from, std::int64_t stride, float *tile)
{
    EightFloats rows[8];
    for (int i = 0; i < 8; ++i)
        std::memcpy(&rows[i], from + i * stride, sizeof rows[i]);
    transposeEight(rows);
    for (int i = 0; i < 8; ++i)
        std::memcpy(tile + i * kScores, &rows[i], sizeof rows[i]);
}

/// As copyRows, transposed: the tile has n rows of a key tile's columns.
PLANLOOM_CLONES void copyColumns(const float *from, std::int64_t stride, std::int64_t rows, std::int64_t n, float *tile)
{
    const std::int64_t wholeRows = rows / 8 * 8;
    const std::int64_t wholeColumns = n / 8 * 8;
    for (std::int64_t r = 0; r < wholeRows; r += 8) {
        for (std::int64_t i = 0; i < wholeColumns; i += 8)
            copyEight(from + r * stride + i, stride, tile + i * kScores + r);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t i = r < wholeRows ? wholeColumns : 0; i < n; ++i)
            tile[i * kScores + r] = from[r * stride + i];
    }
}

/// Rows of a tile back to where they belong: y = tile * factor, or y += with add.
PLANLOOM_CLONES void storeRows(const float *tile, std::int64_t rows, std::int64_t n, float factor, bool add, float *y,
                               std::int64_t stride)
{
    for (std::int64_t r = 0; r < rows; ++r) {
        const float *from = tile + r * tileStride(n);
        float *to = y + r * stride;
        if (add) {
            for (std::int64_t i = 0; i < n; ++i)
                to[i] += from[i] * factor;
        } else {
            for (std::int64_t i = 0; i < n; ++i)
                to[i] = from[i] * factor;
        }
    }
}

/// Scratch of one thread, cut into tiles one after the other.
class Tiles {
public:
    explicit Tiles(float *begin) : m_next(begin) {}

    float *take(std::int64_t rows, std::int64_t stride)
    {
        float *tile = m_next;
        m_next += rows * stride;
        return tile;
    }

private:
    float *m_next;
};

PLANLOOM_CLONES float dot(const float *a, const float *b, std::int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += a[i] * b[i];
    return sum;
}

/// One work item is a block of queries of a head.
class Attention final : public Kernel {
public:
    explicit Attention(const Shape &shape)
        : m_shape(shape),
          m_threads(threadCount()),
          m_row(tileStride(shape.d)),
          m_perThread((2 * kQueryBlock + kKeyTile) * m_row + (kQueryTile + shape.d) * kScores),
          m_scratch(static_cast<std::size_t>(m_threads * m_perThread))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        m_qkv = floats(in[0]);
        m_mask = in.size() > 1 ? ints(in[1]) : nullptr;
        m_y = floats(out[0]);
        m_lse = out.size() > 1 ? floats(out[1]) : nullptr;
        const std::int64_t blocks = (m_shape.t + kQueryBlock - 1) / kQueryBlock;
        parallelItems(m_shape.n * m_shape.heads * blocks, m_threads, [&](std::int64_t item, int thread) {
            const std::int64_t block =
                blocks - 1 - item / (m_shape.n * m_shape.heads); // the causal triangle's long rows first
            const std::int64_t head = item % m_shape.heads;
            const std::int64_t sample = item / m_shape.heads % m_shape.n;
            attend(block * kQueryBlock, sample, head, m_scratch.data() + thread * m_perThread);
        });
    }

private:
    struct Rows {
        float *q = nullptr, *sums = nullptr, *keys = nullptr, *values = nullptr, *scores = nullptr;
        std::array<float, kQueryBlock> maximum;
        std::array<float, kQueryBlock> sum{};
    };

    void attend(std::int64_t q0, std::int64_t sample, std::int64_t head, float *scratch) const
    {
        const Shape &s = m_shape;
        const std::int64_t count = std::min(kQueryBlock, s.t - q0);
        const float *packed = m_qkv + sample * s.t * s.packed();
        Tiles tiles(scratch);
        Rows rows{tiles.take(kQueryBlock, m_row), tiles.take(kQueryBlock, m_row),  tiles.take(s.d, kScores),
                  tiles.take(kKeyTile, m_row),    tiles.take(kQueryTile, kScores), {}};
        rows.maximum.fill(kMinusInfinity);
        copyRows(packed + q0 * s.packed() + s.q(head), s.packed(), count, s.d, s.scale, rows.q);
        const std::int64_t keys = s.keysFor(q0 + count);
        for (std::int64_t k0 = 0; k0 < keys; k0 += kKeyTile) {
            const float *row = packed + k0 * s.packed();
            const std::int64_t columns = std::min(kKeyTile, keys - k0);
            copyColumns(row + s.k(head / s.group()), s.packed(), columns, s.d, rows.keys);
            copyRows(row + s.v(head / s.group()), s.packed(), columns, s.d, 1.0F, rows.values);
            for (std::int64_t first = 0; first < count; first += kQueryTile) {
                Tile tile{q0 + first, std::min(kQueryTile, count - first), k0, 0};
                tile.columns = std::min(columns, s.keysFor(tile.q0 + tile.rows) - k0);
                if (tile.columns > 0)
                    add(tile, first, sample, rows);
            }
        }
        finish(q0, count, sample, head, rows);
    }

    /// Adds the contributions of the tile's keys to the sums of its queries.
    void add(const Tile &tile, std::int64_t first, std::int64_t sample, Rows &rows) const
    {
        const Shape &s = m_shape;
        const std::int64_t m = tileRows(tile.rows);
        float *sums = rows.sums + first * m_row;
        tileProduct(m, tileColumns(tile.columns), s.d, {rows.q + first * m_row, m_row}, {rows.keys, kScores},
                    rows.scores, kScores, false);
        hide(s, tile, m_mask != nullptr ? m_mask + sample * s.t : nullptr, rows.scores);
        for (std::int64_t r = 0; r < tile.rows; ++r) {
            const auto at = static_cast<std::size_t>(first + r);
            const float factor = weighRow(rows.scores + r * kScores, tile.columns, &rows.maximum[at], &rows.sum[at]);
            if (tile.k0 > 0 && factor != 1.0F)
                scaleRow(sums + r * m_row, s.d, factor);
        }
        tileProduct(m, tileColumns(s.d), tile.columns, {rows.scores, kScores}, {rows.values, m_row}, sums, m_row,
                    tile.k0 > 0);
    }

    void finish(std::int64_t q0, std::int64_t count, std::int64_t sample, std::int64_t head, const Rows &rows) const
    {
        const Shape &s = m_shape;
        float *y = m_y + (sample * s.t + q0) * s.width() + head * s.d;
        for (std::int64_t r = 0; r < count; ++r) {
            const float sum = rows.sum[static_cast<std::size_t>(r)];
            storeRows(rows.sums + r * m_row, 1, s.d, sum > 0.0F ? 1.0F / sum : 0.0F, false, y + r * s.width(),
                      s.width());
            if (m_lse != nullptr) // a query that sees nothing: 0, with which every later e^(-inf - lse) is 0
                m_lse[(sample * s.heads + head) * s.t + q0 + r] =
                    sum > 0.0F ? rows.maximum[static_cast<std::size_t>(r)] + std::log(sum) : 0.0F;
        }
    }

    Shape m_shape;
    int m_threads;
    std::int64_t m_row; ///< floats from one row of a head's tile to the next
    std::int64_t m_perThread;
    std::vector<float> m_scratch;
    const float *m_qkv = nullptr;
    const std::int64_t *m_mask = nullptr;
    float *m_y = nullptr, *m_lse = nullptr;
};

/// One work item is a key/value head of a sample: it owns the columns of dQ, dK and dV that it adds up.
class AttentionGrad final : public Kernel {
public:
    explicit AttentionGrad(const Shape &shape)
        : m_shape(shape),
          m_threads(threadCount()),
          m_row(tileStride(shape.d)),
          m_queries((shape.t + kQueryTile - 1) / kQueryTile * kQueryTile),
          m_perThread(shape.t + 2 * (shape.d + kQueryTile) * kScores + 3 * (kKeyTile + m_queries) * m_row),
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
    /// A head's queries (scaled), the gradients of its outputs and of its queries; keys and values of a tile as rows
    /// and transposed, and their gradients; buffers for a tile of both.
    struct Rows {
        float *q = nullptr, *dy = nullptr, *dq = nullptr;
        float *keys = nullptr, *keysTransposed = nullptr, *valuesTransposed = nullptr, *dKeys = nullptr,
              *dValues = nullptr;
        float *weights = nullptr, *gradient = nullptr;
        float *delta = nullptr; ///< of each query: its output times that output's gradient
    };

    void differentiate(std::int64_t sample, std::int64_t kvHead, float *scratch) const
    {
        const Shape &s = m_shape;
        Tiles tiles(scratch);
        const Rows rows{tiles.take(m_queries, m_row),
                        tiles.take(m_queries, m_row),
                        tiles.take(m_queries, m_row),
                        tiles.take(kKeyTile, m_row),
                        tiles.take(s.d, kScores),
                        tiles.take(s.d, kScores),
                        tiles.take(kKeyTile, m_row),
                        tiles.take(kKeyTile, m_row),
                        tiles.take(kQueryTile, kScores),
                        tiles.take(kQueryTile, kScores),
                        tiles.take(1, s.t)};
        for (std::int64_t g = 0; g < s.group(); ++g) {
            const std::int64_t head = kvHead * s.group() + g;
            const std::int64_t at = sample * s.t * s.width() + head * s.d;
            const std::int64_t packed = sample * s.t * s.packed() + s.q(head);
            copyRows(m_qkv + packed, s.packed(), s.t, s.d, s.scale, rows.q);
            copyRows(m_dy + at, s.width(), s.t, s.d, 1.0F, rows.dy);
            for (std::int64_t i = 0; i < s.t; ++i)
                rows.delta[i] = dot(m_dy + at + i * s.width(), m_y + at + i * s.width(), s.d);
            for (std::int64_t k0 = 0; k0 < s.t; k0 += kKeyTile)
                differentiateKeys(k0, sample, head, rows);
            storeRows(rows.dq, s.t, s.d, s.scale, false, m_dqkv + packed, s.packed());
        }
    }

    void differentiateKeys(std::int64_t k0, std::int64_t sample, std::int64_t head, const Rows &rows) const
    {
        const Shape &s = m_shape;
        const std::int64_t kvHead = head / s.group();
        const std::int64_t columns = std::min(kKeyTile, s.t - k0);
        const std::int64_t at = (sample * s.t + k0) * s.packed();
        copyRows(m_qkv + at + s.k(kvHead), s.packed(), columns, s.d, 1.0F, rows.keys);
        copyColumns(m_qkv + at + s.k(kvHead), s.packed(), columns, s.d, rows.keysTransposed);
        copyColumns(m_qkv + at + s.v(kvHead), s.packed(), columns, s.d, rows.valuesTransposed);
        std::fill_n(rows.dKeys, kKeyTile * m_row, 0.0F);
        std::fill_n(rows.dValues, kKeyTile * m_row, 0.0F);
        for (std::int64_t q0 = s.causal ? k0 / kQueryTile * kQueryTile : 0; q0 < s.t; q0 += kQueryTile) {
            Tile tile{q0, std::min(kQueryTile, s.t - q0), k0, 0};
            tile.columns = std::min(columns, s.keysFor(q0 + tile.rows) - k0);
            differentiateTile(tile, sample, head, rows);
        }
        const bool add = head % s.group() != 0;
        storeRows(rows.dKeys, columns, s.d, 1.0F, add, m_dqkv + at + s.k(kvHead), s.packed());
        storeRows(rows.dValues, columns, s.d, 1.0F, add, m_dqkv + at + s.v(kvHead), s.packed());
    }

    void differentiateTile(const Tile &tile, std::int64_t sample, std::int64_t head, const Rows &rows) const
    {
        const Shape &s = m_shape;
        const float *lse = m_lse + (sample * s.heads + head) * s.t + tile.q0;
        const float *delta = rows.delta + tile.q0;
        const TileView q{rows.q + tile.q0 * m_row, m_row};
        const TileView dy{rows.dy + tile.q0 * m_row, m_row};
        const std::int64_t m = tileRows(tile.rows);
        const std::int64_t n = tileColumns(tile.columns);
        const std::int64_t d = tileColumns(s.d);
        tileProduct(m, n, s.d, q, {rows.keysTransposed, kScores}, rows.weights, kScores, false);
        tileProduct(m, n, s.d, dy, {rows.valuesTransposed, kScores}, rows.gradient, kScores, false);
        hide(s, tile, m_mask != nullptr ? m_mask + sample * s.t : nullptr, rows.weights);
        for (std::int64_t r = 0; r < tile.rows; ++r)
            scoreGradient(rows.weights + r * kScores, rows.gradient + r * kScores, tile.columns, lse[r], delta[r]);
        const std::int64_t keys = tileRows(tile.columns);
        tileProduct(keys, d, tile.rows, TileView{rows.weights, kScores}.transposed(), dy, rows.dValues, m_row, true);
        tileProduct(keys, d, tile.rows, TileView{rows.gradient, kScores}.transposed(), q, rows.dKeys, m_row, true);
        tileProduct(m, d, tile.columns, {rows.gradient, kScores}, {rows.keys, m_row}, rows.dq + tile.q0 * m_row, m_row,
                    tile.k0 > 0);
    }

    Shape m_shape;
    int m_threads;
    std::int64_t m_row;     ///< floats from one row of a head's tile to the next
    std::int64_t m_queries; ///< in whole tiles
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
        return wrong(request,
                     std::to_string(packed[2]) + " channels cannot be cut into " + std::to_string(parts) + " heads");
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
    if (request.inputs[0].elements() != tokens * shape->width()
        || request.inputs[2].elements() != tokens * shape->width()
        || request.inputs[3].elements() != tokens * shape->heads || request.out() != request.in(1))
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
