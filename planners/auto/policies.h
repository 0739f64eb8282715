// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/simulations.h"

#include <vector>

namespace planloom::planners::automatic {

/// Which policies plans are made with: those that the search begins with, or all that it knows.
enum class Policies : std::uint8_t { First, All };

/// Plans like that of @p start whose stages that recompute, or do not fit, have a memory policy in place of
/// recomputation, with budgets of what their devices have left (plan::Memory); one for each of @p policies. Where a
/// stage does not fit, also with the optimizer's state on the host. Empty where no stage recomputes or overflows, or
/// operators are not known.
std::vector<plan::Plan> withPolicies(const Simulated &start, const Problem &problem,
                                     Policies policies = Policies::First);

/// Plans that differ from @p plan, which has policies, in those of one stage: another filter and director, or none, or
/// the optimizer's state elsewhere.
std::vector<plan::Plan> otherPolicies(const plan::Plan &plan, const Problem &problem);

/// Those of @p plans whose stages with policies get budgets of what their devices have left.
std::vector<plan::Plan> withBudgetsAnew(std::vector<plan::Plan> plans, const Problem &problem);

/// True if a stage of @p plan has a memory policy.
bool hasPolicies(const plan::Plan &plan);

} // namespace planloom::planners::automatic
