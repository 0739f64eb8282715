// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/level_of_detail.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace planloom::trace {
namespace {

/// 8 slices an aggregate: 4 bytes a slice for all levels together, and at most 14 slices visited one by one in a
/// query.
constexpr std::size_t kBlock = 8;
constexpr std::size_t kFewBlocks = 16;
constexpr std::uint32_t kSaturated = std::numeric_limits<std::uint32_t>::max();

std::uint32_t saturated(std::int64_t duration)
{
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(duration, 0, kSaturated));
}

} // namespace

Record Row::record(std::size_t slice) const
{
    return {m_starts[slice], m_durations[slice], m_tasks[slice], m_steps[slice], m_rank, m_lane};
}

bool Row::fits(const Record &record) const
{
    if (m_starts.empty() || record.start >= end())
        return true;
    const std::size_t position = firstStartingAt(record.start, 0);
    const bool clearBefore = position == 0 || endOf(position - 1) <= record.start;
    const bool clearBehind = position == size() || m_starts[position] >= record.start + record.duration;
    // Equal starts only where one of the two has no duration, and then the empty one comes first.
    return clearBefore && clearBehind;
}

void Row::insert(const Record &record)
{
    const bool atEnd = m_starts.empty() || record.start >= end();
    const std::size_t position = atEnd ? size() : firstStartingAt(record.start, 0);
    m_starts.insert(position, record.start);
    m_durations.insert(position, record.duration);
    m_tasks.insert(position, record.task);
    m_steps.insert(position, record.step);
    std::size_t stale = position / kBlock;
    if (!atEnd)
        m_blockStarts.resize(stale);
    for (std::size_t block = m_blockStarts.size(); block * kBlock < size(); ++block)
        m_blockStarts.push_back(m_starts[block * kBlock]);
    if (atEnd && size() % kBlock != 0)
        return;
    for (auto &level : m_levels) {
        if (level.size() > stale)
            level.resize(stale);
        stale /= 2;
    }
    aggregateNewBlocks();
}

void Row::aggregateNewBlocks()
{
    const std::size_t blocks = size() / kBlock;
    if (blocks == 0)
        return;
    if (m_levels.empty())
        m_levels.emplace_back();
    for (std::size_t j = m_levels[0].size(); j < blocks; ++j)
        m_levels[0].push_back(leaf(j * kBlock, (j + 1) * kBlock));
    for (std::size_t k = 1; m_levels[k - 1].size() >= 2; ++k) {
        if (m_levels.size() == k)
            m_levels.emplace_back();
        for (std::size_t j = m_levels[k].size(); j < m_levels[k - 1].size() / 2; ++j) {
            Aggregate node = m_levels[k - 1][2 * j];
            combine(node, m_levels[k - 1][2 * j + 1]);
            m_levels[k].push_back(node);
        }
    }
}

Row::Aggregate Row::leaf(std::size_t first, std::size_t last) const
{
    std::size_t longest = first;
    std::int64_t busy = 0;
    for (std::size_t i = first; i < last; ++i) {
        busy += m_durations[i];
        if (m_durations[i] > m_durations[longest])
            longest = i;
    }
    return {busy, static_cast<std::uint32_t>(longest), saturated(m_durations[longest])};
}

void Row::combine(Aggregate &into, const Aggregate &right) const
{
    into.busy += right.busy;
    const bool equal = right.duration == into.duration;
    bool longer = right.duration > into.duration;
    if (equal && right.duration == kSaturated && m_durations[right.longest] != m_durations[into.longest])
        longer = m_durations[right.longest] > m_durations[into.longest];
    else if (equal)
        longer = right.longest < into.longest;
    if (longer) {
        into.longest = right.longest;
        into.duration = right.duration;
    }
}

/// Of [first, last), which is not empty.
Row::Aggregate Row::aggregate(std::size_t first, std::size_t last) const
{
    std::size_t a = (first + kBlock - 1) / kBlock;
    std::size_t b = last / kBlock;
    if (a >= b)
        return leaf(first, last);
    Aggregate sum = m_levels[0][a];
    if (first < a * kBlock)
        combine(sum, leaf(first, a * kBlock));
    if (b * kBlock < last)
        combine(sum, leaf(b * kBlock, last));
    ++a;
    if (b - a <= kFewBlocks) { // side by side in memory
        for (; a < b; ++a)
            combine(sum, m_levels[0][a]);
        return sum;
    }
    for (std::size_t k = 0; a < b; ++k, a /= 2, b /= 2) {
        if (a % 2 == 1)
            combine(sum, m_levels[k][a++]);
        if (b % 2 == 1)
            combine(sum, m_levels[k][--b]);
    }
    return sum;
}

Bar Row::summary(std::uint32_t first, std::uint32_t last) const
{
    if (first >= last)
        return {};
    const Aggregate sum = aggregate(first, last);
    return {m_starts[first], endOf(last - 1), sum.busy, sum.longest, last - first};
}

std::size_t Row::firstStartingAt(std::int64_t time, std::size_t from) const
{
    // Gallops: the next pixel's first slice is usually near.
    std::size_t step = 1;
    while (from + step < size() && m_starts[from + step] < time) {
        from += step;
        step *= 2;
    }
    const auto first = m_starts.begin() + static_cast<std::ptrdiff_t>(from);
    const auto last = m_starts.begin() + static_cast<std::ptrdiff_t>(std::min(from + step, size()));
    return static_cast<std::size_t>(std::lower_bound(first, last, time) - m_starts.begin());
}

std::size_t Row::firstEndingAfter(std::int64_t time) const
{
    const auto next = std::upper_bound(m_starts.begin(), m_starts.end(), time);
    const auto i = static_cast<std::size_t>(next - m_starts.begin());
    return i > 0 && endOf(i - 1) > time ? i - 1 : i;
}

std::pair<std::uint32_t, std::uint32_t> Row::within(Window window) const
{
    const std::size_t first = firstEndingAfter(window.begin);
    const auto last = std::lower_bound(m_starts.begin(), m_starts.end(), window.end) - m_starts.begin();
    return {static_cast<std::uint32_t>(first),
            static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(last, static_cast<std::ptrdiff_t>(first)))};
}

bool Row::isShort(std::size_t block, std::int64_t most) const
{
    return block + 1 < m_blockStarts.size() && m_blockStarts[block + 1] - m_blockStarts[block] <= most;
}

/// Behind the last slice that begins before @p edge, or behind its block if that is short. @p from begins before it.
std::size_t Row::behindPixel(std::int64_t edge, std::size_t from, std::int64_t shortBlock) const
{
    std::size_t block = from / kBlock;
    std::size_t step = 1;
    while (block + step < m_blockStarts.size() && m_blockStarts[block + step] < edge) {
        block += step;
        step *= 2;
    }
    const std::int64_t *const blocks = m_blockStarts.data();
    const std::size_t last = std::min(block + step, m_blockStarts.size());
    block = static_cast<std::size_t>(std::lower_bound(blocks + block + 1, blocks + last, edge) - blocks) - 1;
    if (isShort(block, shortBlock))
        return (block + 1) * kBlock;
    const std::int64_t *const starts = m_starts.begin();
    const std::size_t begin = std::max(from, block * kBlock) + 1; // behind one that begins before the edge
    const std::size_t end = std::min((block + 1) * kBlock, size());
    return static_cast<std::size_t>(std::lower_bound(starts + begin, starts + end, edge) - starts);
}

void Row::query(Window window, int pixels, std::vector<Bar> &out) const
{
    if (pixels <= 0 || window.end <= window.begin)
        return;
    const double perPixel = static_cast<double>(window.end - window.begin) / pixels;
    const auto shortBlock = static_cast<std::int64_t>(perPixel / 2);
    const auto edgeBehind = [&](std::int64_t time) {
        const double pixel = std::max(0.0, std::floor(static_cast<double>(time - window.begin) / perPixel));
        return std::max(time + 1, window.begin + static_cast<std::int64_t>(std::ceil((pixel + 1) * perPixel)));
    };
    const auto isWide = [&](std::size_t slice) { return static_cast<double>(m_durations[slice]) >= perPixel; };
    const auto [begin, end] = within(window);
    for (std::size_t i = begin; i < end;) {
        const bool inShort = isShort(i / kBlock, shortBlock);
        std::size_t behind = i + 1;
        if (inShort || !isWide(i)) {
            behind = std::min<std::size_t>(
                behindPixel(edgeBehind(inShort ? m_blockStarts[i / kBlock] : m_starts[i]), i, shortBlock), end);
            if (behind > i + 1 && !isShort((behind - 1) / kBlock, shortBlock) && isWide(behind - 1))
                --behind; // a bar by itself
        }
        const bool wholeBlocks = behind % kBlock == 0 && isShort(behind / kBlock - 1, shortBlock);
        const Aggregate sum = aggregate(i, behind);
        out.push_back({i % kBlock == 0 ? m_blockStarts[i / kBlock] : m_starts[i],
                       wholeBlocks ? m_blockStarts[behind / kBlock] : endOf(behind - 1), sum.busy, sum.longest,
                       static_cast<std::uint32_t>(behind - i)});
        i = behind;
    }
}

std::optional<std::uint32_t> Row::at(std::int64_t time, std::int64_t tolerance) const
{
    const std::size_t next = firstEndingAfter(time);
    if (next < size() && m_starts[next] <= time)
        return static_cast<std::uint32_t>(next);
    const std::int64_t behind = next < size() ? m_starts[next] - time : tolerance + 1;
    const std::int64_t before = next > 0 ? time - endOf(next - 1) + 1 : tolerance + 1;
    if (std::min(behind, before) > tolerance)
        return std::nullopt;
    return static_cast<std::uint32_t>(behind < before ? next : next - 1);
}

void LevelOfDetail::append(std::span<const Record> records)
{
    for (const Record &record : records)
        add(record);
}

void LevelOfDetail::add(const Record &record)
{
    const std::int64_t end = record.start + record.duration;
    m_begin = m_size == 0 ? record.start : std::min(m_begin, record.start);
    m_end = m_size == 0 ? end : std::max(m_end, end);
    ++m_size;
    for (std::int32_t depth = 0; depth < kMaxDepth; ++depth) {
        const auto row = find(record.rank, record.lane, depth);
        if (row->fits(record))
            return row->insert(record);
    }
    ++m_shortened;
    const auto last = find(record.rank, record.lane, kMaxDepth - 1);
    Record cut = record;
    cut.start = last->end();
    cut.duration = std::max<std::int64_t>(0, end - cut.start);
    last->insert(cut);
}

std::vector<Row>::iterator LevelOfDetail::find(std::int32_t rank, std::int32_t lane, std::int32_t depth)
{
    const auto key = std::tuple(rank, lane, depth);
    const auto keyOf = [](const Row &row) { return std::tuple(row.rank(), row.lane(), row.depth()); };
    if (m_last < m_rows.size() && keyOf(m_rows[m_last]) == key)
        return m_rows.begin() + static_cast<std::ptrdiff_t>(m_last);
    auto place = std::lower_bound(m_rows.begin(), m_rows.end(), key,
                                  [&](const Row &row, const auto &k) { return keyOf(row) < k; });
    if (place == m_rows.end() || keyOf(*place) != key)
        place = m_rows.insert(place, Row(rank, lane, depth));
    m_last = static_cast<std::size_t>(place - m_rows.begin());
    return place;
}

} // namespace planloom::trace
