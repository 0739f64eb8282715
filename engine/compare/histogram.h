// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/metrics.h"

#include <cstdint>
#include <vector>

namespace planloom::compare {

/// How often steps took how long, of two runs, in bins of equal width. The last bin also has the steps that took longer
/// than nineteen in twenty of both: one stall does not squeeze all others into one bin.
struct Histogram {
    double begin = 0; ///< seconds
    double width = 0; ///< of a bin
    std::vector<std::int64_t> a, b;
    bool lastIsOpen = false; ///< the last bin has longer steps, too

    [[nodiscard]] bool empty() const { return a.empty(); }
};

/// Of the steps without the first, which warms up. A side without steps has zeros; without any steps: empty. @p bins 0:
/// by the number of steps, 6 to 24. Cost: O(steps log steps).
Histogram histogramOf(const std::vector<run::StepMetrics> &a, const std::vector<run::StepMetrics> &b,
                      std::size_t bins = 0);

} // namespace planloom::compare
