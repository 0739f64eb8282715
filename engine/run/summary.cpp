// SPDX-License-Identifier: Apache-2.0
#include "engine/run/summary.h"

#include "engine/base/statistics.h"

#include <algorithm>

namespace planloom::run {

double medianSeconds(const std::vector<StepMetrics> &steps, std::size_t period)
{
    const std::size_t first = steps.size() > 1 ? 1 : 0;
    if (steps.size() < first + period)
        period = std::max<std::size_t>(1, steps.size() - first);
    std::vector<double> means;
    for (std::size_t begin = first; begin + period <= steps.size(); begin += period) {
        double sum = 0;
        for (std::size_t i = begin; i < begin + period; ++i)
            sum += steps[i].seconds;
        means.push_back(sum / static_cast<double>(period));
    }
    return median(std::move(means));
}

double longestSeconds(const std::vector<StepMetrics> &steps, std::size_t period, std::size_t most)
{
    period = std::clamp<std::size_t>(period, 1, std::max<std::size_t>(1, steps.size()));
    const std::size_t rounds = std::min(steps.size(), std::max(most, period)) / period;
    std::vector<double> longest;
    for (std::size_t begin = steps.size() - rounds * period; begin + period <= steps.size(); begin += period) {
        double seconds = 0;
        for (std::size_t i = begin; i < begin + period; ++i)
            seconds = std::max(seconds, steps[i].seconds);
        longest.push_back(seconds);
    }
    return median(std::move(longest));
}

} // namespace planloom::run
