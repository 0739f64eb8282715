// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/graph_data.h"
#include "engine/gnn/job.h"
#include "engine/gnn/sampling.h"

#include <cstdint>
#include <span>

namespace planloom::gnn {

/// What mini-batches are made of.
struct SampleOptions {
    Fanout fanout;
    std::int64_t batch = 256; ///< seed nodes of one mini-batch
    std::uint64_t seed = 1;
    /// Seed nodes from the sampler's home part only: fewer remote rows, and mini-batches that are not drawn from the
    /// whole graph. Else from all labelled nodes, which is independent of the partition.
    bool localSeeds = false;
    /// A sampler sends its trainer a row for each place of the trees, as operators of fixed shapes take them; else each
    /// row once, with its number.
    bool treeForm = true;
    /// A node with no more neighbours than are drawn has each of them once (ListDraws::whole).
    bool whole = false;
    /// Of a mini-batch in which each row is sent once: bytes for each row besides its features and number, and for each
    /// place of the trees.
    double bytesOfRow = 0;
    double bytesOfPlace = 0;
    /// Share of the nodes, those with most neighbours (ties: the lowest), whose features every sampler holds: no store
    /// sends them. 0 to 1.
    double cacheShare = 0;
};

/// Bytes of each iteration from the trees that are drawn: of a mini-batch each row once from the store of its part,
/// with 8 bytes for its number. @p homes: per sampler its home part. Deterministic, equal for every placement.
/// Errors (BadInput): a fan-out (checkFanout), a batch below 1, no iteration, a home that is no part, a share outside
/// of 0 to 1, a home (or a graph) without labelled nodes. Cost: iterations * samplers * batch * rows of a tree.
Result<Volumes> sampledVolumes(const GraphData &graph, std::span<const std::int32_t> homes, std::int32_t iterations,
                               const SampleOptions &options);

} // namespace planloom::gnn
