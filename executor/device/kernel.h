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

/// One optimizer step over n parameters in fp32; `step` counts from 1. Clears the gradients.
struct SgdStep {
    double learningRate, momentum, weightDecay;
};
void sgd(const SgdStep &how, float *parameter, float *gradient, float *velocity /* nullptr without momentum */, std::int64_t n);
struct AdamWStep {
    double learningRate, beta1, beta2, epsilon, weightDecay;
    std::int64_t step;
};
void adamW(const AdamWStep &how, float *parameter, float *gradient, float *m, float *v, std::int64_t n);

/// Fills @p tensor (its concrete size: @p elements) as its Initializer says, from a generator seeded by (seed, name): the same on
/// every rank and layout. Error: BadInput if stored data has another size; Io.
Status initialize(const graph::Tensor &tensor, std::int64_t elements, std::int64_t seed, const std::string &modelFolder, void *data);

} // namespace planloom::device
