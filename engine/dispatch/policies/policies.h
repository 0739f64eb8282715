// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/lane_policy.h"

namespace planloom::dispatch {

/// "fifo": the task that became ready first.
const LanePolicy &firstInFirstOut();
/// "urgent-sends": activations on their way to the next stage age twice as fast as anything else.
const LanePolicy &urgentSends();
/// "priority": by program::Task::priority, the smallest first; of those without one the task that became ready first,
/// before all others.
const LanePolicy &byPriority();

} // namespace planloom::dispatch
