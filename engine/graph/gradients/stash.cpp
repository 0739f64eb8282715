// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients/stash.h"

namespace planloom::graph {

std::vector<TensorId> findStash(const Graph &graph, std::size_t forwardOps)
{
    const auto forwardEnd = static_cast<std::int32_t>(forwardOps);
    std::vector<TensorId> stash;
    for (const Tensor &tensor : graph.tensors()) {
        const auto readers = graph.consumers(tensor.id);
        if (tensor.role == TensorRole::Activation && tensor.producer.value < forwardEnd && !readers.empty()
            && readers.back().value >= forwardEnd)
            stash.push_back(tensor.id);
    }
    return stash;
}

} // namespace planloom::graph
