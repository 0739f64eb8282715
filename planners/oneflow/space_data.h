// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/oneflow/space.h"

#include <array>

namespace planloom::planners::oneflow {

/// An operator's node, and its states.
struct OpChoice {
    int node = -1;
    std::vector<sharding::Signature> signatures;
};

/// A tensor's nodes, and their states.
struct TensorChoice {
    int pin = -1; ///< node of its layout; for parameters and tensors with several readers
    std::array<int, 2> group{
        -1, -1}; ///< nodes of the layout that several readers of the forward and the backward pass share
    std::vector<sharding::Sbp> layouts; ///< states of all three
};

/// Nodes and edges of a line, and their meaning.
struct SpaceData {
    graph::TrainingGraph logical;
    LineSetting setting;
    std::vector<std::size_t> standsFor;       ///< by operator
    std::vector<std::size_t> tensorStandsFor; ///< by tensor
    std::vector<TensorId> parameterOf;        ///< by tensor: whose gradient, or part of one, it is
    std::vector<OpChoice> ops;
    std::vector<TensorChoice> tensors;
    std::vector<std::vector<Price>> nodes;
    struct Edge {
        int a = 0;
        int b = 0;
        std::vector<Price> prices;
    };
    std::vector<Edge> edges;

    [[nodiscard]] const graph::Op &op(std::size_t index) const { return logical.graph.ops()[index]; }
    [[nodiscard]] const graph::Tensor &tensor(std::size_t index) const { return logical.graph.tensors()[index]; }
    [[nodiscard]] const OpChoice &choiceOf(std::size_t op) const { return ops[standsFor[op]]; }
    [[nodiscard]] const TensorChoice &tensorChoice(std::size_t tensor) const
    {
        return tensors[tensorStandsFor[tensor]];
    }
};

/// Fills nodes and edges of data.logical under data.setting. Cost: O(operators * signatures^2).
void buildSpace(SpaceData &data);

inline Price &operator+=(Price &price, const Price &more)
{
    price.seconds += more.seconds;
    price.bytes += more.bytes;
    price.memory += more.memory;
    return price;
}

} // namespace planloom::planners::oneflow
