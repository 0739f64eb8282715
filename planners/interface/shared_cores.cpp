// SPDX-License-Identifier: Apache-2.0
#include "planners/interface/shared_cores.h"

#include "engine/cluster/cores.h"

#include <algorithm>

namespace planloom::planners {

SharedCores::SharedCores(const cluster::Cluster &cluster) : m_cluster(&cluster)
{
    const bool possible = std::any_of(cluster.nodes().begin(), cluster.nodes().end(), [](const cluster::Node &node) {
        return node.cores > 0 && node.devices.size() > static_cast<std::size_t>(node.cores);
    });
    m_all = static_cast<double>(cluster.devices().size());
    if (!possible)
        return;
    std::vector<DeviceId> devices;
    for (const cluster::Device &device : cluster.devices())
        devices.push_back(device.id);
    std::vector<std::int32_t> cores = cluster::coresOf(cluster, devices);
    const auto alone = static_cast<double>(std::count(cores.begin(), cores.end(), -1));
    std::erase(cores, -1);
    m_any = !cores.empty();
    std::sort(cores.begin(), cores.end());
    m_all = alone + static_cast<double>(std::unique(cores.begin(), cores.end()) - cores.begin());
}

std::vector<std::int32_t> SharedCores::coresOf(const Stages &stages) const
{
    std::vector<DeviceId> devices;
    for (const auto &stage : stages)
        devices.insert(devices.end(), stage.begin(), stage.end());
    return cluster::coresOf(*m_cluster, devices);
}

std::vector<double> SharedCores::crowds(const Stages &stages) const
{
    std::vector<double> crowds(stages.size(), 1);
    if (!m_any)
        return crowds;
    const std::vector<std::int32_t> cores = coresOf(stages);
    auto begin = cores.begin();
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const auto end = begin + static_cast<std::ptrdiff_t>(stages[s].size());
        for (auto core = begin; core != end; ++core)
            if (*core >= 0)
                crowds[s] = std::max(crowds[s], static_cast<double>(std::count(begin, end, *core)));
        begin = end;
    }
    return crowds;
}

double SharedCores::busiest(const Stages &stages, std::span<const double> seconds) const
{
    if (!m_any)
        return 0;
    const std::vector<std::int32_t> cores = coresOf(stages);
    const std::int32_t last = cores.empty() ? -1 : *std::max_element(cores.begin(), cores.end());
    std::vector<double> busy(static_cast<std::size_t>(last + 1), 0);
    std::size_t device = 0;
    for (std::size_t s = 0; s < stages.size(); ++s)
        for (std::size_t replica = 0; replica < stages[s].size(); ++replica, ++device)
            if (cores[device] >= 0)
                busy[static_cast<std::size_t>(cores[device])] += seconds[s];
    return busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
}

SharedCores::Stages devicesByStage(const plan::Plan &plan)
{
    SharedCores::Stages stages;
    for (const plan::Stage &stage : plan.stages)
        stages.emplace_back(stage.devices);
    return stages;
}

double sharedCoreSeconds(const plan::Plan &plan, const plan::Subject &subject)
{
    const SharedCores cores(*subject.cluster);
    if (!cores.any() || plan::stageGroups(plan).size() < plan.stages.size())
        return 0; // stages that lie on the same devices have one worker for all of them
    const cost::CostModel &costs = *subject.costs;
    const auto count = static_cast<double>(plan.microBatches);
    std::vector<double> seconds;
    for (const plan::Stage &stage : plan.stages) {
        const std::size_t type = subject.cluster->device(stage.devices.front()).type;
        const double samples = static_cast<double>(plan.globalBatch) / count / static_cast<double>(stage.replicas());
        const double forward = costs.forward(stage.firstLayer, stage.lastLayer, samples, type).value();
        const double backward = costs.backward(stage.firstLayer, stage.lastLayer, samples, type).value();
        const bool again = stage.recompute == plan::Recompute::Full || stage.recompute == plan::Recompute::Layers;
        seconds.push_back(count * (forward * (again ? 2 : 1) + backward) / static_cast<double>(stage.shards()));
    }
    return cores.busiest(devicesByStage(plan), seconds);
}

} // namespace planloom::planners
