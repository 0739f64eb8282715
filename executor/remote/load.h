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
/// Reads every byte once. Errors: those of itemOf(), modelItem() and of plans.
Result<Load> loadOf(const agent::TrainRequest &request);

/// Sends what of @p load is not at @p target yet; notes how much, and while it lasts how much has gone. Errors: those
/// of ask() and send(); Unsupported (another version, a cache whose path has strange characters).
Status sendLoad(const Target &target, const Load &load, const Note &note, const std::atomic<bool> &stop);

/// A request of `planloom host` that brings a run: `start` or `join`. @p run: its id, where it has one already.
std::string runRequest(const char *what, const agent::TrainRequest &request, const Load &load,
                       const std::string &run = {});

} // namespace planloom::remote
