// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/transfer_policy.h"

#include <span>

namespace planloom::gnn {

/// Seconds of an iteration of @p job once its queues are filled: the mean over the second half of its iterations, by
/// the ends of the last trainer's tasks. @p job and @p machineOf must have passed their checks. Cost: one schedule.
double steadyIteration(const Job &job, std::span<const std::int32_t> machineOf, TransferPolicy policy);

} // namespace planloom::gnn
