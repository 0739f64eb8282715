// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/pattern.h"

#include <span>
#include <vector>

namespace planloom::admm {

/// Parameters of the model that a pattern was found in, as its tensors have them, row by row.
struct PlainParameters {
    std::vector<float> u, w, bias, v, c;
};

/// Gradients of the summed cross-entropy by back-propagation, in double: what duals are at the fixed point.
struct SampleGradients {
    std::vector<std::vector<double>> a, h; ///< by step: a row a sample
    std::vector<double> o;                 ///< likewise
};

/// Of samples x (samples, steps, inputs) with a label each.
SampleGradients sampleGradients(const Pattern &pattern, const PlainParameters &parameters, std::span<const float> x,
                                std::span<const std::int64_t> labels);

} // namespace planloom::admm
