// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/placed_plan.h"

#include "engine/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace planloom::planners::gnn {

using planloom::gnn::RoleKind;

namespace {

/// Roles of the plan in front of the trainers of its job; servers stand behind these.
std::size_t rolesBeforeTrainers(const plan::Plan &plan)
{
    return plan.roles.size()
        - static_cast<std::size_t>(std::ranges::count(plan.roles, RoleKind::ParameterServer, &plan::PlacedRole::kind));
}

} // namespace

Result<Job> jobOfPlan(const plan::Plan &plan, const plan::Subject &subject, std::int64_t slots, Placement &machineOf)
{
    Job job = plan::jobOf(plan, subject, machineOf);
    constexpr double kAny = 1e9;
    job.resources.emplace_back("role-slots");
    for (planloom::gnn::Machine &machine : job.machines)
        machine.capacity.push_back(slots > 0 ? static_cast<double>(slots) : kAny);
    for (planloom::gnn::Role &role : job.roles)
        role.demand.push_back(role.kind == RoleKind::Trainer ? 0 : 1);
    plan::Plan alone = plan; // how long trainers take that never wait
    alone.job.reset();
    alone.roles.clear();
    if (plan.exchange.policy == plan::ExchangePolicy::ParameterServer) { // what trainers exchange is the job's
        alone.exchange = {};
        alone.globalBatch /= static_cast<std::int64_t>(alone.stages.front().devices.size());
        alone.stages.front().devices.resize(1);
    }
    const auto computed = simulate::simulatePlan(alone, subject, {.trace = false, .memory = false});
    if (!computed)
        return computed.error();
    job.trainSeconds = computed->report.iterationSeconds;
    return job;
}

std::int64_t slotsOfPlan(const plan::Plan &plan)
{
    const auto found = plan.planner.options.find("slots");
    std::int64_t slots = 0;
    if (plan.planner.name == "gnn" && found != plan.planner.options.end())
        std::from_chars(found->second.data(), found->second.data() + found->second.size(), slots);
    return std::max<std::int64_t>(slots, 0);
}

void placeRoles(const Placement &machineOf, const cluster::Cluster &cluster, plan::Plan &plan)
{
    std::vector<std::size_t> used(cluster.nodes().size());
    const auto nodeAt = [&](std::size_t role) { return static_cast<std::size_t>(machineOf[role]); };
    std::vector<DeviceId> &devices = plan.stages.front().devices;
    const std::size_t before = rolesBeforeTrainers(plan);
    for (std::size_t i = 0; i < plan.roles.size(); ++i)
        plan.roles[i].machine = cluster.nodes()[nodeAt(i < before ? i : i + devices.size())].name;
    for (std::size_t t = 0; t < devices.size(); ++t) {
        const std::size_t node = nodeAt(before + t);
        devices[t] = cluster.nodes()[node].devices[used[node]++];
    }
}

Status moveRole(const Job &job, const Placement &machineOf, std::size_t role, std::int32_t machine,
                const cluster::Cluster &cluster, plan::Plan &plan)
{
    if (machineOf[role] == machine)
        return {};
    const planloom::gnn::Role &what = job.roles[role];
    const planloom::gnn::Machine &where = job.machines[static_cast<std::size_t>(machine)];
    const Room room(job, machineOf);
    const std::int32_t lacking = room.lacking(static_cast<std::int32_t>(role), machine);
    if (lacking >= 0) {
        const auto resource = static_cast<std::size_t>(lacking);
        return infeasible(
            fmt::format("{} {} needs {} of {}, and machine {} has {} of {} left; move another role away first",
                        planloom::gnn::name(what.kind), what.name, what.demand[resource], job.resources[resource],
                        where.name, room.left(machine, resource), where.capacity[resource]));
    }
    std::vector<DeviceId> &devices = plan.stages.front().devices;
    const std::size_t before = rolesBeforeTrainers(plan);
    if (what.kind != RoleKind::Trainer) {
        plan.roles[role < before ? role : role - devices.size()].machine = where.name;
        return {};
    }
    for (const DeviceId device : cluster.nodes()[static_cast<std::size_t>(machine)].devices) {
        if (std::find(devices.begin(), devices.end(), device) != devices.end())
            continue;
        devices[role - before] = device;
        return {};
    }
    return infeasible(fmt::format("trainer {} needs a device, and machine {} has none left", what.name, where.name));
}

} // namespace planloom::planners::gnn
