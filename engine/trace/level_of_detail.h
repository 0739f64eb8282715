// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/column.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace planloom::trace {

/// A stretch of time, nanoseconds since the trace's origin, end excluded.
struct Window {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Element that a view paints: one slice as wide as a pixel or wider, or all narrower ones that begin in one pixel.
struct Bar {
    std::int64_t begin = 0; ///< start of the (first) slice
    std::int64_t end = 0;   ///< end of the (last) slice, or of what follows it in its pixel
    std::int64_t busy = 0;  ///< nanoseconds that are covered by slices: busy / pixel width is the density to paint
    std::uint32_t slice =
        0; ///< index in the row of the longest slice, the first of equals: its kind and label are the ones to show
    std::uint32_t count = 0; ///< slices
};

/// Slices of one (rank, lane) that do not overlap, sorted by start, with an aggregate per block of 8 slices and per
/// power of two of these above. 29 bytes a slice. A value; thread contract: as for a vector.
class Row {
public:
    Row(std::int32_t rank, std::int32_t lane, std::int32_t depth) : m_rank(rank), m_lane(lane), m_depth(depth) {}

    [[nodiscard]] std::int32_t rank() const { return m_rank; }
    [[nodiscard]] std::int32_t lane() const { return m_lane; }
    /// 0, or more for slices that overlap one of the rows above.
    [[nodiscard]] std::int32_t depth() const { return m_depth; }
    [[nodiscard]] std::size_t size() const { return m_starts.size(); }
    [[nodiscard]] Record record(std::size_t slice) const;
    [[nodiscard]] std::int64_t start(std::size_t slice) const { return m_starts[slice]; }
    [[nodiscard]] std::int32_t task(std::size_t slice) const { return m_tasks[slice]; }
    [[nodiscard]] std::int32_t step(std::size_t slice) const { return m_steps[slice]; }
    [[nodiscard]] std::int64_t begin() const { return m_starts.empty() ? 0 : m_starts.front(); }
    [[nodiscard]] std::int64_t end() const { return m_starts.empty() ? 0 : endOf(m_starts.size() - 1); }

    /// Appends to @p out at most 2 * pixels + 2 bars, in time order, that show @p window on @p pixels columns. A block
    /// that lasts half a pixel or less is shown where its first slice begins: far out a picture reads
    /// blocks and no slices, which would be read from memory each by itself. Cost: O(pixels log size). Bars that begin
    /// before or end after the window are not clipped.
    void query(Window window, int pixels, std::vector<Bar> &out) const;
    /// The slice under @p time, or the nearest one that begins or ends within @p tolerance of it. Cost: O(log size).
    [[nodiscard]] std::optional<std::uint32_t> at(std::int64_t time, std::int64_t tolerance = 0) const;
    /// Slices that overlap @p window, as [first, last). Cost: O(log size).
    [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> within(Window window) const;
    /// Count, busy time and longest slice of [first, last). Cost: O(log size).
    [[nodiscard]] Bar summary(std::uint32_t first, std::uint32_t last) const;

    /// True if @p record would overlap no slice of this row.
    [[nodiscard]] bool fits(const Record &record) const;
    /// Adds a record that fits. Cost: O(1) amortised at the end, O(slices behind it) elsewhere.
    void insert(const Record &record);

private:
    struct Aggregate {
        std::int64_t busy = 0;
        std::uint32_t longest = 0;  ///< index of the slice
        std::uint32_t duration = 0; ///< of that one, nanoseconds; the largest number: as much or more
    };
    static_assert(sizeof(Aggregate) == 16);

    [[nodiscard]] std::int64_t endOf(std::size_t slice) const { return m_starts[slice] + m_durations[slice]; }
    [[nodiscard]] std::size_t firstEndingAfter(std::int64_t time) const;
    [[nodiscard]] std::size_t firstStartingAt(std::int64_t time, std::size_t from) const;
    [[nodiscard]] bool isShort(std::size_t block, std::int64_t most) const;
    [[nodiscard]] std::size_t behindPixel(std::int64_t edge, std::size_t from, std::int64_t shortBlock) const;
    [[nodiscard]] Aggregate leaf(std::size_t first, std::size_t last) const;
    [[nodiscard]] Aggregate aggregate(std::size_t first, std::size_t last) const;
    void combine(Aggregate &into, const Aggregate &right) const;
    void aggregateNewBlocks();

    std::int32_t m_rank, m_lane, m_depth;
    Column<std::int64_t> m_starts;
    Column<std::int64_t> m_durations;
    Column<std::int32_t> m_tasks;
    Column<std::int32_t> m_steps;
    std::vector<std::int64_t> m_blockStarts;      ///< of the first slice of each block, the last, begun one too
    std::vector<std::vector<Aggregate>> m_levels; ///< [k][j] covers slices [j, j+1) * 8 * 2^k; whole ones only
};

/// All rows of a trace, for views: append() as records arrive, in any order; query() for the visible part. Slices of a
/// lane that overlap go to further rows, up to kMaxDepth; beyond that they are cut short to fit, and counted. Thread
/// contract: one thread at a time.
class LevelOfDetail {
public:
    static constexpr int kMaxDepth = 8;

    LevelOfDetail() = default;
    explicit LevelOfDetail(const Trace &trace) { append(trace.records); }

    void append(std::span<const Record> records);
    /// Sorted by rank, lane, depth. Valid until the next append() or clear().
    [[nodiscard]] const std::vector<Row> &rows() const { return m_rows; }
    [[nodiscard]] std::vector<Row> &rows() { return m_rows; }
    [[nodiscard]] std::size_t size() const { return m_size; } ///< slices
    [[nodiscard]] std::int64_t begin() const { return m_begin; }
    [[nodiscard]] std::int64_t end() const { return m_end; }
    [[nodiscard]] std::int64_t shortened() const { return m_shortened; } ///< slices that were cut to fit the last row
    void clear() { *this = LevelOfDetail(); }

private:
    void add(const Record &record);
    std::vector<Row>::iterator find(std::int32_t rank, std::int32_t lane, std::int32_t depth);

    std::vector<Row> m_rows;
    std::size_t m_last = 0; ///< the row found last: the next record is mostly of the same
    std::size_t m_size = 0;
    std::int64_t m_begin = 0;
    std::int64_t m_end = 0;
    std::int64_t m_shortened = 0;
};

} // namespace planloom::trace
