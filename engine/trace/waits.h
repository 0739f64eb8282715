// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace planloom::trace {

/// How long records wait for the other members of their group. A member that starts early is in its transfer or
/// collective from then on, but nothing moves before the last member has started: that time is waiting, the rest is
/// work. 16 bytes and a hash node per group and step. Thread contract: as for a vector.
class Waits {
public:
    /// Cost: O(records). @p tables must be the same, or longer, from call to call.
    void append(const Tables &tables, std::span<const Record> records);
    /// Nanoseconds from @p record's start to the last start, known so far, of its (step, group), at most the record's
    /// duration; 0 for a task without a group. Cost: O(1).
    [[nodiscard]] std::int64_t of(const Tables &tables, const Record &record) const;

private:
    std::unordered_map<std::uint64_t, std::int64_t> m_lastStart; ///< by step and group
};

/// Per record of @p trace. Cost: O(records).
std::vector<std::int64_t> waits(const Trace &trace);

} // namespace planloom::trace
