// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <map>
#include <string>
#include <vector>

namespace planloom::program {

/// A tensor that stays in the arena from the first step to the last.
struct HeldTensor {
    TensorId id; ///< in the graph that lists it
    std::string name;
    std::int64_t bytes = 0;
};

/// What every replica of a stage holds.
struct StageHoldings {
    std::vector<HeldTensor> parameters;
    std::vector<HeldTensor> others; ///< constants and untrained state
    std::vector<RankId> ranks;
};

/// Where a rank's persistent tensors lie, offsets from the start of its arena.
struct PersistentLayout {
    std::vector<std::int64_t> parameters;          ///< per entry of StageHoldings::parameters
    std::vector<std::int64_t> gradients;
    std::vector<std::vector<std::int64_t>> states; ///< [moment][parameter]
    std::vector<std::int64_t> others;
    std::int64_t bytes = 0;
};

/// Groups parameters by the set of ranks that hold them (a parameter shared by two stages belongs to the ranks of both), in the
/// order of their first appearance.
std::vector<Bucket> makeBuckets(const std::vector<StageHoldings> &stages);

/// Lays out what @p rank holds and notes in @p buckets where its accumulators begin. Accumulators of a bucket are packed without gaps, in
/// the bucket's order, so that one all-reduce covers them.
PersistentLayout layoutPersistent(const StageHoldings &stage, RankId rank, int moments, std::vector<Bucket> &buckets);

} // namespace planloom::program
