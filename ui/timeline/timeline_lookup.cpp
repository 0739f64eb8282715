// SPDX-License-Identifier: GPL-3.0-or-later
// The part of TimelineModel that finds slices.
#include "ui/timeline/timeline_model.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>

namespace planloom::ui {

namespace {

bool containsIgnoringCase(std::string_view text, std::string_view part)
{
    const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b)); };
    return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

const std::string kNoDevice;

} // namespace

std::optional<TimelineModel::Slice> TimelineModel::sliceAt(std::size_t row, double time, double tolerance) const
{
    const Row &at = m_rows[row];
    const double own = at.measured ? time : time - static_cast<double>(m_offset);
    const auto index = slices(at).at(std::llround(own), std::llround(tolerance));
    if (!index)
        return std::nullopt;
    return Slice{at.measured, at.lod, *index};
}

trace::Record TimelineModel::record(const Slice &slice) const
{
    trace::Record record = lod(slice.measured).rows()[slice.lod].record(slice.index);
    if (!slice.measured)
        record.start += m_offset;
    return record;
}

const trace::TaskInfo &TimelineModel::task(const Slice &slice) const
{
    return task(slice.measured, lod(slice.measured).rows()[slice.lod].record(slice.index).task);
}

const std::string &TimelineModel::device(const Slice &slice) const
{
    const auto rank = static_cast<std::size_t>(lod(slice.measured).rows()[slice.lod].rank());
    if (slice.measured)
        return rank < m_measuredRanks.size() ? m_measuredRanks[rank].device : kNoDevice;
    return m_predicted && rank < m_predicted->trace.ranks.size() ? m_predicted->trace.ranks[rank].device : kNoDevice;
}

std::optional<std::size_t> TimelineModel::groupOf(const std::string &device) const
{
    const auto found = std::find_if(m_groups.begin(), m_groups.end(), [&](const Group &g) { return g.device == device; });
    if (found == m_groups.end())
        return std::nullopt;
    return static_cast<std::size_t>(found - m_groups.begin());
}

std::optional<TimelineModel::Slice> TimelineModel::findIn(bool measured, int rank, int lane, std::string_view id) const
{
    const auto &all = lod(measured).rows();
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].rank() != rank || (lane >= 0 && all[k].lane() != lane))
            continue;
        std::pair<std::uint32_t, std::uint32_t> range{0, static_cast<std::uint32_t>(all[k].size())};
        if (measured && m_anchor >= 0)
            range = all[k].within(step(m_anchor));
        for (std::uint32_t index = range.first; index < range.second; ++index) {
            if (task(measured, all[k].record(index).task).id == id)
                return Slice{measured, k, index};
        }
    }
    return std::nullopt;
}

std::optional<TimelineModel::Slice> TimelineModel::counterpart(const Slice &slice) const
{
    const auto group = groupOf(device(slice));
    if (!group)
        return std::nullopt;
    const int rank = slice.measured ? m_ranks[*group].first : m_ranks[*group].second;
    if (rank < 0)
        return std::nullopt;
    return findIn(!slice.measured, rank, lod(slice.measured).rows()[slice.lod].lane(), task(slice).id);
}

std::optional<TimelineModel::Slice> TimelineModel::find(std::string_view taskId, std::string_view device) const
{
    for (const bool measured : {false, true}) {
        for (std::size_t g = 0; g < m_groups.size(); ++g) {
            if (!device.empty() && m_groups[g].device != device)
                continue;
            const int rank = measured ? m_ranks[g].second : m_ranks[g].first;
            if (rank < 0)
                continue;
            if (const auto found = findIn(measured, rank, -1, taskId))
                return found;
        }
    }
    return std::nullopt;
}

std::optional<TimelineModel::Slice> TimelineModel::onRow(const Slice &slice, int by) const
{
    const auto size = static_cast<std::int64_t>(lod(slice.measured).rows()[slice.lod].size());
    const std::int64_t index = static_cast<std::int64_t>(slice.index) + by;
    if (index < 0 || index >= size)
        return std::nullopt;
    return Slice{slice.measured, slice.lod, static_cast<std::uint32_t>(index)};
}

std::optional<TimelineModel::Slice> TimelineModel::alongMicroBatch(const Slice &slice, int by) const
{
    const trace::Record here = record(slice);
    const int microBatch = task(slice).microBatch;
    const auto &all = lod(slice.measured).rows();
    // A total order of the micro-batch's slices: by start, then by row, then by place in the row.
    using Key = std::tuple<std::int64_t, std::size_t, std::uint32_t>;
    const std::int64_t offset = slice.measured ? 0 : m_offset;
    const Key from{here.start, slice.lod, slice.index};
    std::optional<Key> best;
    for (std::size_t k = 0; k < all.size(); ++k) {
        for (std::uint32_t index = 0; index < all[k].size(); ++index) {
            const trace::Record other = all[k].record(index);
            if (other.step != here.step || task(slice.measured, other.task).microBatch != microBatch)
                continue;
            const Key key{other.start + offset, k, index};
            const bool beyond = by > 0 ? key > from : key < from;
            if (beyond && (!best || (by > 0 ? key < *best : key > *best)))
                best = key;
        }
    }
    if (!best)
        return std::nullopt;
    return Slice{slice.measured, std::get<1>(*best), std::get<2>(*best)};
}

std::vector<TimelineModel::Slice> TimelineModel::search(std::string_view text, std::size_t limit) const
{
    std::vector<Slice> hits;
    if (text.empty())
        return hits;
    for (const bool measured : {false, true}) {
        const auto &all = lod(measured).rows();
        for (std::size_t k = 0; k < all.size(); ++k) {
            for (std::uint32_t index = 0; index < all[k].size() && hits.size() < limit; ++index) {
                if (containsIgnoringCase(task(measured, all[k].record(index).task).id, text))
                    hits.push_back({measured, k, index});
            }
        }
    }
    std::stable_sort(hits.begin(), hits.end(), [this](const Slice &a, const Slice &b) { return record(a).start < record(b).start; });
    return hits;
}

TimelineModel::Totals TimelineModel::totals(trace::Window window, bool measured) const
{
    if (!measured) {
        window.begin -= m_offset;
        window.end -= m_offset;
    }
    Totals totals;
    for (const Row &row : m_rows) {
        if (row.measured != measured)
            continue;
        const auto [first, last] = slices(row).within(window);
        if (first == last)
            continue;
        const trace::Bar bar = slices(row).summary(first, last);
        totals.count += bar.count;
        totals.busy += bar.busy;
    }
    return totals;
}

} // namespace planloom::ui
