// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/table_rows.h"
#include "engine/compile/vocabulary.h"
#include "engine/sharding/shard.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace planloom::compile {

/// A parameter as the devices of a stage hold it.
struct HeldParameter {
    TensorId id; ///< in the graph that lists it
    std::string name;
    graph::DType type = graph::DType::F32; ///< that operators read it in
    std::vector<std::int64_t> sizes;       ///< of the whole parameter
    sharding::NdSbp sbp;                   ///< per dimension of the mesh
    std::vector<int> reduceOver;           ///< mesh dimensions whose gradients add up
    std::int64_t elements = 0;             ///< of one device's part
    bool trains = true;
    std::size_t layer = 0; ///< of the first operator that reads it
    std::int32_t ready =
        -1; ///< operator behind which a micro-batch's gradient is there; kMadeTogether: one that communicates makes it
    static constexpr std::int32_t kMadeTogether = 1 << 30;
    std::shared_ptr<const RowTable> table = {}; ///< of one that is exchanged by rows; `elements` are the window's then
};

/// A constant or an untrained state; every device has all of it, or the rows of its samples.
struct HeldTensor {
    TensorId id;
    std::string name;
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> sizes;
    std::int64_t bytes = 0;
    bool constant = false;
    bool ofSamples = false;  ///< a row for each sample of the device; `sizes` and `bytes` are of one
    bool ofTraining = false; ///< no tensor of the model
};

/// The tensors that the ranks of a stage hold.
struct StageHoldings {
    std::vector<HeldParameter> parameters;
    std::vector<HeldTensor> others;
    sharding::Mesh mesh;
    int zero = 0;
    std::vector<RankId> ranks; ///< in the order of the mesh
    std::vector<plan::SampleRange> samples =
        {}; ///< of the devices within the global batch, where tensors are of samples
    /// Of a tensor of samples on the device at a coordinate of mesh dimension 1, in all the run: null where it is the
    /// tensor's own, empty where another device has it.
    std::function<std::string(const std::string &, int)> stateName = {};
};

class FoldedTeams;
class TeamSets;

/// A parameter and who adds up its gradients.
struct SharedParameter {
    const HeldParameter *parameter = nullptr; ///< as the first stage that uses it holds it
    std::int32_t set = -1;                    ///< of TeamSets
    int zero = 0;
    std::size_t layer = 0; ///< with ZeRO 2 and 3 parameters of a layer are exchanged together: from 1 on; else 0
};

/// Every parameter, in the order of first appearance. One that several stages use belongs to the ranks of all, once to
/// each; it is sharded up to ZeRO 1. Errors: Unsupported, if those stages cut it differently, or if @p exchange
/// averages a parameter whose gradients are summed over more than the replicas: over stages, or over the devices of a
/// replica.
Result<std::vector<SharedParameter>> shareParameters(const std::vector<const StageHoldings *> &stages, TeamSets &sets,
                                                     const plan::Exchange &exchange);

/// Groups parameters that the same teams exchange, in one group of @p plan's exchange; with ZeRO 2 and 3 also by layer,
/// as that is what is gathered at a time; without ZeRO into buckets of about Plan::bucketBytes (0: one) in the order in
/// which gradients become ready, so that exchange begins before the last backward pass ends. Parallel buckets, one per
/// team of a set, follow each other and have the same entries. The parameters of a bucket are used by the same stages.
/// A table that is exchanged by rows has a bucket of its own.
void makeBuckets(const std::vector<SharedParameter> &parameters, const FoldedTeams &teams, const plan::Plan &plan,
                 Program &program);

/// Buckets that @p rank is a member of, in order.
std::vector<BucketId> bucketsOf(const Program &program, RankId rank);

/// The range of elements that member @p position of @p bucket has of what is cut at ZeRO level @p level.
struct Shard {
    std::int64_t begin = 0;
    std::int64_t count = 0;
};
Shard shardOf(const Program &program, const Bucket &bucket, std::size_t position, int level);

/// Where a rank's persistent tensors lie.
struct PersistentLayout {
    std::vector<std::vector<std::int64_t>> others; ///< per stage, per entry of StageHoldings::others
    std::int64_t bytes = 0;
    std::int64_t hostedBytes = 0; ///< of the optimizer's states, from `bytes` on, where these are in the host tier
};
/// Lays out what @p rank, which runs @p stages, holds and notes in its buckets where. A parameter that several of them
/// use lies there once. With @p hostStates the optimizer's states lie behind all else and are not counted: they are
/// there for the update alone.
PersistentLayout layoutPersistent(const std::vector<const StageHoldings *> &stages, RankId rank, const plan::Plan &plan,
                                  Program &program, bool hostStates = false);

/// The rank's share of the parameters of @p buckets, all of this stage, and of its states and constants, once laid out
/// at @p others.
std::vector<Held> heldBy(const StageHoldings &stage, RankId rank, const std::vector<BucketId> &buckets,
                         const std::vector<std::int64_t> &others, const Program &program);

} // namespace planloom::compile
