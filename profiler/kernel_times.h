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
    using Kernels = std::map<std::pair<std::string, std::int64_t>, Sum>; ///< by signature and samples

    /// Calls @p use with the signature and samples of each operator of a pass of @p rank, and seconds.
    template <class Use>
    static void forEach(const RankTimes &rank, RankTimes::BySamples RankTimes::*pass, const Use &use);
    static double expectedOf(const RankTimes &rank, const Kernels &kernels);

    Kernels m_kernels;               ///< operators alike, on all ranks
    std::vector<double> m_optimizer; ///< seconds per parameter
    std::vector<double> m_skews;     ///< of the measurements
    std::vector<double> m_slowdown;
};

} // namespace planloom::profiler
