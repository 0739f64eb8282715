// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/device/adding_kernel.h"
#include "executor/device/kernel.h"
#include "executor/device/random_kernel.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace planloom::runtime {

/// Where a call finds an argument: an area's slot of the micro-batch at hand, and the range within.
struct Place {
    std::int32_t area = -1; ///< -1: an optional argument left out
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
};

/// A parameter's gradient, to be added to its accumulator as soon as it is made, where the operator that makes it cannot add it by itself.
struct Accumulation {
    Place gradient;
    std::int64_t accumulator = 0; ///< offset in Persistent
    std::int64_t elements = 0;
};

/// What an operator's first input says of how good the model is; its second one has the labels.
enum class Scored : std::uint8_t {
    Nothing,
    Logits,     ///< float32 (M, V)
    HalfLogits, ///< bfloat16 (M, V)
    Statistics, ///< (M, 3), where the loss is computed in parts: LossStatistics in engine/graph/operators.h
};

/// One operator, ready to run.
struct Call {
    device::Kernel *kernel = nullptr;
    device::Kernel *inference = nullptr;    ///< instead of kernel where nothing is trained
    device::AddingKernel *adding = nullptr; ///< adds to its output, a gradient's accumulator
    bool idle = false;                      ///< a sum of gradients that went straight into the accumulator one by one
    std::int32_t firstInput = 0; ///< ranges in Script::places and Script::accumulations
    std::int32_t firstOutput = 0;
    std::int32_t lastOutput = 0;
    std::int32_t firstAccumulation = 0;
    std::int32_t lastAccumulation = 0;
    Scored scored = Scored::Nothing;
    std::int64_t ignored = 0; ///< label that does not count, of one that is scored
};

Scored scoredOf(const graph::Graph &graph, const graph::Op &op);

/// What a communicating operator moves.
struct Communication {
    const void *input = nullptr;
    void *output = nullptr;
    std::int64_t inputBytes = 0;
    std::int64_t outputBytes = 0;
    graph::DType type = graph::DType::F32;
};

/// A pass over one slice size of one stage replica. Calls of operators that communicate have no kernel.
struct Script {
    std::int32_t firstOp = 0; ///< the operator of calls[0]; the others follow
    std::vector<Call> calls;
    std::vector<Place> places;
    std::vector<Accumulation> accumulations;
    std::int32_t accumulateFirst = 0; ///< accumulations [0, accumulateFirst) are of gradients that were received, not made
    std::int32_t mostArguments = 0;   ///< of any call
};

/// Everything that one slice size needs; made before the first step.
struct SizedScripts {
    std::int64_t samples = 0;
    std::vector<std::unique_ptr<device::Kernel>> kernels; ///< per operator
    std::vector<std::unique_ptr<device::Kernel>> inference; ///< per operator: of those that compute something else there
    std::vector<device::RandomKernel *> random;           ///< those that draw numbers
    Script forward;
    Script recompute; ///< empty unless the body recomputes
    Script backward;
};

/// Where tensor @p id of @p body lies, with its size for @p samples.
Place placeOf(const program::Body &body, const std::vector<program::Placement> &places, TensorId id, std::int64_t samples);

/// Errors: those of makeKernel, naming the operator; Failed, if an argument has no place.
Result<SizedScripts> makeScripts(const program::Body &body, std::int64_t samples);

} // namespace planloom::runtime
