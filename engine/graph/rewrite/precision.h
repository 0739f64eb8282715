// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

namespace planloom::graph {

/// Mixed precision as a rewrite: activations, their gradients and the matrices that products and lookups read become
/// bfloat16; sums over rows (gradients of parameters), scales, biases, statistics and the loss stay float32, and so
/// do tensors that cross into other stages. Where an operator computes in another type than its input has, a Cast is
/// put before it, once per tensor. The precision of each type is a table in precision.cpp; types that are not in it
/// stay in float32. A parameter of type BF16 in the result is a copy of a float32 one that the optimizer keeps; its
/// gradient is float32. How far losses move: within 2e-2 relative of float32's over 20 steps of gpt-nano
/// (tst_precision). Cost O(operators).
Result<TrainingGraph> toBFloat16(const TrainingGraph &training);

} // namespace planloom::graph
