// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"

#include <span>

namespace planloom::planners::data_parallel {

/// Seconds of gradient exchange that the backward pass cannot hide when each layer's gradients are exchanged on their
/// own (the released DAPPLE planner's src/analysis/cc_overlap.rs). @p exchange and @p backward are per layer, from the
/// input side.
double exposedExchange(std::span<const double> exchange, std::span<const double> backward);

/// The same for a model over all devices of its cluster, whose last backward pass is over @p samples on each device. A
/// layer's backward window is half of its forward and backward time, as in the release.
double exposedExchange(const cost::CostModel &costs, double samples);

} // namespace planloom::planners::data_parallel
