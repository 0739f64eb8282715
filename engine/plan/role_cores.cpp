// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/role_cores.h"

#include "engine/cluster/cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace planloom::plan {
namespace {

std::int64_t trainersOn(const Plan &plan, const cluster::Cluster &cluster, const cluster::Node &node)
{
    return std::ranges::count_if(plan.stages.front().devices,
                                 [&](DeviceId device) { return cluster.device(device).node == node.id; });
}

/// A device's share of its node's cores; a GPU's trainer has one that feeds it.
double threadsOf(const cluster::Cluster &cluster, const cluster::Node &node)
{
    const auto processors =
        std::ranges::count_if(node.devices, [&](DeviceId device) { return cluster.typeOf(device).isProcessor(); });
    return processors == 0 ? 1.0 : std::max<double>(1.0, static_cast<double>(node.cores / processors));
}

} // namespace

void shareCores(const cluster::Cluster &cluster, const cluster::Node &node, gnn::Port &port)
{
    if (node.cores == 0)
        return;
    port.processor = node.id.value;
    port.cores = node.cores;
    port.trainerThreads = threadsOf(cluster, node);
}

std::vector<std::string> roleCoreNotes(const Plan &plan, const cluster::Cluster &cluster)
{
    std::vector<std::string> notes;
    if (!plan.job)
        return notes;
    for (const cluster::Node &node : cluster.nodes()) {
        const std::int64_t trainers = trainersOn(plan, cluster, node);
        const std::int64_t roles = std::ranges::count(plan.roles, node.name, &PlacedRole::machine);
        const double threads = static_cast<double>(trainers) * threadsOf(cluster, node) + static_cast<double>(roles);
        if (node.cores == 0 || roles == 0 || threads <= node.cores)
            continue;
        notes.push_back(fmt::format("{} trainer{} and {} role{} share {} core{} of {}", trainers,
                                    trainers == 1 ? "" : "s", roles, roles == 1 ? "" : "s", node.cores,
                                    node.cores == 1 ? "" : "s", node.name));
    }
    return notes;
}

double coreCrowd(const Plan &plan, const cluster::Cluster &cluster)
{
    const std::vector<std::int32_t> cores = cluster::coresOf(cluster, plan.stages.front().devices);
    std::int64_t most = 1;
    for (const std::int32_t core : cores)
        most = std::max<std::int64_t>(most, core < 0 ? 1 : std::ranges::count(cores, core));
    return static_cast<double>(most);
}

} // namespace planloom::plan
