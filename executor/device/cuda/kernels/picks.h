// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/groups.h"

// What index tensors name: reading it, adding to it, writing it.
namespace planloom::cuda {

/// An index tensor of int64, int32 or float32.
struct Indices {
    enum class Type : std::int32_t { Wide, Narrow, Float };
    const void *data = nullptr;
    Type type = Type::Wide;
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t at(std::int64_t i) const
    {
        switch (type) {
        case Type::Narrow: return static_cast<const std::int32_t *>(data)[i];
        case Type::Float: return static_cast<std::int64_t>(static_cast<const float *>(data)[i]);
        default: return static_cast<const std::int64_t *>(data)[i];
        }
    }
};

/// What positions of a split axis become where another device has them, or none (engine/graph/operators/README.md).
inline constexpr std::int64_t kElsewhere = INT64_MIN;
inline constexpr std::int64_t kNowhere = kElsewhere + 1;
inline constexpr std::int64_t kKept = kElsewhere + 2;

/// Slices of a tensor, each where indices say.
struct Picks {
    enum class Form : std::int32_t {
        Rows,     ///< slice i is row indices[i % count] of block i / count of a tensor (blocks, sizes[0], slice)
        Elements, ///< one element each, at the place of the index itself but along one axis at the index
        Slices,   ///< `depth` indices each, of the dimensions behind those of the blocks
    };
    Form form = Form::Rows;
    Indices indices;
    std::int64_t picks = 0;                ///< slices
    std::int64_t slice = 1;                ///< elements of one
    std::int64_t count = 1;                ///< Rows: indices; Slices: slices of a block
    std::int64_t block = 1;                ///< Slices: elements of one
    int depth = 1;                         ///< Elements: dimensions; Slices: indices of one
    int axis = 0;                          ///< Elements
    int sharded = 0;                       ///< Rows: indices are shifted ones
    std::int64_t dims[kMostLoops] = {};    ///< Elements: of the indices
    std::int64_t sizes[kMostLoops] = {};   ///< of what is indexed
    std::int64_t strides[kMostLoops] = {}; ///< the same, in elements

    /// The first element of slice @p i. Below 0 where there is none: -1 - the element that stands for it in errors, or
    /// kElsewhere.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t at(std::int64_t i) const
    {
        if (form == Form::Rows) {
            const std::int64_t row = rowAt(i);
            return row < 0 ? row : row * slice;
        }
        return form == Form::Elements ? element(i) : sliceOf(i);
    }
    /// Of Form::Rows: the row of slice @p i among those of all blocks; below 0 as above.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t rowAt(std::int64_t i) const
    {
        std::int64_t before = i;
        const std::int64_t index = indices.at(restOf(before, count));
        if (sharded != 0 && index == kElsewhere)
            return kElsewhere;
        const std::int64_t row = sharded != 0 ? index : fromEnd(index, sizes[0]);
        return row < 0 || row >= sizes[0] ? -1 : before * sizes[0] + row;
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE static std::int64_t fromEnd(std::int64_t index, std::int64_t size)
    {
        return index < 0 ? index + size : index;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t element(std::int64_t i) const
    {
        std::int64_t rest = i;
        std::int64_t position = 0;
        for (int d = depth - 1; d >= 0; --d) {
            position += d == axis ? 0 : rest % dims[d] * strides[d];
            rest /= dims[d];
        }
        const std::int64_t row = fromEnd(indices.at(i), sizes[axis]);
        return row < 0 || row >= sizes[axis] ? -1 - position : position + row * strides[axis];
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t sliceOf(std::int64_t i) const
    {
        std::int64_t position = i / count * block;
        for (int d = 0; d < depth; ++d) {
            const std::int64_t row = fromEnd(indices.at(i * depth + d), sizes[d]);
            if (row < 0 || row >= sizes[d])
                return -1;
            position += row * strides[d];
        }
        return position;
    }
};

/// y = the slices, one behind the other, elements of 1, 2, 4 or 8 bytes; @c missing where there is none.
struct PickedMove {
    Picks picks;
    const void *x = nullptr;
    void *y = nullptr;
    int elementBytes = 4;
    std::uint64_t missing = 0;
    int wide = 0; ///< slices and addresses are multiples of 16 bytes, picks are rows

    static constexpr int kInFlight = 4; ///< pieces of a thread, if wide
    /// Of threads.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t items() const
    {
        const std::int64_t all = picks.picks * picks.slice;
        return wide != 0 ? (all * elementBytes / 16 + kInFlight - 1) / kInFlight : all;
    }

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        if (wide != 0) {
            pieces(block);
            return;
        }
        block.grid(picks.picks * picks.slice, [&](std::int64_t i) {
            const std::int64_t first = picks.at(i / picks.slice);
            switch (elementBytes) {
            case 1: move<std::uint8_t>(i, first); break;
            case 2: move<std::uint16_t>(i, first); break;
            case 4: move<std::uint32_t>(i, first); break;
            default: move<std::uint64_t>(i, first); break;
            }
        });
    }

private:
    PLANLOOM_KERNEL_CODE void pieces(Block &block) const
    {
        const std::int64_t width = picks.slice * elementBytes / 16;
        auto pattern = static_cast<std::uint32_t>(missing);
        pattern = elementBytes == 2 ? pattern << 16 | pattern : pattern;
        gridInFlight<kInFlight, Words>(
            block, picks.picks * width,
            [&](Words &words, std::int64_t i) {
                std::int64_t pick = i;
                const std::int64_t at = restOf(pick, width);
                const std::int64_t row = picks.rowAt(pick);
                words = row == kElsewhere ? Words{} : Words{{pattern, pattern, pattern, pattern}};
                if (row >= 0)
                    words = wordsAt(x, row * width + at);
            },
            [&](const Words &words, std::int64_t i) { putWords(y, i, words); });
    }
    template <class T>
    PLANLOOM_KERNEL_CODE void move(std::int64_t i, std::int64_t first) const
    {
        T value = first == kElsewhere ? T{0} : static_cast<T>(missing);
        if (first >= 0)
            value = static_cast<const T *>(x)[first + i % picks.slice];
        static_cast<T *>(y)[i] = value;
    }
};

/// y (+)= updates where the picks say, one pick after the other where several meet. A block owns `share` elements of y:
/// it looks through all picks for those that are its own, and each of its threads has elements of its own, so that
/// nothing is added out of order. Block::extra: kExtra floats, and kEach for each thread.
struct PickedUpdate {
    enum class How : std::int32_t { Set, Add, Multiply };
    Picks picks;
    From updates;
    float *y = nullptr;
    std::int64_t elements = 0;
    std::int64_t share = 1; ///< a multiple of the slice
    How how = How::Add;
    int marks = 0; ///< picks that lie nowhere leave a NaN

    static constexpr std::int64_t kExtra = 2;
    static constexpr std::int64_t kPicks = 8; ///< that a thread looks at at a time
    static constexpr std::int64_t kEach = 1 + 2 * kPicks;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        auto *found = reinterpret_cast<std::int32_t *>(block.extra);
        std::int32_t *counts = found + kExtra;
        std::int32_t *numbers = counts + block.threads;
        std::int32_t *places = numbers + kPicks * block.threads;
        for (std::int64_t first = block.index * share; first < elements; first += block.count * share)
            for (std::int64_t base = 0; base < picks.picks; base += kPicks * block.threads) {
                block.items(1, [&](std::int64_t) { found[0] = 0; });
                block.each([&](int t) {
                    std::int32_t own = 0;
                    for (std::int64_t i = 0; i < kPicks; ++i)
                        own += placeIn(first, base + t * kPicks + i) != kNone ? 1 : 0;
                    counts[t] = own;
                    if (own > 0)
                        found[0] = 1; // every thread that writes it writes the same
                });
                const bool any = found[0] != 0;
                block.each([](int) {}); // all have read it
                if (!any)
                    continue;
                block.each([&](int t) { list(t, block.threads, first, base, found, counts, numbers, places); });
                block.each([&](int t) {
                    for (std::int32_t m = 0; m < found[1]; ++m)
                        apply(t, block.threads, first, base + numbers[m], places[m]);
                });
            }
    }

private:
    static constexpr std::int32_t kNone = INT32_MIN;

    /// Where pick @p i begins in the block's share; -1 - place for a mark; kNone: elsewhere.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int32_t placeIn(std::int64_t first, std::int64_t i) const
    {
        if (i >= picks.picks)
            return kNone;
        const std::int64_t at = picks.at(i);
        if (at == kElsewhere || (at < 0 && marks == 0))
            return kNone;
        const std::int64_t place = (at < 0 ? -1 - at : at) - first;
        if (place < 0 || place >= share)
            return kNone;
        return static_cast<std::int32_t>(at < 0 ? -1 - place : place);
    }
    PLANLOOM_KERNEL_CODE void list(int t, int threads, std::int64_t first, std::int64_t base, std::int32_t *found,
                                   const std::int32_t *counts, std::int32_t *numbers, std::int32_t *places) const
    {
        if (counts[t] == 0 && t != threads - 1)
            return;
        std::int32_t at = 0;
        for (int before = 0; before < t; ++before)
            at += counts[before];
        if (t == threads - 1)
            found[1] = at + counts[t];
        for (std::int64_t i = 0; i < kPicks; ++i) {
            const std::int32_t place = placeIn(first, base + t * kPicks + i);
            if (place == kNone)
                continue;
            numbers[at] = static_cast<std::int32_t>(t * kPicks + i);
            places[at++] = place;
        }
    }
    PLANLOOM_KERNEL_CODE void apply(int t, int threads, std::int64_t first, std::int64_t pick, std::int32_t place) const
    {
        if (place < 0) {
            if ((-1 - place) % threads == t)
                y[first - 1 - place] = NAN;
            return;
        }
        const std::int64_t start = ((t - place) % threads + threads) % threads;
        for (std::int64_t i = start; i < picks.slice; i += threads) {
            float &to = y[first + place + i];
            const float value = updates.at(pick * picks.slice + i);
            to = how == How::Set ? value : (how == How::Add ? to + value : to * value);
        }
    }
};

/// y += updates in the rows that the picks name, one pick after the other where several meet. A warp owns `share` rows
/// of 4 kWarp columns of y: it looks through all picks, lists those that are its own, and adds several of them at a
/// time. The rows of y, and those of the updates, are whole pieces of 4 elements. Block::extra: kExtra floats for each
/// warp.
struct PickedRowSums {
    Picks picks; ///< Form::Rows
    From updates;
    float *y = nullptr;
    std::int64_t rows = 0; ///< of y
    std::int64_t share = 1;

    static constexpr int kLook = 8;  ///< picks that a lane looks at at a time
    static constexpr int kBatch = 8; ///< picks that are added at a time
    static constexpr int kWidth = 4; ///< elements of a lane
    static constexpr std::int64_t kListed = kBatch + kLook * kWarp;
    static constexpr std::int64_t kExtra = 2 * kListed;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t across() const
    {
        return (picks.slice + kWidth * kWarp - 1) >> (kWarpBits + 2);
    }
    /// Of warps.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t items() const { return (rows + share - 1) / share * across(); }

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t all = items();
        const std::int64_t together = block.threads >> kWarpBits;
        warps(block, [&](const Warp &warp) {
            auto *list = reinterpret_cast<std::int32_t *>(block.extra) + warp.number * kExtra;
            for (std::int64_t item = block.index * together + warp.number; item < all; item += block.count * together) {
                std::int64_t range = item;
                const std::int64_t column = restOf(range, across()) * (kWidth * kWarp);
                ofRows(warp, range * share, column, list, list + kListed);
            }
        });
    }

private:
    PLANLOOM_KERNEL_CODE void ofRows(const Warp &warp, std::int64_t first, std::int64_t column, std::int32_t *numbers,
                                     std::int32_t *places) const
    {
        int listed = 0;
        for (std::int64_t base = 0; base < picks.picks; base += kLook * kWarp) {
            OfLanes<std::int32_t[kLook]> found;
            warp.each([&](int lane) {
                unrolled<kLook>([&](int k) { found(lane)[k] = placeIn(first, base + k * kWarp + lane); });
            });
            unrolled<kLook>([&](int k) {
                const std::uint32_t own = warp.ballot([&](int lane) { return found(lane)[k] >= 0; });
                if (own == 0)
                    return;
                warp.each([&](int lane) {
                    if (found(lane)[k] < 0)
                        return;
                    const int at = listed + countOf(own & ((1U << lane) - 1));
                    numbers[at] = static_cast<std::int32_t>(base) + k * kWarp + lane;
                    places[at] = found(lane)[k];
                });
                listed += countOf(own);
            });
            if (listed < kBatch)
                continue;
            const int whole = listed / kBatch * kBatch;
            for (int from = 0; from < whole; from += kBatch)
                add(warp, first, column, numbers + from, places + from, kBatch);
            listed -= whole;
            OfLanes<Two<int>> moved;
            warp.each([&](int lane) {
                if (lane < listed)
                    moved(lane) = {numbers[whole + lane], places[whole + lane]};
            });
            warp.each([&](int lane) {
                if (lane >= listed)
                    return;
                numbers[lane] = moved(lane).a;
                places[lane] = moved(lane).b;
            });
        }
        if (listed > 0)
            add(warp, first, column, numbers, places, listed);
    }
    /// The row of pick @p i among those from @p first on; -1: not there.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int32_t placeIn(std::int64_t first, std::int64_t i) const
    {
        if (i >= picks.picks)
            return -1;
        const std::int64_t row = picks.rowAt(i);
        return row >= first && row - first < share ? static_cast<std::int32_t>(row - first) : -1;
    }
    /// The first @p count of a list.
    PLANLOOM_KERNEL_CODE void add(const Warp &warp, std::int64_t first, std::int64_t begin, const std::int32_t *numbers,
                                  const std::int32_t *places, int count) const
    {
        warp.each([&](int lane) {
            const std::int64_t column = begin + lane * kWidth;
            if (column >= picks.slice)
                return;
            const From from{y, Kind::F32};
            const To to{y, Kind::F32, false};
            float loaded[kBatch][kWidth] = {}, before[kBatch][kWidth] = {};
            std::int32_t own[kBatch];
            unrolled<kBatch>([&](int k) {
                own[k] = k < count ? places[k] : -1;
                if (k < count) {
                    loadSeveral(updates, numbers[k] * picks.slice + column, loaded[k]);
                    loadSeveral(from, (first + own[k]) * picks.slice + column, before[k]);
                }
            });
            float sums[kWidth] = {};
            std::int32_t place = -1;
            unrolled<kBatch>([&](int k) {
                if (k >= count)
                    return;
                if (own[k] != place) {
                    if (place >= 0)
                        putSeveral(to, (first + place) * picks.slice + column, sums);
                    place = own[k];
                    unrolled<kWidth>([&](int e) { sums[e] = before[k][e]; });
                    bool seen = false;
                    unrolled<kBatch>([&](int earlier) { seen = seen || (earlier < k && own[earlier] == place); });
                    if (seen) // and written since
                        loadSeveral(from, (first + place) * picks.slice + column, sums);
                }
                unrolled<kWidth>([&](int e) { sums[e] += loaded[k][e]; });
            });
            putSeveral(to, (first + place) * picks.slice + column, sums);
        });
    }
};

/// values[1] at the index along the middle of (outer, n, inner), values[0] elsewhere; elements of 1, 2, 4 or 8 bytes.
struct OneHot {
    Indices indices; ///< (outer, inner)
    const void *values = nullptr;
    void *y = nullptr;
    int elementBytes = 4;
    std::int64_t outer = 1, n = 1, inner = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(outer * n * inner, [&](std::int64_t i) {
            const std::int64_t index = indices.at(i / inner / n * inner + i % inner);
            const bool hot = (index < 0 ? index + n : index) == i / inner % n;
            switch (elementBytes) {
            case 1: move<std::uint8_t>(i, hot); break;
            case 2: move<std::uint16_t>(i, hot); break;
            case 4: move<std::uint32_t>(i, hot); break;
            default: move<std::uint64_t>(i, hot); break;
            }
        });
    }

private:
    template <class T>
    PLANLOOM_KERNEL_CODE void move(std::int64_t i, bool hot) const
    {
        static_cast<T *>(y)[i] = static_cast<const T *>(values)[hot ? 1 : 0];
    }
};

/// Positions of a split axis as one device of the line sees them.
struct ShiftIndices {
    const std::int64_t *x = nullptr;
    std::int64_t *y = nullptr;
    std::int64_t n = 0;
    std::int64_t size = 0, all = 0, first = 0;
    std::int64_t keep = kElsewhere;
    int fromEnd = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) { y[i] = shifted(x[i]); });
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t shifted(std::int64_t index) const
    {
        if (index == kElsewhere)
            return index;
        if (index == keep)
            return kKept;
        if (index < 0 && index > kKept && fromEnd != 0)
            index += all;
        if (index < 0 || index >= all)
            return kNowhere;
        return index >= first && index < first + size ? index - first : kElsewhere;
    }
};

} // namespace planloom::cuda
