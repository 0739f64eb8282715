// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/stage_table.h"

#include <vector>

namespace planloom::planners::automatic {

/// What has to fit: fixed memory and a share of the activations of each micro-batch, in a share of a device's usable
/// memory.
struct Fit {
    double kept = 1;
    double room = 1;
};

/// The best cuts that were found, by number of stages.
struct Cuts {
    std::vector<Sketch> sketches;
    bool memoryBinds = false; ///< a stage had to recompute, or did not fit even so
};

/// The best ways to cut the layers into stages on runs of the shape's line, for 1, 2 ... @p mostStages stages (fewer
/// where nothing is feasible), by the scorer's estimate. A dynamic programme from the last stage to the first over
/// (stages, first layer, first device): the part behind a cut counts by its time alone, so that an answer may miss the
/// optimum of the estimate by the differences of its last stages' all-reduces. Every stage recomputes only where it
/// does not fit otherwise, by @p fit. Sketches above @p limit seconds are left out. @p table: of a shape that differs
/// from @p shape in the schedule only. Cost: O(stages * layers^2 * units^2).
Cuts bestCuts(Scorer &scorer, const StageTable &table, const Shape &shape, std::size_t mostStages, double limit,
              const Progress &progress, Fit fit = {});

/// Lower bound of all plans with @p table's shape and one stage on each run of devices, whatever its cuts and
/// recomputation.
struct LeastSeconds {
    double inOrder = 0;  ///< where a micro-batch's backward passes are whole
    double anyOrder = 0; ///< weight gradients may be put off, too
};
/// @p mostZero: the table's. Each stage is taken at the ZeRO level that is fastest for it. A dynamic programme from the
/// last stage to the first: the least that the rest of a plan can take, by its first layer and device. Cost: O(layers^2
/// * units^2 + units^3).
LeastSeconds leastSeconds(Scorer &scorer, const StageTable &table, const Shape &shape, int mostZero,
                          const Progress &progress);

} // namespace planloom::planners::automatic
