// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/sketch.h"

#include <functional>
#include <span>

namespace planloom::planners::automatic {

/// Every way to give @p shape its parts: contiguous layers on contiguous runs of units from the beginning of the line
/// (units at its end may be left out), each part with each of @p recomputations. Calls @p found with each; ends early
/// and returns false where that returns false.
bool everySketch(const Shape &shape, const DeviceLine &line, std::size_t layers,
                 std::span<const plan::Recompute> recomputations, const std::function<bool(const Sketch &)> &found);

/// How many there are with @p ways to recompute: sum over stages s of C(layers - 1, s - 1) C(units, s) ways^s, as a
/// double as it grows fast.
double sketchCount(std::size_t layers, std::size_t units, std::size_t ways);

} // namespace planloom::planners::automatic
