// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/common/exchange_seconds.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::planners {

/// A length of rounds and a delay, and what a step takes with them.
struct AveragingCell {
    std::int64_t localSteps = 0;
    std::int64_t delay = 0;
    double seconds = 0;        ///< of a step
    double effectiveShare = 0; ///< of local steps' progress that merges keep (plan::DelayedAveraging)
    double hiddenShare = 0;    ///< of an average
    std::string refusal;       ///< why the plan cannot have them; empty: it can

    /// Both are known: a step takes that for each step of progress.
    [[nodiscard]] bool hasSeconds() const { return refusal.empty() && effectiveShare > 0; }
    [[nodiscard]] double effectiveSeconds() const { return seconds / effectiveShare; }
};

/// Rounds against delays.
struct AveragingMap {
    std::vector<std::int64_t> rounds; ///< ascending
    std::vector<std::int64_t> delays; ///< ascending
    std::vector<AveragingCell> cells; ///< by round, then by delay; no delay is longer than its round

    /// nullptr: it is none of these.
    [[nodiscard]] const AveragingCell *at(std::int64_t localSteps, std::int64_t delay) const;
    /// The least seconds for each step of progress; of equal ones the shortest delay, then the shortest rounds.
    /// nullptr: none has any.
    [[nodiscard]] const AveragingCell *best() const;
};

/// Rounds of 1, 2, 4, 8 and 16 steps and the plan's, delays up to them; @p plan averages parameters. Nothing here
/// changes it. Errors: those of compilation; Cancelled. Cost: some thirty simulations.
Result<AveragingMap> averagingMap(const plan::Plan &plan, const plan::Subject &subject, Progress &progress);

} // namespace planloom::planners
