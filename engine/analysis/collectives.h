// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::analysis {

/// A rank's part of a collective. Times are the trace's, nanoseconds.
struct Arrival {
    std::uint32_t record = 0; ///< of Trace::records: from when the rank is in the collective to when it leaves it
    std::int64_t at = 0;
    std::int64_t waited = 0; ///< until the last one came, at most until the rank's own end
};

/// Records of several ranks that are one collective.
struct Collective {
    std::size_t first = 0, count = 0; ///< of Collectives::arrivals, by time: the last one is the last to arrive
    std::int32_t communicator = -1;   ///< of Collectives::communicators; -1: the trace does not say
    std::int64_t behind = 0;          ///< by how much the last one came after the one before it
    std::int64_t waited = 0;          ///< of all members together
};

/// All of a trace.
struct Collectives {
    std::vector<Collective> all; ///< by the time at which the last member came
    std::vector<Arrival> arrivals;
    std::vector<std::string> communicators;
    std::int64_t unmatched = 0; ///< records of collectives of which no other rank has a part
    bool byOrder = false;       ///< some were matched by their order alone

    [[nodiscard]] std::span<const Arrival> arrivalsOf(const Collective &collective) const
    {
        return std::span(arrivals).subspan(collective.first, collective.count);
    }
    [[nodiscard]] const Arrival &last(const Collective &collective) const
    {
        return arrivals[collective.first + collective.count - 1];
    }
};

/// Whether a task is a collective: communication of a group that is no transfer between two.
bool isCollective(const trace::Tables &tables, const trace::TaskInfo &task);

/// The collectives of a sorted trace, each with two members at least.
///
/// Ours are matched by step and TaskInfo::group. Other programs' are matched in their communicator ("Process Group
/// Ranks", else "Process Group Name", of the arguments; without them all are of one): by its sequence number
/// ("Collective seq"), else by order. The i-th of one rank is the i-th of another if names and sizes of both sequences
/// agree. A rank that was recorded for a longer time is shifted against the others: of the shifts where names and sizes
/// agree the one in which ends lie least apart. A rank whose sequence agrees with no other's has none.
///
/// Cost: O(n log n) of collectives, and for sequences of unequal lengths O(n difference).
Collectives matchCollectives(const trace::Trace &trace);

} // namespace planloom::analysis
