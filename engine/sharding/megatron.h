// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"
#include "engine/sharding/mesh.h"
#include "engine/sharding/sbp.h"

#include <map>
#include <string>

namespace planloom::sharding {

/// What is split beside the weights of the blocks.
struct MegatronOptions {
    bool sequenceParallel =
        false; ///< between the blocks, activations are split along the tokens (Korthikanti et al., 2022)
    bool vocabularyParallel = false; ///< the token table and the head are split over the vocabulary, if it divides
};

/// Pins for shard() that lay a transformer out as Megatron-LM does (Shoeybi et al., 2019, §3), over all dimensions of
/// the mesh but the first. They are found from the graph's structure: a weight whose product goes through attention or
/// an activation, and through nothing but element-wise operators besides, into a product with another weight is split
/// by columns, and the other by rows. A packed Q|K|V weight is split by heads. Pairs whose sizes or heads do not divide
/// get no pin. Cost: O(operators).
std::map<std::string, NdSbp> megatronPins(const graph::Graph &graph, const Mesh &mesh,
                                          const MegatronOptions &options = {});

} // namespace planloom::sharding
