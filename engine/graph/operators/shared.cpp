// SPDX-License-Identifier: Apache-2.0
// Helpers of several families of operators.
#include "engine/graph/operators/families.h"

#include <algorithm>

namespace planloom::graph {

Result<Shape> broadcast(const Shape &a, const Shape &b)
{
    const std::size_t rank = std::max(a.rank(), b.rank());
    std::vector<Dim> dims(rank);
    for (std::size_t i = 0; i < rank; ++i) {
        const Dim one;
        const Dim &left = i + a.rank() < rank ? one : a[i + a.rank() - rank];
        const Dim &right = i + b.rank() < rank ? one : b[i + b.rank() - rank];
        if (left != right && left != one && right != one)
            return badInput("shapes " + a.text() + " and " + b.text() + " do not broadcast; sizes must be equal or 1");
        dims[i] = left == one ? right : left;
    }
    return Shape(std::move(dims));
}

Result<std::size_t> axisOf(std::int64_t axis, std::size_t rank)
{
    const auto signedRank = static_cast<std::int64_t>(rank);
    if (axis < -signedRank || axis >= signedRank)
        return badInput("axis " + std::to_string(axis) + " is not within rank " + std::to_string(rank));
    return static_cast<std::size_t>(axis < 0 ? axis + signedRank : axis);
}

Result<std::vector<std::size_t>> axesOf(const std::vector<std::int64_t> &axes, std::size_t rank)
{
    std::vector<std::size_t> sorted;
    for (std::size_t i = 0; axes.empty() && i < rank; ++i)
        sorted.push_back(i);
    for (const std::int64_t axis : axes) {
        const Result<std::size_t> one = axisOf(axis, rank);
        if (!one)
            return one.error();
        sorted.push_back(*one);
    }
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        return badInput("attribute 'axes' repeats an axis");
    return sorted;
}

Result<Shape> shapeOfAttributes(const Op &op)
{
    const std::vector<std::int64_t> sizes = op.integers("shape");
    const std::int64_t batchAxis = op.integer("batch_axis", -1);
    if (batchAxis >= static_cast<std::int64_t>(sizes.size()))
        return badInput("attribute 'batch_axis' is " + std::to_string(batchAxis) + " for a shape of rank "
                        + std::to_string(sizes.size()));
    std::vector<Dim> dims;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < 0)
            return badInput("attribute 'shape' has a negative size");
        dims.push_back({sizes[i], static_cast<std::int64_t>(i) == batchAxis});
    }
    return Shape(std::move(dims));
}

Result<Infos> inferFromAttributes(const OpView &view)
{
    Result<Shape> shape = shapeOfAttributes(view.op);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

Result<Infos> likeFirst(const OpView &view) { return Infos{{view.inputs[0]->type, view.inputs[0]->shape}}; }

Infos typedLikeFirst(const OpView &view, std::vector<Dim> dims)
{
    return Infos{{view.inputs[0]->type, Shape(std::move(dims))}};
}

Result<Infos> likeSecond(const OpView &view) { return Infos{{view.inputs[1]->type, view.inputs[1]->shape}}; }

DType sumType(DType type) { return type == DType::BF16 ? DType::F32 : type; }

FlopsRule perOutput(double perElement)
{
    return [perElement](const OpView &, const Infos &outputs, std::int64_t samples) {
        return perElement * static_cast<double>(outputs[0].shape.elements(samples));
    };
}

FlopsRule perInput(double perElement)
{
    return [perElement](const OpView &view, const Infos &, std::int64_t samples) {
        return view.inputs.empty() || !view.inputs[0]
            ? 0
            : perElement * static_cast<double>(view.inputs[0]->shape.elements(samples));
    };
}

double noFlops(const OpView &, const Infos &, std::int64_t) { return 0; }

void gradientFromOutput(Backward &b) { b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.y()}, b.op().attributes)); }

void gradientFromInput(Backward &b) { b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.x()}, b.op().attributes)); }

void gradientFromBoth(Backward &b)
{
    b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.x(), b.y()}, b.op().attributes));
}

Attributes with(Attributes attributes, const Attributes &more)
{
    for (const auto &[key, value] : more)
        attributes[key] = value;
    return attributes;
}

} // namespace planloom::graph
