// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

#include <cstdint>

namespace planloom::planners {

/// What a step takes, and how much longer that is than it would take if its exchange between replicas took no time.
struct ExchangeSeconds {
    double step = 0;
    double exposed = 0;
};

/// @p plan as its exchange is simulated here: rows of tables are not decayed, and ranks that do the same are there
/// once. Errors: those of compilation.
Result<program::Program> programWithExchange(plan::Plan plan, const plan::Subject &subject);

/// Simulated seconds of a step. Errors: those of compilation. Cost: one simulation; with `exposed` two.
Result<double> stepSeconds(const plan::Plan &plan, const plan::Subject &subject);
Result<ExchangeSeconds> exchangeSeconds(const plan::Plan &plan, const plan::Subject &subject);

/// Of a plan that averages parameters (plan::DelayedAveraging).
struct AveragingTimes {
    double step = 0;     ///< seconds, without the average
    double exchange = 0; ///< seconds of one average, on the rank where it takes longest

    /// In steps: the least that is as long as the average, which is hidden then (DaSGD, arXiv 2006.00441).
    [[nodiscard]] std::int64_t leastDelay() const;
    /// Of an average, where a step takes @p seconds with it; 0 without a delay, as all of it is waited for then.
    [[nodiscard]] double hiddenShare(double seconds, const plan::DelayedAveraging &averaging) const;
};
/// By the plan's own Program, with averages that take no time. Errors: those of compilation. Cost: one simulation.
Result<AveragingTimes> averagingTimes(const plan::Plan &plan, const plan::Subject &subject);

} // namespace planloom::planners
