// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/stage_tensors.h"

#include <vector>

namespace planloom::compile {

class FoldedTeams;
struct Buckets;

/// A tensor of the training graph that is one member's shard of a bucket.
struct BucketTensor {
    TensorId id;
    std::size_t ordinal = 0; ///< of the bucket among those of the rank (Buckets::ofRank)
};

/// A training graph whose parameters or gradients are cut.
struct CutTraining {
    graph::TrainingGraph training;
    std::vector<BucketTensor> parameters; ///< shards that are gathered before use (ZeRO 3)
    std::vector<BucketTensor> gradients;  ///< sums of own shards, to be accumulated (ZeRO 2 and 3)
};

/// Rewrites what a stage's devices run, of which @p rank has one, for buckets of ZeRO level 2 and 3. Gradients of a
/// bucket are packed and reduce-scattered as soon as the last of them is there; each device keeps the sum of its shard.
/// At level 3 each device keeps its shard of the parameters only: they are gathered one layer ahead of their first use
/// in each pass, and forgotten after their last. Errors: those of GraphBuilder::build.
Result<CutTraining> cutParameters(const graph::TrainingGraph &training, const StageTensors &tensors, RankId rank,
                                  const Buckets &buckets, const FoldedTeams &teams);

} // namespace planloom::compile
