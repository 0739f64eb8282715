// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/bounds.h"

#include "engine/admm/training_graph.h"
#include "engine/cost/local_costs.h"

#include <algorithm>
#include <map>
#include <vector>

namespace planloom::compile {
namespace {

/// Work of the ranks that compute on one core, of the core that has most.
Seconds busiestCore(const Program &program)
{
    std::map<std::int32_t, Seconds> work;
    for (const Task &task : program.tasks)
        if (const std::int32_t core = program.ranks[task.rank.index()].core; core >= 0)
            work[core] += program.coreSeconds(task) * program.shareOfSteps(task);
    Seconds most;
    for (const auto &[core, seconds] : work)
        most = std::max(most, seconds);
    return most;
}

} // namespace

Seconds lowerBound(const Program &program)
{
    std::vector<Seconds> work(program.ranks.size() * kLanes);
    for (const Task &task : program.tasks)
        work[task.rank.index() * kLanes + static_cast<std::size_t>(task.lane)] +=
            task.duration * program.shareOfSteps(task);
    return std::max(*std::max_element(work.begin(), work.end()), busiestCore(program));
}

Seconds timeOnOneDevice(const Source &source, const StageModel &firstStage)
{
    const auto &[plan, subject] = source;
    const cost::CostModel &costs = *subject.costs;
    const std::size_t type = subject.cluster->device(plan.stages.front().devices.front()).type;
    const auto batch = static_cast<double>(plan.globalBatch);
    const std::size_t layers = subject.layers().size();
    if (plan.admm) {
        const auto secondsOf = [&](const graph::Graph &iteration) {
            return cost::LocalCosts(costs, iteration).seconds(0, iteration.ops().size(), batch, type);
        };
        admm::Settings whole = *plan.admm;
        whole.timeRanges = 1;
        const auto made = whole == *plan.admm ? Error(failed("")) : admm::trainingGraph(*subject.graph, whole, 1);
        return secondsOf(made ? made->graph : firstStage.training()->graph);
    }
    return costs.forward(0, layers, batch, type) + costs.backward(0, layers, batch, type)
        + costs.optimizerStep(costs.parameterBytes(0, layers), plan.optimizer.rule.footprint().streams, type);
}

} // namespace planloom::compile
