// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/plan/plan.h"
#include "engine/sharding/shard.h"
#include "planners/oneflow/space.h"
#include "engine/update/configured_rule.h"

#include <map>
#include <string>
#include <vector>

namespace planloom::planners::oneflow {

/// The devices over which a whole model is laid out.
struct LayoutProblem {
    const graph::TrainingGraph *training = nullptr;
    const cost::CostModel *costs = nullptr;
    std::vector<DeviceId> devices; ///< of one kind; the mesh is filled row-major
    sharding::Mesh mesh;
    double samples = 1; ///< of one replica in a micro-batch
    double microBatches = 1;
    update::Footprint update;
};

/// Layouts by tensor name, one component per dimension of the mesh, and their cost by the search.
struct Layout {
    std::map<std::string, sharding::NdSbp> pins;
    double boxingBytes = 0;  ///< sent in boxing by all devices in an iteration
    double memoryBytes = 0;  ///< parameters with their state, and activations kept for the backward pass
    bool exact = true;       ///< along every dimension the cheapest there is
    std::size_t kernel = 0;  ///< operators and tensors that were refined locally, at most
    std::size_t changed = 0; ///< operators to which shard() gives another layout than was found
};

/// Searches one dimension of the mesh after the other, from the second on (the first is data parallel); each takes the
/// operators as those before it left them, boxing included. @p secondsPerByte: the price of a byte of memory.
Result<Layout> searchLayout(const LayoutProblem &problem, double secondsPerByte, const SolveSettings &settings);

/// Seconds and boxing bytes of an iteration under @p pins, as shard() lays them out: the work of one device and the
/// line communicates, one after the other.
Result<Price> priceOf(const LayoutProblem &problem, const std::map<std::string, sharding::NdSbp> &pins);

} // namespace planloom::planners::oneflow
