// SPDX-License-Identifier: Apache-2.0
// Losses, and the opaque layer of a layer profile.
#include "engine/graph/operators_families.h"

namespace planloom::graph {
namespace {

Status checkLogits(const Shape &logits, const Tensor &labels)
{
    if (logits.rank() != 2)
        return badInput("logits must be [rows, classes], not " + logits.text() + "; Reshape first");
    if (labels.shape != Shape({logits[0]}))
        return badInput("labels must be " + Shape({logits[0]}).text() + ", not " + labels.shape.text());
    if (labels.type != DType::I64)
        return badInput(std::string("labels must be int64, not ") + name(labels.type));
    return {};
}

Result<Infos> inferCrossEntropy(const OpView &view)
{
    const Shape &logits = view.inputs[0]->shape;
    if (const Status fits = checkLogits(logits, *view.inputs[1]); !fits)
        return fits.error();
    if (const std::string reduction = view.op.text("reduction", "mean"); reduction != "mean")
        return badInput("attribute 'reduction' is '" + reduction + "'; only mean is known");
    return Infos{{DType::F32, Shape()}, {DType::F32, Shape({logits[0], {2, false}})}};
}

Result<Infos> inferCrossEntropyGrad(const OpView &view)
{
    if (const Status fits = checkLogits(view.inputs[1]->shape, *view.inputs[2]); !fits)
        return fits.error();
    return Infos{{view.inputs[1]->type, view.inputs[1]->shape}};
}

} // namespace

std::vector<OpSchema> lossSchemas()
{
    return {
        {"SoftmaxCrossEntropyLoss", 2, 2, inferCrossEntropy, perInput(12)},
        {"SoftmaxCrossEntropyLossGrad", 4, 4, inferCrossEntropyGrad, perOutput(10)},
        {"ProfiledLayer", 0, -1, nullptr, noFlops},
    };
}

} // namespace planloom::graph
