// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/transformer.h"
#include "engine/plan/plan.h"
#include "engine/plan/setup.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::exporting {

/// The plans that most training programs can express: stages of equal meshes over consecutive ranks. Programs that
/// start one process a device number them so that tensor-parallel ranks lie next to each other, then come replicas,
/// then stages.
struct Uniform {
    enum class Order : std::uint8_t { OneF1B, AllForwardsFirst, Interleaved, Other };

    std::size_t tensor = 1;
    std::size_t data = 1;
    std::size_t pipeline = 1;    ///< groups of devices
    std::size_t chunks = 1;      ///< stages of each group
    std::int64_t microBatch = 1; ///< samples of a micro-batch on one replica
    Order order = Order::OneF1B;
    plan::Recompute recompute = plan::Recompute::None;
    int zero = 0;
    std::size_t nodes = 1;
    std::size_t perNode = 1;         ///< ranks of each node
    std::vector<std::string> launch; ///< how to start the ranks on the plan's devices
    plan::Placement placement;       ///< the ranks' devices
    /// True if the ranks lie on the cluster's first devices, in their order.
    [[nodiscard]] bool onFirstDevices() const;
    /// True if these are all of its devices.
    [[nodiscard]] bool onWholeCluster() const;
};

/// Error (Unsupported), naming @p target, the stage and the remedy: stages of unequal meshes, shares, recomputation
/// or ZeRO; micro-batches of uneven size; registers; devices that the order of ranks above does not reproduce.
Result<Uniform> uniformOf(const plan::Document &document, const std::string &target);

/// Blocks of each stage. Error (Unsupported): a cut inside a block, a stage without one, an embedding or head elsewhere
/// than at the ends.
Result<std::vector<std::int64_t>> blocksOf(const plan::Document &document, const graph::Transformer &model,
                                           const std::string &target);

/// How a plan's shardings compare to the way of Megatron-LM (Shoeybi et al., 2019), which torchtitan shares.
struct TensorLayout {
    bool sequence = false; ///< split along the tokens between the blocks
    bool padded = false;   ///< the vocabulary does not divide: the target pads it, the plan keeps table and head whole
};
/// Error (Unsupported) that names the first tensor that lies otherwise.
Result<TensorLayout> tensorLayoutOf(const plan::Document &document, const Uniform &uniform, const std::string &target);

/// "0.0003", "1e-05": the shortest text that reads back as @p value.
std::string numberText(double value);

} // namespace planloom::exporting
