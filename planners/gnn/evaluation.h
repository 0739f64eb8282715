// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/bounds.h"
#include "engine/gnn/job.h"
#include "engine/gnn/scheduler.h"

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::planners::gnn {

using planloom::gnn::Job;
using planloom::gnn::Placement;
using planloom::gnn::TransferPolicy;

/// What a machine has left as roles are put on it and taken away. The job must have passed gnn::checkJob and outlive
/// it.
class Room {
public:
    /// All of each machine; no role is anywhere.
    explicit Room(const Job &job);
    /// With all roles where @p machineOf says; -1: nowhere yet.
    Room(const Job &job, std::span<const std::int32_t> machineOf);

    [[nodiscard]] bool fits(std::int32_t role, std::int32_t machine) const { return lacking(role, machine) < 0; }
    /// The first resource of which @p machine has too little for @p role; -1: none.
    [[nodiscard]] std::int32_t lacking(std::int32_t role, std::int32_t machine) const;
    void take(std::int32_t role, std::int32_t machine) { change(role, machine, -1); }
    void give(std::int32_t role, std::int32_t machine) { change(role, machine, 1); }
    [[nodiscard]] double left(std::int32_t machine, std::size_t resource) const;

private:
    void change(std::int32_t role, std::int32_t machine, double sign);
    const Job *m_job;
    std::vector<double> m_left; ///< [machine][resource]
};

/// Seconds of a job under one policy, for any number of placements. Thread contract: one thread.
class Evaluation {
public:
    Evaluation(const Job &job, TransferPolicy policy);
    Evaluation(const Evaluation &) = delete;
    Evaluation &operator=(const Evaluation &) = delete;

    double seconds(std::span<const std::int32_t> machineOf) { return m_scheduler.run(machineOf, m_policy); }
    [[nodiscard]] planloom::gnn::Bounds bounds(std::span<const std::int32_t> machineOf) const
    {
        return planloom::gnn::bounds(m_network, m_ports, machineOf);
    }

private:
    TransferPolicy m_policy;
    planloom::gnn::Network m_network;
    std::vector<planloom::gnn::Port> m_ports;
    planloom::gnn::Scheduler m_scheduler;
};

/// The roles that a search may move: all but graph stores, which lie with their parts.
std::vector<std::int32_t> movableRoles(const Job &job);

} // namespace planloom::planners::gnn
