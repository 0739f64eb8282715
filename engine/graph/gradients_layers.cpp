// SPDX-License-Identifier: Apache-2.0
// Normalisations, convolutions, pools and losses: mostly one fused gradient operator each.
#include "engine/graph/gradients.h"

namespace planloom::graph {
namespace {

void giveWanted(Backward &b, const std::vector<TensorId> &gradients)
{
    for (std::size_t i = 0; i < gradients.size(); ++i)
        if (b.wants(i))
            b.give(i, gradients[i]);
}

void layerNormalizationGrad(Backward &b)
{
    giveWanted(b, b.emit("LayerNormalizationGrad", {b.dy(), b.x(0), b.x(1), b.y(1), b.y(2)}, b.op().attributes, 3));
}

void rmsNormalizationGrad(Backward &b)
{
    giveWanted(b, b.emit("RMSNormalizationGrad", {b.dy(), b.x(0), b.x(1), b.y(1)}, b.op().attributes, 2));
}

void batchNormalizationGrad(Backward &b)
{
    giveWanted(b, b.emit("BatchNormalizationGrad", {b.dy(), b.x(0), b.x(1), b.y(1), b.y(2)}, b.op().attributes, 3));
}

Attributes with(Attributes attributes, const Attributes &more)
{
    for (const auto &[key, value] : more)
        attributes[key] = value;
    return attributes;
}

std::vector<std::int64_t> sizesFrom(const Shape &shape, std::size_t first)
{
    std::vector<std::int64_t> sizes;
    for (std::size_t i = first; i < shape.rank(); ++i)
        sizes.push_back(shape[i].size);
    return sizes;
}

void convGrad(Backward &b)
{
    const Attributes window = with(b.op().attributes, {{"kernel_shape", sizesFrom(b.input(1).shape, 2)}});
    if (b.wants(0))
        b.give(0, b.emit("ConvGradInput", {b.dy(), b.x(1)}, with(window, b.shapeAttributes(b.input(0).shape))));
    if (b.wants(1))
        b.give(1, b.emit("ConvGradWeight", {b.dy(), b.x(0)}, with(window, {{"w_shape", sizesFrom(b.input(1).shape, 0)}})));
    if (!b.wants(2))
        return;
    std::vector<std::int64_t> axes{0};
    for (std::size_t i = 2; i < b.output().shape.rank(); ++i)
        axes.push_back(static_cast<std::int64_t>(i));
    b.give(2, b.emit("ReduceSum", {b.dy()}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
}

void convTransposeGrad(Backward &b)
{
    Attributes window = with(b.op().attributes, {{"kernel_shape", sizesFrom(b.input(1).shape, 2)}});
    window.erase("shape");
    window.erase("batch_axis");
    if (b.wants(0))
        b.give(0, b.emit("Conv", {b.dy(), b.x(1)}, window));
    if (b.wants(1))
        b.give(1, b.emit("ConvGradWeight", {b.x(0), b.dy()}, with(window, {{"w_shape", sizesFrom(b.input(1).shape, 0)}})));
}

void maxPoolGrad(Backward &b)
{
    b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.x(), b.y()}, b.op().attributes));
}

void averagePoolGrad(Backward &b)
{
    b.give(0, b.emit(b.op().type + "Grad", {b.dy()}, with(b.op().attributes, b.shapeAttributes(b.input(0).shape))));
}

void crossEntropyGrad(Backward &b)
{
    b.give(0, b.emit("SoftmaxCrossEntropyLossGrad", {b.dy(), b.x(0), b.x(1), b.y(1)}, b.op().attributes));
}

} // namespace

std::vector<GradientRule> layerGradients()
{
    return {
        {"LayerNormalization", layerNormalizationGrad},
        {"RMSNormalization", rmsNormalizationGrad},
        {"BatchNormalization", batchNormalizationGrad, 7U},
        {"Conv", convGrad},
        {"ConvTranspose", convTransposeGrad},
        {"MaxPool", maxPoolGrad},
        {"GlobalMaxPool", maxPoolGrad},
        {"AveragePool", averagePoolGrad},
        {"GlobalAveragePool", averagePoolGrad},
        {"SoftmaxCrossEntropyLoss", crossEntropyGrad, 1U},
    };
}

} // namespace planloom::graph
