// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/policies.h"

#include "planners/common/memory_policy.h"

#include <algorithm>
#include <utility>

namespace planloom::planners::automatic {
namespace {

/// What a stage may do with activations for which there is no room: recompute, offload, or either, tensor by tensor.
constexpr const char *kPolicies[] = {"delta,director=chain", "dtr,director=recompute", "capuchin,director=swap",
                                     "ahead"};
/// Those that take one walk over the stage's operators: whether policies help at all is seen with these.
constexpr std::size_t kQuick = 2;

plan::Memory policyOf(const char *text)
{
    plan::Memory memory = *plan::memoryFromText(text);
    memory.budgetShare = 1;
    return memory;
}

bool overflows(const plan::Stage &stage, const simulate::Report &report, const cluster::Cluster &cluster)
{
    return std::any_of(stage.devices.begin(), stage.devices.end(), [&](DeviceId device) {
        const auto found = std::find_if(report.devices.begin(), report.devices.end(),
                                        [&](const auto &each) { return each.id == cluster.device(device).name; });
        return found != report.devices.end() && found->peakBytes > found->capacityBytes;
    });
}

} // namespace

std::vector<plan::Plan> withPolicies(const Simulated &start, const Problem &problem)
{
    std::vector<std::size_t> stages;
    for (std::size_t s = 0; s < start.plan.stages.size(); ++s)
        if (start.plan.stages[s].recompute != plan::Recompute::None
            || overflows(start.plan.stages[s], start.report, *problem.subject.cluster))
            stages.push_back(s);
    std::vector<plan::Plan> all;
    if (stages.empty() || graph::isLayerProfile(*problem.subject.graph))
        return all;
    for (std::size_t p = 0; p < kQuick; ++p) {
        plan::Plan limited = start.plan;
        for (const std::size_t s : stages) {
            limited.stages[s].recompute = plan::Recompute::None;
            limited.stages[s].memory = policyOf(kPolicies[p]);
        }
        if (fitBudgets(limited, problem))
            all.push_back(std::move(limited));
    }
    return all;
}

std::vector<plan::Plan> otherPolicies(const plan::Plan &plan)
{
    std::vector<plan::Plan> all;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        if (!plan.stages[s].memory.limits())
            continue;
        plan::Plan without = plan;
        without.stages[s].memory = {};
        all.push_back(std::move(without));
        for (const char *policy : kPolicies) {
            plan::Plan other = plan;
            const std::int64_t budget = plan.stages[s].memory.budgetBytes;
            other.stages[s].memory = policyOf(policy);
            other.stages[s].memory.budgetBytes = budget;
            if (other.stages[s].memory != plan.stages[s].memory)
                all.push_back(std::move(other));
        }
    }
    return all;
}

bool hasPolicies(const plan::Plan &plan)
{
    return std::any_of(plan.stages.begin(), plan.stages.end(),
                       [](const plan::Stage &stage) { return stage.memory.limits(); });
}

} // namespace planloom::planners::automatic
