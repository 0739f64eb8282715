// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/analysis/collectives.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::analysis {

/// The clock of one file of a trace that several files were joined to (import::readForeignTraces).
struct RankClock {
    std::string name; ///< what its ranks' names begin with: "rank 3"
    std::vector<std::int32_t> ranks = {};
    std::int64_t ahead = 0;       ///< nanoseconds by which it is ahead of the first one
    double error = 0;             ///< standard error of `ahead`, nanoseconds
    std::int64_t collectives = 0; ///< that lead to it
    bool known = false;           ///< false: no collective joins it with the first one
};

/// How far the clocks of a trace's files are apart.
struct ClockSkew {
    std::vector<RankClock> clocks; ///< in the order of ranks; the first is the reference

    [[nodiscard]] std::int64_t largest() const; ///< distance of two, nanoseconds
    /// Whether two are further apart than three standard errors and a microsecond.
    [[nodiscard]] bool isSkewed() const;
};

/// A collective ends on all its members at about the same time, so that the ends that two files say for the same
/// collectives differ by their clocks and by noise. Of two clocks: the median of these differences, and as error
/// 1.2533 * 1.4826 * median distance from it / sqrt(count), that of a median of normal noise. From the first clock to
/// the others by the pairs with the least errors (a minimum spanning tree); errors of a way add in squares. A skew that
/// drifts is not seen but as spread.
///
/// Ranks without ": " in their names are of one file, and of one clock. Cost: O(members² of each collective) where
/// there are two clocks.
ClockSkew clockSkew(const trace::Trace &trace, const Collectives &collectives);

/// The trace by the first clock, with times from 0 on. Cost: O(records).
trace::Trace aligned(const trace::Trace &trace, const ClockSkew &skew);

} // namespace planloom::analysis
