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

/// False where a device has nothing left.
bool fitAnew(plan::Plan &plan, const Problem &problem)
{
    for (plan::Stage &stage : plan.stages)
        if (stage.memory.limits()) {
            stage.memory.budgetBytes = 0;
            stage.memory.budgetShare = 1;
        }
    return fitBudgets(plan, problem).ok();
}

} // namespace

std::vector<plan::Plan> withPolicies(const Simulated &start, const Problem &problem, Policies policies)
{
    std::vector<std::size_t> stages;
    std::vector<std::size_t> full;
    for (std::size_t s = 0; s < start.plan.stages.size(); ++s) {
        if (overflows(start.plan.stages[s], start.report, *problem.subject.cluster))
            full.push_back(s);
        if (start.plan.stages[s].recompute != plan::Recompute::None || (!full.empty() && full.back() == s))
            stages.push_back(s);
    }
    std::vector<plan::Plan> all;
    if (stages.empty() || graph::isLayerProfile(*problem.subject.graph))
        return all;
    for (std::size_t p = 0; p < (policies == Policies::All ? std::size(kPolicies) : kQuick); ++p) {
        plan::Plan limited = start.plan;
        for (const std::size_t s : stages) {
            limited.stages[s].recompute = plan::Recompute::None;
            limited.stages[s].memory = policyOf(kPolicies[p]);
        }
        plan::Plan hosted = limited;
        if (fitAnew(limited, problem))
            all.push_back(std::move(limited));
        for (const std::size_t s : full)
            hosted.stages[s].memory.hostStates = true;
        if (!full.empty() && fitAnew(hosted, problem))
            all.push_back(std::move(hosted));
    }
    return all;
}

std::vector<plan::Plan> otherPolicies(const plan::Plan &plan, const Problem &problem)
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
            const plan::Memory &now = plan.stages[s].memory;
            other.stages[s].memory = policyOf(policy);
            other.stages[s].memory.budgetBytes = now.budgetBytes;
            other.stages[s].memory.hostStates = now.hostStates;
            other.stages[s].memory.hostParameters = now.hostParameters;
            if (other.stages[s].memory != now)
                all.push_back(std::move(other));
        }
        plan::Plan elsewhere = plan;
        elsewhere.stages[s].memory.hostStates = !elsewhere.stages[s].memory.hostStates;
        if (fitAnew(elsewhere, problem))
            all.push_back(std::move(elsewhere));
    }
    return all;
}

std::vector<plan::Plan> withBudgetsAnew(std::vector<plan::Plan> plans, const Problem &problem)
{
    std::vector<plan::Plan> fitting;
    for (plan::Plan &plan : plans)
        if (fitAnew(plan, problem))
            fitting.push_back(std::move(plan));
    return fitting;
}

bool hasPolicies(const plan::Plan &plan)
{
    return std::any_of(plan.stages.begin(), plan.stages.end(),
                       [](const plan::Stage &stage) { return stage.memory.limits(); });
}

} // namespace planloom::planners::automatic
