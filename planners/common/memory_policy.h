// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <string_view>

namespace planloom::planners {

/// A memory policy that plans of any planner can be given.
struct MemoryRequest {
    plan::Memory memory;
    bool fitsDevice = false; ///< the budget is what the device has left beside everything else
};

/// Reads "POLICY[,KEY=VALUE...]", where budget=fit leaves the budget to the device. Errors: those of
/// plan::memoryFromText.
Result<MemoryRequest> memoryRequest(std::string_view text);

/// The stages of @p plan with a policy get budgets of what their devices have left beside everything else, the least of
/// their replicas; none gets more than it has in bytes. Errors: those of validation and compilation, Infeasible (a
/// device has no room for activations).
Status fitBudgets(plan::Plan &plan, const Problem &problem);

/// @p error of @p plan, whose policy cannot keep its budget, with the least of some larger budgets of @p asked on all
/// stages that it can keep; as it is where that is none of them, or where the budget is not at fault. Cost: a
/// compilation for each of them.
Error withBudgetThatDoes(Error error, plan::Plan plan, const Problem &problem, const plan::Memory &asked);

/// @p report with the requested memory policy on every stage, predicted anew, as are its alternatives; those that
/// cannot have it, or do not fit with it, are dropped. The estimate says memory_base_seconds (the iteration without the
/// policy), memory_recompute_seconds, memory_swapped_bytes (of all copies, to the host and back) and
/// memory_recomputed_operators of an iteration, and memory_stall_seconds and memory_fragmented
/// (compile::MemoryFigures), all devices together. Errors: those of validation and compilation, Infeasible (budget=fit:
/// a device has no room for activations, or for what else the plan needs; the error has the figures). The estimate's
/// time is that of the plan with the policy (takeSimulated). Cost: a simulation for the plan, and one for each
/// alternative.
Result<PlanReport> withMemoryPolicy(PlanReport report, const Problem &problem, const MemoryRequest &request);

} // namespace planloom::planners
