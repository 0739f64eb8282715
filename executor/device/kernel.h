// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::device {

/// A concrete tensor argument: type, sizes and layout; contiguous.
struct Argument {
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> dims;
    bool present = true; ///< false: an optional input left out
    graph::Layout layout = graph::Layout::RowMajor;
    [[nodiscard]] std::int64_t elements() const;
};

/// An operator made ready for concrete shapes. Not thread-safe: one thread runs it; it may use OpenMP inside. Runs without
/// allocating. Inputs that were left out are nullptr.
class Kernel {
public:
    virtual ~Kernel() = default;
    virtual void run(std::span<const void *const> inputs, std::span<void *const> outputs) = 0;
};

/// Makes the kernel of @p op for these arguments. Errors: Unsupported (operator type, data type or attribute, named), BadInput.
Result<std::unique_ptr<Kernel>> makeKernel(const graph::Op &op, const std::vector<Argument> &inputs, const std::vector<Argument> &outputs);
/// Operator types that makeKernel knows.
std::vector<std::string> kernelTypes();

/// y[i] += x[i], n floats.
void accumulate(const float *x, float *y, std::int64_t n);

/// A run of parameters that share learning rate and decay, in fp32. The buffers do not overlap.
struct UpdateRange {
    float *parameter = nullptr;
    float *gradient = nullptr;
    float *moment1 = nullptr;      ///< AdamW's first moment or SGD's velocity; nullptr: no velocity
    float *moment2 = nullptr;      ///< AdamW only
    std::uint16_t *copy = nullptr; ///< bfloat16 copy of the parameters that is refreshed; or nullptr
    std::int64_t count = 0;
    float rate = 0; ///< learning rate of this step
    float decay = 0;
};

/// How a step is made; `step` counts from 1. learningRate and weightDecay are for the forms without ranges, which bring their own.
struct SgdStep {
    double learningRate = 0, momentum = 0, weightDecay = 0;
    double gradientScale = 1; ///< gradients count this much: clipping
};
struct AdamWStep {
    double learningRate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0;
    std::int64_t step = 1;
    double gradientScale = 1;
};

/// One optimizer step over all ranges in one parallel pass, which also clears the gradients and refreshes the copies.
void sgd(const SgdStep &how, std::span<const UpdateRange> ranges);
void adamW(const AdamWStep &how, std::span<const UpdateRange> ranges);
/// The sum of the squared gradients, in double precision and an order of addition that no number of threads changes.
double squaredNorm(std::span<const UpdateRange> ranges);

void sgd(const SgdStep &how, float *parameter, float *gradient, float *velocity /* nullptr without momentum */, std::int64_t n);
void adamW(const AdamWStep &how, float *parameter, float *gradient, float *m, float *v, std::int64_t n);

/// Fills @p tensor (its concrete size: @p elements) as its Initializer says, from a generator seeded by (seed, name): the same on
/// every rank and layout. Error: BadInput if stored data has another size; Io.
Status initialize(const graph::Tensor &tensor, std::int64_t elements, std::int64_t seed, const std::string &modelFolder, void *data);

} // namespace planloom::device
