// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/level_of_detail.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace planloom::analysis {

/// All runs of kernels or tasks of one name. Times are nanoseconds.
struct Kernel {
    std::string name;
    trace::Kind kind = trace::Kind::Other; ///< of the trace's table of kinds
    std::int64_t count = 0;
    std::int64_t sum = 0;
    std::int64_t least = 0, most = 0;
    double mean = 0;
    double deviation = 0; ///< standard, of a run; 0 of one
    std::int64_t p95 = 0; ///< the duration that 95 % do not exceed (nearest rank)
    double share = 0;     ///< of the sum of all that are listed
};

/// What devices ran, by name: records whose kind computes, communicates or updates; where a trace has none, of a CPU's
/// profile, all records, and those that call each other count twice. Of records that begin in @p window, if there is
/// one. The largest sum first. Cost: O(n log n), 8 bytes a record.
std::vector<Kernel> kernelsOf(const trace::Trace &trace, const std::optional<trace::Window> &window = std::nullopt);

/// "name,kind,count,sum_seconds,mean_seconds,p95_seconds,max_seconds,share" and a line for each.
std::string toCsv(const trace::Tables &tables, const std::vector<Kernel> &kernels);

/// Whether a record counts in kernelsOf().
class KernelFilter {
public:
    explicit KernelFilter(const trace::Trace &trace);
    [[nodiscard]] bool has(const trace::Record &record) const;

private:
    const trace::Trace &m_trace;
    std::vector<bool> m_isDevices; ///< by row of the table of kinds
    bool m_all = true;
};

} // namespace planloom::analysis
