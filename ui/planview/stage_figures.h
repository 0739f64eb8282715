// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::ui {

/// The costs of one layer in the current plan.
struct LayerFigures {
    double seconds = 0;          ///< forward + backward of the slice of one replica; by ADMM, forward alone
    std::int64_t parameters = 0; ///< bytes
    std::int64_t cut = 0;        ///< bytes of one micro-batch that cross in front of the layer
};

/// Per layer of the model. Cost: O(layers + tensors of the cuts).
std::vector<LayerFigures> layerFigures(const plan::Document &document);

/// Forward + backward of the largest slice of stage @p stage, had it the layers [first, last), on each of the devices
/// that share a replica's work, as if they shared all of it evenly. 0 where there are none.
/// Of a plan that trains by ADMM only the forward pass with which an iteration begins: the rest is no pass over layers.
/// Cost: O(1) in the layers, so that it can be asked at every move of the mouse.
double stageSeconds(const plan::Document &document, std::size_t stage, std::size_t first, std::size_t last);

/// What each stage takes: stageSeconds() of its layers; by ADMM what the slowest of its devices computes in an
/// iteration (with a parameter server, for a version of the parameters) as @p report has it, nothing where that is
/// missing.
std::vector<std::optional<double>> secondsOfStages(const plan::Document &document, const simulate::Report *report);

/// Per stage the device of @p report that has most of what @p of tells; nullptr: the report has none of its devices.
/// Cost: O(devices of the report and of the stages).
std::vector<const simulate::DeviceReport *> leadingDevices(const plan::Document &document,
                                                           const simulate::Report &report,
                                                           double (*of)(const simulate::DeviceReport &));

/// Seconds of every stage if boundary @p boundary (between stages boundary and boundary + 1) stood before layer @p
/// layer.
std::vector<double> secondsWithBoundary(const plan::Document &document, std::size_t boundary, std::size_t layer);

/// Where a stage of the plan would be cut into halves of nearly equal time; its first layer if it has one only.
std::size_t balancedCut(const plan::Document &document, std::size_t stage);

} // namespace planloom::ui
