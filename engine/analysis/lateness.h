// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/analysis/collectives.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::analysis {

/// Why a rank came last to a collective.
struct LateCause {
    enum class Why : std::uint8_t {
        Work,    ///< it computed for longer than the others did since the collective before: `record` is the work
        Launch,  ///< its device had nothing to do: `record` is the call of the host that came late
        Unknown, ///< nothing in the trace explains it
    };
    Why why = Why::Unknown;
    std::optional<std::uint32_t> record; ///< of Trace::records
    std::int64_t longer = 0;             ///< nanoseconds by which the work of that name took longer than the median of
                                         ///< the other members'; of a launch by which it was late
};

/// Compares what the last member did since the collective before with what the others did, name by name. Cost:
/// O(records).
LateCause causeOf(const trace::Trace &trace, const Collectives &collectives, const Collective &collective);

/// A rank over all collectives.
struct RankLateness {
    std::int32_t rank = 0;
    std::int64_t collectives = 0; ///< that it is in
    std::int64_t last = 0;        ///< of them, to which it came last
    std::int64_t caused = 0;      ///< nanoseconds that the others waited in these
    std::int64_t waited = 0;      ///< nanoseconds that it waited itself
};
/// The rank that caused most waiting first. Ranks without collectives are left out.
std::vector<RankLateness> latenessByRank(const trace::Trace &trace, const Collectives &collectives);

} // namespace planloom::analysis
