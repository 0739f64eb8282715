// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/instances.h"

#include <algorithm>

namespace planloom::compile {

Instances makeInstances(const Source &source, const std::vector<StageModel> &stages, const Ranks &ranks, bool roomy)
{
    Instances made;
    made.ofRank.resize(ranks.size());
    int inFlightBefore = 0;
    for (std::size_t s = 0; s < source.plan.stages.size(); ++s) {
        const plan::Stage &stage = source.plan.stages[s];
        int inFlight = 0;
        made.ofStage.emplace_back();
        for (std::size_t device = 0; device < stage.devices.size(); ++device) {
            const RankId rank = ranks.ofStage[s][device];
            if (ranks.at(rank).device != stage.devices[device])
                continue; // another stands for it
            StageInstance instance;
            instance.stage = StageId(static_cast<std::int64_t>(s));
            instance.rank = rank;
            instance.replica = device / stage.shards();
            instance.device = device;
            const std::vector<PassStep> order = stepsOf(ranks.at(rank).order, s);
            instance.slotPlan = planSlots(order, source.plan.microBatches,
                                          {inFlightBefore, stage.registers, stages[s].keepsSentGradients(), roomy});
            inFlight = std::max(inFlight, maxInFlight(order));
            made.ofRank[rank.index()].emplace_back(static_cast<std::int64_t>(made.all.size()));
            made.ofStage.back().push_back(made.all.size());
            made.all.push_back(std::move(instance));
        }
        inFlightBefore = inFlight;
    }
    return made;
}

} // namespace planloom::compile
