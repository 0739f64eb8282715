// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::plan {

/// Which devices of a cluster a plan lies on, rank by rank; for a part of a cluster, or an order of its own.
struct Placement {
    std::vector<DeviceId> devices;
    std::size_t clusterDevices = 0; ///< devices of the cluster that these belong to
    friend bool operator==(const Placement &, const Placement &) = default;
};

/// Device numbers with ranges that rise by one: "8-15", "9,8,2-3".
std::string rangesText(std::span<const DeviceId> devices);
/// Inverse of rangesText(). Error (BadInput): text of another form, a device twice, a number beyond @p most.
Result<std::vector<DeviceId>> rangesFromText(std::string_view text, std::size_t most);

/// "planloom.devices:8-15/16": one word that a shell leaves as it is. Other programs' configurations carry it in a
/// field that those programs only show, such as the name of the experiment.
std::string placementText(const Placement &placement);
/// Inverse of placementText(); nothing for text that does not begin as one. Error (BadInput): one that is malformed.
Result<std::optional<Placement>> placementFromText(std::string_view text);

/// The training in another program's configuration, before its model and cluster are known; planner `manual` makes a
/// plan of it.
struct Setup {
    std::string format; ///< "Megatron-LM arguments"
    std::string file;

    std::size_t data = 0; ///< replicas of each stage; 0: as many as there are devices for
    std::size_t tensor = 1;
    std::size_t pipeline = 1; ///< groups of devices
    std::size_t chunks = 1;   ///< stages of each group
    std::vector<std::int64_t>
        blocks; ///< of each stage, pipeline x chunks of them (a last one of 0: what is left); empty: as many in each
    /// Where blocks is empty: so many fewer blocks on the first and on the last stage than an even share of all and
    /// these together; what does not divide goes to the first stages, one each (torchtitan).
    std::optional<std::pair<std::int64_t, std::int64_t>> fewer;
    bool sequence = false; ///< activations are split along the tokens between the blocks
    ScheduleKind schedule = ScheduleKind::OneF1B;
    Recompute recompute = Recompute::None;
    int zero = 0;

    std::int64_t globalBatch = 0;  ///< 0: what the micro-batches on all replicas come to
    std::int64_t microBatch = 1;   ///< samples of one micro-batch on one replica; 0: what the batch comes to
    std::int64_t accumulation = 1; ///< micro-batches, where one of the two above is 0
    std::int64_t perReplica = 0; ///< samples of a batch on one replica, where the file says it besides; 0: it does not
    Precision precision = Precision::Float32;
    Optimizer optimizer;

    /// A size that the model must have for the file to be about it.
    struct Claim {
        enum class What : std::uint8_t { Blocks, Hidden, FeedForward, Heads, KvHeads, Tokens };
        What what = What::Blocks;
        std::int64_t value = 0;
        std::string key; ///< as the file has it
        int line = 0;
    };
    std::vector<Claim> model;
    /// Of the plan that the file was exported from; nothing: the cluster's first devices, in their order.
    std::optional<Placement> placement;
    std::vector<std::string> notes; ///< settings left out, or read with a small difference, for display
};

} // namespace planloom::plan
