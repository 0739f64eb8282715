// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/onnx/node.h"

#include <onnx/onnx_pb.h>
#include <vector>

namespace planloom::import {

/// Operators that our language spells with others, and old forms of some: the nodes to read instead of @p node, in
/// order; empty if it is read as it is. The output of the last one has the name of the node's output.
std::vector<onnx::NodeProto> expandNode(const onnx::NodeProto &node, const std::vector<NodeInput> &inputs,
                                        const Reading &reading);

} // namespace planloom::import
