// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/graph/layers.h"
#include "ui/model/model_figures.h"

#include <string>

namespace planloom::ui {

/// A line per operator, in the graph's order, behind a line of headings: name, scope, type, layer, stage, samples,
/// FLOPs, bytes, parameters, and with a plan seconds. Fields with commas or quotes are quoted. @p layers: null: none
/// are known. Cost: O(operators).
std::string figuresAsCsv(const ModelFigures &figures, const graph::LayerView *layers);

} // namespace planloom::ui
