// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"
#include "engine/plan/plan.h"

namespace planloom::compile {

/// The operators that one device runs of a stage, from the differentiated operators that it shares with the others of
/// its replica: precision, fused operators and memory layouts, in that order. Each step is a rewrite of engine/graph
/// that knows nothing of plans. @p onProcessors: whether a device of the stage is a processor, where blocks of channels
/// pay in float32 only.
Result<graph::TrainingGraph> lower(graph::TrainingGraph training, const plan::Plan &plan, bool onProcessors);

} // namespace planloom::compile
