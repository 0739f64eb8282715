// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/operators/operators.h"
#include "engine/import/onnx/known_value.h"
#include "engine/import/onnx/tensor.h"

#include <onnx/onnx_pb.h>
#include <optional>
#include <string>
#include <vector>

namespace planloom::import {

/// Static facts about a node's input.
struct NodeInput {
    std::string name;
    const graph::TensorInfo *info = nullptr; ///< nullptr: left out
    const KnownValue *known = nullptr;       ///< nullptr: computed at run time
};

/// A node in our vocabulary (engine/graph/operators/README.md): one form for all operator-set versions, small
/// constant inputs as attributes.
struct NormalNode {
    graph::Op op;                       ///< type and attributes
    std::vector<std::string> inputs;    ///< names of the inputs that stay; empty: left out
    std::optional<KnownValue> constant; ///< Constant nodes
};

/// The context in which nodes are read.
struct Reading {
    std::int64_t opset = 0;
    std::int64_t batchSize =
        0; ///< samples that the file was exported with, 0 if symbolic; sizes baked into reshapes are read by it
    bool exact = false; ///< to be run as it is, not trained
    [[nodiscard]] Floats floats() const { return exact ? Floats::AsStored : Floats::Single; }
};

/// Errors (BadInput): an attribute or constant input that is missing or of the wrong kind.
Result<NormalNode> normalize(const onnx::NodeProto &node, const std::vector<NodeInput> &inputs, const Reading &reading);

} // namespace planloom::import
