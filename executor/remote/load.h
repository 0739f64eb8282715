// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/client.h"
#include "executor/remote/items.h"
#include "executor/remote/target.h"

#include <atomic>
#include <functional>
#include <optional>
#include <string>

namespace planloom::remote {

using Note = std::function<void(const std::string &)>; ///< lines for people

/// What a run is given, of which each part travels to a machine once.
struct Load {
    Item data;
    std::optional<Item> model; ///< the file of the plan's model, where it is here
};
/// Whether a plan's graph is trained with the file @p source at hand, which its plan names as its model's. Error: it is
/// not this model. import::needsModelFile, handed down from above, as nothing here reads models.
using NeedsModelFile = std::function<Result<bool>(const graph::Graph &graph, const std::string &source)>;
/// A plan may come from anyone: a file that it names is part of the load only if @p needed says so. Empty: the request
/// is of a kept run, and what the plan names only if it lies in the cache, where what was sent for the run is. Reads
/// every byte once. Errors: those of itemOf(), modelItem(), @p needed and of plans.
Result<Load> loadOf(const agent::TrainRequest &request, const NeedsModelFile &needed);

/// The file of a plan's model that travels, if one does, likewise. Errors: those of modelItem(), @p needed and of
/// plans.
Result<std::optional<Item>> modelOf(const std::string &planJson, const NeedsModelFile &needed);

/// Sends what of @p load is not at @p target yet; notes how much, and while it lasts how much has gone. Errors: those
/// of ask() and send(); Unsupported (another version, a cache whose path has strange characters).
Status sendLoad(const Target &target, const Load &load, const Note &note, const std::atomic<bool> &stop);

/// A request of `planloom host` that brings a run: `start` or `join`. @p run: its id, where it has one already.
std::string runRequest(const char *what, const agent::TrainRequest &request, const Load &load,
                       const std::string &run = {});

} // namespace planloom::remote
