// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/simulations.h"

#include <vector>

namespace planloom::planners::automatic {

/// Plans like that of @p start whose stages that recompute, or do not fit, have a memory policy in place of
/// recomputation, with budgets of what their devices have left (plan::Memory); one for each policy that the search
/// begins with. Empty where no stage does, or operators are not known.
std::vector<plan::Plan> withPolicies(const Simulated &start, const Problem &problem);

/// Plans that differ from @p plan, which has policies, in those of one stage: another filter and director, or none.
std::vector<plan::Plan> otherPolicies(const plan::Plan &plan);

/// True if a stage of @p plan has a memory policy.
bool hasPolicies(const plan::Plan &plan);

} // namespace planloom::planners::automatic
