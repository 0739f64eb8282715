// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling over one to three spatial dimensions (N, C, ..., W), and their gradients.
#include "engine/graph/operators/families.h"

#include <algorithm>

namespace planloom::graph {
namespace {

/// How a window moves over the spatial dimensions.
struct Window {
    std::vector<std::int64_t> kernel, strides, pads, dilations;
    bool roundUp = false;
};

Result<Window> windowOf(const Op &op, std::vector<std::int64_t> kernel, std::size_t spatial)
{
    Window window;
    window.kernel = op.integers("kernel_shape", std::move(kernel));
    window.strides = op.integers("strides", std::vector<std::int64_t>(spatial, 1));
    window.dilations = op.integers("dilations", std::vector<std::int64_t>(spatial, 1));
    window.pads = op.integers("pads", std::vector<std::int64_t>(2 * spatial, 0));
    window.roundUp = op.integer("ceil_mode") != 0;
    const std::string automatic = op.text("auto_pad", "NOTSET");
    if (automatic != "NOTSET" && automatic != "VALID")
        return badInput("attribute 'auto_pad' is " + automatic + "; give 'pads' instead");
    if (window.kernel.size() != spatial || window.strides.size() != spatial || window.dilations.size() != spatial
        || window.pads.size() != 2 * spatial)
        return badInput("kernel_shape, strides, dilations and pads do not have " + std::to_string(spatial)
                        + " spatial dimensions");
    constexpr std::int64_t kMost = 1 << 20;
    const auto outside = [](const std::vector<std::int64_t> &values, std::int64_t least) {
        return std::any_of(values.begin(), values.end(),
                           [least](std::int64_t value) { return value < least || value > kMost; });
    };
    if (outside(window.kernel, 1) || outside(window.strides, 1) || outside(window.dilations, 1)
        || outside(window.pads, 0))
        return badInput("kernel_shape, strides, dilations or pads is out of range");
    return window;
}

/// The first two dimensions as given, then how often the window fits.
Result<Shape> slide(const Shape &x, Dim channels, const Window &window)
{
    const std::size_t spatial = x.rank() - 2;
    std::vector<Dim> dims{x[0], channels};
    for (std::size_t i = 0; i < spatial; ++i) {
        if (x[i + 2].batch)
            return badInput("a spatial dimension carries the batch");
        const std::int64_t reach = window.dilations[i] * (window.kernel[i] - 1) + 1;
        const std::int64_t room = x[i + 2].size + window.pads[i] + window.pads[i + spatial] - reach;
        if (room < 0)
            return badInput("the window is larger than the padded input " + x.text());
        std::int64_t steps = (room + (window.roundUp ? window.strides[i] - 1 : 0)) / window.strides[i];
        if (window.roundUp && steps * window.strides[i] >= x[i + 2].size + window.pads[i])
            --steps; // a window may not begin in the padding at the end
        dims.push_back({steps + 1, false});
    }
    return Shape(std::move(dims));
}

Status checkImage(const Shape &x)
{
    if (x.rank() < 3 || x.rank() > 5)
        return badInput("an input of shape [N, C, L], [N, C, H, W] or [N, C, D, H, W] is expected, not " + x.text());
    if (x[1].batch)
        return badInput("the channels carry the batch");
    return {};
}

Result<Infos> inferConv(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    const Shape &w = view.inputs[1]->shape;
    if (const Status image = checkImage(x); !image)
        return image.error();
    if (w.rank() != x.rank() || w.batched())
        return badInput("the weight " + w.text() + " does not have the input's rank");
    const std::int64_t group = view.op.integer("group", 1);
    if (group < 1 || x[1].size % group != 0 || w[0].size % group != 0 || x[1].size / group != w[1].size)
        return badInput("channels of input " + x.text() + " and weight " + w.text() + " do not fit group "
                        + std::to_string(group));
    std::vector<std::int64_t> kernel;
    for (std::size_t i = 2; i < w.rank(); ++i)
        kernel.push_back(w[i].size);
    const Result<Window> window = windowOf(view.op, kernel, kernel.size());
    if (!window)
        return window.error();
    if (window->kernel != kernel)
        return badInput("attribute 'kernel_shape' is not the weight's");
    if (view.inputs.size() > 2 && view.inputs[2] && view.inputs[2]->shape != Shape({w[0]}))
        return badInput("the bias must have one element for each output channel");
    Result<Shape> shape = slide(x, w[0], *window);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

/// A multiply-add for each output element and each weight that it sees.
double convFlops(const Shape &output, const Shape &weight, std::int64_t samples)
{
    if (weight.rank() == 0 || weight[0].size == 0)
        return 0;
    return 2.0 * static_cast<double>(output.elements(samples))
        * static_cast<double>(weight.elements(1) / weight[0].size);
}

Result<Infos> inferPool(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    if (const Status image = checkImage(x); !image)
        return image.error();
    const Result<Window> window = windowOf(view.op, {}, x.rank() - 2);
    if (!window)
        return window.error();
    Result<Shape> shape = slide(x, x[1], *window);
    if (!shape)
        return shape.error();
    Infos infos{{view.inputs[0]->type, std::move(*shape)}};
    if (view.op.outputs.size() > 1 || view.op.integer("indices") != 0)
        infos.push_back({DType::I64, infos[0].shape});
    return infos;
}

double poolFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    double window = 1;
    for (const std::int64_t size : view.op.integers("kernel_shape"))
        window *= static_cast<double>(size);
    return window * static_cast<double>(outputs[0].shape.elements(samples));
}

Result<Infos> inferGlobalPool(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    if (x.rank() < 3)
        return badInput("an input with spatial dimensions is expected, not " + x.text());
    std::vector<Dim> dims{x[0], x[1]};
    dims.resize(x.rank());
    return Infos{{view.inputs[0]->type, Shape(std::move(dims))}};
}

Result<Infos> inferConvGradWeight(const OpView &view)
{
    const DType type = sumType(view.inputs[0]->type);
    Infos infos{{type, Shape::of(view.op.integers("w_shape"))}};
    if (view.op.outputs.size() > 1)
        infos.push_back({type, Shape({view.inputs[0]->shape[1]})}); // the bias's
    return infos;
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
        b.give(1,
               b.emit("ConvGradWeight", {b.dy(), b.x(0)}, with(window, {{"w_shape", sizesFrom(b.input(1).shape, 0)}})));
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
        b.give(1,
               b.emit("ConvGradWeight", {b.x(0), b.dy()}, with(window, {{"w_shape", sizesFrom(b.input(1).shape, 0)}})));
}

void averagePoolGrad(Backward &b)
{
    b.give(0, b.emit(b.op().type + "Grad", {b.dy()}, with(b.op().attributes, b.shapeAttributes(b.input(0).shape))));
}

constexpr OpTraits kPools{.cost = CostClass::MemoryBound, .precision = kHalf, .blocked = Blocked::Follows};
constexpr OpTraits kPoolsBack{
    .cost = CostClass::MemoryBound, .origin = Origin::Gradient, .precision = kHalf, .blocked = Blocked::Follows};

void addConvolutions(std::vector<Operator> &rows)
{
    const FlopsRule forward = [](const OpView &view, const Infos &outputs, std::int64_t samples) {
        return convFlops(outputs[0].shape, view.inputs[1]->shape, samples);
    };
    const FlopsRule fromOutput = [](const OpView &view, const Infos &, std::int64_t samples) {
        return convFlops(view.inputs[0]->shape, view.inputs[1]->shape, samples);
    };
    const FlopsRule toWeight = [](const OpView &view, const Infos &outputs, std::int64_t samples) {
        return convFlops(view.inputs[0]->shape, outputs[0].shape, samples);
    };
    rows.push_back(
        {.type = "Conv",
         .inputs = {2, 3},
         .infer = inferConv,
         .flops = forward,
         .backwardFlops = kEachFactor,
         .gradient = gradientBy(convGrad),
         .traits = {
             .cost = CostClass::Convolution, .precision = {"hhf", "h"}, .blocked = Blocked::Begins, .ownLayer = true}});
    rows.push_back({.type = "ConvTranspose",
                    .inputs = {2, 2},
                    .infer = inferFromAttributes,
                    .flops = fromOutput,
                    .gradient = gradientBy(convTransposeGrad),
                    .traits = {.cost = CostClass::Computing, .precision = kHalf, .ownLayer = true}});
    rows.push_back({.type = "ConvGradInput",
                    .inputs = {2, 2},
                    .infer = inferFromAttributes,
                    .flops = fromOutput,
                    .traits = {.cost = CostClass::ConvolutionInputGradient,
                               .origin = Origin::Gradient,
                               .precision = kHalf,
                               .blocked = Blocked::Begins}});
    rows.push_back({.type = "ConvGradWeight",
                    .inputs = {2, 2},
                    .infer = inferConvGradWeight,
                    .flops = toWeight,
                    .traits = {.cost = CostClass::ConvolutionWeightGradient,
                               .origin = Origin::Gradient,
                               .precision = {"h", "f"},
                               .blocked = Blocked::Begins}});
}

void addPools(std::vector<Operator> &rows)
{
    OpTraits windows = kPools;
    windows.ownLayer = true;
    OpTraits rowsOnly = kPools;
    rowsOnly.blocked = Blocked::No;
    OpTraits rowsOnlyBack = kPoolsBack;
    rowsOnlyBack.blocked = Blocked::No;
    OpTraits spreads = kPoolsBack;
    spreads.blocked = Blocked::Begins;
    rows.insert(
        rows.end(),
        {
            {.type = "MaxPool",
             .infer = inferPool,
             .flops = poolFlops,
             .gradient = gradientBy(gradientFromBoth),
             .traits = windows},
            {.type = "MaxPoolGrad", .inputs = {3, 3}, .infer = likeSecond, .flops = perInput(4), .traits = kPoolsBack},
            {.type = "AveragePool",
             .infer = inferPool,
             .flops = poolFlops,
             .gradient = gradientBy(averagePoolGrad),
             .traits = windows},
            {.type = "AveragePoolGrad", .infer = inferFromAttributes, .flops = perInput(4), .traits = kPoolsBack},
            {.type = "GlobalAveragePool",
             .infer = inferGlobalPool,
             .flops = perInput(1),
             .gradient = gradientBy(averagePoolGrad),
             .traits = kPools},
            {.type = "GlobalAveragePoolGrad", .infer = inferFromAttributes, .flops = perOutput(1), .traits = spreads},
            {.type = "GlobalMaxPool",
             .infer = inferGlobalPool,
             .flops = perInput(1),
             .gradient = gradientBy(gradientFromBoth),
             .traits = rowsOnly},
            {.type = "GlobalMaxPoolGrad",
             .inputs = {3, 3},
             .infer = likeSecond,
             .flops = perOutput(1),
             .traits = rowsOnlyBack},
        });
}

} // namespace

std::vector<Operator> convolutionOperators()
{
    std::vector<Operator> rows;
    addConvolutions(rows);
    addPools(rows);
    return rows;
}

} // namespace planloom::graph
