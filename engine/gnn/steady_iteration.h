// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/scheduler.h"

#include <span>

namespace planloom::gnn {

/// Seconds of an iteration of @p job once its queues are filled: the mean over the second half of its iterations, by
/// the ends of the last trainer's tasks. @p job and @p machineOf must have passed their checks. Cost: one schedule.
double steadyIteration(const Job &job, std::span<const std::int32_t> machineOf, TransferPolicy policy);
/// The same of a schedule that was made: @p network and @p labels are those of @p job.
double steadyIteration(const Job &job, const Network &network, const StepLabels &labels, const StepTimes &times);

} // namespace planloom::gnn
