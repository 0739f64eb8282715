// SPDX-License-Identifier: Apache-2.0
// Operators that move, select or repeat elements, and their gradients. Sizes and indices are attributes: importers fold
// constants.
#include "engine/graph/operators/families.h"

#include <algorithm>

namespace planloom::graph {
namespace {

/// The product of dimensions as one. Error: two of them carry the batch.
Result<Dim> product(const std::vector<Dim> &dims, std::size_t first, std::size_t last)
{
    Dim all;
    for (std::size_t i = first; i < last; ++i) {
        if (all.batch && dims[i].batch)
            return badInput("two dimensions that carry the batch cannot be joined");
        if (__builtin_mul_overflow(all.size, dims[i].size, &all.size))
            return badInput("the product of the dimensions is too large");
        all.batch = all.batch || dims[i].batch;
    }
    return all;
}

Result<Infos> inferFlatten(const OpView &view)
{
    const auto &dims = view.inputs[0]->shape.dims();
    std::int64_t axis = view.op.integer("axis", 1);
    if (axis < 0)
        axis += static_cast<std::int64_t>(dims.size());
    if (axis < 0 || axis > static_cast<std::int64_t>(dims.size()))
        return badInput("axis " + std::to_string(axis) + " is not within rank " + std::to_string(dims.size()));
    const Result<Dim> rows = product(dims, 0, static_cast<std::size_t>(axis));
    const Result<Dim> columns = product(dims, static_cast<std::size_t>(axis), dims.size());
    if (!rows || !columns)
        return rows ? columns.error() : rows.error();
    return typedLikeFirst(view, {*rows, *columns});
}

Result<Infos> inferReshape(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    const std::vector<std::int64_t> sizes = view.op.integers("shape");
    const std::int64_t batchAxis = view.op.integer("batch_axis", -1);
    const bool zeroCopies = view.op.integer("allowzero") == 0;
    std::vector<Dim> dims;
    std::size_t free = sizes.size();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < -1 || (sizes[i] == -1 && free != sizes.size()) || (sizes[i] == 0 && zeroCopies && i >= x.rank()))
            return badInput("attribute 'shape' may hold one -1, and 0 only where the input has that dimension");
        if (sizes[i] == -1)
            free = i;
        const bool copied = sizes[i] == 0 && zeroCopies;
        dims.push_back(copied ? x[i] : Dim{sizes[i] == -1 ? 1 : sizes[i], static_cast<std::int64_t>(i) == batchAxis});
    }
    const Result<Dim> have = product(x.dims(), 0, x.rank());
    const Result<Dim> known = product(dims, 0, dims.size());
    if (!have || !known)
        return have ? known.error() : have.error();
    const Error differs = badInput("input " + x.text() + " does not have as many elements as " + Shape(dims).text());
    if (free == sizes.size())
        return *have == *known ? Result<Infos>(typedLikeFirst(view, dims)) : Result<Infos>(differs);
    if (known->size == 0 || have->size % known->size != 0 || (known->batch && !have->batch))
        return differs;
    dims[free].size = have->size / known->size;
    dims[free].batch = dims[free].batch || (have->batch && !known->batch);
    return typedLikeFirst(view, std::move(dims));
}

Result<Infos> inferSqueeze(const OpView &view)
{
    const auto &dims = view.inputs[0]->shape.dims();
    std::vector<std::int64_t> wanted = view.op.integers("axes");
    if (wanted.empty())
        for (std::size_t i = 0; i < dims.size(); ++i)
            if (dims[i] == Dim{})
                wanted.push_back(static_cast<std::int64_t>(i));
    if (wanted.empty())
        return likeFirst(view);
    const auto axes = axesOf(wanted, dims.size());
    if (!axes)
        return axes.error();
    std::vector<Dim> kept;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const bool dropped = std::binary_search(axes->begin(), axes->end(), i);
        if (dropped && dims[i] != Dim{})
            return badInput("dimension " + std::to_string(i) + " of " + view.inputs[0]->shape.text() + " is not 1");
        if (!dropped)
            kept.push_back(dims[i]);
    }
    return typedLikeFirst(view, std::move(kept));
}

Result<Infos> inferUnsqueeze(const OpView &view)
{
    const auto &dims = view.inputs[0]->shape.dims();
    const std::vector<std::int64_t> wanted = view.op.integers("axes");
    if (wanted.empty())
        return badInput("attribute 'axes' is missing");
    const std::size_t rank = dims.size() + wanted.size();
    const auto axes = axesOf(wanted, rank);
    if (!axes)
        return axes.error();
    std::vector<Dim> grown;
    for (std::size_t i = 0, from = 0; i < rank; ++i)
        grown.push_back(std::binary_search(axes->begin(), axes->end(), i) ? Dim{} : dims[from++]);
    return typedLikeFirst(view, std::move(grown));
}

Result<Infos> inferTranspose(const OpView &view)
{
    const auto &dims = view.inputs[0]->shape.dims();
    std::vector<std::int64_t> order = view.op.integers("perm");
    for (std::size_t i = dims.size(); order.size() < dims.size() && !view.op.has("perm"); --i)
        order.push_back(static_cast<std::int64_t>(i) - 1);
    const auto axes = axesOf(order, dims.size());
    if (!axes || order.size() != dims.size())
        return badInput("attribute 'perm' is not an order of the " + std::to_string(dims.size()) + " dimensions");
    std::vector<Dim> moved;
    for (const std::int64_t from : order)
        moved.push_back(dims[*axisOf(from, dims.size())]);
    return typedLikeFirst(view, std::move(moved));
}

Result<Infos> inferConcat(const OpView &view)
{
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    const auto axis = axisOf(view.op.integer("axis"), dims.size());
    if (!axis)
        return axis.error();
    for (std::size_t input = 1; input < view.inputs.size(); ++input) {
        if (!view.inputs[input] || view.inputs[input]->shape.rank() != dims.size())
            return badInput("all inputs must have one rank");
        const auto &others = view.inputs[input]->shape.dims();
        for (std::size_t i = 0; i < dims.size(); ++i)
            if (i == *axis ? dims[i].batch != others[i].batch : dims[i] != others[i])
                return badInput("input " + std::to_string(input) + " differs in dimension " + std::to_string(i));
        if (__builtin_add_overflow(dims[*axis].size, others[*axis].size, &dims[*axis].size))
            return badInput("the joined dimension is too large");
    }
    return typedLikeFirst(view, std::move(dims));
}

Result<Infos> inferSplit(const OpView &view)
{
    const Tensor &x = *view.inputs[0];
    const auto axis = axisOf(view.op.integer("axis"), x.shape.rank());
    if (!axis)
        return axis.error();
    const Dim whole = x.shape[*axis];
    const auto parts = static_cast<std::int64_t>(view.op.outputs.size());
    std::vector<std::int64_t> sizes = view.op.integers("split");
    if (sizes.empty() && whole.size % parts == 0)
        sizes.assign(view.op.outputs.size(), whole.size / parts);
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes)
        if (size < 0 || __builtin_add_overflow(sum, size, &sum))
            return badInput("attribute 'split' is out of range");
    if (whole.batch || sum != whole.size || sizes.size() < view.op.outputs.size())
        return badInput("dimension " + std::to_string(*axis) + " of " + x.shape.text()
                        + " cannot be split as asked; attribute 'split' must add up to it");
    Infos infos;
    for (const std::int64_t size : sizes) {
        std::vector<Dim> dims = x.shape.dims();
        dims[*axis].size = size;
        infos.push_back({x.type, Shape(std::move(dims))});
    }
    return infos;
}

/// Elements from start to end by step, with ONNX's clamping and counting from the end.
std::int64_t sliceLength(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step)
{
    const auto clamp = [&](std::int64_t value) {
        if (value < 0)
            value = value < -size ? -1 : value + size;
        return step > 0 ? std::clamp<std::int64_t>(value, 0, size) : std::clamp<std::int64_t>(value, -1, size - 1);
    };
    const std::int64_t distance = step > 0 ? clamp(end) - clamp(start) : clamp(start) - clamp(end);
    const std::int64_t stride = step > 0 ? step : -step;
    return distance <= 0 ? 0 : (distance - 1) / stride + 1;
}

Result<Infos> inferSlice(const OpView &view)
{
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    const auto starts = view.op.integers("starts");
    const auto ends = view.op.integers("ends");
    auto axes = view.op.integers("axes");
    for (std::size_t i = 0; axes.size() < starts.size() && !view.op.has("axes"); ++i)
        axes.push_back(static_cast<std::int64_t>(i));
    const auto steps = view.op.integers("steps", std::vector<std::int64_t>(starts.size(), 1));
    if (starts.empty() || ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        return badInput("attributes 'starts', 'ends', 'axes' and 'steps' differ in length");
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const auto axis = axisOf(axes[i], dims.size());
        constexpr std::int64_t kMostStep = std::int64_t{1} << 40;
        if (!axis || steps[i] == 0 || steps[i] < -kMostStep || steps[i] > kMostStep)
            return axis ? badInput("attribute 'steps' is out of range") : axis.error();
        Dim &dim = dims[*axis];
        const std::int64_t length = sliceLength(dim.size, starts[i], ends[i], steps[i]);
        if (dim.batch && (length != dim.size || steps[i] != 1))
            return badInput("dimension " + std::to_string(*axis) + " carries the batch and cannot be sliced");
        dim.size = length;
    }
    return typedLikeFirst(view, std::move(dims));
}

Result<Infos> inferExpand(const OpView &view)
{
    const Result<Shape> wanted = shapeOfAttributes(view.op);
    if (!wanted)
        return wanted.error();
    Result<Shape> shape = broadcast(view.inputs[0]->shape, *wanted);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

Result<Infos> inferTile(const OpView &view)
{
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    const auto repeats = view.op.integers("repeats");
    if (repeats.size() != dims.size())
        return badInput("attribute 'repeats' needs one entry for each dimension");
    for (std::size_t i = 0; i < dims.size(); ++i)
        if (repeats[i] < 1 || __builtin_mul_overflow(dims[i].size, repeats[i], &dims[i].size))
            return badInput("attribute 'repeats' is out of range");
    return typedLikeFirst(view, std::move(dims));
}

Result<Infos> inferPad(const OpView &view)
{
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    const auto pads = view.op.integers("pads");
    if (pads.size() != 2 * dims.size())
        return badInput("attribute 'pads' needs a begin and an end for each dimension");
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const std::int64_t begin = pads[i];
        const std::int64_t end = pads[i + dims.size()];
        constexpr std::int64_t kMost = std::int64_t{1} << 40;
        if (begin < -kMost || begin > kMost || end < -kMost || end > kMost || dims[i].size + begin + end < 0)
            return badInput("attribute 'pads' is out of range");
        if (dims[i].batch && (begin != 0 || end != 0))
            return badInput("dimension " + std::to_string(i) + " carries the batch and cannot be padded");
        dims[i].size += begin + end;
    }
    return typedLikeFirst(view, std::move(dims));
}

Result<Infos> inferTrilu(const OpView &view)
{
    if (view.inputs[0]->shape.rank() < 2)
        return badInput("a matrix is expected");
    return likeFirst(view);
}

Result<Infos> inferConstantOfShape(const OpView &view)
{
    Result<Shape> shape = shapeOfAttributes(view.op);
    DType type = DType::F32;
    if (!shape)
        return shape.error();
    if (!fromName(view.op.text("to", "float32"), type))
        return badInput("attribute 'to' is not a data type");
    return Infos{{type, std::move(*shape)}};
}

using Sizes = std::vector<std::int64_t>;

/// A negative axis counted from the end; inference has checked the range.
std::size_t positive(std::int64_t axis, std::size_t rank)
{
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

void reshapeGrad(Backward &b) { b.give(0, b.emit("Reshape", {b.dy()}, b.shapeAttributes(b.input(0).shape))); }

void transposeGrad(Backward &b)
{
    const std::size_t rank = b.input(0).shape.rank();
    const Sizes order = b.op().integers("perm");
    Sizes inverse(rank);
    for (std::size_t i = 0; i < rank; ++i)
        inverse[order.empty() ? rank - 1 - i : positive(order[i], rank)] = static_cast<std::int64_t>(i);
    b.give(0, b.emit("Transpose", {b.dy()}, {{"perm", inverse}}));
}

Attributes window(std::int64_t axis, std::int64_t start, std::int64_t end)
{
    return {{"starts", Sizes{start}}, {"ends", Sizes{end}}, {"axes", Sizes{axis}}, {"steps", Sizes{1}}};
}

void concatGrad(Backward &b)
{
    const std::size_t axis = positive(b.op().integer("axis"), b.output().shape.rank());
    if (b.output().shape[axis].batch)
        b.refuse("it joins along the batch");
    std::int64_t start = 0;
    for (std::size_t i = 0; i < b.op().inputs.size(); ++i) {
        const std::int64_t end = start + b.input(i).shape[axis].size;
        if (b.wants(i))
            b.give(i, b.emit("Slice", {b.dy()}, window(static_cast<std::int64_t>(axis), start, end)));
        start = end;
    }
}

void splitGrad(Backward &b)
{
    std::vector<TensorId> parts;
    for (std::size_t i = 0; i < b.op().outputs.size(); ++i)
        parts.push_back(b.dy(i).valid() ? b.dy(i)
                                        : b.emit("ConstantOfShape", {}, b.shapeAttributes(b.output(i).shape)));
    b.give(0, b.emit("Concat", std::move(parts), {{"axis", b.op().integer("axis")}}));
}

void sliceGrad(Backward &b)
{
    Attributes attributes = b.shapeAttributes(b.input(0).shape);
    for (const char *key : {"starts", "ends", "axes", "steps"})
        if (b.op().has(key))
            attributes[key] = b.op().integers(key);
    b.give(0, b.emit("SliceGrad", {b.dy()}, std::move(attributes)));
}

void expandGrad(Backward &b) { b.give(0, b.sumTo(0, b.dy())); }

/// [r*d, ...] as [r, d, ...], summed over the repeats.
void tileGrad(Backward &b)
{
    const Sizes repeats = b.op().integers("repeats");
    std::vector<Dim> split;
    Sizes axes;
    for (std::size_t i = 0; i < repeats.size(); ++i) {
        axes.push_back(static_cast<std::int64_t>(split.size()));
        split.push_back({repeats[i], false});
        split.push_back(b.input(0).shape[i]);
    }
    const TensorId apart = b.emit("Reshape", {b.dy()}, b.shapeAttributes(Shape(std::move(split))));
    b.give(0, b.emit("ReduceSum", {apart}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
}

void padGrad(Backward &b)
{
    const Sizes pads = b.op().integers("pads");
    if (const std::string mode = b.op().text("mode", "constant"); mode != "constant") {
        Attributes attributes = b.shapeAttributes(b.input(0).shape);
        attributes["mode"] = mode;
        attributes["pads"] = pads;
        b.give(0, b.emit("PadGrad", {b.dy()}, std::move(attributes)));
        return;
    }
    if (std::any_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad < 0; }))
        b.refuse("padding that cuts is not trained");
    const Shape &x = b.input(0).shape;
    Sizes starts, ends, axes;
    for (std::size_t i = 0; i < x.rank(); ++i) {
        if (pads[i] == 0 && pads[i + x.rank()] == 0)
            continue;
        axes.push_back(static_cast<std::int64_t>(i));
        starts.push_back(pads[i]);
        ends.push_back(pads[i] + x[i].size);
    }
    if (axes.empty()) {
        b.give(0, b.dy());
        return;
    }
    const Sizes steps(axes.size(), 1);
    b.give(0, b.emit("Slice", {b.dy()}, {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}}));
}

void triluGrad(Backward &b) { b.give(0, b.emit("Trilu", {b.dy()}, b.op().attributes)); }

constexpr OpTraits kReshapes{.cost = CostClass::View, .storage = Storage::View, .precision = kHalf};
constexpr OpTraits kMovesHalf{.cost = CostClass::MemoryBound, .precision = kHalf};
constexpr OpTraits kMovesBlocks{.cost = CostClass::MemoryBound, .precision = kHalf, .blocked = Blocked::Follows};
constexpr OpTraits kSlices{.cost = CostClass::MemoryBound, .blocked = Blocked::Follows};

Operator moving(const char *type, Result<Infos> (*infer)(const OpView &), const Gradient &gradient,
                const OpTraits &traits = kMemoryBound, InputCount inputs = {})
{
    return {.type = type, .inputs = inputs, .infer = infer, .gradient = gradient, .traits = traits};
}

} // namespace

std::vector<Operator> shapingOperators()
{
    return {
        moving("Flatten", inferFlatten, gradientBy(reshapeGrad), kReshapes),
        moving("Reshape", inferReshape, gradientBy(reshapeGrad), kReshapes),
        moving("Squeeze", inferSqueeze, gradientBy(reshapeGrad), kReshapes),
        moving("Unsqueeze", inferUnsqueeze, gradientBy(reshapeGrad), kReshapes),
        moving("Transpose", inferTranspose, gradientBy(transposeGrad), kMovesHalf),
        moving("Concat", inferConcat, gradientBy(concatGrad), kMovesBlocks, {1, -1}),
        moving("Split", inferSplit, gradientBy(splitGrad, ~0U, true), kMovesHalf),
        moving("Slice", inferSlice, gradientBy(sliceGrad), kSlices),
        moving("SliceGrad", inferFromAttributes, {}, kGradientPass),
        moving("Expand", inferExpand, gradientBy(expandGrad, 1U)),
        moving("Tile", inferTile, gradientBy(tileGrad)),
        moving("Pad", inferPad, gradientBy(padGrad, 1U)),
        {.type = "PadGrad", .infer = inferFromAttributes, .flops = perInput(1), .traits = kGradientPass},
        moving("Trilu", inferTrilu, gradientBy(triluGrad)),
        moving("ConstantOfShape", inferConstantOfShape, kNoGradient, kMemoryBound, {0, 0}),
        // Importers fold it; an unfolded one has no inferred shape and is not computed.
        moving("Shape", nullptr, kNoGradient, {.cost = CostClass::MemoryBound, .planOnly = true}),
    };
}

} // namespace planloom::graph
