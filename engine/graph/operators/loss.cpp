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

/// Values x, targets of their shape, and a mask (false: the element does not count).
Status checkTargets(const OpView &view, std::size_t x)
{
    const Shape &shape = view.inputs[x]->shape;
    const Tensor &targets = *view.inputs[x + 1];
    if (targets.shape != shape)
        return badInput("targets must be " + shape.text() + ", not " + targets.shape.text());
    if (targets.type != DType::F32)
        return badInput(std::string("targets must be float32, not ") + name(targets.type));
    const Tensor *mask = view.inputs.size() > x + 2 ? view.inputs[x + 2] : nullptr;
    if (mask != nullptr && (mask->shape != shape || mask->type != DType::Bool))
        return badInput("the mask must be bool" + shape.text() + ", not " + name(mask->type) + mask->shape.text());
    return {};
}

Result<Infos> inferElementLoss(const OpView &view)
{
    if (const Status fits = checkTargets(view, 0); !fits)
        return fits.error();
    return Infos{{DType::F32, Shape()}};
}

Result<Infos> inferElementLossGrad(const OpView &view)
{
    if (const Status fits = checkTargets(view, 1); !fits)
        return fits.error();
    return Infos{{view.inputs[1]->type, view.inputs[1]->shape}};
}

void elementLossGrad(Backward &b)
{
    std::vector<TensorId> inputs{b.dy(), b.x(0), b.x(1)};
    if (b.hasInput(2))
        inputs.push_back(b.x(2));
    b.give(0, b.emit(b.op().type + "Grad", std::move(inputs), b.op().attributes));
}

/// The mean of a function of each element and its target.
Operator elementLoss(const char *type, double flops)
{
    return {.type = type,
            .inputs = {2, 3},
            .infer = inferElementLoss,
            .flops = perInput(flops),
            .gradient = gradientBy(elementLossGrad, 1U),
            .traits = {.cost = CostClass::MemoryBound, .precision = {"ff-", "f"}, .ownLayer = true, .loss = true}};
}

Operator elementLossGradient(const char *type, double flops)
{
    return {.type = type,
            .inputs = {3, 4},
            .infer = inferElementLossGrad,
            .flops = perOutput(flops),
            .traits = {.cost = CostClass::MemoryBound, .origin = Origin::Gradient, .precision = {"fff-", "h"}}};
}

} // namespace

std::vector<Operator> lossOperators()
{
    constexpr double kSimple = 3; ///< a difference, a function of it, a sum
    constexpr double kLogistic = 2 * kTranscendental + 4;
    return {
        elementLoss("MeanSquaredErrorLoss", kSimple),
        elementLossGradient("MeanSquaredErrorLossGrad", kSimple),
        elementLoss("MeanAbsoluteErrorLoss", kSimple),
        elementLossGradient("MeanAbsoluteErrorLossGrad", kSimple),
        elementLoss("HuberLoss", kSimple + 2),
        elementLossGradient("HuberLossGrad", kSimple + 1),
        elementLoss("SigmoidCrossEntropyLoss", kLogistic),
        elementLossGradient("SigmoidCrossEntropyLossGrad", kTranscendental + 3),
        {.type = "SoftmaxCrossEntropyLoss",
         .inputs = {2, 2},
         .infer = inferCrossEntropy,
         .flops = perInput(12),
         .gradient = gradientBy(crossEntropyGrad, 1U),
         .traits = {.cost = CostClass::MemoryBound, .precision = {"h-", "f"}, .ownLayer = true, .loss = true}},
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
