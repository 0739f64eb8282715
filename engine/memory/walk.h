// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/memory/copy_times.h"
#include "engine/memory/course.h"
#include "engine/memory/stream.h"
#include "engine/plan/memory.h"

#include <functional>
#include <string>

namespace planloom::memory {

/// A policy with everything that depends on the device and the stream.
struct Limits {
    plan::Memory policy;
    std::int64_t budget = 0; ///< bytes
    CopyTimes copies;
    /// Seconds by which operators beside a copy take longer, for each second of it: about 1 on a processor, whose
    /// parallel loops wait for the thread that shares its core with the copy; 0 where copies have an engine of their
    /// own.
    double copyLoad = 0;
    bool fixedPool = true; ///< blocks lie within the budget; false: anywhere, the budget counts bytes alone
};

/// @p policy for @p stream: its budget in bytes, and bandwidths of @p bandwidth bytes/s where it gives none. Without
/// a policy everything stays.
Limits limitsOf(const plan::Memory &policy, const Stream &stream, double bandwidth);

/// Runs @p stream under @p limits on a logical clock, that of the operators' seconds: what leaves, what comes back
/// and when (Tang et al., DELTA, arXiv 2203.15980, 2022, §3; the filters of Kirisame et al., DTR, 2021). The same
/// input gives the same course. Nothing leaves where a budget has the bytes of all and places for them can be found; of
/// a budget of 100 % the pool is then as large as these places need, holes included, which is more than the budget.
/// Errors: BadInput, if the budget cannot hold what one operator needs at once (what was locked is named by @p nameOf),
/// or operators run again for more than the policy's cap. Cost: O(pool) a release.
Result<Course> walk(const Stream &stream, const Limits &limits,
                    const std::function<std::string(std::int32_t storage)> &nameOf = {});

} // namespace planloom::memory
