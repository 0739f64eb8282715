// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

namespace planloom::admm {

/// The model that the algorithm is written for, in a graph: input, recurrent layer, its last step, Gemm, cross-entropy.
struct Pattern {
    OpId recurrent, product, loss;
    TensorId x;              ///< what the recurrent layer reads: steps and samples of inputs
    TensorId labels;         ///< int64, one a sample
    TensorId u, w;           ///< (1, hidden, inputs), (1, hidden, hidden)
    TensorId bias;           ///< (1, 2 hidden); invalid: none
    TensorId v, c;           ///< (classes, hidden) or transposed, (classes); c may be invalid
    bool transposed = false; ///< v is (hidden, classes)
    bool batchFirst = false; ///< x is (samples, steps, inputs) instead of (steps, samples, inputs)
    std::int64_t inputs = 0, hidden = 0, classes = 0, steps = 0;
};

/// Error: Unsupported, the first operator (or parameter) that does not fit, by name, and what is expected in its place.
Result<Pattern> findPattern(const graph::Graph &graph);

} // namespace planloom::admm
