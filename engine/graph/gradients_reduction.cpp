// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients.h"

#include <algorithm>

namespace planloom::graph {
namespace {

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

void sumGrad(Backward &b)
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

void selectGrad(Backward &b)
{
    b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.x(), b.y()}, b.op().attributes));
}

/// The sum of all later elements' gradients: the scan the other way round.
void cumSumGrad(Backward &b)
{
    Attributes attributes = b.op().attributes;
    attributes["reverse"] = std::int64_t{b.op().integer("reverse") == 0 ? 1 : 0};
    b.give(0, b.emit("CumSum", {b.dy()}, std::move(attributes)));
}

} // namespace

std::vector<GradientRule> reductionGradients()
{
    return {
        {"ReduceSum", sumGrad},      {"ReduceMean", meanGrad},   {"ReduceMax", selectGrad},
        {"ReduceMin", selectGrad},   {"ReduceProd", selectGrad}, {"CumSum", cumSumGrad},
    };
}

} // namespace planloom::graph
