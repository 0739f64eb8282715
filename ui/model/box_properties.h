// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "ui/model/model_figures.h"
#include "ui/model/scope_graph.h"

#include <vector>

namespace planloom::ui {

/// A row of the properties of a box.
struct BoxProperty {
    QString name;
    QString value;
};

/// Name, type, inputs and outputs, attributes and parameters of @p node; of a scope how many operators of which types
/// it has. Long lists end in how many there are more. Cost: O(operators of the box * their inputs).
std::vector<BoxProperty> structureOf(const graph::Graph &graph, const GraphNode &node);

/// What it costs, and where the plan puts it.
std::vector<BoxProperty> costsOf(const ModelFigures &figures, const GraphNode &node);

/// The most telling of both, a line each: for a tool tip. @p figures: may be null.
QString summaryOf(const ModelFigures *figures, const GraphNode &node);

/// FLOPs and bytes in a line: "12.6 GFLOP · 3.1 MiB". @p figures: null: "…".
QString cardOf(const ModelFigures *figures, const GraphNode &node);

/// "[N, 1024, 768] float32".
QString tensorText(const graph::Tensor &tensor);
/// "1e-05", "[0, 2, 1]"; long lists are cut.
QString attributeText(const graph::Attribute &attribute);
/// "n0:g0, n0:g1"; of many the first ones, and how many there are.
QString shortDevices(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices);

} // namespace planloom::ui
