// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/persistent.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::compile {

/// The memory of a rank: fields of program::Rank.
struct Arena {
    std::int64_t bytes = 0;
    std::int64_t persistentBytes = 0;
    std::int64_t hostBytes = 0;
    std::string hostTier;
    program::HostCopy hostedStates;
    std::vector<program::HostCopy> hostedParts;
};

/// What the bodies of all ranks come to.
struct Bodies {
    std::vector<Body> all;
    std::vector<Arena> arenas; ///< per rank
    PooledCalls inference;     ///< of the forward passes without training
};

/// What bodies() reads.
struct BodiesInput {
    const Source &source;
    const Samples &samples;
    const std::vector<StageModel> &stages;
    const Ranks &ranks;
    const Instances &instances;
    const FoldedTeams &teams;
    const BucketOwners &owners;
    const MemoryPlans &memory;
    const PersistentLayouts &persistent;
    bool complete = true; ///< with operators, places and messages

    [[nodiscard]] const plan::Stage &stageOf(const StageInstance &instance) const
    {
        return source.plan.stages[instance.stage.index()];
    }
};
/// Makes the body of every stage instance and lays out the ranks' arenas behind what is persistent.
Bodies buildBodies(const BodiesInput &in);

} // namespace planloom::compile
