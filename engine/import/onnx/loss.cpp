// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/loss.h"

#include <fmt/format.h>

namespace planloom::import {

std::string addLoss(graph::GraphBuilder &builder, TensorId output, bool labelled)
{
    const graph::Shape shape = builder.tensor(output).shape;
    const std::string outputName = builder.tensor(output).name;
    if (shape.rank() == 0) {
        builder.loss(output);
        return {};
    }
    if (shape.rank() < 2 || !shape.batchLeading() || shape.dims().back().batch || labelled
        || shape.dims().back().size < 2)
        return {};
    const std::vector<graph::Dim> rows(shape.dims().begin(), shape.dims().end() - 1);
    std::int64_t perSample = 1;
    for (const graph::Dim &dim : rows)
        perSample *= dim.size;
    const std::int64_t classes = shape.dims().back().size;
    builder.pushScope("loss");
    TensorId labels = builder.input("labels", graph::DType::I64, graph::Shape(rows));
    TensorId logits = output;
    if (rows.size() > 1) {
        logits =
            builder.add("Reshape", {logits},
                        {{"shape", std::vector<std::int64_t>{perSample, classes}}, {"batch_axis", std::int64_t{0}}});
        labels = builder.add("Reshape", {labels},
                             {{"shape", std::vector<std::int64_t>{perSample}}, {"batch_axis", std::int64_t{0}}});
    }
    const TensorId loss =
        builder.add("SoftmaxCrossEntropyLoss", {logits, labels}, {{"ignore_index", std::int64_t{-100}}});
    builder.popScope();
    builder.loss(loss);
    builder.output(loss);
    return fmt::format("has no loss; the softmax cross-entropy of output \"{}\" against a new input \"labels\" is used",
                       outputName);
}

} // namespace planloom::import
