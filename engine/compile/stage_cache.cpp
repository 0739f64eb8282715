// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stage_cache.h"

#include "engine/plan/stage_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::compile {
namespace {

/// Everything that a stage is made from: its own fields, how activations come in, and the mesh that they leave for.
std::string keyOf(const plan::Plan &plan, std::size_t index, const StageModel *before, bool mustRun)
{
    const plan::Stage &stage = plan.stages[index];
    std::string key =
        fmt::format("{}-{} {} s{} p{} {}", stage.firstLayer, stage.lastLayer,
                    plan::textOf(plan::settingsOf(stage).body), plan::splitsBackward(plan.schedule, index),
                    static_cast<int>(plan.precision), mustRun);
    if (plan.admm)
        key += fmt::format(" {} of {} over {} ({})", plan::textOf(*plan.admm), plan.globalBatch, stage.replicas(),
                           fmt::join(stage.replicaShares, ","));
    for (const auto &[tensor, sbp] : stage.shardings)
        key += fmt::format(" {}={}", tensor, sbp);
    if (before != nullptr) {
        key += fmt::format("|{}", fmt::join(before->mesh().sizes, "x"));
        for (const sharding::NdSbp &sbp : before->outputs())
            key += " " + sharding::toText(sbp);
    }
    for (const plan::Stage &next : plan.stages)
        if (next.firstLayer == stage.lastLayer)
            key += fmt::format("|{}", fmt::join(plan::settingsOf(next).body.mesh, "x"));
    return key;
}

} // namespace

Result<StageModel> StageCache::make(const plan::Plan &plan, const plan::Subject &subject, StageId stage,
                                    const StageModel *before, bool mustRun)
{
    std::string key = keyOf(plan, stage.index(), before, mustRun);
    {
        const std::lock_guard lock(m_guard);
        if (const auto found = m_stages.find(key); found != m_stages.end())
            return found->second.copyFor(plan, subject, stage);
    }
    auto made = StageModel::make(plan, subject, stage, before, mustRun);
    if (!made)
        return made;
    const std::lock_guard lock(m_guard);
    if (m_operators < kMostOperators) {
        m_operators += made->training() ? made->training()->graph.ops().size() : 1;
        m_stages.emplace(std::move(key), *made);
    }
    return made;
}

} // namespace planloom::compile
