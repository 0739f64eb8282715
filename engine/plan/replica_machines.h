// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::plan {

/// A number per replica of @p plan, whose stages have equally many: the same for those whose devices lie on the same
/// machines, stage by stage. From 0 on, in the order of the first.
std::vector<std::int32_t> replicaMachines(const Plan &plan, const cluster::Cluster &cluster);

/// @p plan with sums of gradients in place of averages, if these are between machines (Inside::Machine) and all
/// replicas lie on the same ones; else nothing.
std::optional<Plan> onOneMachine(const Plan &plan, const cluster::Cluster &cluster);

} // namespace planloom::plan
