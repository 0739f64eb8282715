// SPDX-License-Identifier: Apache-2.0
// Losses, and the opaque layer of a layer profile.
#include "engine/graph/operators/families.h"

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

void crossEntropyGrad(Backward &b)
{
    b.give(0, b.emit("SoftmaxCrossEntropyLossGrad", {b.dy(), b.x(0), b.x(1), b.y(1)}, b.op().attributes));
}

} // namespace

std::vector<Operator> lossOperators()
{
    return {
        {.type = "SoftmaxCrossEntropyLoss",
         .inputs = {2, 2},
         .infer = inferCrossEntropy,
         .flops = perInput(12),
         .gradient = gradientBy(crossEntropyGrad, 1U),
         .traits = {.cost = CostClass::MemoryBound, .precision = {"h-", "f"}, .ownLayer = true}},
        {.type = "SoftmaxCrossEntropyLossGrad",
         .inputs = {4, 4},
         .infer = inferCrossEntropyGrad,
         .flops = perOutput(10),
         .traits = {.cost = CostClass::MemoryBound, .origin = Origin::Gradient, .precision = {"fh-f", "h"}}},
        {.type = "ProfiledLayer",
         .inputs = {0, -1},
         .gradient = kRefused,
         .traits = {.cost = CostClass::Measured, .planOnly = true}},
    };
}

} // namespace planloom::graph
