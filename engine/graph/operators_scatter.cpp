// SPDX-License-Identifier: Apache-2.0
// Operators that put elements where indices say, and the largest elements along an axis.
#include "engine/graph/operators_families.h"

namespace planloom::graph {
namespace {

Status checkReduction(const Op &op)
{
    const std::string reduction = op.text("reduction", "none");
    if (reduction != "none" && reduction != "add" && reduction != "mul")
        return badInput("attribute 'reduction' is '" + reduction + "'; none, add and mul are known");
    return {};
}

/// Data, indices, updates.
Result<Infos> inferScatterElements(const OpView &view)
{
    const Shape &data = view.inputs[0]->shape;
    const Shape &indices = view.inputs[1]->shape;
    if (const Status known = checkReduction(view.op); !known)
        return known.error();
    if (const auto axis = axisOf(view.op.integer("axis"), data.rank()); !axis)
        return axis.error();
    if (indices.rank() != data.rank() || view.inputs[2]->shape != indices)
        return badInput("indices " + indices.text() + " and updates " + view.inputs[2]->shape.text() + " must have one shape, of the data's rank");
    return likeFirst(view);
}

Result<Infos> inferScatterNd(const OpView &view)
{
    const Shape &data = view.inputs[0]->shape;
    const Shape &indices = view.inputs[1]->shape;
    if (const Status known = checkReduction(view.op); !known)
        return known.error();
    if (indices.rank() < 1 || indices.dims().back().batch || indices.dims().back().size < 0 || indices.dims().back().size > static_cast<std::int64_t>(data.rank()))
        return badInput("the last dimension of indices " + indices.text() + " counts more dimensions than the data " + data.text() + " has");
    std::vector<Dim> dims(indices.dims().begin(), indices.dims().end() - 1);
    dims.insert(dims.end(), data.dims().begin() + indices.dims().back().size, data.dims().end());
    if (view.inputs[2]->shape != Shape(dims))
        return badInput("updates must be " + Shape(dims).text() + ", not " + view.inputs[2]->shape.text());
    return likeFirst(view);
}

Result<Infos> inferTopK(const OpView &view)
{
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    const auto axis = axisOf(view.op.integer("axis", -1), dims.size());
    if (!axis)
        return axis.error();
    const std::int64_t k = view.op.integer("k");
    if (dims[*axis].batch || k < 0 || k > dims[*axis].size)
        return badInput("the " + std::to_string(k) + " largest of dimension " + std::to_string(*axis) + " of " + view.inputs[0]->shape.text() + " cannot be taken");
    dims[*axis].size = k;
    return Infos{{view.inputs[0]->type, Shape(dims)}, {DType::I64, Shape(dims)}};
}

} // namespace

std::vector<OpSchema> scatterSchemas()
{
    return {
        {"ScatterElements", 3, 3, inferScatterElements, noFlops},
        {"ScatterND", 3, 3, inferScatterNd, noFlops},
        {"TopK", 1, 1, inferTopK, perInput(4)},
    };
}

} // namespace planloom::graph
