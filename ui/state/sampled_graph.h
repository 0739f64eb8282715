// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"
#include "engine/gnn/graph_data.h"

#include <QString>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

/// What a part of a graph holds.
struct GraphPart {
    std::int64_t nodes = 0;
    std::int64_t labelled = 0; ///< of them, those that may be seeds
    std::int64_t edges = 0;    ///< with an end in it
    std::int64_t cut = 0;      ///< of them, those with the other end in another part
    std::int64_t hubs = 0;     ///< its nodes among kHubShare of all, those with most neighbours
};
inline constexpr double kHubShare = 0.01; ///< but one node at least

/// By part. Cost: O(arcs + nodes).
std::vector<GraphPart> partsOf(const gnn::GraphData &graph);

/// A graph that training samples, as its folder has it.
struct SampledGraph {
    QString folder;                             ///< absolute
    std::shared_ptr<const gnn::GraphData> data; ///< null: none was read
    std::string sha256;                         ///< of its graph.json, by which plans name it
    std::vector<GraphPart> parts = {};
};

/// Reads @p folder. Any thread. Cost: all its files are read and hashed. Errors: those of data::readGraphFolder.
Result<SampledGraph> readSampledGraph(const QString &folder);

/// True if there is a graph.json in @p folder.
bool holdsGraph(const QString &folder);

} // namespace planloom::ui
