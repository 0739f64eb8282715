// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

namespace planloom::graph {

/// Makes one operator of BatchNormalization -> Relu and of BatchNormalization -> Add -> Relu, forward and backward,
/// with the sum of two gradients that a residual block begins its backward pass with. The values between them are
/// neither written nor kept. Results are those of the operators by themselves, but for rounding. Errors: those of
/// GraphBuilder::build. Cost: O(operators).
Result<TrainingGraph> fuseBatchNormalization(TrainingGraph training);

} // namespace planloom::graph
