// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients.h"

namespace planloom::graph {
namespace {

/// The data keep their gradient where nothing was put; updates take it from where they went. Of updates that went to one place in turn
/// only sums are differentiable.
void scatterGrad(Backward &b, const char *pick)
{
    const std::string reduction = b.op().text("reduction", "none");
    if (reduction == "mul")
        b.refuse("products are not trained; use reduction none or add");
    if (b.wants(0) && reduction == "add")
        b.give(0, b.dy());
    if (b.wants(0) && reduction == "none") {
        const TensorId zeros = b.emit("ConstantOfShape", {}, b.shapeAttributes(b.input(2).shape));
        b.give(0, b.emit(b.op().type, {b.dy(), b.x(1), zeros}, b.op().attributes));
    }
    if (b.wants(2))
        b.give(2, b.emit(pick, {b.dy(), b.x(1)}, {{"axis", b.op().integer("axis")}}));
}

void scatterElementsGrad(Backward &b)
{
    scatterGrad(b, "GatherElements");
}

void scatterNdGrad(Backward &b)
{
    scatterGrad(b, "GatherND");
}

void topKGrad(Backward &b)
{
    Attributes attributes = b.shapeAttributes(b.input(0).shape);
    attributes["axis"] = b.op().integer("axis", -1);
    b.give(0, b.emit("GatherElementsGrad", {b.dy(), b.y(1)}, std::move(attributes)));
}

constexpr std::uint32_t kDataAndUpdates = 1U | 4U;

} // namespace

std::vector<GradientRule> scatterGradients()
{
    return {
        {"ScatterElements", scatterElementsGrad, kDataAndUpdates},
        {"ScatterND", scatterNdGrad, kDataAndUpdates},
        {"TopK", topKGrad},
    };
}

} // namespace planloom::graph
