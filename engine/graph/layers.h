// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

namespace planloom::graph {

/// A run of operators that planners treat as one: operators [first, last) in the graph's order.
struct Layer {
    std::string name; ///< the scope that its operators share, or the first operator's name; unique
    OpId first;
    OpId last; ///< one past the end
};

/// The graph as a chain of layers. A pipeline may be cut before any layer but the first.
struct LayerView {
    std::vector<Layer> layers;
    /// cuts[k]: the activations that cross from layers [0, k) to layers [k, n), all of them (an activation that a later
    /// layer reads again crosses every cut in between: the antichain sum of papers such as DAPPLE). cuts[0] is empty.
    std::vector<std::vector<TensorId>> cuts;

    [[nodiscard]] std::size_t size() const { return layers.size(); }
    /// Bytes over cut @p k for @p samples.
    [[nodiscard]] Bytes cutBytes(const Graph &graph, std::size_t k, std::int64_t samples) const;
    /// The layer that holds @p op.
    [[nodiscard]] std::size_t layerOf(OpId op) const;
};

/// Finds layers: maximal runs that share a scope of repeated blocks (h/0, h/1, ...) or, outside of those, runs between
/// legal cuts. A cut is legal where every crossing activation has the batch as its first dimension. Graph inputs
/// (tokens, labels) and constants never cross: the stage that needs them loads them itself; a parameter that two stages
/// use is held by both. Cost: O(operators + edges).
LayerView layersOf(const Graph &graph);

} // namespace planloom::graph
