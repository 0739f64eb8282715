// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/local_costs.h"
#include "engine/compile/parts.h"
#include "engine/compile/bucket_owners.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace planloom::compile {

/// A communicating operator.
struct CommunicatingOp {
    cost::Collective collective = cost::Collective::AllReduce;
    std::int32_t set = -1; ///< of the teams that do it
    TensorId whole;        ///< what all parts together are
    graph::DType type = graph::DType::F32;
    std::int8_t shift = 0; ///< not 0: a part goes to the member so many places behind, and to no other
};

/// How boxing cuts the passes of a stage, and what part of a pass's time each run takes.
struct StageParts {
    std::vector<PassPart> forward, backward, weights;
    /// The last pass that makes gradients of parameters ends a run wherever a bucket of them is complete. Empty if it
    /// is cut like the others.
    std::vector<PassPart> last;
    std::map<std::string, std::size_t>
        complete; ///< by a bucket's first parameter: the run of `last` behind which it is complete
    /// The first forward pass begins a run wherever a bucket is read first that is updated on its own. Empty likewise.
    std::vector<PassPart> first;
    std::map<std::string, std::size_t> readBy; ///< by a bucket's first parameter: the run of `first` that reads it
    [[nodiscard]] const std::vector<PassPart> &partsOf(Pass pass) const
    {
        return pass == Pass::Backward ? backward : pass == Pass::WeightGradient ? weights : forward;
    }
    std::map<std::int32_t, CommunicatingOp> boxing; ///< by operator
    std::shared_ptr<const cost::LocalCosts> costs;  ///< of the stage's own operators; null where only layers have times
};

/// What stageParts() reads.
struct PartsInput {
    const Source &source;
    const std::vector<StageModel> &stages;
    const Instances &instances;
    const TeamSets &sets;
    const FoldedTeams &teams;
    const Buckets &buckets;
    const BucketOwners &owners;
};
/// Of every stage. Stages that run the same graph share what is worked out of it alone.
std::vector<StageParts> partsOfStages(const PartsInput &in);

/// True if the sum of the gradients of @p bucket, which @p members exchange, may end in the step behind theirs.
[[nodiscard]] bool endsLate(const plan::Plan &plan, const Bucket &bucket, std::size_t members);

} // namespace planloom::compile
