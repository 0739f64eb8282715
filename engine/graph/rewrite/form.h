// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <optional>

namespace planloom::graph {

/// How a framework computes a transformer, where its file does not say. What is unset stays as the model has it.
struct Form {
    /// False: scores, probabilities and their mask lie in memory (UnfusedAttention); true: Attention.
    std::optional<bool> fusedAttention;
    /// Behind the embeddings, behind the product that ends either half of a block, and of unfused attention's
    /// probabilities; each mask lies in memory (MaskedDropout). 0: none. From 0 to below 1.
    std::optional<double> dropout;
    [[nodiscard]] bool changes() const { return fusedAttention || dropout; }
};

/// @p graph in @p form; names of parameters, scopes and operators stay. Models in pieces are planned and simulated, not
/// trained. Errors: Unsupported, attention with fewer heads of keys than of queries, or with a mask, in pieces. Cost:
/// O(operators).
Result<Graph> inForm(const Graph &graph, const Form &form);

} // namespace planloom::graph
