// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/plan/plan.h"

#include <string>
#include <vector>

namespace planloom::planners {

/// What a memory policy costs by its budget.
struct MemoryCurve {
    plan::MemoryFilter filter = plan::MemoryFilter::None;
    struct Point {
        double share = 0;    ///< the budget, of what activations take without a limit
        double overhead = 0; ///< how much longer a step takes than without a policy, of that
        std::string refusal; ///< why the plan cannot have it; empty: it can
    };
    std::vector<Point> points; ///< by share, ascending
};

/// All policies over the same budgets.
struct MemorySweep {
    double seconds = 0; ///< of a step without a policy
    std::vector<double> shares;
    std::vector<MemoryCurve> curves; ///< of all policies but none and random

    /// Of the curves at share number @p share the least overhead, the first of equal ones; nullptr: none can be had.
    [[nodiscard]] const MemoryCurve *best(std::size_t share) const;
};

/// @p plan with each policy on all its stages, under budgets of 20 to 90 %; other settings of policies are those of its
/// first stage that has one. Nothing here changes it. Errors: those of compilation without a policy; Cancelled. Cost:
/// 81 simulations.
Result<MemorySweep> memorySweep(const plan::Plan &plan, const plan::Subject &subject, Progress &progress);

} // namespace planloom::planners
