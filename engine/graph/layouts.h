// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/differentiate.h"

#include <string_view>

namespace planloom::graph {

/// Keeps images in blocks of channels (Layout::Blocked) from one operator to the next where convolutions compute: float32 activations
/// (N, C, H, W) with C a multiple of 16 and more than one pixel. Operators `Reorder{to = "blocked" | "row_major"}` stand only where an
/// operator that wants rows meets one that makes blocks. What enters or leaves the graph stays row-major. A graph without
/// convolutions comes back as it is. Errors: those of GraphBuilder::build. Cost: O(operators).
Result<TrainingGraph> chooseLayouts(const TrainingGraph &training);

/// Whether operators of this type can be given blocked arguments; all others are row-major only.
bool understandsBlocked(std::string_view type);

} // namespace planloom::graph
