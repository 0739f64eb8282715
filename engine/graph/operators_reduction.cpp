// SPDX-License-Identifier: Apache-2.0
// Reductions and scans over axes, and their gradients.
#include "engine/graph/operators_families.h"

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
    Result<Shape> shape = reduced(view.inputs[0]->shape, {view.op.integer("axis")}, view.op.integer("keepdims", 1) != 0);
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

/// dY, X, Y -> like X.
Result<Infos> inferReduceGrad(const OpView &view)
{
    return Infos{{view.inputs[1]->type, view.inputs[1]->shape}};
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

} // namespace

std::vector<OpSchema> reductionSchemas()
{
    std::vector<OpSchema> rows;
    for (const char *type : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})
        rows.push_back({type, 1, 1, inferReduce, perInput(1)});
    for (const char *type : {"ReduceMaxGrad", "ReduceMinGrad", "ReduceProdGrad"})
        rows.push_back({type, 3, 3, inferReduceGrad, perOutput(2)});
    rows.push_back({"ReduceMeanGrad", 1, 1, inferReduceMeanGrad, perOutput(1)});
    rows.push_back({"ArgMax", 1, 1, inferArgMax, perInput(1)});
    rows.push_back({"ArgMin", 1, 1, inferArgMax, perInput(1)});
    rows.push_back({"CumSum", 1, 1, inferCumSum, perInput(1)});
    return rows;
}

} // namespace planloom::graph
