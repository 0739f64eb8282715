// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/scheduler.h"

#include <span>

namespace planloom::gnn {

/// Seconds of an iteration of @p job in the long run, when its queues are filled and iterations follow: its iterations
/// come three times, and the mean over the second time counts, by the ends of the last trainer's tasks. The last ones
/// of a job have the network to themselves, as no samples of later ones are fetched, and say nothing of others.
/// @p job and @p machineOf must have passed their checks. Cost: a schedule of three times the steps; a job of many
/// messages is scheduled once, and the second third of its iterations counts.
double steadyIteration(const Job &job, std::span<const std::int32_t> machineOf, TransferPolicy policy);

} // namespace planloom::gnn
