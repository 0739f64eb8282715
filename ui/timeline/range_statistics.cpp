// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/range_statistics.h"

#include <algorithm>
#include <map>

namespace planloom::ui {

namespace {

std::int64_t lengthOf(const std::vector<std::pair<std::int64_t, std::int64_t>> &spans)
{
    std::int64_t length = 0;
    for (const auto &[begin, end] : spans)
        length += end - begin;
    return length;
}

/// How much of [begin, end) lies in @p spans.
std::int64_t overlap(const std::vector<std::pair<std::int64_t, std::int64_t>> &spans, std::int64_t begin,
                     std::int64_t end)
{
    auto span = std::ranges::partition_point(spans, [begin](const auto &each) { return each.second <= begin; });
    std::int64_t common = 0;
    for (; span != spans.end() && span->first < end; ++span)
        common += std::min(end, span->second) - std::max(begin, span->first);
    return common;
}

std::vector<std::pair<std::int64_t, std::int64_t>> joined(std::vector<std::pair<std::int64_t, std::int64_t>> spans)
{
    std::ranges::sort(spans);
    std::vector<std::pair<std::int64_t, std::int64_t>> made;
    for (const auto &[begin, end] : spans) {
        if (!made.empty() && begin <= made.back().second)
            made.back().second = std::max(made.back().second, end);
        else if (begin < end)
            made.emplace_back(begin, end);
    }
    return made;
}

} // namespace

trace::Window RangeStatistics::ownWindow(bool measured) const
{
    const std::int64_t offset = measured ? 0 : m_model->offset();
    return {m_window.begin - offset, m_window.end - offset};
}

RangeStatistics::Spans RangeStatistics::spansOf(bool measured, std::size_t first, std::size_t last) const
{
    const trace::Window window = ownWindow(measured);
    Spans all;
    for (std::size_t r = first; r < last; ++r) {
        const trace::Row &row = m_model->traceIndex(measured).lod().rows()[r];
        const auto [from, to] = row.within(window);
        for (std::uint32_t i = from; i < to; ++i) {
            const trace::Record record = row.record(i);
            all.emplace_back(std::max(record.start, window.begin),
                             std::min(record.start + record.duration, window.end));
        }
    }
    return joined(std::move(all));
}

bool RangeStatistics::add(std::size_t slices)
{
    std::size_t added = 0;
    while (m_nextGroup < m_model->groups().size() && added < slices) {
        for (const bool measured : {false, true})
            added += addDevice(m_nextGroup, measured);
        ++m_nextGroup;
    }
    m_complete = m_nextGroup >= m_model->groups().size();
    return m_complete;
}

/// Lane by lane. Returns how many slices there were.
std::size_t RangeStatistics::addDevice(std::size_t group, bool measured)
{
    const TimelineModel::Group &device = m_model->groups()[group];
    const trace::Index &index = m_model->traceIndex(measured);
    const auto [begin, end] = index.rowsOf(measured ? device.measuredRank : device.predictedRank);
    const auto &rows = index.lod().rows();
    Spans compute;
    for (std::size_t r = begin; r < end; ++r) {
        if (index.tables().lane(rows[r].lane()).work != trace::Work::Compute)
            continue;
        std::size_t last = r + 1;
        while (last < end && rows[last].lane() == rows[r].lane())
            ++last;
        const Spans lane = spansOf(measured, r, last);
        compute.insert(compute.end(), lane.begin(), lane.end());
        r = last - 1;
    }
    compute = joined(std::move(compute)); // of all streams that compute
    std::size_t slices = 0;
    for (std::size_t r = begin; r < end;) {
        std::size_t last = r + 1;
        while (last < end && rows[last].lane() == rows[r].lane())
            ++last;
        if (m_model->gauge({.measured = measured, .lane = rows[r].lane()}) == nullptr)
            slices += addLane(group, measured, r, last, compute);
        r = last;
    }
    return slices;
}

std::size_t RangeStatistics::addLane(std::size_t group, bool measured, std::size_t first, std::size_t last,
                                     const Spans &compute)
{
    const trace::Index &index = m_model->traceIndex(measured);
    const auto &rows = index.lod().rows();
    const trace::Window window = ownWindow(measured);
    const std::int32_t lane = rows[first].lane();
    const bool communicates = index.tables().lane(lane).work == trace::Work::Communication;
    std::map<std::pair<trace::Kind, std::int32_t>, Entry> byKind;
    Entry blank{.group = group, .measured = measured, .lane = lane};
    blank.hidden = communicates ? 0 : -1;
    Entry whole = blank;
    whole.whole = true;
    const auto count = [](Entry &entry, const trace::Record &record, std::int64_t busy, std::int64_t hidden) {
        entry.least = entry.count == 0 ? record.duration : std::min(entry.least, record.duration);
        entry.most = std::max(entry.most, record.duration);
        entry.sum += record.duration;
        entry.busy += busy;
        entry.hidden += entry.hidden < 0 ? 0 : hidden;
        ++entry.count;
    };
    for (std::size_t r = first; r < last; ++r) {
        const auto [from, to] = rows[r].within(window);
        for (std::uint32_t i = from; i < to; ++i) {
            const trace::Record record = rows[r].record(i);
            const std::int64_t begin = std::max(record.start, window.begin);
            const std::int64_t end = std::min(record.start + record.duration, window.end);
            const std::int64_t busy = std::max<std::int64_t>(end - begin, 0);
            const std::int64_t hidden = communicates ? overlap(compute, begin, end) : 0;
            const trace::TaskInfo &task = m_model->task(measured, record.task);
            Entry &entry = byKind.try_emplace({task.kind, task.stage}, blank).first->second;
            entry.kind = task.kind;
            entry.stage = task.stage;
            count(entry, record, busy, hidden);
            count(whole, record, busy, hidden);
        }
    }
    if (whole.count == 0)
        return 0;
    whole.idle = window.end - window.begin - lengthOf(spansOf(measured, first, last));
    m_entries.push_back(whole);
    for (const auto &each : byKind)
        m_entries.push_back(each.second);
    return static_cast<std::size_t>(whole.count);
}

} // namespace planloom::ui
