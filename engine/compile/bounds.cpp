// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/bounds.h"

#include "engine/admm/training_graph.h"
#include "engine/cost/local_costs.h"

#include <algorithm>
#include <map>
#include <vector>

namespace planloom::compile {
namespace {

/// Work of the ranks that share one core, of the core that has most. What members of a collective take of a core
/// together is at most the time of the collective, as in simulate/shared_cores.h.
Seconds busiestCore(const Program &program)
{
    std::map<std::int32_t, Seconds> work;
    const auto coreOf = [&](const Task &task) { return program.ranks[task.rank.index()].core; };
    for (const Task &task : program.tasks)
        if (const std::int32_t core = coreOf(task); core >= 0 && !task.group.valid())
            work[core] += std::min(task.duration, program.coreSeconds(task)) * program.shareOfSteps(task);
    for (std::size_t g = 0; g < program.groups.size(); ++g) {
        std::map<std::int32_t, Seconds> taken;
        Seconds longest;
        double share = 0;
        for (const TaskId id : program.membersOf(GroupId(g))) {
            const Task &task = program.task(id);
            longest = std::max(longest, task.duration);
            share = program.shareOfSteps(task);
            if (const std::int32_t core = coreOf(task); core >= 0)
                taken[core] += program.coreSeconds(task);
        }
        for (const auto &[core, seconds] : taken)
            work[core] += std::min(longest, seconds) * share;
    }
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
