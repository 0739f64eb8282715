// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/joint/stage_table.h"

#include <vector>

namespace planloom::planners::joint {

/// The best ways to cut the layers into stages on runs of the shape's line, for 1, 2 ... @p mostStages stages (fewer where nothing is feasible),
/// by the scorer's estimate. A dynamic programme from the last stage to the first over (stages, first layer, first device): what is behind a cut
/// counts by its time alone, so that an answer may miss the optimum of the estimate by what its last stages' all-reduces weigh against each other.
/// Every stage recomputes only where it does not fit otherwise. Sketches above @p limit seconds are left out. @p table: of a shape that differs from
/// @p shape in the schedule only. Cost: O(stages * layers^2 * units^2).
std::vector<Sketch> bestCuts(Scorer &scorer, const StageTable &table, const Shape &shape, std::size_t mostStages, double limit, const Progress &progress);

/// No plan of the table's shape, whatever its cuts, stages and recomputation, takes less than this. With @p anyOrder it also holds for schedules that
/// interleave stages or put off weight gradients. @p reduced: share of an all-reduce that is left after the last backward at least, 1/2 where ZeRO level 3
/// may be chosen, which only scatters there. Cost: O(layers^2 * units^2).
double leastSeconds(const StageTable &table, bool anyOrder, double reduced, const Progress &progress);

} // namespace planloom::planners::joint
