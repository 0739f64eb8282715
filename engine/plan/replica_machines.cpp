// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/replica_machines.h"

#include <algorithm>
#include <map>

namespace planloom::plan {

std::vector<std::int32_t> replicaMachines(const Plan &plan, const cluster::Cluster &cluster)
{
    std::map<std::vector<NodeId>, std::int32_t> numbers;
    std::vector<std::int32_t> machines;
    for (std::size_t replica = 0; replica < plan.stages.front().replicas(); ++replica) {
        std::vector<NodeId> nodes;
        for (const Stage &stage : plan.stages)
            for (std::size_t shard = 0; shard < stage.shards(); ++shard)
                nodes.push_back(cluster.device(stage.devices[replica * stage.shards() + shard]).node);
        machines.push_back(
            numbers.try_emplace(std::move(nodes), static_cast<std::int32_t>(numbers.size())).first->second);
    }
    return machines;
}

std::optional<Plan> onOneMachine(const Plan &plan, const cluster::Cluster &cluster)
{
    if (!plan.exchange.averages() || plan.exchange.averaging.inside != Inside::Machine)
        return std::nullopt;
    const std::vector<std::int32_t> machines = replicaMachines(plan, cluster);
    if (std::ranges::any_of(machines, [](std::int32_t machine) { return machine > 0; }))
        return std::nullopt;
    Plan summed = plan;
    const auto sum = [](ExchangePolicy &policy) {
        if (policy == ExchangePolicy::DelayedAveraging)
            policy = ExchangePolicy::AllReduce;
    };
    sum(summed.exchange.policy);
    sum(summed.exchange.dense);
    for (ExchangeGroup &group : summed.exchange.groups)
        sum(group.policy);
    summed.exchange.averaging = {};
    return summed;
}

} // namespace planloom::plan
