// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/groups.h"

// Copies between shapes, reductions, tables.
namespace planloom::cuda {

/// Elements of 1, 2, 4 or 8 bytes from one strided view to another.
struct StridedMove {
    const void *from = nullptr;
    void *to = nullptr;
    int elementBytes = 4;
    std::int64_t fromOffset = 0, toOffset = 0;
    std::int64_t n = 0;
    Loops<2> loops;

    template <class T>
    PLANLOOM_KERNEL_CODE void move(std::int64_t at, std::int64_t target) const
    {
        static_cast<T *>(to)[toOffset + target] = static_cast<const T *>(from)[fromOffset + at];
    }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t at[2];
            loops.at(i, at);
            switch (elementBytes) {
            case 1: move<std::uint8_t>(at[0], at[1]); break;
            case 2: move<std::uint16_t>(at[0], at[1]); break;
            case 4: move<std::uint32_t>(at[0], at[1]); break;
            default: move<std::uint64_t>(at[0], at[1]); break;
            }
        });
    }
};

/// The sum, product, largest or smallest of x over the inner loops, for each turn of the outer ones. A block makes
/// one output of all its elements, or, with `lanes`, that many neighbours of one part of theirs: outputs (parts,
/// outputs) then.
struct Reduce {
    enum class How : std::int32_t { Sum, Product, Largest, Smallest };
    From x;
    To y;
    How how = How::Sum;
    float divisor = 1;
    std::int64_t outputs = 0, each = 0;
    int lanes = 1;          ///< of sums
    std::int64_t parts = 1; ///< the same
    Loops<1> outer;         ///< over outputs
    Loops<1> inner;         ///< over what is reduced

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t blocks() const
    {
        return lanes == 1 ? outputs : (outputs + lanes - 1) / lanes * parts;
    }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t o = block.index; o < blocks(); o += block.count) {
            if (lanes > 1) {
                sumNeighbours(block, o);
                continue;
            }
            const float result = one(block, o) / divisor;
            block.items(1, [&](std::int64_t) { y.put(o, result); });
        }
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE float element(std::int64_t o, std::int64_t i) const
    {
        std::int64_t base[1];
        std::int64_t at[1];
        outer.at(o, base);
        inner.at(i, at);
        return x.at(base[0] + at[0]);
    }
    PLANLOOM_KERNEL_CODE float one(Block &block, std::int64_t o) const
    {
        switch (how) {
        case How::Largest: return block.largest(each, [&](std::int64_t i) { return element(o, i); });
        case How::Smallest: return -block.largest(each, [&](std::int64_t i) { return -element(o, i); });
        case How::Product:
            return static_cast<float>(block.combine<double>(
                [&](int t) {
                    double mine = 1;
                    for (std::int64_t i = t; i < each; i += block.threads)
                        mine *= static_cast<double>(element(o, i));
                    return mine;
                },
                [](double a, double b) { return a * b; }));
        default: return block.sum<float>(each, [&](std::int64_t i) { return element(o, i); });
        }
    }
    PLANLOOM_KERNEL_CODE void sumNeighbours(Block &block, std::int64_t item) const
    {
        const std::int64_t share = (each + parts - 1) / parts;
        const std::int64_t first = item % parts * share;
        const std::int64_t left = each - first < share ? each - first : share;
        const std::int64_t o = item / parts * lanes;
        block.sumLanes<float>(
            lanes, left > 0 ? left : 0,
            [&](int lane, std::int64_t i) { return o + lane < outputs ? element(o + lane, first + i) : 0.0F; },
            [&](int lane, float sum) {
                if (o + lane < outputs)
                    y.put(item % parts * outputs + o + lane, sum / divisor);
            });
    }
};

/// y (outer, columns) = the sums over the rows of x (outer, rows, columns), by the divisor; in parts, y (parts, outer,
/// columns). A thread adds up neighbouring columns, of every 2^bits-th row of a part. Block::extra: kExtra
/// floats.
struct ColumnSums {
    From x;
    To y, second; ///< data may be nullptr
    std::int64_t outer = 1, rows = 0, columns = 0;
    std::int64_t split = 0; ///< above 0: columns from here on go to `second`; then there is one part of one `outer`
    std::int64_t parts = 1;
    float divisor = 1;
    int bits = 0;
    int wide = 0; ///< x is float32 or bfloat16, sizes and addresses of all are multiples of 16 bytes
    int pairs = 0; ///< x is bfloat16, its rows are multiples of 4 bytes

    static constexpr unsigned int kThreads = 256;
    static constexpr std::int64_t kExtra = kThreads * Pack<std::uint16_t>::kCount;
    /// Columns of a thread.
    [[nodiscard]] PLANLOOM_KERNEL_CODE int columnsAtOnce() const
    {
        if (wide == 0)
            return pairs != 0 ? 2 : 1;
        return x.kind == Kind::BF16 ? Pack<std::uint16_t>::kCount : Pack<float>::kCount;
    }
    /// Columns of a block.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t width() const
    {
        return std::int64_t{kThreads >> bits} * columnsAtOnce();
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t groups() const { return quotient(columns + width() - 1, width()); }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t blocks() const { return outer * groups() * parts; }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        if (wide != 0)
            asElements(x.kind, [&](auto element) { all<Packed<decltype(element)>>(block); });
        else if (pairs != 0)
            all<Pair>(block);
        else
            all<Single>(block);
    }

private:
    static constexpr int kInFlight = 8; ///< loads of a thread

    PLANLOOM_KERNEL_CODE static std::int64_t quotient(std::int64_t number, std::int64_t divisor)
    {
        restOf(number, divisor);
        return number;
    }
    template <class E>
    struct Packed {
        static constexpr int kCount = Pack<E>::kCount;
        Words words;
        PLANLOOM_KERNEL_CODE void load(const From &x, std::int64_t i) { words = wordsAt(x.data, i / kCount); }
        [[nodiscard]] PLANLOOM_KERNEL_CODE float at(int e) const { return Pack<E>::at(words, e); }
        PLANLOOM_KERNEL_CODE static void put(const To &y, std::int64_t i, const float (&x)[kCount])
        {
            putSeveral(y, i, x);
        }
    };
    struct Pair {
        static constexpr int kCount = 2;
        std::uint32_t both;
        PLANLOOM_KERNEL_CODE void load(const From &x, std::int64_t i)
        {
            both = static_cast<const std::uint32_t *>(x.data)[i / 2];
        }
        [[nodiscard]] PLANLOOM_KERNEL_CODE float at(int e) const
        {
            return floatOf(e == 0 ? both << 16 : both & 0xffff0000U);
        }
        PLANLOOM_KERNEL_CODE static void put(const To &y, std::int64_t i, const float (&x)[kCount])
        {
            y.put(i, x[0]);
            y.put(i + 1, x[1]);
        }
    };
    struct Single {
        static constexpr int kCount = 1;
        float value;
        PLANLOOM_KERNEL_CODE void load(const From &x, std::int64_t i) { value = x.at(i); }
        [[nodiscard]] PLANLOOM_KERNEL_CODE float at(int /*e*/) const { return value; }
        PLANLOOM_KERNEL_CODE static void put(const To &y, std::int64_t i, const float (&x)[kCount]) { y.put(i, x[0]); }
    };

    template <class P>
    PLANLOOM_KERNEL_CODE void all(Block &block) const
    {
        const int depth = 1 << bits;
        const int across = block.threads >> bits; // threads
        const std::int64_t inRow = groups();
        const std::int64_t share = quotient(rows + parts - 1, parts);
        for (std::int64_t item = block.index; item < outer * inRow * parts; item += block.count) {
            std::int64_t o = item;
            const std::int64_t part = restOf(o, parts);
            const std::int64_t begin = restOf(o, inRow) * width();
            const std::int64_t first = part * share;
            const std::int64_t last = first + share < rows ? first + share : rows;
            const std::int64_t to = (part * outer + o) * columns + begin;
            block.each([&](int t) {
                float sums[P::kCount] = {};
                const int column = (t & (across - 1)) * P::kCount;
                const int own = t / across; // the first of the rows
                if (begin + column < columns)
                    addUp<P>(sums, (o * rows + first + own) * columns + begin + column,
                             static_cast<int>((last - first - own + depth - 1) / depth), depth * columns);
                unrolled<P::kCount>([&](int e) {
                    if (depth > 1)
                        block.extra[own * across * P::kCount + column + e] = sums[e];
                    else
                        sums[e] /= divisor;
                });
                if (depth == 1 && begin + column < columns)
                    put<P>(to + column, sums);
            });
            if (depth == 1)
                continue;
            block.items(across * P::kCount, [&](std::int64_t i) {
                if (begin + i >= columns)
                    return;
                float sum = 0;
                for (int d = 0; d < depth; ++d)
                    sum += block.extra[d * across * P::kCount + i];
                const float sums[1] = {sum / divisor};
                put<Single>(to + i, sums);
            });
        }
    }
    template <class P>
    PLANLOOM_KERNEL_CODE void put(std::int64_t i, const float (&sums)[P::kCount]) const
    {
        if (split > 0 && i >= split) {
            if (second.data != nullptr)
                P::put(second, i - split, sums);
        } else if (y.data != nullptr)
            P::put(y, i, sums);
    }
    /// @p sums += columns from @p at on of @p count rows that are @p step apart.
    template <class P>
    PLANLOOM_KERNEL_CODE void addUp(float (&sums)[P::kCount], std::int64_t at, int count, std::int64_t step) const
    {
        for (; count > 0; count -= kInFlight, at += kInFlight * step) {
            P loaded[kInFlight] = {};
            unrolled<kInFlight>([&](int k) {
                if (k < count)
                    loaded[k].load(x, at + k * step);
            });
            unrolled<kInFlight>([&](int k) { unrolled<P::kCount>([&](int e) { sums[e] += loaded[k].at(e); }); });
        }
    }
};

/// Gradients of extremes and products, for each turn of the outer loops by a block. Of an extreme the first element
/// that is equal to it takes all of dy; of a product each takes the product of the others.
struct ReduceGradient {
    From dy, x, y;
    To dx;
    int product = 0;
    std::int64_t outputs = 0, each = 0;
    Loops<1> outer, inner;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t o = block.index; o < outputs; o += block.count) {
            std::int64_t base[1];
            outer.at(o, base);
            if (product != 0)
                ofProduct(block, base[0], dy.at(o));
            else
                ofExtreme(block, base[0], dy.at(o), y.at(o));
        }
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t at(std::int64_t i) const
    {
        std::int64_t offset[1];
        inner.at(i, offset);
        return offset[0];
    }
    PLANLOOM_KERNEL_CODE void ofExtreme(Block &block, std::int64_t base, float gradient, float extreme) const
    {
        const double before = block.reduce<double>(
            [&](int t) {
                double mine = -1; // how far from the end
                for (std::int64_t i = t; i < each && mine < 0; i += block.threads)
                    mine = x.at(base + at(i)) == extreme ? static_cast<double>(each - i) : -1;
                return mine;
            },
            true);
        block.items(each, [&](std::int64_t i) {
            dx.put(base + at(i), static_cast<double>(each - i) == before ? gradient : 0.0F);
        });
    }
    PLANLOOM_KERNEL_CODE void ofProduct(Block &block, std::int64_t base, float gradient) const
    {
        const double zeros =
            block.sum<double>(each, [&](std::int64_t i) { return x.at(base + at(i)) == 0 ? 1.0 : 0.0; });
        const double others = block.combine<double>(
            [&](int t) {
                double mine = 1;
                for (std::int64_t i = t; i < each; i += block.threads) {
                    const float own = x.at(base + at(i));
                    mine *= own == 0 ? 1.0 : static_cast<double>(own);
                }
                return mine;
            },
            [](double a, double b) { return a * b; });
        block.items(each, [&](std::int64_t i) {
            const float own = x.at(base + at(i));
            double rest = 0;
            if (zeros == 0)
                rest = others / static_cast<double>(own);
            else if (zeros == 1 && own == 0)
                rest = others;
            dx.put(base + at(i), static_cast<float>(static_cast<double>(gradient) * rest));
        });
    }
};

/// dx = dy / each, broadcast over what was reduced: the gradient of a mean.
struct SpreadMean {
    From dy;
    To dx;
    float share = 1;
    std::int64_t n = 0;
    Loops<1> loops;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t at[1];
            loops.at(i, at);
            dx.put(i, dy.at(at[0]) * share);
        });
    }
};

/// y[i] = x[the sum over the dimensions of what the table has for the index]: padding that repeats elements. Elements
/// of 1, 2, 4 or 8 bytes.
struct MappedMove {
    const void *from = nullptr;
    void *to = nullptr;
    const std::int64_t *table = nullptr; ///< per dimension, as many offsets as it has indices
    int elementBytes = 4;
    int rank = 0;
    std::int64_t dims[kMostLoops] = {};
    std::int64_t n = 0;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t rest = i;
            std::int64_t at = 0;
            std::int64_t row = 0;
            for (int d = 0; d < rank; ++d)
                row += dims[d];
            for (int d = rank - 1; d >= 0; --d) {
                row -= dims[d];
                at += table[row + rest % dims[d]];
                rest /= dims[d];
            }
            switch (elementBytes) {
            case 1: move<std::uint8_t>(at, i); break;
            case 2: move<std::uint16_t>(at, i); break;
            case 4: move<std::uint32_t>(at, i); break;
            default: move<std::uint64_t>(at, i); break;
            }
        });
    }

private:
    template <class T>
    PLANLOOM_KERNEL_CODE void move(std::int64_t at, std::int64_t target) const
    {
        static_cast<T *>(to)[target] = static_cast<const T *>(from)[at];
    }
};

/// dx[i] = the sum of dy over what repeats element i, in dy's order: the gradient of MappedMove.
struct MappedSum {
    From dy;
    To dx;
    /// Per dimension and index of dx where its row of `places` begins, and behind the last one where that ends; then
    /// the places themselves, offsets in dy.
    const std::int64_t *begins = nullptr, *places = nullptr;
    int rank = 0;
    std::int64_t dims[kMostLoops] = {};
    std::int64_t n = 0;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t first[kMostLoops], last[kMostLoops], at[kMostLoops];
            std::int64_t rest = i;
            std::int64_t row = 0;
            for (int d = 0; d < rank; ++d)
                row += dims[d] + 1;
            std::int64_t offset = 0;
            bool any = true;
            for (int d = rank - 1; d >= 0; --d) {
                row -= dims[d] + 1;
                first[d] = at[d] = begins[row + rest % dims[d]];
                last[d] = begins[row + rest % dims[d] + 1];
                any = any && first[d] < last[d];
                offset += any ? places[at[d]] : 0;
                rest /= dims[d];
            }
            float sum = 0;
            while (any) {
                sum += dy.at(offset);
                int d = rank - 1;
                for (; d >= 0; --d) {
                    offset -= places[at[d]];
                    if (++at[d] < last[d]) {
                        offset += places[at[d]];
                        break;
                    }
                    at[d] = first[d];
                    offset += places[at[d]];
                }
                any = d >= 0;
            }
            dx.put(i, sum);
        });
    }
};

/// Matrices with zeros below (upper) or above a diagonal; elements of 1, 2, 4 or 8 bytes.
struct Triangle {
    const void *x = nullptr;
    void *y = nullptr;
    int elementBytes = 4;
    int upper = 0;
    std::int64_t n = 0, rows = 1, columns = 1, diagonal = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            const std::int64_t border = i / columns % rows + diagonal;
            const bool kept = upper != 0 ? i % columns >= border : i % columns <= border;
            switch (elementBytes) {
            case 1: move<std::uint8_t>(i, kept); break;
            case 2: move<std::uint16_t>(i, kept); break;
            case 4: move<std::uint32_t>(i, kept); break;
            default: move<std::uint64_t>(i, kept); break;
            }
        });
    }

private:
    template <class T>
    PLANLOOM_KERNEL_CODE void move(std::int64_t i, bool kept) const
    {
        static_cast<T *>(y)[i] = kept ? static_cast<const T *>(x)[i] : T{0};
    }
};

/// A tensor cut at an axis; a line is what lies along it.
struct AxisLines {
    std::int64_t outer = 1, n = 1, inner = 1;
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t lines() const { return outer * inner; }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t at(std::int64_t line) const
    {
        return line / inner * n * inner + line % inner;
    }
};

/// Running sums, each line by a thread, in double precision.
struct CumulativeSum {
    From x;
    To y;
    AxisLines axis;
    int reverse = 0, exclusive = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(axis.lines(), [&](std::int64_t line) {
            double sum = 0;
            for (std::int64_t step = 0; step < axis.n; ++step) {
                const std::int64_t i = axis.at(line) + (reverse != 0 ? axis.n - 1 - step : step) * axis.inner;
                const double before = sum;
                sum += static_cast<double>(x.at(i));
                y.put(i, static_cast<float>(exclusive != 0 ? before : sum));
            }
        });
    }
};

/// The `k` first elements of each line and where they lie, in the order of their values; NaN comes last, of equal ones
/// the first (or, for k = 1, the last) comes first. A line by a block.
struct FirstOfLine {
    From x;
    To y; ///< data may be nullptr
    std::int64_t *indices = nullptr;
    AxisLines axis;
    std::int64_t k = 1;
    int largest = 1, last = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t line = block.index; line < axis.lines(); line += block.count) {
            const std::int64_t begin = axis.at(line);
            float value = INFINITY; // of the one before
            double place = -1;      // the same, exactly
            for (std::int64_t found = 0; found < k; ++found) {
                const auto follows = [&](std::int64_t i, float own) {
                    return own < value || (own == value && static_cast<double>(i) > place);
                };
                const float next = block.largest(axis.n, [&](std::int64_t i) {
                    const float own = at(begin, i);
                    return follows(i, own) ? own : -INFINITY;
                });
                double nearest = firstPlace(block, [&](std::int64_t i) {
                    const float own = at(begin, i);
                    return own == next && follows(i, own);
                });
                if (nearest >= 0) {
                    value = next;
                } else { // only NaN are left
                    if (value == value) {
                        place = -1;
                        value = NAN;
                    }
                    nearest = firstPlace(block, [&](std::int64_t i) {
                        const float own = at(begin, i);
                        return own != own && static_cast<double>(i) > place;
                    });
                }
                place = nearest;
                const std::int64_t to = (line / axis.inner * k + found) * axis.inner + line % axis.inner;
                const std::int64_t from = nearest < 0 ? 0 : static_cast<std::int64_t>(nearest);
                block.items(1, [&](std::int64_t) {
                    if (y.data != nullptr)
                        y.put(to, x.at(begin + from * axis.inner));
                    indices[to] = from;
                });
            }
        }
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE float at(std::int64_t begin, std::int64_t i) const
    {
        const float own = x.at(begin + i * axis.inner);
        return largest != 0 ? own : -own;
    }
    /// The first i that fits, or the last if @c last; -1: none.
    template <class F>
    PLANLOOM_KERNEL_CODE double firstPlace(Block &block, F fits) const
    {
        const double far = static_cast<double>(axis.n);
        const double best = block.reduce<double>(
            [&](int t) {
                double mine = -1;
                for (std::int64_t i = t; i < axis.n; i += block.threads) {
                    const double own = last != 0 ? static_cast<double>(i) : far - static_cast<double>(i);
                    mine = fits(i) && own > mine ? own : mine;
                }
                return mine;
            },
            true);
        return best < 0 || last != 0 ? best : far - best;
    }
};

} // namespace planloom::cuda
