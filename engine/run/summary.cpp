// SPDX-License-Identifier: Apache-2.0
#include "engine/run/summary.h"

#include "engine/base/statistics.h"

namespace planloom::run {

double medianSeconds(const std::vector<StepMetrics> &steps)
{
    std::vector<double> seconds;
    for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
        seconds.push_back(steps[i].seconds);
    return median(std::move(seconds));
}

} // namespace planloom::run
