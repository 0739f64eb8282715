// SPDX-License-Identifier: Apache-2.0
#include "engine/analysis/row_grouping.h"

#include <fmt/format.h>

#include <string_view>

namespace planloom::analysis {
namespace {

/// "stream 7 (2)", which lies within "stream 7", is called as that one.
std::string_view outermost(std::string_view lane)
{
    const std::size_t open = lane.rfind(" (");
    if (open == std::string_view::npos || lane.back() != ')')
        return lane;
    const std::string_view number = lane.substr(open + 2, lane.size() - open - 3);
    const bool isNumber = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
    return isNumber ? lane.substr(0, open) : lane;
}

} // namespace

RowGrouping::RowGrouping(const trace::Trace &trace, GroupBy by) : m_trace(&trace), m_by(by)
{
    std::map<std::string, std::int32_t, std::less<>> named;
    const auto rankCalled = [&](std::string_view name) {
        const auto [at, isNew] = named.try_emplace(std::string(name), static_cast<std::int32_t>(m_ranks.size()));
        if (isNew)
            m_ranks.push_back({std::string(name)});
        return at->second;
    };
    m_groupOfLane.assign(trace.lanes.size(), -1);
    m_groupOfKind.assign(trace.kinds.size(), -1);
    for (const trace::Record &record : trace.records) {
        const auto lane = static_cast<std::size_t>(record.lane);
        const trace::TaskInfo *task = trace.task(record.task);
        if (by == GroupBy::Lane && lane < m_groupOfLane.size() && m_groupOfLane[lane] < 0)
            m_groupOfLane[lane] = rankCalled(outermost(trace.lanes[lane].name));
        const auto kind = static_cast<std::size_t>(task ? task->kind : trace::Kind::Other);
        const bool isCounter = lane < trace.lanes.size() && trace.lanes[lane].work == trace::Work::Device;
        if (by == GroupBy::Kind && isCounter && m_groupOfLane[lane] < 0)
            m_groupOfLane[lane] = rankCalled("counters");
        else if (by == GroupBy::Kind && !isCounter && kind < m_groupOfKind.size() && m_groupOfKind[kind] < 0)
            m_groupOfKind[kind] = rankCalled(trace.kinds[kind].name);
        const auto [at, isNew] =
            m_laneOf.try_emplace({record.rank, record.lane}, static_cast<std::int32_t>(m_lanes.size()));
        if (!isNew)
            continue;
        const trace::LaneInfo &own = trace.lane(record.lane);
        const auto rank = static_cast<std::size_t>(record.rank);
        const std::string device = rank < trace.ranks.size() ? trace.ranks[rank].device : std::string("?");
        const bool isInner = outermost(own.name).size() != own.name.size();
        m_lanes.push_back(own);
        const std::string file = device.substr(0, device.find(": ")); // as import::readForeignTraces() calls ranks
        if (!isCounter) // levels of counters are found by their lane's name
            m_lanes.back().name = by == GroupBy::Lane && !isInner ? device : fmt::format("{}, {}", file, own.name);
    }
}

std::int32_t RowGrouping::groupOf(const trace::Record &record) const
{
    const auto lane = static_cast<std::size_t>(record.lane);
    if (lane < m_groupOfLane.size() && m_groupOfLane[lane] >= 0)
        return m_groupOfLane[lane];
    const trace::TaskInfo *task = m_trace->task(record.task);
    const auto kind = static_cast<std::size_t>(task ? task->kind : trace::Kind::Other);
    return kind < m_groupOfKind.size() ? m_groupOfKind[kind] : -1;
}

trace::Record RowGrouping::of(const trace::Record &record) const
{
    const auto lane = m_laneOf.find({record.rank, record.lane});
    const std::int32_t group = groupOf(record);
    trace::Record made = record;
    if (m_by == GroupBy::Device || lane == m_laneOf.end() || group < 0)
        return made;
    made.rank = group;
    made.lane = lane->second;
    return made;
}

trace::Trace RowGrouping::apply() const
{
    trace::Trace made = *m_trace;
    if (m_by == GroupBy::Device)
        return made;
    made.ranks = m_ranks;
    made.lanes = m_lanes;
    for (trace::Record &record : made.records)
        record = of(record);
    made.sort();
    return made;
}

} // namespace planloom::analysis
