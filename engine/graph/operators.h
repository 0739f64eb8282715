// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <functional>
#include <optional>

namespace planloom::graph {

/// Shapes and types of an operator's inputs and, after inference, of its outputs.
struct OpView {
    const Op &op;
    std::vector<const Tensor *> inputs; ///< nullptr: optional input left out
};

struct TensorInfo {
    DType type = DType::F32;
    Shape shape;
};

/// What the language knows of one operator type. One table, in operators.cpp and the operators_*.cpp beside it; a new operator
/// is one entry here and one kernel in executor/device.
struct OpSchema {
    const char *type;
    int minInputs;
    int maxInputs; ///< -1: any number
    /// Output infos from the inputs. Error: BadInput that names what does not fit.
    std::function<Result<std::vector<TensorInfo>>(const OpView &)> infer;
    /// Floating-point operations for @p samples; memory traffic is the bytes of inputs and outputs.
    std::function<double(const OpView &, const std::vector<TensorInfo> &outputs, std::int64_t samples)> flops;
};

/// nullptr if the type is unknown.
const OpSchema *findSchema(std::string_view type);
std::vector<std::string> knownTypes();

/// Cost figures of one operator of a graph for @p samples samples.
struct OpCostFigures {
    Flops forward;
    Flops backward;      ///< 0 for what has no gradient
    Bytes forwardBytes;  ///< read + written
    Bytes backwardBytes;
};
OpCostFigures figures(const Graph &graph, OpId op, std::int64_t samples);

/* Planloom's own operator types (all others have ONNX's names and meaning):

   fused forward
     Attention            Q|K|V packed (N, T, 3C) -> (N, T, C); attributes heads, causal
     LinearGelu ...       are left to the executor's fusion; the graph keeps Gemm/MatMul + Gelu
     Gelu                 attribute approximate = "tanh" | "none"
     RMSNormalization     X, scale; attribute epsilon
     SoftmaxCrossEntropyLoss  logits (M, V), labels (M) int64 -> scalar mean loss; ONNX's, reduction "mean"; label -100 is ignored
     ProfiledLayer        an opaque layer of a layer profile; attributes forward_seconds, backward_seconds, profile_batch

   gradients: see differentiate.h
*/

} // namespace planloom::graph
