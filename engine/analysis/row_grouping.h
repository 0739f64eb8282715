// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace planloom::analysis {

/// What the rows of a timeline are grouped by.
enum class GroupBy : std::uint8_t {
    Device, ///< as the trace has it
    Lane,   ///< streams and threads of one name on all devices; what lies within others is with them
    Kind    ///< kinds of work
};

/// A trace whose ranks are lanes or kinds, and whose lanes are the devices, or devices and lanes, so that whatever
/// shows a trace shows it grouped so. Tasks, kinds, times and steps stay. Lanes of counters keep their names and
/// levels.
class RowGrouping {
public:
    /// Cost: O(records log rows).
    RowGrouping(const trace::Trace &trace, GroupBy by);
    /// Where a record of the trace is in the grouped one.
    [[nodiscard]] trace::Record of(const trace::Record &record) const;
    /// The whole trace, sorted. Cost: O(n log n).
    [[nodiscard]] trace::Trace apply() const;

private:
    [[nodiscard]] std::int32_t groupOf(const trace::Record &record) const; ///< -1: no group of its own

    const trace::Trace *m_trace;
    GroupBy m_by;
    std::vector<std::int32_t> m_groupOfLane; ///< rows of m_ranks; Lane
    std::vector<std::int32_t> m_groupOfKind; ///< likewise, Kind
    std::vector<trace::RankInfo> m_ranks;
    std::vector<trace::LaneInfo> m_lanes;
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> m_laneOf; ///< by rank and lane of the trace
};

} // namespace planloom::analysis
