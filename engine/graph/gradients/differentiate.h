// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

namespace planloom::graph {

/// A part of a graph with the operators that differentiate it, in one Graph: operators [0, forwardOps) are the forward
/// pass, the rest the backward pass, in execution order.
struct TrainingGraph {
    Graph graph;
    std::size_t forwardOps = 0;
    std::size_t weightOps =
        0; ///< of the rest, the last ones, which only gradients of parameters need, where they are a pass of their own
    [[nodiscard]] std::size_t weightsBegin() const { return graph.ops().size() - weightOps; }
    std::vector<TensorId> inputs;  ///< activations that come in over the first cut (tensors of `graph`, role Input)
    std::vector<TensorId> outputs; ///< activations that leave over the last cut
    std::vector<TensorId> outputGradients; ///< role Input, one per differentiable entry of outputs (invalid where not),
                                           ///< fed before backward
    /// One per entry of inputs (invalid where not differentiable). Of an activation that this part only hands on, it is
    /// the entry of outputGradients itself; of one that this part also reads, the sum of that and its own
    /// contributions.
    std::vector<TensorId> inputGradients;
    std::vector<TensorId> parameters; ///< read by this part, by first use
    std::vector<TensorId> gradients;  ///< one per entry of parameters, each made by one separate operator (invalid: it
                                      ///< does not reach the loss)
    std::vector<TensorId> stash;      ///< activations made forward and read backward: kept per micro-batch in flight
    TensorId loss;                    ///< scalar, if the loss lies in this part
    TensorId lossGradient;            ///< then: role Input, "grad/LOSS", fed before backward
    // Tensors keep the names of the original graph. A gradient is called "grad/NAME", a contribution to it
    // "grad/NAME#1", "grad/NAME#2"; where NAME leaves over the last cut "grad/NAME" is the gradient that is fed, and
    // with own contributions the sum is "grad/NAME#sum".
};

/// Cuts operators [first, last) out of @p graph, with the activations crossing at both ends as inputs and outputs, and
/// appends reverse-mode gradients. The loss's own gradient is fed as input "grad/LOSS" (a scalar: samples here / global
/// batch), so that replicas and micro-batches of any sizes add up to the gradient of the global mean. Backward
/// operators come in reverse forward order, an operator's weight gradient right after its input gradient. Only trained
/// tensors get gradients: floats that depend on a parameter and reach the loss (without a loss: the outputs), seen
/// over the whole of @p graph, so that neighbours agree. Errors: Unsupported, naming the operator without a gradient
/// and the ones like it; cost O(operators).
Result<TrainingGraph> differentiate(const Graph &graph, OpId first, OpId last, const std::vector<TensorId> &incoming,
                                    const std::vector<TensorId> &outgoing);

} // namespace planloom::graph
