// SPDX-License-Identifier: Apache-2.0
// Softmax and the normalisations, which also give out the statistics that their gradients need.
#include "engine/graph/operators/families.h"

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
            return badInput("scale, bias, mean and variance must be " + channels.text() + ", not "
                            + view.inputs[i]->shape.text());
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

/// The gradient of the addend before a fused ReLU is one more output.
Result<Infos> inferBatchNormalizationGrad(const OpView &view)
{
    Result<Infos> infos = inferNormalizationGrad(view, 1);
    if (infos && view.op.outputs.size() > 3)
        infos->push_back(infos->front());
    return infos;
}

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

constexpr OpTraits kNormalizes{.cost = CostClass::MemoryBound, .precision = {"hf", "hf"}};
constexpr OpTraits kNormalizesBack{.cost = CostClass::MemoryBound,
                                   .origin = Origin::Gradient,
                                   .precision = {"hhf", "hf"}};

Operator layerNormalization()
{
    return {.type = "LayerNormalization",
            .inputs = {2, 3},
            .infer = [](const OpView &view) { return inferNormalization(view, 2); },
            .flops = perOutput(8),
            .backwardFlops = 2,
            .gradient = gradientBy(layerNormalizationGrad),
            .traits = kNormalizes};
}

Operator rmsNormalization()
{
    return {.type = "RMSNormalization",
            .inputs = {2, 2},
            .infer = [](const OpView &view) { return inferNormalization(view, 1); },
            .flops = perOutput(4),
            .backwardFlops = 2,
            .gradient = gradientBy(rmsNormalizationGrad),
            .traits = kNormalizes};
}

Operator batchNormalization()
{
    OpTraits traits = kNormalizes;
    traits.blocked = Blocked::Follows;
    traits.states = 1U << 3 | 1U << 4;
    return {.type = "BatchNormalization",
            .inputs = {5, 6},
            .infer = inferBatchNormalization,
            .flops = perOutput(8),
            .backwardFlops = 2,
            .gradient = gradientBy(batchNormalizationGrad, 7U),
            .traits = traits};
}

void addGradients(std::vector<Operator> &rows)
{
    rows.push_back({.type = "LayerNormalizationGrad",
                    .inputs = {5, 6},
                    .infer = [](const OpView &view) { return inferNormalizationGrad(view, 1); },
                    .flops = perOutput(14),
                    .traits = kNormalizesBack});
    rows.push_back({.type = "RMSNormalizationGrad",
                    .inputs = {4, 5},
                    .infer = [](const OpView &view) { return inferNormalizationGrad(view, 0); },
                    .flops = perOutput(10),
                    .traits = kNormalizesBack});
    OpTraits blocked = kNormalizesBack;
    blocked.blocked = Blocked::Follows;
    rows.push_back({.type = "BatchNormalizationGrad",
                    .inputs = {5, 8},
                    .infer = inferBatchNormalizationGrad,
                    .flops = perOutput(11),
                    .traits = blocked});
}

/// The sum of two, normalised: made by fuse().
void addFused(std::vector<Operator> &rows)
{
    rows.push_back({.type = "AddLayerNormalization",
                    .inputs = {3, 4},
                    .infer = [](const OpView &view) { return inferAddNormalization(view, 2); },
                    .flops = perOutput(9),
                    .traits = kRewritten});
    rows.push_back({.type = "AddRMSNormalization",
                    .inputs = {3, 3},
                    .infer = [](const OpView &view) { return inferAddNormalization(view, 1); },
                    .flops = perOutput(5),
                    .traits = kRewritten});
}

} // namespace

std::vector<Operator> normalizationOperators()
{
    std::vector<Operator> rows{layerNormalization(), rmsNormalization(), batchNormalization()};
    for (const char *type : {"Softmax", "LogSoftmax"})
        rows.push_back({.type = type,
                        .infer = inferSoftmax,
                        .flops = perOutput(12),
                        .gradient = gradientBy(gradientFromOutput),
                        .traits = kMemoryBound});
    rows.push_back({.type = "SoftmaxGrad",
                    .inputs = {2, 2},
                    .infer = inferSoftmax,
                    .flops = perOutput(4),
                    .traits = kGradientPass});
    rows.push_back({.type = "LogSoftmaxGrad",
                    .inputs = {2, 2},
                    .infer = inferSoftmax,
                    .flops = perOutput(12),
                    .traits = kGradientPass});
    addGradients(rows);
    addFused(rows);
    return rows;
}

} // namespace planloom::graph
