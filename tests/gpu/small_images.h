// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <utility>

namespace planloom::test {

/// @p model for images of @p size x @p size: its inputs of four dimensions are as large, shapes behind them follow.
/// Errors: those of GraphBuilder::build.
inline Result<graph::Graph> withImages(const graph::Graph &model, std::int64_t size)
{
    graph::GraphBuilder builder(model.name());
    for (const graph::Tensor &tensor : model.tensors()) { // ids stay
        graph::Tensor copied = tensor;
        if (tensor.role == graph::TensorRole::Input && tensor.shape.at(1).size() == 4)
            copied.shape = graph::Shape::batched({tensor.shape.at(1)[1], size, size});
        if (tensor.role == graph::TensorRole::Activation)
            builder.activation(tensor.name, tensor.type);
        else
            builder.copy(copied);
    }
    for (const graph::Op &op : model.ops())
        builder.addOp(op.type, op.name, op.scope, op.inputs, op.outputs, op.attributes);
    builder.loss(model.loss());
    return std::move(builder).build();
}

} // namespace planloom::test
