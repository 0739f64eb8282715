// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/plan/plan.h"

#include <algorithm>
#include <cstddef>

namespace planloom::compile {

/// What a Program is compiled from. Both outlive every pass and what it returns.
struct Source {
    const plan::Plan &plan;
    const plan::Subject &subject;

    /// Plan::bucketBytes; 0 where the framework exchanges all gradients at the end, whatever the plan says.
    [[nodiscard]] std::int64_t bucketBytes() const
    {
        return subject.costs->fact(cost::kExchangeAtEnd) > 0 ? 0 : plan.bucketBytes;
    }
    [[nodiscard]] bool isFirst(StageId stage) const { return stage.value == 0; }
    [[nodiscard]] bool isLast(StageId stage) const { return stage.index() + 1 == plan.stages.size(); }
    /// True if nothing has to travel from stage @p stage to the next: both lie on the same devices.
    [[nodiscard]] bool staysOnDevice(std::size_t stage) const
    {
        return stage + 1 < plan.stages.size() && plan.stages[stage].devices == plan.stages[stage + 1].devices;
    }
};

/// True if replicas of a stage have several devices, among which passes communicate.
inline bool sharesTensors(const plan::Plan &plan)
{
    return std::any_of(plan.stages.begin(), plan.stages.end(),
                       [](const plan::Stage &stage) { return stage.shards() > 1; });
}

/// True if steps have collectives of their own while averages are under way.
inline bool stepsCommunicate(const plan::Plan &plan)
{
    return sharesTensors(plan) || plan.exchange.averaging.inside == plan::Inside::Machine;
}

} // namespace planloom::compile
