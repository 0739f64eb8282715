// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/buckets.h"
#include "engine/compile/hosted_parts.h"
#include "engine/compile/stage_memory.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// Where a rank's persistent tensors lie.
struct PersistentLayout {
    std::vector<std::vector<std::int64_t>> others; ///< per body of the rank, per entry of StageTensors::others
    std::int64_t bytes = 0;
    std::int64_t hostedBytes = 0; ///< of hostedTensors(), from `bytes` on, where these are in the host tier
    HostedParts hosted;           ///< where parameters are there, too, in place of those
};

/// Where the tensors that stay from step to step lie.
struct PersistentLayouts {
    Buckets buckets; ///< with places in the arenas of their members
    std::vector<PersistentLayout> ofRank;
};

/// True if nothing but the update of @p bucket reads its float32 parameters, as operators, replicas and averages have
/// to do with bfloat16 copies of them alone: they may lie in the host tier with the optimizer's states.
bool onlyUpdateReadsParameters(const Bucket &bucket);
/// Tensors of a bucket's size, cut like its states, that are in the host tier between updates with @p policy: the
/// states and parameters that only the update reads, or all parameters.
std::int64_t hostedTensors(const Bucket &bucket, std::int64_t states, const plan::Memory &policy);

/// What layPersistent() reads.
struct PersistentInput {
    const plan::Plan &plan;
    const std::vector<StageModel> &stages;
    const Instances &instances;
    const FoldedTeams &teams;
    const MemoryPlans &memory;
};
/// Lays out what ranks have from step to step at the beginning of their arenas. @p buckets have no places yet.
PersistentLayouts layPersistent(const PersistentInput &in, Buckets buckets);

/// The persistent tensors of the body of @p instance: its share of the parameters of the buckets @p owned, which must
/// be laid out, those that are @p hosted in their parts, and its states and constants at @p others.
std::vector<PersistentTensor> persistentTensors(const StageTensors &stage, const StageInstance &instance,
                                                const std::vector<BucketId> &owned,
                                                const std::vector<std::int64_t> &others, const Buckets &buckets,
                                                const FoldedTeams &teams, const HostedParts &hosted);

} // namespace planloom::compile
