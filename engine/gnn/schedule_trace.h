// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/scheduler.h"
#include "engine/trace/trace.h"

#include <span>

namespace planloom::gnn {

/// A schedule as the records that every view draws. A rank is a role, its device "machine/role"; tasks are on its
/// compute or host lane, a message is on the send lane of one rank and the receive lane of the other, as one group,
/// from when it becomes active until it has arrived. Messages within a machine take no time and are left out. Steps are
/// iterations.
trace::Trace traceOf(const Job &job, const Network &network, const StepLabels &labels, const StepTimes &times,
                     std::span<const std::int32_t> machineOf);

} // namespace planloom::gnn
