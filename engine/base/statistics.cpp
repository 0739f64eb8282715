// SPDX-License-Identifier: Apache-2.0
#include "engine/base/statistics.h"

#include <algorithm>
#include <cstddef>

namespace planloom {

double median(std::vector<double> values)
{
    if (values.empty())
        return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    if (values.size() % 2 == 1)
        return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

} // namespace planloom
