// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/task_graphs.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::planners::whale {
namespace {

TaskGraph otherLayers(std::size_t first, std::size_t last, const plan::Annotation &strategy,
                      const graph::LayerView &layers)
{
    return {layers.layers[first].name, first, last, strategy.kind, strategy.devices};
}

} // namespace

Result<std::vector<TaskGraph>> annotatedTaskGraphs(const Problem &problem)
{
    const graph::LayerView &layers = problem.subject.layers();
    const auto ranges = plan::annotatedLayers(problem.annotations, *problem.subject.graph, layers);
    if (!ranges)
        return ranges.error();
    const auto others = std::find_if(problem.annotations.begin(), problem.annotations.end(),
                                     [](const plan::Annotation &each) { return each.scope == plan::kOtherScopes; });
    const bool separate = others != problem.annotations.end();
    std::vector<TaskGraph> taskGraphs;
    std::size_t at = 0;
    for (const plan::AnnotatedLayers &range : *ranges) {
        const plan::Annotation &annotation = problem.annotations[range.annotation];
        if (separate && at < range.first)
            taskGraphs.push_back(otherLayers(at, range.first, *others, layers));
        else if (!taskGraphs.empty())
            taskGraphs.back().last = range.first;
        taskGraphs.push_back(
            {annotation.scope, taskGraphs.empty() ? 0 : range.first, range.last, annotation.kind, annotation.devices});
        at = range.last;
    }
    if (separate && at < layers.size())
        taskGraphs.push_back(otherLayers(at, layers.size(), *others, layers));
    else
        taskGraphs.back().last = layers.size();
    return taskGraphs;
}

Status resolveDevices(std::vector<TaskGraph> &taskGraphs, int devices)
{
    int asked = 0;
    int open = 0;
    for (const TaskGraph &each : taskGraphs) {
        asked += each.devices;
        open += each.devices == 0 ? 1 : 0;
    }
    if (open == 0)
        return {};
    int each = std::max(0, devices - asked) / open;
    while (each > 0 && devices % (asked + each * open) != 0)
        --each;
    if (each == 0)
        return infeasible(fmt::format("the task graphs ask for {} devices, and {} more of them for one each at least; "
                                      "the cluster has {}, of which they must be a divisor; "
                                      "ask for fewer",
                                      asked, open, devices));
    for (TaskGraph &taskGraph : taskGraphs)
        taskGraph.devices = taskGraph.devices == 0 ? each : taskGraph.devices;
    return {};
}

} // namespace planloom::planners::whale
