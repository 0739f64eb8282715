// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/groups.h"

// A block, or a group of its threads, works on one row at a time: normalisation, softmax, cross-entropy.
namespace planloom::cuda {

/// y = (x - mean) * inverse deviation * scale + bias; without @c centred RMS normalisation. With b: x = a + b, kept in
/// sum.
struct RowNorm {
    From a, b, scale, bias; ///< b, bias: data may be nullptr
    To y, sum;              ///< sum: only with b
    To mean, inverse;       ///< data may be nullptr
    std::int64_t rows = 0, size = 0;
    float epsilon = 0;
    int centred = 1;
    /// Above 0: a row is kept by a group of 2^bits threads. Then a, b, y and sum are of one kind, sizes and addresses
    /// of all multiples of 16 bytes.
    int bits = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        if (bits > 0)
            asElements(a.kind, [&](auto element) { byGroups<decltype(element)>(block); });
        else
            byBlock(block);
    }

private:
    PLANLOOM_KERNEL_CODE void byBlock(Block &block) const
    {
        for (std::int64_t row = block.index; row < rows; row += block.count) {
            const std::int64_t begin = row * size;
            if (b.data != nullptr)
                block.items(size, [&](std::int64_t i) { sum.put(begin + i, a.at(begin + i) + b.at(begin + i)); });
            const From x = b.data != nullptr ? From{sum.data, sum.kind} : a;
            const float share = 1.0F / static_cast<float>(size);
            float centre = 0;
            if (centred != 0)
                centre = block.sum<float>(size, [&](std::int64_t i) { return x.at(begin + i); }) * share;
            const float squares = block.sum<float>(size, [&](std::int64_t i) {
                const float distance = x.at(begin + i) - centre;
                return distance * distance;
            });
            const float inv = 1.0F / sqrtf(squares * share + epsilon);
            block.items(size, [&](std::int64_t i) {
                const float value = (x.at(begin + i) - centre) * inv * scale.at(i);
                y.put(begin + i, bias.data != nullptr ? value + bias.at(i) : value);
            });
            block.items(1, [&](std::int64_t) { putStatistics(row, centre, inv); });
        }
    }
    PLANLOOM_KERNEL_CODE void putStatistics(std::int64_t row, float centre, float inv) const
    {
        if (mean.data != nullptr)
            mean.put(row, centre);
        if (inverse.data != nullptr)
            inverse.put(row, inv);
    }
    template <class E>
    PLANLOOM_KERNEL_CODE void byGroups(Block &block) const
    {
        constexpr int kCount = Pack<E>::kCount;
        const int pieces = static_cast<int>(size) / kCount;
        const int groups = block.threads >> bits;
        const int lanes = (1 << bits) - 1;
        const float share = 1.0F / static_cast<float>(size);
        Kept<Words[kPieces]> x;
        Kept<float> total, squares;
        for (std::int64_t first = block.index * groups; first < rows; first += block.count * groups) {
            alone(block, [&](int t) {
                const std::int64_t row = first + (t >> bits);
                const int own = row < rows ? pieces : 0;
                Words(&kept)[kPieces] = x(t);
                unrolled<kPieces>([&](int k) {
                    const int piece = (k << bits) + (t & lanes);
                    kept[k] = piece < own ? wordsAt(a.data, row * pieces + piece) : Words{};
                });
                if (b.data != nullptr)
                    addOther<E>(kept, row * pieces, t & lanes, own);
                float mine = 0;
                if (centred != 0)
                    unrolled<kPieces * kCount>([&](int i) { mine += Pack<E>::at(kept[i / kCount], i % kCount); });
                total(t) = mine;
            });
            if (centred != 0)
                sumGroups(block, bits, total);
            alone(block, [&](int t) {
                const int own = first + (t >> bits) < rows ? pieces : 0;
                const float centre = total(t) * share;
                float mine = 0;
                unrolled<kPieces>([&](int k) {
                    if ((k << bits) + (t & lanes) < own)
                        unrolled<kCount>([&](int e) {
                            const float distance = Pack<E>::at(x(t)[k], e) - centre;
                            mine += distance * distance;
                        });
                });
                squares(t) = mine;
            });
            sumGroups(block, bits, squares);
            alone(block, [&](int t) {
                const std::int64_t row = first + (t >> bits);
                const int own = row < rows ? pieces : 0;
                const float centre = total(t) * share;
                const float inv = 1.0F / sqrtf(squares(t) * share + epsilon);
                unrolled<kPieces>([&](int k) {
                    const int piece = (k << bits) + (t & lanes);
                    if (piece < own)
                        putWords(y.data, row * pieces + piece, normal<E>(x(t)[k], piece, centre, inv));
                });
                if ((t & lanes) == 0 && own > 0)
                    putStatistics(row, centre, inv);
            });
        }
    }
    /// x += b, and where it is kept.
    template <class E>
    PLANLOOM_KERNEL_CODE void addOther(Words (&x)[kPieces], std::int64_t begin, int lane, int own) const
    {
        constexpr int kCount = Pack<E>::kCount;
        Words other[kPieces];
        unrolled<kPieces>([&](int k) {
            const int piece = (k << bits) + lane;
            other[k] = piece < own ? wordsAt(b.data, begin + piece) : Words{};
        });
        unrolled<kPieces>([&](int k) {
            const int piece = (k << bits) + lane;
            float values[kCount];
            unrolled<kCount>([&](int e) { values[e] = Pack<E>::at(x[k], e) + Pack<E>::at(other[k], e); });
            x[k] = Pack<E>::of(values);
            if (piece < own)
                putWords(sum.data, begin + piece, x[k]);
        });
    }
    template <class E>
    PLANLOOM_KERNEL_CODE Words normal(const Words &x, int piece, float centre, float inv) const
    {
        constexpr int kCount = Pack<E>::kCount;
        float values[kCount], factors[kCount];
        loadSeveral(scale, std::int64_t{piece} * kCount, factors);
        unrolled<kCount>([&](int e) { values[e] = (Pack<E>::at(x, e) - centre) * inv * factors[e]; });
        if (bias.data != nullptr) {
            float addends[kCount];
            loadSeveral(bias, std::int64_t{piece} * kCount, addends);
            unrolled<kCount>([&](int e) { values[e] += addends[e]; });
        }
        return Pack<E>::of(values);
    }
};

/// dx of RowNorm, plus the addend if it is given. A row by a block.
struct RowNormGradient {
    From dy, x, scale, mean, inverse, addend; ///< mean, addend: data may be nullptr
    To dx;
    std::int64_t rows = 0, size = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < rows; row += block.count) {
            const std::int64_t begin = row * size;
            const bool centred = mean.data != nullptr;
            const float centre = centred ? mean.at(row) : 0.0F;
            const float inv = inverse.at(row);
            const float share = 1.0F / static_cast<float>(size);
            float mid = 0;
            if (centred)
                mid = block.sum<float>(size, [&](std::int64_t i) { return dy.at(begin + i) * scale.at(i); }) * share;
            const float slope = inv * inv * share * block.sum<float>(size, [&](std::int64_t i) {
                return dy.at(begin + i) * scale.at(i) * (x.at(begin + i) - centre);
            });
            block.items(size, [&](std::int64_t i) {
                const float value = inv * (dy.at(begin + i) * scale.at(i) - mid - (x.at(begin + i) - centre) * slope);
                dx.put(begin + i, addend.data != nullptr ? value + addend.at(begin + i) : value);
            });
        }
    }
};

/// The same by groups of 2^bits threads that keep a row, and of each block's rows the sums that make the gradients of
/// scale and bias. dy, x, addend and dx are of one kind, sizes and addresses of all multiples of 16 bytes.
/// Block::extra: kExtra floats for each thread of a group, if there are several.
struct KeptNormGradient {
    From dy, x, scale, mean, inverse, addend; ///< mean, addend: data may be nullptr
    To dx;
    float *sums = nullptr; ///< (blocks, of scale, of bias if there is a mean); may be nullptr
    std::int64_t rows = 0, size = 0;
    int bits = kWarpBits;

    static constexpr std::int64_t kExtra = 2 * kPieces * Pack<std::uint16_t>::kCount;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        asElements(x.kind, [&](auto element) { byGroups<decltype(element)>(block); });
    }

private:
    /// What a thread keeps of a row.
    template <class E>
    struct Part {
        Words dy[kPieces], x[kPieces], addend[kPieces];
        float centre, inverse;
    };
    /// A thread's sums over rows.
    template <class E>
    struct Sums {
        static constexpr int kColumns = kPieces * Pack<E>::kCount;
        float scale[kColumns], bias[kColumns];
    };

    template <class E>
    PLANLOOM_KERNEL_CODE void byGroups(Block &block) const
    {
        const int groups = block.threads >> bits;
        const float share = 1.0F / static_cast<float>(size);
        Kept<Part<E>> part;
        Kept<Sums<E>> columns;
        Kept<Two<float>> both;
        alone(block, [&](int t) {
            unrolled<Sums<E>::kColumns>([&](int i) { columns(t).scale[i] = columns(t).bias[i] = 0; });
        });
        for (std::int64_t first = block.index * groups; first < rows; first += block.count * groups) {
            alone(block, [&](int t) {
                read<E>(part(t), first + (t >> bits), t);
                both(t) = sumsOf<E>(part(t), columns(t), first + (t >> bits), t);
            });
            sumGroups(block, bits, both);
            alone(block, [&](int t) {
                const float inv = part(t).inverse;
                const float mid = mean.data != nullptr ? both(t).a * share : 0.0F;
                write<E>(part(t), mid, inv * inv * share * both(t).b, first + (t >> bits), t);
            });
        }
        if (sums != nullptr)
            join<E>(block, columns);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE int lane(int t) const { return t & ((1 << bits) - 1); }
    /// Of the row, 0 behind the last one.
    template <class E>
    [[nodiscard]] PLANLOOM_KERNEL_CODE int piecesOf(std::int64_t row) const
    {
        return row < rows ? static_cast<int>(size) / Pack<E>::kCount : 0;
    }
    template <class E>
    PLANLOOM_KERNEL_CODE void read(Part<E> &part, std::int64_t row, int t) const
    {
        const int pieces = piecesOf<E>(row);
        const std::int64_t begin = row * pieces + lane(t);
        unrolled<kPieces>([&](int k) {
            const bool own = (k << bits) + lane(t) < pieces;
            part.dy[k] = own ? wordsAt(dy.data, begin + (k << bits)) : Words{};
            part.x[k] = own ? wordsAt(x.data, begin + (k << bits)) : Words{};
            if (addend.data != nullptr)
                part.addend[k] = own ? wordsAt(addend.data, begin + (k << bits)) : Words{};
        });
        part.centre = mean.data != nullptr && pieces > 0 ? mean.at(row) : 0.0F;
        part.inverse = pieces > 0 ? inverse.at(row) : 0.0F;
    }
    template <class E>
    PLANLOOM_KERNEL_CODE Two<float> sumsOf(const Part<E> &part, Sums<E> &columns, std::int64_t row, int t) const
    {
        constexpr int kCount = Pack<E>::kCount;
        Two<float> both;
        unrolled<kPieces>([&](int k) {
            const int piece = (k << bits) + lane(t);
            if (piece >= piecesOf<E>(row))
                return;
            float factors[kCount];
            loadSeveral(scale, std::int64_t{piece} * kCount, factors);
            unrolled<kCount>([&](int e) {
                const float gradient = Pack<E>::at(part.dy[k], e);
                const float distance = Pack<E>::at(part.x[k], e) - part.centre;
                both.a += gradient * factors[e];
                both.b += gradient * factors[e] * distance;
                columns.scale[k * kCount + e] += gradient * (distance * part.inverse);
                columns.bias[k * kCount + e] += gradient;
            });
        });
        return both;
    }
    template <class E>
    PLANLOOM_KERNEL_CODE void write(const Part<E> &part, float mid, float slope, std::int64_t row, int t) const
    {
        constexpr int kCount = Pack<E>::kCount;
        const int pieces = piecesOf<E>(row);
        unrolled<kPieces>([&](int k) {
            const int piece = (k << bits) + lane(t);
            if (piece >= pieces)
                return;
            float factors[kCount], values[kCount];
            loadSeveral(scale, std::int64_t{piece} * kCount, factors);
            unrolled<kCount>([&](int e) {
                const float distance = Pack<E>::at(part.x[k], e) - part.centre;
                values[e] = part.inverse * (Pack<E>::at(part.dy[k], e) * factors[e] - mid - distance * slope);
            });
            if (addend.data != nullptr)
                unrolled<kCount>([&](int e) { values[e] += Pack<E>::at(part.addend[k], e); });
            putWords(dx.data, row * pieces + piece, Pack<E>::of(values));
        });
    }
    /// The groups' sums, one after the other, in shared memory, and from there to the block's.
    template <class E>
    PLANLOOM_KERNEL_CODE void join(Block &block, Kept<Sums<E>> &columns) const
    {
        constexpr int kCount = Pack<E>::kCount;
        const int last = (block.threads >> bits) - 1;
        const std::int64_t each = mean.data != nullptr ? 2 * size : size;
        for (int group = 0; group <= last; ++group)
            block.each([&](int t) {
                if (t >> bits != group)
                    return;
                unrolled<Sums<E>::kColumns / 4>([&](int k) {
                    const std::int64_t column = ((k * 4 / kCount << bits) + lane(t)) * kCount + k * 4 % kCount;
                    unrolled<2>([&](int which) {
                        const float *mine = (which == 0 ? columns(t).scale : columns(t).bias) + 4 * k;
                        const int at = ((2 * k + which) << bits) + lane(t);
                        float values[4] = {mine[0], mine[1], mine[2], mine[3]};
                        if (group > 0) {
                            const Words before = wordsAt(block.extra, at);
                            unrolled<4>([&](int e) { values[e] += Pack<float>::at(before, e); });
                        }
                        if (group < last)
                            putWords(block.extra, at, Pack<float>::of(values));
                        else if (column < size && (which == 0 || mean.data != nullptr))
                            putWords(sums + block.index * each + which * size + column, 0, Pack<float>::of(values));
                    });
                });
            });
    }
};

/// The sums over the rows that make the gradients of scale and bias: a block adds up one part of the rows of `lanes`
/// columns.
struct ColumnNormGradient {
    From dy, x, mean, inverse; ///< mean: data may be nullptr
    float *sums = nullptr;     ///< (parts, of scale, of bias if there is a mean)
    std::int64_t rows = 0, size = 0;
    int lanes = 1;
    std::int64_t parts = 1;
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t blocks() const { return (size + lanes - 1) / lanes * parts; }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t share = (rows + parts - 1) / parts;
        for (std::int64_t item = block.index; item < blocks(); item += block.count) {
            const std::int64_t first = item % parts * share;
            const std::int64_t left = rows - first < share ? rows - first : share;
            const std::int64_t begin = item / parts * lanes;
            block.sumLanes<Two<float>>(
                lanes, left > 0 ? left : 0,
                [&](int lane, std::int64_t i) {
                    if (begin + lane >= size)
                        return Two<float>{};
                    const std::int64_t row = first + i;
                    const std::int64_t at = row * size + begin + lane;
                    const float centre = mean.data != nullptr ? mean.at(row) : 0.0F;
                    const float gradient = dy.at(at);
                    return Two<float>{gradient * (x.at(at) - centre) * inverse.at(row), gradient};
                },
                [&](int lane, const Two<float> &sum) {
                    if (begin + lane >= size)
                        return;
                    float *to = sums + item % parts * (mean.data != nullptr ? 2 * size : size) + begin + lane;
                    to[0] = sum.a;
                    if (mean.data != nullptr)
                        to[size] = sum.b;
                });
        }
    }
};

/// Over the middle of (outer, n, inner).
struct SoftmaxRows {
    From x;
    To y;
    std::int64_t outer = 1, n = 1, inner = 1;
    int logarithm = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < outer * inner; row += block.count) {
            const std::int64_t begin = row / inner * n * inner + row % inner;
            const float most = block.largest(n, [&](std::int64_t i) { return x.at(begin + i * inner); });
            const float sum = block.sum<float>(n, [&](std::int64_t i) { return expf(x.at(begin + i * inner) - most); });
            const float logSum = logf(sum);
            block.items(n, [&](std::int64_t i) {
                const float shifted = x.at(begin + i * inner) - most;
                y.put(begin + i * inner, logarithm != 0 ? shifted - logSum : expf(shifted) / sum);
            });
        }
    }
};

/// dx from dy and y: y (dy - sum(dy y)), of the logarithm dy - exp(y) sum(dy).
struct SoftmaxRowsGradient {
    From dy, y;
    To dx;
    std::int64_t outer = 1, n = 1, inner = 1;
    int logarithm = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < outer * inner; row += block.count) {
            const std::int64_t begin = row / inner * n * inner + row % inner;
            const float sum = block.sum<float>(n, [&](std::int64_t i) {
                const std::int64_t at = begin + i * inner;
                return logarithm != 0 ? dy.at(at) : dy.at(at) * y.at(at);
            });
            block.items(n, [&](std::int64_t i) {
                const std::int64_t at = begin + i * inner;
                dx.put(at, logarithm != 0 ? dy.at(at) - expf(y.at(at)) * sum : y.at(at) * (dy.at(at) - sum));
            });
        }
    }
};

/// The largest of some numbers, and the sum of the exponentials of their distances to it.
struct Peak {
    float most = -INFINITY, sum = 0;

    PLANLOOM_KERNEL_CODE static float exponential(float x) { return powerOfTwo(x * kLog2E); }
    /// What distances are taken to: a number also where there is none but -infinity.
    [[nodiscard]] PLANLOOM_KERNEL_CODE float base() const { return most > -INFINITY ? most : 0.0F; }
    PLANLOOM_KERNEL_CODE void raise(float x)
    {
        if (!(x > most))
            return;
        sum *= exponential(most - x);
        most = x;
    }
    PLANLOOM_KERNEL_CODE static Peak join(const Peak &a, const Peak &b)
    {
        Peak both;
        both.most = a.most > b.most ? a.most : b.most;
        const float base = both.base();
        both.sum = a.sum * exponential(a.most - base) + b.sum * exponential(b.most - base);
        return both;
    }
};

/// Rows of logits, each by a group of 2^bits threads.
struct LogitRows {
    From logits;
    std::int64_t rows = 0, classes = 0;
    int bits = kWarpBits;

    /// done(row, its peak), by one thread of each row's group.
    template <class F>
    PLANLOOM_KERNEL_CODE void each(Block &block, F done) const
    {
        const int groups = block.threads >> bits;
        const int lanes = (1 << bits) - 1;
        Kept<Peak> peak;
        for (std::int64_t first = block.index * groups; first < rows; first += block.count * groups) {
            alone(block, [&](int t) {
                const std::int64_t row = first + (t >> bits);
                peak(t) = Peak();
                if (row >= rows)
                    return;
                asElements(logits.kind, [&](auto element) {
                    peak(t) = peakOf(RowPieces<decltype(element)>(logits.data, row * classes, classes), t & lanes);
                });
            });
            joinGroups(block, bits, peak, [](const Peak &a, const Peak &b) { return Peak::join(a, b); });
            alone(block, [&](int t) {
                if ((t & lanes) == 0 && first + (t >> bits) < rows)
                    done(first + (t >> bits), peak(t));
            });
        }
    }

private:
    /// A thread's.
    template <class E>
    PLANLOOM_KERNEL_CODE Peak peakOf(const RowPieces<E> &row, int lane) const
    {
        constexpr int kInFlight = 4;
        constexpr int kCount = Pack<E>::kCount;
        constexpr std::uint32_t kLeast = sizeof(E) == 4 ? 0xff800000U : 0xff80ff80U; // -infinity
        Peak peak;
        for (int piece = lane; piece < row.pieces; piece += kInFlight << bits) {
            Words words[kInFlight];
            unrolled<kInFlight>([&](int k) {
                const int own = piece + (k << bits);
                words[k] = own < row.pieces ? row.piece(own) : Words{{kLeast, kLeast, kLeast, kLeast}};
            });
            float most = -INFINITY;
            unrolled<kInFlight * kCount>(
                [&](int i) { most = fmaxf(most, Pack<E>::at(words[i / kCount], i % kCount)); });
            peak.raise(most);
            const float base = peak.base();
            float sum = 0;
            unrolled<kInFlight * kCount>(
                [&](int i) { sum += Peak::exponential(Pack<E>::at(words[i / kCount], i % kCount) - base); });
            peak.sum += sum;
        }
        row.others(lane, bits, [&](int i) {
            const float x = row.at(i);
            peak.raise(x);
            peak.sum += Peak::exponential(x - peak.base());
        });
        return peak;
    }
};

/// Per row of logits: (largest, log of the sum of exponentials), and the row's loss.
struct CrossEntropyRows {
    LogitRows all;
    const std::int64_t *labels = nullptr;
    To stats; ///< (rows, 2)
    float *losses = nullptr;
    std::int64_t ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        all.each(block, [&](std::int64_t row, const Peak &peak) {
            const float logSum = peak.most + logf(peak.sum);
            const std::int64_t label = labels[row];
            const bool known = label >= 0 && label < all.classes;
            const float loss = known ? logSum - all.logits.at(row * all.classes + label) : NAN;
            losses[row] = label == ignored ? 0.0F : loss;
            if (stats.data != nullptr) {
                stats.put(2 * row, peak.most);
                stats.put(2 * row + 1, logSum);
            }
        });
    }
};

/// One block: the mean of the losses over the rows that count, at least 1 of them; and their number.
struct CrossEntropyMean {
    const float *losses = nullptr; ///< nullptr: only the number
    const std::int64_t *labels = nullptr;
    To loss;
    float *counted = nullptr;
    std::int64_t rows = 0, ignored = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const Two<double> sums = block.combine<Two<double>>(
            [&](int t) {
                Two<double> mine;
                for (std::int64_t row = t; row < rows; row += block.threads)
                    mine += {losses != nullptr ? static_cast<double>(losses[row]) : 0.0,
                             labels[row] != ignored ? 1.0 : 0.0};
                return mine;
            },
            [](Two<double> x, const Two<double> &y) { return x += y; });
        const double divisor = sums.b > 1 ? sums.b : 1;
        block.items(1, [&](std::int64_t) {
            if (losses != nullptr)
                loss.put(0, static_cast<float>(sums.a / divisor));
            if (counted != nullptr)
                *counted = static_cast<float>(divisor);
        });
    }
};

/// dLogits = (softmax - label) dLoss / counted. A row by a group of 2^bits threads.
struct CrossEntropyGradient {
    From dLoss, logits;
    const std::int64_t *labels = nullptr;
    From stats;
    const float *counted = nullptr;
    To dx;
    std::int64_t rows = 0, classes = 0, ignored = 0;
    int bits = kWarpBits;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const int groups = block.threads >> bits;
        alone(block, [&](int t) {
            for (std::int64_t row = block.index * groups + (t >> bits); row < rows; row += block.count * groups)
                asElements(logits.kind, [&](auto element) { ofRow<decltype(element)>(row, t & ((1 << bits) - 1)); });
        });
    }

private:
    /// A thread's share of a row.
    template <class E>
    PLANLOOM_KERNEL_CODE void ofRow(std::int64_t row, int lane) const
    {
        constexpr int kInFlight = 4;
        constexpr int kCount = Pack<E>::kCount;
        RowPieces<E> x(logits.data, row * classes, classes);
        const std::int64_t label = labels[row];
        const float logSum = stats.at(2 * row + 1);
        const float scale = label == ignored ? 0.0F : dLoss.at(0) / *counted;
        const auto gradient = [&](float own, std::int64_t i) {
            return scale * Peak::exponential(own - logSum) - (i == label ? scale : 0.0F);
        };
        E *to = static_cast<E *>(dx.data) + row * classes;
        if (dx.kind != logits.kind || x.phase(to) != x.phase(x.first)) {
            x.head = x.size;
            x.pieces = 0;
        }
        const std::int64_t ofLabel = label < x.head ? -1 : (label - x.head) / kCount; // piece
        for (int piece = lane; piece < x.pieces; piece += kInFlight << bits) {
            Words words[kInFlight];
            unrolled<kInFlight>([&](int k) {
                const int own = piece + (k << bits);
                words[k] = own < x.pieces ? x.piece(own) : Words{};
            });
            unrolled<kInFlight>([&](int k) {
                const int own = piece + (k << bits);
                float values[kCount];
                unrolled<kCount>(
                    [&](int e) { values[e] = scale * Peak::exponential(Pack<E>::at(words[k], e) - logSum); });
                if (own == ofLabel)
                    unrolled<kCount>([&](int e) { values[e] -= x.head + own * kCount + e == label ? scale : 0.0F; });
                if (own < x.pieces)
                    putWords(to + x.head, own, Pack<E>::of(values));
            });
        }
        x.others(lane, bits, [&](int i) { dx.put(row * classes + i, gradient(x.at(i), i)); });
    }
};

} // namespace planloom::cuda
