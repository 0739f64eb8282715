// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/rewrite/rewrite.h"
#include "engine/sharding/signatures.h"

#include <vector>

// Writes the operators of one device of a line of the mesh into a Rewriter: operators on their parts, and conversions
// between layouts.
namespace planloom::sharding {

/// A line of devices: one dimension of the mesh.
struct Line {
    int dimension = 0;
    int parts = 1;
};

/// Emits one device's part of @p at under @p signature. @p inputs are tensors of the new graph in its layouts; so are
/// the outputs that come back. Split classes, tables and rows of a loss become several operators (Megatron-LM's
/// vocabulary parallelism).
std::vector<TensorId> localize(graph::Rewriter &to, const OpAtHand &at, const Signature &signature,
                               const std::vector<TensorId> &inputs, const Line &line);

/// Converts @p value, the part of @p whole in layout @p from, to @p want. The same layout: @p value itself.
TensorId convert(graph::Rewriter &to, TensorId value, const graph::Tensor &whole, const Sbp &from, const Sbp &want,
                 const Line &line, const graph::Op &like);

} // namespace planloom::sharding
