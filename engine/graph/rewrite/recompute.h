// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

#include <vector>

namespace planloom::graph {

/// Forward operators [first, last) whose results are not kept for the backward pass: a second run of all of them stands
/// right before the first backward operator that reads one. Inputs of the run are kept instead.
struct Rerun {
    std::size_t first = 0;
    std::size_t last = 0;
    bool outputsToo = false; ///< also tensors that later forward operators read, for their own gradients
};

/// Rewrites @p training so that @p runs (ascending, disjoint) run again. A second NAME is called "again/NAME", and
/// random operators draw the same numbers. A run is left alone if nothing of it would be kept, or if it reads a State
/// (a second run would update it twice). Outputs over the last cut, and the loss, keep their first values. Cost:
/// O(operators).
Result<TrainingGraph> rerun(const TrainingGraph &training, const std::vector<Rerun> &runs);

/// One run for each core of attention. Fused attention keeps its result and the row statistics: both are made again. Of
/// attention in pieces (UnfusedAttention) the result stays, and all that is quadratic in the tokens is made again
/// (Korthikanti et al., 2022, §5).
std::vector<Rerun> attentionCores(const TrainingGraph &training);

} // namespace planloom::graph
