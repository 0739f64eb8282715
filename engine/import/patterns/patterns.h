// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

namespace planloom::import {

/// Fuses subgraphs of exporters into one operator each: LayerNormalization and RMSNormalization over the last axis,
/// Gelu (by erf and by tanh), Silu, products with transposed weights, and Attention, causal or under a mask of keys, of
/// a packed projection or of three, also with grouped heads. A pattern is taken only if its constants agree to 1e-3 and
/// nothing outside of it reads its inner tensors; its last tensor keeps its name, as do parameters. What computes
/// nothing that is used is left out. A graph with operators that have no schema comes back as it is.
graph::Graph fusePatterns(const graph::Graph &graph);

} // namespace planloom::import
