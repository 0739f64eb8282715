// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/simulate/causes.h"
#include "engine/trace/level_of_detail.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::simulate {

/// The chain of tasks that a stretch of a trace takes its time from: each began when the one before it ended.
struct CriticalPath {
    /// What a piece waited for last.
    enum class Reason : std::uint8_t {
        Beginning,  ///< nothing: it is where the stretch begins
        Dependency, ///< a task that it depends on, or that another member of its group depends on
        Lane,       ///< the task before it on its lane, or on that of another member of its group
        Step,       ///< its rank's step before
    };
    /// A record for as long as it is on the path: of a transfer or collective, from the start of its last member on.
    struct Piece {
        std::size_t record = 0; ///< of those that were given
        std::int64_t begin = 0; ///< nanoseconds
        std::int64_t end = 0;
        std::int64_t wait = 0; ///< before it, in which nothing of the path ran, nanoseconds
        Reason reason = Reason::Beginning;
        bool earlier = false; ///< it stands for that of the period before, which ran so much earlier
    };
    trace::Window window;
    std::vector<Piece> pieces; ///< in the order of time
    std::int64_t waitAtEnd = 0;

    /// Time by kind.
    struct Sum {
        trace::Kind kind = trace::Kind::Other;
        std::int64_t nanoseconds = 0;
        std::int64_t count = 0;
    };
    /// Per kind of task on the path, the longest first. With waits() they are as long as the window, exactly.
    [[nodiscard]] std::vector<Sum> sums(const trace::Tables &tables, std::span<const trace::Record> records) const;
    [[nodiscard]] std::int64_t waits() const;
};

/// The steps to look at.
struct PathOfSteps {
    std::int32_t first = 0;
    std::int32_t count = 1;
    /// trace::Rounds::overlap: the stretch ends with the first start of the next steps, where that is before the last
    /// end of these.
    bool overlap = false;
    /// The steps are a period of a Program that spans steps: what ran before them is what runs at their end, a period
    /// earlier. The stretch ends where the next ones start.
    bool repeats = false;
};

/// The critical path of @p steps, over the time that a trace::Round has: from the task that ends last, or from what the
/// first task of the next steps waited for, back to the first start. Of several tasks that ended as a task started, a
/// dependency goes before the lane's predecessor. In a trace of the cost clock there are no waits; in a measured one
/// what started later than its causes ended waited in between.
///
/// @p records: those of these steps and what may be on their way beside them, of tasks that @p causes has, sorted by
/// rank, lane and start. Errors: NotFound (no record of the steps, or no causes). Cost: O(records + causes of the path
/// and of all members of its groups).
Result<CriticalPath> criticalPath(const trace::Tables &tables, const Causes &causes,
                                  std::span<const trace::Record> records, const PathOfSteps &steps);

} // namespace planloom::simulate
