// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

#include <vector>

namespace planloom::compile {

/// How an operator's result reaches the accumulator of a parameter's gradient.
enum class Route : std::uint8_t {
    Made,     ///< it is made where it has its place; if it is a gradient, it is added to the accumulator afterwards
    Straight, ///< the operator adds its result to the accumulator; the result has no place
    Idle,     ///< a sum whose terms all go straight: nothing is left to do, and the sum has no place
};

struct StraightGradients {
    std::vector<Route> routes;       ///< per operator of the training graph
    std::vector<TensorId> gradients; ///< per operator: the gradient that a Straight one adds to
    std::vector<bool> unplaced;      ///< per tensor: results of Straight and Idle operators
};

/// Which gradients of @p training that nothing reads but the optimizer go straight into their accumulators: float32
/// ones of operators that can add (MatMulWeightGrad, GatherGrad), and sums of such (a table that embeds tokens and
/// makes logits). Depends on the graph alone. Cost O(operators).
StraightGradients straightGradients(const graph::TrainingGraph &training);

} // namespace planloom::compile
