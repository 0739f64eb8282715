// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::gnn {

/// A task of a role, or one end of a message, which every iteration repeats. All that a job's network has but the
/// trainers' tasks.
struct RoleTask {
    enum class Lane : std::uint8_t { Host, Send, Receive };
    std::string id;        ///< "s1.NS", "g0.SN.s1", "g0s1", "s1.LD", "s1w0", "p0.U": of the step, without its iteration
    std::size_t step = 0;  ///< of the network, counted from the first one of the iteration
    std::int32_t role = 0; ///< whose it is
    Lane lane = Lane::Host;
    trace::Kind kind = trace::Kind::Other;
};

/// In the order of the network's steps; of a message the sender's end comes first. Cost: that of one iteration's
/// network.
std::vector<RoleTask> roleTasksOf(const Job &job);

/// A step's label without its iteration.
std::string withoutIteration(const std::string &label);

/// The kind of a task of a role: a row of the standard table.
trace::Kind kindOfTask(RoleKind role, const std::string &label);

} // namespace planloom::gnn
