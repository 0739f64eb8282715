// SPDX-License-Identifier: Apache-2.0
#include "engine/program/sampled_roles.h"

#include "engine/program/program.h"

#include <algorithm>
#include <map>
#include <utility>

namespace planloom::program {
namespace {

Lane laneOf(gnn::RoleTask::Lane lane)
{
    switch (lane) {
    case gnn::RoleTask::Lane::Send: return Lane::Send;
    case gnn::RoleTask::Lane::Receive: return Lane::Receive;
    case gnn::RoleTask::Lane::Host: break;
    }
    return Lane::Host;
}

} // namespace

std::int32_t rankOfRole(const gnn::Job &job, std::int32_t role)
{
    const std::int32_t firstTrainer = job.first(gnn::RoleKind::Trainer);
    if (role < firstTrainer)
        return role + job.count(gnn::RoleKind::Trainer);
    return job.roles[static_cast<std::size_t>(role)].kind == gnn::RoleKind::Trainer ? role - firstTrainer : role;
}

RoleRows::RoleRows(const Program &program) : m_first(static_cast<std::int32_t>(program.tasks.size()))
{
    if (!program.sampled)
        return;
    const gnn::Job &job = program.sampled->job;
    const auto firstGroup = static_cast<std::int32_t>(program.groups.size());
    std::map<std::pair<std::int32_t, gnn::RoleTask::Lane>, std::int32_t> messages;
    for (gnn::RoleTask &task : gnn::roleTasksOf(job)) {
        Row row;
        row.rank = rankOfRole(job, task.role);
        row.lane = static_cast<std::int32_t>(laneOf(task.lane));
        if (task.lane != gnn::RoleTask::Lane::Host) {
            row.group = firstGroup + static_cast<std::int32_t>(task.step);
            m_sharing = std::max(m_sharing, ++messages[{task.role, task.lane}]);
        }
        row.task = std::move(task);
        m_rows.push_back(std::move(row));
    }
}

std::int32_t RoleRows::find(int rank, std::string_view id) const
{
    const auto found =
        std::ranges::find_if(m_rows, [&](const Row &row) { return row.rank == rank && row.task.id == id; });
    return found == m_rows.end() ? -1 : m_first + static_cast<std::int32_t>(found - m_rows.begin());
}

} // namespace planloom::program
