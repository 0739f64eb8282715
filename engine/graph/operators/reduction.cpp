// SPDX-License-Identifier: Apache-2.0
// Reductions and scans over axes, and their gradients.
#include "engine/graph/operators/families.h"

#include <algorithm>

namespace planloom::graph {
namespace {

Result<Shape> reduced(const Shape &x, const std::vector<std::int64_t> &wanted, bool keep)
{
    const auto axes = axesOf(wanted, x.rank());
    if (!axes)
        return axes.error();
    std::vector<Dim> dims;
    for (std::size_t i = 0; i < x.rank(); ++i) {
        if (!std::binary_search(axes->begin(), axes->end(), i))
            dims.push_back(x[i]);
        else if (keep)
            dims.push_back({});
    }
    return Shape(std::move(dims));
}

Result<Infos> inferReduce(const OpView &view)
{
    Result<Shape> shape = reduced(view.inputs[0]->shape, view.op.integers("axes"), view.op.integer("keepdims", 1) != 0);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

Result<Infos> inferArgMax(const OpView &view)
{
    Result<Shape> shape =
        reduced(view.inputs[0]->shape, {view.op.integer("axis")}, view.op.integer("keepdims", 1) != 0);
    if (!shape)
        return shape.error();
    return Infos{{DType::I64, std::move(*shape)}};
}

Result<Infos> inferCumSum(const OpView &view)
{
    const auto axis = axisOf(view.op.integer("axis"), view.inputs[0]->shape.rank());
    if (!axis)
        return axis.error();
    return likeFirst(view);
}

Result<Infos> inferReduceMeanGrad(const OpView &view)
{
    Result<Shape> shape = shapeOfAttributes(view.op);
    if (!shape)
        return shape.error();
    const Result<Shape> back = reduced(*shape, view.op.integers("axes"), view.op.integer("keepdims", 1) != 0);
    if (!back || *back != view.inputs[0]->shape)
        return badInput("the gradient " + view.inputs[0]->shape.text() + " is not a reduction of " + shape->text());
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

/// The input's shape with the reduced axes as 1.
Shape keptShape(const Backward &b)
{
    std::vector<Dim> dims = b.input(0).shape.dims();
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::vector<std::int64_t> axes = b.op().integers("axes");
    for (std::int64_t axis : axes)
        dims[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = Dim{};
    return axes.empty() ? Shape(std::vector<Dim>(dims.size())) : Shape(std::move(dims));
}

void reduceSumGrad(Backward &b)
{
    const Shape kept = keptShape(b);
    const TensorId spread = kept == b.output().shape ? b.dy() : b.emit("Reshape", {b.dy()}, b.shapeAttributes(kept));
    b.give(0, b.emit("Expand", {spread}, b.shapeAttributes(b.input(0).shape)));
}

void meanGrad(Backward &b)
{
    Attributes attributes = b.shapeAttributes(b.input(0).shape);
    attributes["axes"] = b.op().integers("axes");
    attributes["keepdims"] = b.op().integer("keepdims", 1);
    b.give(0, b.emit("ReduceMeanGrad", {b.dy()}, std::move(attributes)));
}

/// The sum of all later elements' gradients: the scan the other way round.
void cumSumGrad(Backward &b)
{
    Attributes attributes = b.op().attributes;
    attributes["reverse"] = std::int64_t{b.op().integer("reverse") == 0 ? 1 : 0};
    b.give(0, b.emit("CumSum", {b.dy()}, std::move(attributes)));
}

Operator reduction(const char *type, void (*gradient)(Backward &))
{
    return {.type = type,
            .infer = inferReduce,
            .flops = perInput(1),
            .gradient = gradientBy(gradient),
            .traits = kMemoryBound};
}

} // namespace

std::vector<Operator> reductionOperators()
{
    std::vector<Operator> rows{
        reduction("ReduceSum", reduceSumGrad),
        reduction("ReduceMean", meanGrad),
        {.type = "ReduceMeanGrad", .infer = inferReduceMeanGrad, .flops = perOutput(1), .traits = kGradientPass},
        {.type = "CumSum",
         .infer = inferCumSum,
         .flops = perInput(1),
         .gradient = gradientBy(cumSumGrad),
         .traits = kMemoryBound},
    };
    for (const char *type : {"ReduceMax", "ReduceMin", "ReduceProd"})
        rows.push_back(reduction(type, gradientFromBoth));
    for (const char *type : {"ReduceMaxGrad", "ReduceMinGrad", "ReduceProdGrad"})
        rows.push_back(
            {.type = type, .inputs = {3, 3}, .infer = likeSecond, .flops = perOutput(2), .traits = kGradientPass});
    for (const char *type : {"ArgMax", "ArgMin"})
        rows.push_back({.type = type,
                        .infer = inferArgMax,
                        .flops = perInput(1),
                        .gradient = kNoGradient,
                        .traits = kMemoryBound});
    return rows;
}

} // namespace planloom::graph
