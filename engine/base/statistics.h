// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace planloom {

/// Of an even number of values the mean of the two in the middle; 0 of none. O(n).
double median(std::vector<double> values);

} // namespace planloom
