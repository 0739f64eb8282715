// SPDX-License-Identifier: Apache-2.0
// Softmax and the normalisations, which also give out the statistics that their gradients need.
#include "engine/graph/operators_families.h"

namespace planloom::graph {
namespace {

Result<Infos> inferSoftmax(const OpView &view)
{
    const Result<std::size_t> axis = axisOf(view.op.integer("axis", -1), view.inputs[0]->shape.rank());
    if (!axis)
        return axis.error();
    return likeFirst(view);
}

/// Sizes before the normalised ones, then ones.
Shape statisticsShape(const Shape &x, std::size_t axis)
{
    std::vector<Dim> dims = x.dims();
    for (std::size_t i = axis; i < dims.size(); ++i)
        dims[i] = Dim{};
    return Shape(std::move(dims));
}

Status checkScales(const OpView &view, std::size_t axis, std::size_t first)
{
    const Shape &x = view.inputs[0]->shape;
    const Shape normalized({x.dims().begin() + static_cast<std::ptrdiff_t>(axis), x.dims().end()});
    for (std::size_t i = first; i < view.inputs.size(); ++i)
        if (view.inputs[i] && view.inputs[i]->shape != normalized)
            return badInput("scale and bias must be " + normalized.text() + ", not " + view.inputs[i]->shape.text());
    return {};
}

Result<Infos> inferNormalization(const OpView &view, std::size_t statistics)
{
    const Tensor &x = *view.inputs[0];
    const Result<std::size_t> axis = axisOf(view.op.integer("axis", -1), x.shape.rank());
    if (!axis)
        return axis.error();
    if (const Status scales = checkScales(view, *axis, 1); !scales)
        return scales.error();
    Infos infos{{x.type, x.shape}};
    for (std::size_t i = 0; i < statistics; ++i)
        infos.push_back({DType::F32, statisticsShape(x.shape, *axis)});
    return infos;
}

/// A, B, scale, bias? -> Y, A + B, statistics.
Result<Infos> inferAddNormalization(const OpView &view, std::size_t statistics)
{
    const Tensor &x = *view.inputs[0];
    const Result<std::size_t> axis = axisOf(view.op.integer("axis", -1), x.shape.rank());
    if (!axis)
        return axis.error();
    if (view.inputs[1]->shape != x.shape || view.inputs[1]->type != x.type)
        return badInput("the two terms " + x.shape.text() + " and " + view.inputs[1]->shape.text() + " differ");
    if (const Status scales = checkScales(view, *axis, 2); !scales)
        return scales.error();
    Infos infos{{x.type, x.shape}, {x.type, x.shape}};
    for (std::size_t i = 0; i < statistics; ++i)
        infos.push_back({DType::F32, statisticsShape(x.shape, *axis)});
    return infos;
}

Result<Infos> inferBatchNormalization(const OpView &view)
{
    const Tensor &x = *view.inputs[0];
    if (x.shape.rank() < 2 || x.shape[1].batch)
        return badInput("channels are expected in dimension 1 of the input");
    const Shape channels({x.shape[1]});
    for (std::size_t i = 1; i < 5; ++i)
        if (view.inputs[i]->shape != channels)
            return badInput("scale, bias, mean and variance must be " + channels.text() + ", not " + view.inputs[i]->shape.text());
    if (view.inputs.size() > 5 && view.inputs[5]->shape != x.shape)
        return badInput("the residual must be shaped like the input");
    return Infos{{x.type, x.shape}, {DType::F32, channels}, {DType::F32, channels}};
}

/// dY, X, scale, statistics... -> dX, dScale and @p biases times dBias.
Result<Infos> inferNormalizationGrad(const OpView &view, int biases)
{
    if (view.inputs[0]->shape != view.inputs[1]->shape)
        return badInput("the output's gradient must be shaped like the input");
    const TensorInfo scale{view.inputs[2]->type, view.inputs[2]->shape};
    Infos infos{{view.inputs[1]->type, view.inputs[1]->shape}, scale};
    if (biases > 0)
        infos.push_back(scale);
    return infos;
}

/// The gradient of what was added before a fused ReLU is one more output.
Result<Infos> inferBatchNormalizationGrad(const OpView &view)
{
    Result<Infos> infos = inferNormalizationGrad(view, 1);
    if (infos && view.op.outputs.size() > 3)
        infos->push_back(infos->front());
    return infos;
}

} // namespace

std::vector<OpSchema> normalizationSchemas()
{
    const auto layerNorm = [](const OpView &view) { return inferNormalization(view, 2); };
    const auto rmsNorm = [](const OpView &view) { return inferNormalization(view, 1); };
    const auto gradWithBias = [](const OpView &view) { return inferNormalizationGrad(view, 1); };
    const auto gradWithoutBias = [](const OpView &view) { return inferNormalizationGrad(view, 0); };
    return {
        {"Softmax", 1, 1, inferSoftmax, perOutput(12)},
        {"LogSoftmax", 1, 1, inferSoftmax, perOutput(12)},
        {"SoftmaxGrad", 2, 2, inferSoftmax, perOutput(4)},
        {"LogSoftmaxGrad", 2, 2, inferSoftmax, perOutput(12)},
        {"LayerNormalization", 2, 3, layerNorm, perOutput(8)},
        {"LayerNormalizationGrad", 5, 6, gradWithBias, perOutput(14)},
        {"RMSNormalization", 2, 2, rmsNorm, perOutput(4)},
        {"RMSNormalizationGrad", 4, 5, gradWithoutBias, perOutput(10)},
        {"BatchNormalization", 5, 6, inferBatchNormalization, perOutput(8)},
        {"BatchNormalizationGrad", 5, 8, inferBatchNormalizationGrad, perOutput(11)},
    };
}

std::vector<OpSchema> fusedNormalizationSchemas()
{
    return {
        {"AddLayerNormalization", 3, 4, [](const OpView &view) { return inferAddNormalization(view, 2); }, perOutput(9)},
        {"AddRMSNormalization", 3, 3, [](const OpView &view) { return inferAddNormalization(view, 1); }, perOutput(5)},
    };
}

} // namespace planloom::graph
