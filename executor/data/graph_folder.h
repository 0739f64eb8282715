// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/gnn/graph_data.h"

#include <string>

namespace planloom::data {

/// How a graph was cut into parts; written beside it.
struct PartitionNote {
    std::string method; ///< "metis", "hash"; empty: not partitioned
    std::uint64_t seed = 0;
    bool balanceTraining = false;
};

/// Writes the folder @p folder (resources/docs/formats/graph-data.md): indptr.npy, indices.npy, features.npy,
/// labels.npy, part.npy if the graph has parts, and last graph.json with their SHA-256. Files that are there are
/// replaced. @p from: SHA-256 of what the graph was made of; empty if it was made of nothing.
/// Errors: those of gnn::checkGraph, Io.
Status writeGraphFolder(const gnn::GraphData &graph, const PartitionNote &partition, const std::string &from,
                        const std::string &folder);

/// Reads it back and checks it. Errors, each naming the file: NotFound, Io, BadInput (a file that is damaged, is not
/// the one that graph.json names, has another shape or type; those of gnn::checkGraph).
Result<gnn::GraphData> readGraphFolder(const std::string &folder);

/// True if @p path is a folder with a graph.json.
bool isGraphFolder(const std::string &path);

} // namespace planloom::data
