// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/sampling.h"
#include "engine/gnn/transfer_policy.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::plan {

/// The graph that a job samples, as the plan was made for it.
struct SampledGraph {
    std::string sha256; ///< of its graph.json, which names the hashes of the arrays
    std::int64_t nodes = 0;
    std::int64_t edges = 0;
    std::int64_t features = 0; ///< of a node
    std::int32_t parts = 1;
};

/// Plan field `job`: sampled training on a graph. The replicas of the plan's only stage are the trainers; graph stores
/// hold the features of a part of the nodes each, samplers draw mini-batches (engine/gnn/sampling.h), fetch the rows
/// from the stores and send them to their trainer. Parameter servers, where the plan has any, sum up the trainers'
/// gradients, update a part of the parameters each, and hand these out (plan::ExchangePolicy::ParameterServer).
struct SampledJob {
    SampledGraph graph;
    gnn::Fanout fanout;
    std::uint64_t seed = 1;    ///< of the trees; the order of seed nodes is the run's
    std::int32_t prefetch = 1; ///< mini-batches that a sampler may be ahead of its trainer
    gnn::TransferPolicy transfers = gnn::TransferPolicy::Degree; ///< how messages share network cards
    std::int64_t chunkBytes = kChunkBytes;                       ///< messages are sent in pieces of so many bytes
    double drawSeconds = 0;                                      ///< of a sampler: a mini-batch's neighbourhoods
    double rowSeconds = 0;                                       ///< of a graph store: one row
    double sampleSeconds = 0;                                    ///< of a sampler: a mini-batch is put together
    double updateSeconds = 0;                                    ///< of a parameter server: a step
    static constexpr std::int64_t kChunkBytes = 256 << 10;
    gnn::Volumes volumes;          ///< of mini-batches that are drawn as the job draws them, of seed nodes at random
    std::int64_t volumesBatch = 0; ///< Plan::globalBatch that `volumes` and the samplers' seconds are of
};

/// Plan field `roles`: one process of a job and its machine.
struct PlacedRole {
    std::string name; ///< "g0", "s1", "p0"
    gnn::RoleKind kind = gnn::RoleKind::GraphStore;
    std::string machine;       ///< name of a node of the cluster
    std::int32_t part = -1;    ///< of a graph store
    std::int32_t trainer = -1; ///< of a sampler: the replica that it works for
    friend bool operator==(const PlacedRole &, const PlacedRole &) = default;
};

struct Plan;
struct Subject;

/// Errors (BadInput), each with field and fix: roles without a job, a job on several stages or micro-batches, or of a
/// model whose inputs are no trees of the fan-out, a part without a store or with two, a trainer without a sampler,
/// machines that are not in the cluster, trainers among the roles, roles out of order, repeated names, a prefetch or
/// chunks below 1, an exchange of another kind than all-reduce or by servers that the plan has, volumes of another
/// size or of another batch.
/// @p field names the plan field.
Status validateJob(const Plan &plan, const Subject &subject, std::string &field);

/// The roles as a job on the cluster's machines, trainers included, with the plan's placement. `trainSeconds` is 0: it
/// is for the caller, who knows the iteration of the trainers. @p plan must be valid and have a job.
gnn::Job jobOf(const Plan &plan, const Subject &subject, gnn::Placement &machineOf);

} // namespace planloom::plan
