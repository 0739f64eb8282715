// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

namespace planloom::graph {

/// Cuts the backward pass in two (Qi et al., 2024): first the operators for the gradients of the inputs, then, as the
/// last weightOps operators, the rest, which only gradients of parameters need. Each part keeps its order. Where no
/// gradient of an input is asked for, all of it is in the second part. Errors: those of GraphBuilder::build. Cost:
/// O(operators).
Result<TrainingGraph> splitBackward(const TrainingGraph &training);

} // namespace planloom::graph
