// SPDX-License-Identifier: Apache-2.0
#include "engine/run/summary.h"

#include "engine/base/statistics.h"

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

} // namespace planloom::run
