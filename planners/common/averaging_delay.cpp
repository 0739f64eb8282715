// SPDX-License-Identifier: Apache-2.0
#include "planners/common/averaging_delay.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::planners {

double secondsPerEffectiveStep(const plan::DelayedAveraging &averaging, double step, double exchange)
{
    const double waited = std::max(0.0, exchange - static_cast<double>(averaging.delay) * step);
    const double taken = step + waited / static_cast<double>(averaging.localSteps);
    const double share = averaging.effectiveShare();
    return share > 0 ? taken / share : std::numeric_limits<double>::infinity();
}

plan::DelayedAveraging withBestDelay(plan::DelayedAveraging averaging, double step, double exchange)
{
    constexpr double kRounding = 1e-9;
    const auto hides = static_cast<std::int64_t>(std::ceil(exchange / step - kRounding));
    if (averaging.merge == plan::Merge::Corrected) {
        averaging.delay = hides;
        averaging.localSteps = std::max(averaging.localSteps, hides);
        return averaging;
    }
    plan::DelayedAveraging best = averaging;
    best.delay = 0;
    for (averaging.delay = 1; averaging.delay <= std::min(hides, averaging.localSteps); ++averaging.delay)
        if (secondsPerEffectiveStep(averaging, step, exchange)
            < secondsPerEffectiveStep(best, step, exchange) * (1 - kRounding))
            best = averaging;
    return best;
}

} // namespace planloom::planners
