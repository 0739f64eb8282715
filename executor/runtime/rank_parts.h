// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/comm/communicator.h"
#include "executor/runtime/clock.h"
#include "executor/runtime/host_tier.h"
#include "executor/runtime/stage_replica.h"
#include "executor/runtime/version_link.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace planloom::runtime {

/// The data that a rank's tasks work on. Owned by RankExecutor; program, communicator and device are borrowed.
struct RankParts {
    const program::Program &program;
    RankId rank;
    comm::Communicator &comm;
    device::Device &device;
    std::chrono::nanoseconds deadline;         ///< no communication may stand still for longer
    KernelMarks *marks = nullptr;              ///< borrowed; nullptr: nothing is marked
    VersionLink *link = nullptr;               ///< borrowed; to the Program's parameter server
    std::unique_ptr<device::Event> event = {}; ///< of drain()
    Arena arena = {};
    HostTier host = {};
    UpdateNorms norms = {};
    std::optional<OperatorTimes> times = {}; ///< of the one stage of a rank with a memory policy, if they are measured
    std::vector<StageReplica> stages = {};   ///< as in Rank::bodies
    std::int64_t origin = 0;                 ///< of the trace, on this process's clock
    /// Per lane; nullptr: the lane has no task. Destroyed first: what is under way in them ends, which uses the rest.
    std::vector<std::unique_ptr<device::Queue>> queues = {};

    /// Nanoseconds since the common origin.
    [[nodiscard]] std::int64_t now() const { return monotonicNanoseconds() - origin; }

    /// Makes queues, arena and host tier. Errors: those of the device and of HostTier::prepare.
    Status prepare();

    [[nodiscard]] const program::Rank &own() const { return program.ranks[rank.index()]; }
    /// One of this rank's bodies.
    [[nodiscard]] StageReplica &stage(BodyId body)
    {
        std::size_t i = 0;
        while (own().bodies[i] != body)
            ++i;
        return stages[i];
    }
    /// That of computation, where the lane has no task.
    [[nodiscard]] device::Queue &queue(program::Lane lane)
    {
        const auto &own = queues[static_cast<std::size_t>(lane)];
        return own ? *own : *queues[static_cast<std::size_t>(program::Lane::Compute)];
    }
    [[nodiscard]] ComputeContext context()
    {
        return {device,
                queue(program::Lane::Compute),
                arena,
                deadline,
                marks,
                &queue(program::Lane::CopyIn),
                times ? &*times : nullptr,
                &host};
    }
    /// By how much gradients that are summed over @p body's own samples alone, each counted as a part of the global
    /// batch, fall short of their mean: global batch / own samples; 1 if it has none. @p inside: summed over its
    /// ranks' samples, where it is valid.
    [[nodiscard]] double ownScale(BodyId body, TeamId inside) const;
    /// Where the communicator finds a range of the arena.
    [[nodiscard]] std::byte *forTransport(std::int64_t offset, std::int64_t bytes)
    {
        return device.transportAddress(arena.use(offset, bytes));
    }
    /// Waits until the queue of @p lane is empty.
    Status drain(program::Lane lane) { return runtime::drain(queue(lane), *event, deadline); }
};

} // namespace planloom::runtime
