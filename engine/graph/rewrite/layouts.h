// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

namespace planloom::graph {

/// Keeps images in blocks of channels (Layout::Blocked) from one operator to the next where convolutions compute:
/// activations (N, C, H, W) in float32 or bfloat16 with C a multiple of 16 and more than one pixel. Operators
/// `Reorder{to = "blocked" | "row_major"}` stand only where an operator that wants rows meets one that makes blocks.
/// Tensors that enter or leave the graph stay row-major. A graph without convolutions comes back as it is. Errors:
/// those of GraphBuilder::build. Cost: O(operators).
Result<TrainingGraph> chooseLayouts(TrainingGraph training);

} // namespace planloom::graph
