// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"
#include "engine/import/loss/choice.h"

#include <string>
#include <vector>

namespace planloom::import {

/// Where the classes of @p logits lie: behind a convolution in axis 1, behind a product with a weight in the last one;
/// nothing where neither can be told.
std::optional<std::size_t> classAxis(const graph::Graph &graph, TensorId logits);

/// The operator of type @p type that makes @p id; nullptr: another one does.
const graph::Op *madeBy(const graph::Graph &graph, TensorId id, std::string_view type);

/// Outputs of floats, in the model's order.
std::vector<TensorId> floatOutputs(const graph::Graph &graph);

/// What a model without a loss ends in.
struct Ending {
    std::optional<LossChoice> loss; ///< with its output and axis
    std::string reason;             ///< why this loss; without one, why none can be told
};

/// Decides by the first output of floats: a scalar is the loss; Softmax, LogSoftmax and Sigmoid name theirs; logits are
/// told by their shape and the operators that make them. Cost: O(graph).
Ending endingOf(const graph::Graph &graph);

} // namespace planloom::import
