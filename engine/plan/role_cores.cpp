// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/role_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace planloom::plan {
namespace {

bool hasCores(const cluster::Cluster &cluster, const cluster::Node &node)
{
    return node.cores > 0 && cluster.typeOf(node.devices.front()).isProcessor();
}

std::int64_t trainersOn(const Plan &plan, const cluster::Cluster &cluster, const cluster::Node &node)
{
    return std::ranges::count_if(plan.stages.front().devices,
                                 [&](DeviceId device) { return cluster.device(device).node == node.id; });
}

} // namespace

void shareCores(const Plan &plan, const cluster::Cluster &cluster, const cluster::Node &node, gnn::Port &port)
{
    if (!hasCores(cluster, node))
        return;
    const std::int64_t trainers = trainersOn(plan, cluster, node);
    // Trainers that share cores take the longer for it as ranks, so that each has a part of a core.
    const double cores = node.cores;
    const double ofDevice = cores / static_cast<double>(node.devices.size());
    port.processor = node.id.value;
    port.cores = cores;
    port.trainerThreads = ofDevice >= 1
        ? std::floor(ofDevice)
        : std::min(1.0, cores / static_cast<double>(std::max<std::int64_t>(1, trainers)));
}

std::vector<std::string> roleCoreNotes(const Plan &plan, const cluster::Cluster &cluster)
{
    std::vector<std::string> notes;
    if (!plan.job)
        return notes;
    for (const cluster::Node &node : cluster.nodes()) {
        const std::int64_t trainers = trainersOn(plan, cluster, node);
        const std::int64_t roles = std::ranges::count(plan.roles, node.name, &PlacedRole::machine);
        if (!hasCores(cluster, node) || trainers + roles <= node.cores)
            continue;
        notes.push_back(fmt::format("{} trainer{} and {} role{} share {} core{} of {}", trainers,
                                    trainers == 1 ? "" : "s", roles, roles == 1 ? "" : "s", node.cores,
                                    node.cores == 1 ? "" : "s", node.name));
    }
    return notes;
}

} // namespace planloom::plan
