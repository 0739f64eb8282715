// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/device/device.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace planloom::runtime {

/// Where a call finds an argument: an area's slot of the micro-batch at hand, and the range within.
struct Place {
    std::int32_t area = -1; ///< -1: an optional argument left out
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
};

/// A parameter's gradient, to be added to its accumulator as soon as it is made, where the operator that makes it
/// cannot add it by itself.
struct Accumulation {
    Place gradient;
    std::int64_t accumulator = 0; ///< offset in Persistent
    std::int64_t elements = 0;
};

/// One operator, ready to run.
struct Call {
    device::DeviceKernel *kernel = nullptr;
    device::Mode mode = device::Mode::Run; ///< Add: to its output, a gradient's accumulator
    bool idle = false;                     ///< a sum of gradients whose terms were each added to the accumulator
    std::int32_t firstInput = 0;           ///< ranges in CallList::places and CallList::accumulations
    std::int32_t firstOutput = 0;
    std::int32_t lastOutput = 0;
    std::int32_t firstAccumulation = 0;
    std::int32_t lastAccumulation = 0;
    /// Form of the first input of an operator that compares it with labels, its second one.
    std::optional<device::ScoredRows::Form> scored;
    std::int64_t ignored = 0; ///< label that does not count, of one that is scored
};

/// The tensor that @p op compares with labels; nothing if it is not a loss.
std::optional<device::ScoredRows::Form> scoredFormOf(const graph::Graph &graph, const graph::Op &op);

/// Buffers of a communicating operator, in the device's memory.
struct Communication {
    std::byte *input = nullptr;
    std::byte *output = nullptr;
    std::int64_t inputBytes = 0;
    std::int64_t outputBytes = 0;
    graph::DType type = graph::DType::F32;
};

/// A pass over one slice size of one stage replica. Calls of operators that communicate have no kernel.
struct CallList {
    std::int32_t firstOp = 0; ///< the operator of calls[0]; the others follow
    std::vector<Call> calls;
    std::vector<Place> places;
    std::vector<Accumulation> accumulations;
    std::int32_t accumulateFirst =
        0; ///< accumulations [0, accumulateFirst) are of gradients that were received, not made
    std::int32_t mostArguments = 0; ///< of any call
};

/// The passes of one slice size; made before the first step.
struct SizedPasses {
    std::int64_t samples = 0;
    std::vector<std::unique_ptr<device::DeviceKernel>> kernels; ///< per operator; null for communicating ones
    std::vector<device::DeviceKernel *> drawing;                ///< kernels that draw random numbers
    CallList forward;
    CallList recompute; ///< empty unless the body recomputes
    CallList backward;
};

/// Ranks that share a slice all have its loss: one of them counts.
bool countsLoss(const program::Body &body);
/// The gradient of the loss, which a backward pass is given; invalid: there is none in this stage.
TensorId lossGradientOf(const graph::TrainingGraph &training);

/// Where tensor @p id of @p body lies, with its size for @p samples.
Place placeOf(const program::Body &body, const std::vector<program::Placement> &places, TensorId id,
              std::int64_t samples);

/// Errors: those of Device::makeKernel, naming the operator; Failed, if an argument has no place.
Result<SizedPasses> makePasses(device::Device &device, const program::Body &body, std::int64_t samples);

} // namespace planloom::runtime
