// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::import {

/// Counters of a trace: values over time, each until the next one. They become lanes of their process that trace::Gauge
/// draws: kLevels levels from 0, or the least value if that is below it, to the largest one of all processes.
class Counters {
public:
    static constexpr int kLevels = 101;

    /// A value that is no number is left out.
    void add(std::int32_t process, std::string_view name, std::int64_t time, double value);
    [[nodiscard]] bool empty() const { return m_series.empty(); }
    [[nodiscard]] bool has(std::int32_t process) const;
    [[nodiscard]] std::int64_t begin() const; ///< first time; the largest number there is if empty

    /// Adds lanes, levels and records, of no step; times and processes are as they were added. The last value lasts
    /// until
    /// @p end. Cost: O(n log n).
    void addTo(trace::Trace &trace, std::int64_t end);

private:
    using Samples = std::vector<std::pair<std::int64_t, double>>;
    std::map<std::string, std::map<std::int32_t, Samples>, std::less<>> m_series; ///< by name and process
};

} // namespace planloom::import
