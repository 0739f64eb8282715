// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/role_tasks.h"
#include "engine/gnn/transfer_policy.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::program {

/// Processes that bring mini-batches to the ranks of a Program (plan::SampledJob): a side table, as they run beside the
/// ranks' tasks. Their own ranks follow those of the Program, in the order of `processes`.
struct SampledRoles {
    gnn::Job job; ///< with the trainers, which are the Program's ranks; trainSeconds: 0
    gnn::Placement machineOf;
    gnn::TransferPolicy transfers = gnn::TransferPolicy::Degree;
    std::vector<std::string> processes; ///< "g0 on n1": stores, samplers, then servers
};

struct Program;

/// Rows of a trace's task table for what the roles of a Program do and send, behind its own tasks. None where it has no
/// roles. Immutable.
class RoleRows {
public:
    struct Row {
        gnn::RoleTask task;
        std::int32_t rank = 0;
        std::int32_t lane = 0;   ///< a row of kLaneTable
        std::int32_t group = -1; ///< of both ends of a message
    };
    explicit RoleRows(const Program &program);

    [[nodiscard]] std::span<const Row> rows() const { return m_rows; }
    /// The first one's place in the task table.
    [[nodiscard]] std::int32_t first() const { return m_first; }
    /// The place of @p id on @p rank in the task table; -1: there is none.
    [[nodiscard]] std::int32_t find(int rank, std::string_view id) const;
    /// Most messages that a rank may send, or receive, at once.
    [[nodiscard]] std::int32_t sharing() const { return m_sharing; }

private:
    std::vector<Row> m_rows;
    std::int32_t m_first = 0;
    std::int32_t m_sharing = 1;
};

/// The rank of role @p role: trainers are the Program's ranks, in order, and the others follow.
std::int32_t rankOfRole(const gnn::Job &job, std::int32_t role);

} // namespace planloom::program
