// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/placed_plan.h"

#include "engine/plan/role_cores.h"
#include "engine/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

namespace planloom::planners::gnn {

using planloom::gnn::RoleKind;

namespace {

/// Roles of the plan in front of the trainers of its job; servers stand behind these.
std::size_t rolesBeforeTrainers(const plan::Plan &plan)
{
    return plan.roles.size()
        - static_cast<std::size_t>(std::ranges::count(plan.roles, RoleKind::ParameterServer, &plan::PlacedRole::kind));
}

/// With what roles take of machines' slots; the trainers' seconds are for the caller.
Job rolesOfPlan(const plan::Plan &plan, const plan::Subject &subject, std::int64_t slots, Placement &machineOf)
{
    Job job = plan::jobOf(plan, subject, machineOf);
    constexpr double kAny = 1e9;
    job.resources.emplace_back("role-slots");
    for (planloom::gnn::Machine &machine : job.machines)
        machine.capacity.push_back(slots > 0 ? static_cast<double>(slots) : kAny);
    for (planloom::gnn::Role &role : job.roles)
        role.demand.push_back(role.kind == RoleKind::Trainer ? 0 : 1);
    return job;
}

/// The trainers of @p plan without the roles, which they never wait for.
plan::Plan trainersOf(const plan::Plan &plan)
{
    plan::Plan alone = plan;
    alone.job.reset();
    alone.roles.clear();
    return alone;
}

/// One trainer, with its share of the batch, on @p device.
plan::Plan oneTrainerOf(const plan::Plan &plan, DeviceId device)
{
    plan::Plan alone = trainersOf(plan);
    alone.exchange = {};
    plan::Stage &stage = alone.stages.front();
    alone.globalBatch /= static_cast<std::int64_t>(stage.devices.size());
    stage.devices = {device};
    stage.replicaShares.clear();
    stage.zero = 0;
    return alone;
}

Result<double> simulatedSeconds(const plan::Plan &plan, const plan::Subject &subject)
{
    const auto simulation = simulate::simulatePlan(plan, subject, {.trace = false, .memory = false});
    return simulation ? Result<double>(simulation->report.iterationSeconds) : Result<double>(simulation.error());
}

} // namespace

Result<Job> jobOfPlan(const plan::Plan &plan, const plan::Subject &subject, std::int64_t slots, Placement &machineOf)
{
    Job job = rolesOfPlan(plan, subject, slots, machineOf);
    const bool byServers = plan.exchange.policy == plan::ExchangePolicy::ParameterServer;
    const auto seconds =
        simulatedSeconds(byServers ? oneTrainerOf(plan, plan.stages.front().devices.front()) : trainersOf(plan),
                         subject);
    if (!seconds)
        return seconds.error();
    job.trainSeconds = byServers ? *seconds : *seconds / plan::coreCrowd(plan, *subject.cluster);
    return job;
}

Result<Job> searchJobOf(const plan::Plan &plan, const plan::Subject &subject, std::int64_t slots, Placement &machineOf)
{
    Job job = rolesOfPlan(plan, subject, slots, machineOf);
    if (plan.exchange.policy != plan::ExchangePolicy::ParameterServer) {
        job.exchange = planloom::gnn::GradientExchange::AllReduce;
        job.volumes.model = static_cast<double>(subject.graph->parameterBytes().value());
    }
    std::map<std::size_t, double> secondsOf; // by type of device
    for (std::size_t i = 0; i < job.machines.size(); ++i) {
        const DeviceId device = subject.cluster->nodes()[i].devices.front();
        const auto type = static_cast<std::size_t>(subject.cluster->device(device).type);
        if (!secondsOf.contains(type)) {
            const auto seconds = simulatedSeconds(oneTrainerOf(plan, device), subject);
            if (!seconds)
                return seconds.error();
            secondsOf[type] = *seconds;
        }
        if (i == 0)
            job.trainSeconds = secondsOf[type];
        else if (job.trainSeconds > 0)
            job.machines[i].port.trainingFactor = secondsOf[type] / job.trainSeconds;
    }
    return job;
}

Result<Placement> fastestOf(const SearchResult &found, const plan::Plan &plan, const plan::Subject &subject)
{
    std::vector<Placement> candidates{found.machineOf};
    for (const Placement &other : found.candidates) {
        if (std::ranges::find(candidates, other) == candidates.end())
            candidates.push_back(other);
    }
    std::size_t best = 0;
    double least = 0;
    for (std::size_t i = 0; candidates.size() > 1 && i < candidates.size(); ++i) {
        plan::Plan placed = plan;
        placeRoles(candidates[i], *subject.cluster, placed);
        const auto seconds = simulatedSeconds(placed, subject);
        if (!seconds)
            return seconds.error();
        constexpr double kEqual = 1 - 1e-9; // by rounding
        if (i > 0 && *seconds >= least * kEqual)
            continue;
        least = *seconds;
        best = i;
    }
    return candidates[best];
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
