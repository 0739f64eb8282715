// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/node_spans.h"

#include "engine/plan/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace planloom::plan {
namespace {

/// Nodes of the group of @p parts consecutive devices that lies on most.
std::size_t mostNodes(const Stage &stage, std::size_t parts, const cluster::Cluster &cluster)
{
    std::size_t most = 0;
    for (std::size_t begin = 0; begin + parts <= stage.devices.size(); begin += parts) {
        std::set<NodeId> nodes;
        for (std::size_t d = begin; d < begin + parts; ++d)
            nodes.insert(cluster.device(stage.devices[d]).node);
        most = std::max(most, nodes.size());
    }
    return most;
}

} // namespace

std::optional<NodeSpan> nodeSpan(const Plan &plan, std::size_t stage, const cluster::Cluster &cluster)
{
    const Stage &which = plan.stages[stage];
    NodeSpan span{stage, mostNodes(which, which.shards(), cluster), 1};
    if (span.nodes < 2)
        return std::nullopt;
    for (std::size_t parts = which.shards() - 1; parts > 1 && span.parts == 1; --parts)
        if (which.shards() % parts == 0 && mostNodes(which, parts, cluster) == 1)
            span.parts = parts;
    return span;
}

std::vector<std::string> nodeSpanNotes(const Plan &plan, const cluster::Cluster &cluster, const Why *why)
{
    std::vector<std::string> notes;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const auto span = nodeSpan(plan, s, cluster);
        if (!span)
            continue;
        const std::string cost = why != nullptr && s < why->stages.size()
            ? fmt::format("take {} of an iteration", format(Seconds(why->stages[s].boxingSeconds)))
            : std::string("cross the network");
        notes.push_back(fmt::format("the {} devices that share the tensors of {} lie on {} nodes, so that their "
                                    "collectives {}; {} tensor part{} would stay within a node",
                                    plan.stages[s].shards(), stageLabel(plan, s), span->nodes, cost, span->parts,
                                    span->parts == 1 ? "" : "s"));
    }
    return notes;
}

} // namespace planloom::plan
