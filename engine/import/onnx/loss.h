// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <string>

namespace planloom::import {

/// Gives a graph its loss: @p output if it is a scalar, else its softmax cross-entropy against an added input 'labels',
/// unless it cannot be logits or @p labelled, that is, the file has an input of that name. Returns a text about the
/// added loss; empty if nothing.
std::string addLoss(graph::GraphBuilder &builder, TensorId output, bool labelled);

} // namespace planloom::import
