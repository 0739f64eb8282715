// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/packed_product.h"

#include "executor/device/cpu/eight_floats.h"
#include "executor/device/cpu/parallel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace planloom::device {

#if defined(__x86_64__)

namespace {

#define PLANLOOM_AVX2 [[gnu::target("avx2,fma")]]

// Rows x columns of C that registers hold while a sum runs over a block's depth.
constexpr std::int64_t kRows = 6;
constexpr std::int64_t kColumns = 16;
// A block of A (132 x 512 floats, 264 KiB) stays in a second-level cache, a panel of B (512 x 16, 32 KiB) near the
// registers, the packed panels of B (512 x 1024, 2 MiB) in the third level with the columns of C that they make.
constexpr std::int64_t kDepth = 512;
constexpr std::int64_t kBlockRows = 132;
constexpr std::int64_t kBlockColumns = 1024;
/// Floats of A up to which a thread packs all of it, once; beyond, block after block.
constexpr std::int64_t kWholeA = std::int64_t{1} << 21;
/// Steps before the end of a sum at which the rows of C that it goes to are fetched: early enough, and not so early
/// that they are evicted.
constexpr std::int64_t kFetchAhead = 64;
constexpr std::int64_t kFloatsOfLine = 16;

constexpr std::int64_t roundUp(std::int64_t n, std::int64_t group) { return (n + group - 1) / group * group; }

/// n in equal blocks of at most @p most, each a multiple of @p group.
constexpr std::int64_t equalBlocks(std::int64_t n, std::int64_t most, std::int64_t group)
{
    const std::int64_t blocks = (n + most - 1) / most;
    return roundUp((n + blocks - 1) / blocks, group);
}

inline void fetch(const float *line) { __builtin_prefetch(line, 0, 3); }

/// Use of C by a panel's sum.
struct Destination {
    float *c = nullptr;
    std::int64_t stride = 0;
    const float *bias = nullptr; ///< of the columns, or null
    bool add = false;
};

struct Sums {
    EightFloats of[kRows][2] = {};
};

/// The operands of a panel's sum, moved on as it runs. A's panel is packed (term after term). B's is too, or lies as it
/// does in its matrix and is packed at `copy` on the way: loads and stores have room to spare beside the
/// multiplications.
struct Operands {
    const float *a = nullptr, *b = nullptr;
    std::int64_t rowB = kColumns; ///< floats from one row of B to the next
    float *copy = nullptr;
};

template <bool kCopy>
[[gnu::always_inline]] inline void accumulate(std::int64_t steps, Operands &o, Sums &sums)
{
    const std::int64_t rowB = kCopy ? o.rowB : kColumns;
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < steps; ++i, o.a += kRows, o.b += rowB) {
        EightFloats b0;
        EightFloats b1;
        load(o.b, b0);
        load(o.b + 8, b1);
        fetch(o.a + 16 * kRows);
        if constexpr (kCopy) {
            store(o.copy, b0);
            store(o.copy + 8, b1);
            o.copy += kColumns;
            fetch(o.b + 8 * rowB);
            fetch(o.b + 8 * rowB + kColumns - 1);
        }
#pragma GCC unroll 6
        for (std::int64_t r = 0; r < kRows; ++r) {
            const EightFloats left = o.a[r] - EightFloats{}; // in every lane; x - 0 is x for every x, 0 + x is not
            sums.of[r][0] += left * b0;
            sums.of[r][1] += left * b1;
        }
    }
}

[[gnu::always_inline]] inline void finish(const Sums &sums, const Destination &to)
{
    EightFloats bias0{};
    EightFloats bias1{};
    if (to.bias != nullptr) {
        load(to.bias, bias0);
        load(to.bias + 8, bias1);
    }
#pragma GCC unroll 6
    for (std::int64_t r = 0; r < kRows; ++r) {
        float *c = to.c + r * to.stride;
        if (to.add) {
            EightFloats before0;
            EightFloats before1;
            load(c, before0);
            load(c + 8, before1);
            store(c, before0 + sums.of[r][0]);
            store(c + 8, before1 + sums.of[r][1]);
        } else if (to.bias != nullptr) {
            store(c, sums.of[r][0] + bias0);
            store(c + 8, sums.of[r][1] + bias1);
        } else {
            store(c, sums.of[r][0]);
            store(c + 8, sums.of[r][1]);
        }
    }
}

/// kRows x kColumns of C over @p k terms, held in registers.
template <bool kCopy>
PLANLOOM_AVX2 [[gnu::noinline]] void multiplyPanels(std::int64_t k, Operands operands, const Destination &to)
{
    Sums sums;
    const std::int64_t last = std::min(k, kFetchAhead);
    accumulate<kCopy>(k - last, operands, sums);
    for (std::int64_t r = 0; r < kRows; ++r) {
        fetch(to.c + r * to.stride);
        fetch(to.c + r * to.stride + kColumns - 1);
    }
    accumulate<kCopy>(last, operands, sums);
    finish(sums, to);
}

/// As multiplyPanels where only @p rows x @p columns of C are there.
PLANLOOM_AVX2 void multiplyEdge(std::int64_t k, const float *a, const float *b, std::int64_t rows, std::int64_t columns,
                                const Destination &to)
{
    alignas(32) float whole[kRows * kColumns];
    multiplyPanels<false>(k, {a, b}, {whole, kColumns, nullptr, false});
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
            const float addend = to.add ? to.c[r * to.stride + c] : to.bias != nullptr ? to.bias[c] : 0.0F;
            to.c[r * to.stride + c] = whole[r * kColumns + c] + addend;
        }
    }
}

/// @p rows <= kRows rows of A over @p k columns, term after term: packed[i * kRows + r].
PLANLOOM_AVX2 void packRows(const float *from, const MatrixStrides &strides, std::int64_t rows, std::int64_t k,
                            float *packed)
{
    std::int64_t i = 0;
    if (rows == kRows && strides.column == 1) {
        for (; i + 8 <= k; i += 8) {
            EightFloats lines[8] = {};
            for (std::int64_t r = 0; r < kRows; ++r)
                load(from + r * strides.row + i, lines[r]);
            transposeEight(lines);
            for (std::int64_t t = 0; t < 8; ++t)
                std::memcpy(packed + (i + t) * kRows, &lines[t], kRows * sizeof(float));
        }
    } else if (rows == kRows) { // neighbours in a column
        for (; i < k; ++i) {
            fetch(from + (i + 16) * strides.column);
            std::memcpy(packed + i * kRows, from + i * strides.column, kRows * sizeof(float));
        }
    }
    for (; i < k; ++i) {
        for (std::int64_t r = 0; r < kRows; ++r)
            packed[i * kRows + r] = r < rows ? from[r * strides.row + i * strides.column] : 0.0F;
    }
}

/// @p columns <= kColumns columns of B over @p k rows, term after term: packed[i * kColumns + c].
PLANLOOM_AVX2 void packColumns(const float *from, const MatrixStrides &strides, std::int64_t columns, std::int64_t k,
                               float *packed)
{
    std::int64_t i = 0;
    if (columns == kColumns && strides.column == 1) {
        for (; i < k; ++i)
            std::memcpy(packed + i * kColumns, from + i * strides.row, kColumns * sizeof(float));
    } else if (columns == kColumns) { // neighbours in a row
        for (; i + 8 <= k; i += 8) {
            for (std::int64_t half = 0; half < kColumns; half += 8) {
                EightFloats lines[8];
                for (std::int64_t c = 0; c < 8; ++c)
                    load(from + (half + c) * strides.column + i, lines[c]);
                transposeEight(lines);
                for (std::int64_t t = 0; t < 8; ++t)
                    store(packed + (i + t) * kColumns + half, lines[t]);
            }
        }
    }
    for (; i < k; ++i) {
        for (std::int64_t c = 0; c < kColumns; ++c)
            packed[i * kColumns + c] = c < columns ? from[i * strides.row + c * strides.column] : 0.0F;
    }
}

/// Fetches the next panel of B into a second-level cache, some lines with each panel of A. A row of lines is one of B's
/// columns where these have neighbours in them, and the whole panel where its rows do.
class NextPanel {
public:
    NextPanel() = default;
    NextPanel(const float *from, const MatrixStrides &strides, std::int64_t k, std::int64_t turns)
        : m_row(from),
          m_line(from),
          m_toRow(strides.column),
          m_toLine(strides.column == 1 ? strides.row : kFloatsOfLine),
          m_perRow(strides.column == 1 ? k : k / kFloatsOfLine + 1),
          m_left(strides.column == 1 ? k : kColumns * m_perRow),
          m_perTurn(m_left / turns + 1)
    {
    }

    void turn()
    {
        for (std::int64_t i = std::min(m_left, m_perTurn); i > 0; --i, --m_left) {
            __builtin_prefetch(m_line, 0, 2);
            m_line += m_toLine;
            if (++m_inRow == m_perRow) {
                m_inRow = 0;
                m_row += m_toRow;
                m_line = m_row;
            }
        }
    }

private:
    const float *m_row = nullptr, *m_line = nullptr;
    std::int64_t m_toRow = 0, m_toLine = 0; ///< floats from one to the next
    std::int64_t m_perRow = 1;              ///< lines
    std::int64_t m_left = 0, m_perTurn = 0, m_inRow = 0;
};

/// One thread's share of a product.
struct Share {
    std::int64_t m = 0, n = 0, k = 0;
    const float *a = nullptr, *b = nullptr;
    MatrixStrides stridesA, stridesB;
    Destination to;
};

/// Of a share: where a block of A and a block of B meet.
struct Meeting {
    std::int64_t row = 0, rows = 0, column = 0, columns = 0, term = 0, terms = 0;
};

/// C's block. B's panels are packed as the first block of A meets them.
PLANLOOM_AVX2 void multiplyBlock(const Share &share, const Meeting &at, const float *packedA, float *packedB)
{
    for (std::int64_t j = 0; j < at.columns; j += kColumns) {
        const std::int64_t columns = std::min(kColumns, at.columns - j);
        const float *from = share.b + (at.column + j) * share.stridesB.column + at.term * share.stridesB.row;
        float *panel = packedB + j * at.terms;
        Destination to = share.to;
        to.c += at.row * to.stride + at.column + j;
        to.add = to.add || at.term > 0;
        to.bias = to.bias != nullptr && !to.add ? to.bias + at.column + j : nullptr;
        NextPanel next;
        std::int64_t i = 0;
        if (at.row == 0) {
            if (columns == kColumns && share.stridesB.column == 1 && at.rows >= kRows) {
                multiplyPanels<true>(at.terms, {packedA, from, share.stridesB.row, panel}, to);
                i = kRows;
            } else {
                packColumns(from, share.stridesB, columns, at.terms, panel);
            }
            if (j + kColumns < at.columns)
                next = NextPanel(from + kColumns * share.stridesB.column, share.stridesB, at.terms,
                                 (at.rows + kRows - 1) / kRows);
        }
        for (; i < at.rows; i += kRows) {
            next.turn();
            Destination rows = to;
            rows.c += i * to.stride;
            if (columns == kColumns && at.rows - i >= kRows)
                multiplyPanels<false>(at.terms, {packedA + i * at.terms, panel}, rows);
            else
                multiplyEdge(at.terms, packedA + i * at.terms, panel, std::min(kRows, at.rows - i), columns, rows);
        }
    }
}

void packBlock(const Share &share, const Meeting &at, float *packed)
{
    const float *from = share.a + at.row * share.stridesA.row + at.term * share.stridesA.column;
    for (std::int64_t i = 0; i < at.rows; i += kRows)
        packRows(from + i * share.stridesA.row, share.stridesA, std::min(kRows, at.rows - i), at.terms,
                 packed + i * at.terms);
}

/// Scratch of a thread that lives as long as it.
class Scratch {
public:
    float *atLeast(std::int64_t floats)
    {
        if (floats > m_floats) {
            constexpr std::size_t kPage = std::size_t{1} << 21; // a huge page
            const std::size_t bytes = (static_cast<std::size_t>(floats) * sizeof(float) + kPage - 1) / kPage * kPage;
            m_data.reset(static_cast<float *>(std::aligned_alloc(kPage, bytes)));
            if (!m_data)
                throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
            ::madvise(m_data.get(), bytes, MADV_HUGEPAGE);
#endif
            m_floats = floats;
        }
        return m_data.get();
    }

private:
    struct Free {
        void operator()(float *data) const { std::free(data); }
    };
    std::unique_ptr<float, Free> m_data;
    std::int64_t m_floats = 0;
};

/// @p done counts rows and columns from the share's own first ones.
void multiplyShare(const Share &share, const PartDone &done)
{
    thread_local Scratch scratch;
    const std::int64_t depth = equalBlocks(share.k, kDepth, 8);
    const std::int64_t blockRows = equalBlocks(share.m, kBlockRows, kRows);
    const std::int64_t blockColumns = equalBlocks(share.n, kBlockColumns, kColumns);
    const std::int64_t allRows = roundUp(share.m, kRows);
    const bool wholeA = allRows * share.k <= kWholeA;
    float *packedB = scratch.atLeast(blockColumns * depth + (wholeA ? allRows * share.k : blockRows * depth));
    float *packedA = packedB + blockColumns * depth;
    Meeting at;
    for (at.column = 0; at.column < share.n; at.column += blockColumns) {
        at.columns = std::min(blockColumns, share.n - at.column);
        for (at.term = 0; at.term < share.k; at.term += depth) {
            at.terms = std::min(depth, share.k - at.term);
            for (at.row = 0; at.row < share.m; at.row += blockRows) {
                at.rows = std::min(blockRows, share.m - at.row);
                float *block = wholeA ? packedA + allRows * at.term + at.row * at.terms : packedA;
                if (!wholeA || at.column == 0)
                    packBlock(share, at, block);
                multiplyBlock(share, at, block, packedB);
                if (done && at.term + at.terms == share.k)
                    done(at.row, at.column, at.rows, at.columns);
            }
        }
    }
}

} // namespace

bool PackedProduct::possible()
{
    static const bool kPossible = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return kPossible;
}

bool PackedProduct::pays() const
{
    static const bool kBest = possible() && !__builtin_cpu_supports("avx512f");
    const bool plain = (a.row == 1 || a.column == 1) && (b.row == 1 || b.column == 1);
    return kBest && plain && m >= 48 && n >= 256 && k >= 256 && m * n * k >= 32'000'000;
}

void PackedProduct::run(const float *left, const float *right, const float *bias, float *c, bool add,
                        const PartDone &done) const
{
    const std::int64_t threads = threadCount();
    // Each thread packs its part of both operands: the longer side of C is cut, so that this is least.
    const bool cutRows = m / threads + n <= m + n / threads;
    const std::int64_t each =
        cutRows ? roundUp((m + threads - 1) / threads, kRows) : roundUp((n + threads - 1) / threads, kColumns);
    const std::int64_t whole = cutRows ? m : n;
    parallelItems((whole + each - 1) / each, static_cast<int>(threads), [&](std::int64_t part, int) {
        const std::int64_t begin = part * each;
        const std::int64_t size = std::min(each, whole - begin);
        Share share{m, n, k, left, right, a, b, {c, stride, bias, add}};
        (cutRows ? share.m : share.n) = size;
        if (cutRows) {
            share.a += begin * a.row;
            share.to.c += begin * stride;
        } else {
            share.b += begin * b.column;
            share.to.c += begin;
            share.to.bias = bias != nullptr ? bias + begin : nullptr;
        }
        const std::int64_t firstRow = cutRows ? begin : 0;
        const std::int64_t firstColumn = cutRows ? 0 : begin;
        multiplyShare(
            share,
            !done ? PartDone{} : [&](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
                done(firstRow + row, firstColumn + column, rows, columns);
            });
    });
}

#else

bool PackedProduct::possible() { return false; }
bool PackedProduct::pays() const { return false; }

void PackedProduct::run(const float *, const float *, const float *, float *, bool, const PartDone &) const {}

#endif

} // namespace planloom::device
