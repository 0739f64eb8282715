// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <cstddef>
#include <vector>

namespace planloom::graph {

/// TrainingGraph::stash: activations made by forward operators and read by backward ones.
std::vector<TensorId> findStash(const Graph &graph, std::size_t forwardOps);

} // namespace planloom::graph
