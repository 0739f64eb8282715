// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::device {

/// An operator made ready for concrete shapes. Not thread-safe: one thread runs it; it may use OpenMP inside. Runs
/// without allocating. Inputs that were left out are nullptr.
class Kernel {
public:
    virtual ~Kernel() = default;
    virtual void run(std::span<const void *const> inputs, std::span<void *const> outputs) = 0;
};

/// Makes the kernel of @p op for these arguments. Errors: Unsupported (operator type, data type or attribute, named),
/// BadInput.
Result<std::unique_ptr<Kernel>> makeKernel(const graph::Op &op, const std::vector<Argument> &inputs,
                                           const std::vector<Argument> &outputs);
/// Operator types that makeKernel knows.
std::vector<std::string> kernelTypes();

/// y[i] += x[i], n floats.
void accumulate(const float *x, float *y, std::int64_t n);

/// How a step is made; `step` counts from 1. weightDecay is for the forms without ranges, which bring their own.
struct SgdStep {
    double learningRate = 0, momentum = 0, weightDecay = 0;
    double gradientScale = 1; ///< gradients count this much: clipping
};
/// The figures of one step of AdamW.
struct AdamWStep {
    double learningRate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0;
    std::int64_t step = 1;
    double gradientScale = 1;
};

/// One optimizer step over all ranges in one parallel pass, which also clears the gradients and refreshes the copies.
/// SGD without states has no momentum.
void sgd(const SgdStep &how, std::span<const UpdateRange> ranges);
void adamW(const AdamWStep &how, std::span<const UpdateRange> ranges);
/// The sum of the squared gradients, in double precision and an order of addition that no number of threads changes.
double squaredNorm(std::span<const UpdateRange> ranges);

void sgd(const SgdStep &how, float *parameter, float *gradient, float *velocity /* nullptr without momentum */,
         std::int64_t n);
void adamW(const AdamWStep &how, float *parameter, float *gradient, float *m, float *v, std::int64_t n);

/// Fills @p tensor (its concrete size: @p elements) by its Initializer, from a generator seeded by (seed, name):
/// the same on every rank and layout. Error: BadInput if stored data has another size; Io.
Status initialize(const graph::Tensor &tensor, std::int64_t elements, std::int64_t seed, const std::string &modelFolder,
                  void *data);

} // namespace planloom::device
