// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

namespace planloom::graph {

/// Joins operators that pass large tensors from one to the next, so that each is read and written once:
///   MatMul(A, B), Add bias                      -> MatMul(A, B, bias)
///   .. and Gelu behind it, in float32            -> MatMulGelu
///   MatMul, GeluGrad, in float32                 -> MatMulGeluGrad
///   Add (residual), LayerNormalization          -> AddLayerNormalization; with RMSNormalization AddRMSNormalization
///   LayerNormalizationGrad, AddN (residual)     -> LayerNormalizationGrad with an addend; RMSNormalizationGrad
///   likewise
/// where nothing else reads the tensors that disappear. Results agree with the separate operators' to rounding (1e-6,
/// tst_fuse). Outputs of a fused operator keep their names; the operator is named after the one that does the work.
/// Works after precision.h too: a bias that was cast for the sum is read as it is. Cost O(operators).
Result<TrainingGraph> fuse(const TrainingGraph &training);

} // namespace planloom::graph
