// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/evaluation.h"

namespace planloom::planners::gnn {
namespace {

/// Demands that add up to a capacity fit it, whatever the order of the additions.
constexpr double kSlack = 1e-9;

} // namespace

Room::Room(const Job &job) : m_job(&job)
{
    for (const planloom::gnn::Machine &machine : job.machines)
        m_left.insert(m_left.end(), machine.capacity.begin(), machine.capacity.end());
}

Room::Room(const Job &job, std::span<const std::int32_t> machineOf) : Room(job)
{
    for (std::size_t role = 0; role < machineOf.size(); ++role) {
        if (machineOf[role] >= 0)
            take(static_cast<std::int32_t>(role), machineOf[role]);
    }
}

double Room::left(std::int32_t machine, std::size_t resource) const
{
    return m_left[static_cast<std::size_t>(machine) * m_job->resources.size() + resource];
}

std::int32_t Room::lacking(std::int32_t role, std::int32_t machine) const
{
    const std::vector<double> &demand = m_job->roles[static_cast<std::size_t>(role)].demand;
    for (std::size_t resource = 0; resource < demand.size(); ++resource) {
        if (demand[resource] > left(machine, resource) + kSlack)
            return static_cast<std::int32_t>(resource);
    }
    return -1;
}

void Room::change(std::int32_t role, std::int32_t machine, double sign)
{
    const std::vector<double> &demand = m_job->roles[static_cast<std::size_t>(role)].demand;
    for (std::size_t resource = 0; resource < demand.size(); ++resource)
        m_left[static_cast<std::size_t>(machine) * demand.size() + resource] += sign * demand[resource];
}

Evaluation::Evaluation(const Job &job, TransferPolicy policy)
    : m_policy(policy),
      m_network(planloom::gnn::networkOf(job)),
      m_ports(planloom::gnn::portsOf(job)),
      m_scheduler(m_network, m_ports)
{
}

std::vector<std::int32_t> movableRoles(const Job &job)
{
    std::vector<std::int32_t> movable;
    for (std::size_t role = 0; role < job.roles.size(); ++role) {
        if (job.roles[role].kind != planloom::gnn::RoleKind::GraphStore)
            movable.push_back(static_cast<std::int32_t>(role));
    }
    return movable;
}

} // namespace planloom::planners::gnn
