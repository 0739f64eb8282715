// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::graph {

/// A summand of a model's loss that compares results with targets.
struct LossTerm {
    std::string type; ///< of the operator that compares, or would: a mean of squares is a MeanSquaredErrorLoss
    OpId op;          ///< that makes the summand
    TensorId output;  ///< of the model: what is compared, before it is reshaped
    TensorId target;  ///< the input that it is compared with; invalid: it is computed
    TensorId mask;    ///< the input that says which elements count; invalid: all do
};
/// The summands of a loss.
struct LossTerms {
    std::vector<LossTerm> terms; ///< last one first
    bool whole = true;           ///< false: there are summands of other operators
};
/// Takes sums and multiples of scalars apart, down to loss operators and to means of squared or absolute differences.
/// Cost: O(graph).
LossTerms lossTerms(const Graph &graph);

/// An input with which results are compared, and what it may hold.
struct Target {
    enum class Use : std::uint8_t {
        Labels,        ///< int64: classes
        Values,        ///< float32: any
        Probabilities, ///< float32: 0 to 1
        Mask,          ///< bool: which elements count
    };
    TensorId input;
    Use use = Use::Values;
    std::int64_t classes = 0;    ///< Labels: they are smaller; 0: not known
    std::int64_t ignored = -100; ///< Labels: one that does not count
};
/// Inputs that reach the loss, but neither by way of a parameter nor as a part of what a loss operator compares, in the
/// graph's order. Cost: O(graph).
std::vector<Target> targetsOf(const Graph &graph);

/// Whether training can compute the graph and its gradients. Errors (Unsupported), each with its remedy: a layer
/// profile, no loss, an operator that is only planned or that is not known. Cost: that of differentiate().
Status checkTrainable(const Graph &graph);

} // namespace planloom::graph
