// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

#include <vector>

namespace planloom::compile {

/// How an operator's result reaches the accumulator of a parameter's gradient.
enum class Route : std::uint8_t {
    Made,        ///< it is made where it has its place; if it is a gradient, it is added to the accumulator afterwards
    Accumulated, ///< the operator adds its result to the accumulator; the result has no place
    Idle,        ///< a sum whose terms are all Accumulated: nothing is left to do, and the sum has no place
};

/// Where the gradients of a training graph are added up.
struct AccumulatedGradients {
    std::vector<Route> routes;       ///< per operator of the training graph
    std::vector<TensorId> gradients; ///< per operator: the gradient that an Accumulated one adds to
    std::vector<bool> unplaced;      ///< per tensor: results of Accumulated and Idle operators
};

/// Which gradients of @p training that nothing reads but the optimizer go directly into their accumulators: float32
/// ones of operators that can add (MatMulWeightGrad, GatherGrad), and sums of such (a table that embeds tokens and
/// makes logits). Depends on the graph alone. Cost O(operators).
AccumulatedGradients accumulatedGradients(const graph::TrainingGraph &training);

} // namespace planloom::compile
