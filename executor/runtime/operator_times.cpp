// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/operator_times.h"

#include <algorithm>

namespace planloom::runtime {

std::vector<double> OperatorTimes::medians() const
{
    std::vector<double> medians;
    medians.reserve(m_seconds.size());
    for (std::array<double, kCounted> seconds : m_seconds) {
        const auto middle = seconds.begin() + kCounted / 2;
        std::nth_element(seconds.begin(), middle, seconds.end());
        medians.push_back(*middle);
    }
    return medians;
}

} // namespace planloom::runtime
