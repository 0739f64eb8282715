// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// A piece of a pass: a run of operators on the compute lane, or one communicating operator on the collective lane.
struct PassPart {
    bool boxing = false;
    std::int32_t first = 0; ///< operators [first, last); a run may be empty where only waiting has to be done
    std::int32_t last = 0;
    std::vector<std::size_t> waitsFor; ///< boxing parts that must have ended first, by index
    double share = 1;                  ///< of the pass's time, of a run; unused where operators have costs of their own
};

/// Cuts the pass over operators [first, last) where boxing begins and where its result is read for the first time. The
/// first and the last part are runs, so that a pass begins and ends on the compute lane; one run follows the other, and
/// boxing follows the run in front of it. Behind the operators @p ends, ascending, a run ends too.
std::vector<PassPart> partsOf(const graph::TrainingGraph &training, std::int32_t first, std::int32_t last,
                              const std::vector<std::int32_t> &ends = {});

/// The operator of the pass that ends at @p passEnd before which communicating operator @p op must be done.
std::int32_t waitOf(const graph::TrainingGraph &training, std::int32_t op, std::int32_t passEnd);

} // namespace planloom::compile
