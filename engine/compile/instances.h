// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/ranks.h"
#include "engine/compile/slots.h"
#include "engine/compile/stage_model.h"

#include <vector>

namespace planloom::compile {

/// A stage as one rank runs it: a replica of the stage, or a shard of one.
struct StageInstance {
    StageId stage;
    RankId rank;
    std::size_t replica = 0;
    std::size_t device = 0; ///< in the stage's mesh
    SlotPlan slotPlan;
};

/// The stage instances of a program, one for each body.
struct Instances {
    std::vector<StageInstance> all;                ///< by body
    std::vector<std::vector<std::size_t>> ofStage; ///< per stage, in the order of its mesh
    std::vector<std::vector<BodyId>> ofRank;       ///< per rank, in the order of stages

    [[nodiscard]] std::size_t size() const { return all.size(); }
    [[nodiscard]] const StageInstance &operator[](std::size_t body) const { return all[body]; }
    [[nodiscard]] const StageInstance &operator[](BodyId body) const { return all[body.index()]; }
};

/// Stage by stage, with the slots that each needs for its rank's order. @p roomy: with a place for every micro-batch
/// wherever stages meet, so that an order runs if it can.
Instances makeInstances(const Source &source, const std::vector<StageModel> &stages, const Ranks &ranks, bool roomy);

} // namespace planloom::compile
