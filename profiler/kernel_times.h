// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profiler/measurement.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace planloom::profiler {

/// Collects measurements into a profile: kernels by signature, the optimizer's step, contention.
class KernelTimes {
public:
    void add(const Measurement &measurement);
    /// Adds kernels, optimizer_seconds_per_parameter, step_skew and, where it was measured, busy_slowdown to @p
    /// profile.
    void finish(cost::Profile &profile) const;

private:
    struct Sum {
        double seconds = 0;
        int count = 0;
    };
    void addPass(const RankTimes &rank, RankTimes::BySamples RankTimes::*pass, std::size_t firstOp, double skew);

    std::map<std::pair<std::string, std::int64_t>, Sum>
        m_kernels;                   ///< by signature and samples: operators alike, on all ranks
    std::vector<double> m_optimizer; ///< seconds per parameter
    std::vector<double> m_skews;     ///< of the measurements
    std::vector<double> m_slowdown;
};

} // namespace planloom::profiler
