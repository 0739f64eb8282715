// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/rewrite.h"
#include "engine/sharding/signatures.h"

#include <vector>

// Writes what one device of a line of the mesh runs into a Rewriter: operators on their parts, and conversions between layouts.
namespace planloom::sharding {

/// A line of devices: one dimension of the mesh.
struct Line {
    int dimension = 0;
    int parts = 1;
};

/// What one device runs of @p at under @p signature. @p inputs are tensors of the new graph that lie as it says; so do the outputs that
/// come back. Split classes, tables and rows of a loss become several operators (Megatron-LM's vocabulary parallelism).
std::vector<TensorId> localize(graph::Rewriter &to, const OpAtHand &at, const Signature &signature, const std::vector<TensorId> &inputs, const Line &line);

/// Converts @p value, the part of @p whole that lies as @p from says, to @p want. The same layout: @p value itself.
TensorId convert(graph::Rewriter &to, TensorId value, const graph::Tensor &whole, const Sbp &from, const Sbp &want, const Line &line, const graph::Op &like);

} // namespace planloom::sharding
