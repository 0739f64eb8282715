// SPDX-License-Identifier: Apache-2.0
// Operators that move, select or repeat elements, and their gradients. Sizes and indices are attributes: importers fold constants.
#include "engine/graph/operators_families.h"

#include <algorithm>

namespace planloom::graph {
namespace {

Infos one(const OpView &view, std::vector<Dim> dims)
{
    return Infos{{view.inputs[0]->type, Shape(std::move(dims))}};
}

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
    return one(view, {*rows, *columns});
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
        return *have == *known ? Result<Infos>(one(view, dims)) : Result<Infos>(differs);
    if (known->size == 0 || have->size % known->size != 0 || (known->batch && !have->batch))
        return differs;
    dims[free].size = have->size / known->size;
    dims[free].batch = dims[free].batch || (have->batch && !known->batch);
    return one(view, std::move(dims));
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
    return one(view, std::move(kept));
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
    return one(view, std::move(grown));
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
    return one(view, std::move(moved));
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
    return one(view, std::move(dims));
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
        return badInput("dimension " + std::to_string(*axis) + " of " + x.shape.text() + " cannot be split as asked; attribute 'split' must add up to it");
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
    return one(view, std::move(dims));
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
    return one(view, std::move(dims));
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
    return one(view, std::move(dims));
}

Result<Infos> inferGather(const OpView &view)
{
    const auto &data = view.inputs[0]->shape.dims();
    const auto &indices = view.inputs[1]->shape.dims();
    if (view.inputs[1]->type != DType::I64 && view.inputs[1]->type != DType::I32)
        return badInput(std::string("indices must be int64 or int32, not ") + name(view.inputs[1]->type));
    const auto axis = axisOf(view.op.integer("axis"), data.size());
    if (!axis)
        return axis.error();
    const auto at = static_cast<std::ptrdiff_t>(*axis);
    std::vector<Dim> dims(data.begin(), data.begin() + at);
    dims.insert(dims.end(), indices.begin(), indices.end());
    dims.insert(dims.end(), data.begin() + at + 1, data.end());
    return one(view, std::move(dims));
}

bool areIndices(const Tensor &tensor)
{
    return tensor.type == DType::I64 || tensor.type == DType::I32;
}

Result<Infos> inferGatherElements(const OpView &view)
{
    const Tensor &data = *view.inputs[0];
    const Tensor &indices = *view.inputs[1];
    const auto axis = axisOf(view.op.integer("axis"), data.shape.rank());
    if (!axis || !areIndices(indices))
        return axis ? badInput("indices must be int64 or int32") : axis.error();
    if (indices.shape.rank() != data.shape.rank())
        return badInput("indices " + indices.shape.text() + " do not have the rank of " + data.shape.text());
    for (std::size_t i = 0; i < data.shape.rank(); ++i)
        if (i != *axis && (indices.shape[i].batch != data.shape[i].batch || indices.shape[i].size > data.shape[i].size))
            return badInput("indices " + indices.shape.text() + " do not lie within " + data.shape.text());
    if (data.shape[*axis].batch)
        return badInput("dimension " + std::to_string(*axis) + " carries the batch and cannot be indexed");
    return Infos{{data.type, indices.shape}};
}

Result<Infos> inferGatherNd(const OpView &view)
{
    const auto &data = view.inputs[0]->shape.dims();
    const auto &indices = view.inputs[1]->shape.dims();
    const std::int64_t blocks = view.op.integer("batch_dims");
    if (!areIndices(*view.inputs[1]) || indices.empty() || indices.back().batch)
        return badInput("indices must be int64 or int32 tuples");
    const std::int64_t depth = indices.back().size;
    if (blocks < 0 || blocks >= static_cast<std::int64_t>(indices.size()) || depth < 1 || depth > static_cast<std::int64_t>(data.size()) - blocks)
        return badInput("indices " + view.inputs[1]->shape.text() + " do not fit " + view.inputs[0]->shape.text());
    const auto first = static_cast<std::ptrdiff_t>(blocks);
    if (!std::equal(data.begin(), data.begin() + first, indices.begin()))
        return badInput("the leading dimensions of data and indices differ");
    for (std::ptrdiff_t i = first; i < first + depth; ++i)
        if (data[static_cast<std::size_t>(i)].batch)
            return badInput("dimension " + std::to_string(i) + " carries the batch and cannot be indexed");
    std::vector<Dim> dims(indices.begin(), indices.end() - 1);
    dims.insert(dims.end(), data.begin() + first + depth, data.end());
    return one(view, std::move(dims));
}

Result<Infos> inferOneHot(const OpView &view)
{
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    const auto axis = axisOf(view.op.integer("axis", -1), dims.size() + 1);
    const std::int64_t depth = view.op.integer("depth");
    constexpr std::int64_t kMost = std::int64_t{1} << 32;
    if (!axis)
        return axis.error();
    if (depth < 1 || depth > kMost)
        return badInput("attribute 'depth' is out of range");
    if (view.inputs[1]->shape != Shape::of({2}))
        return badInput("the two values must be [2], not " + view.inputs[1]->shape.text());
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(*axis), Dim{depth, false});
    return Infos{{view.inputs[1]->type, Shape(std::move(dims))}};
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

Result<Infos> inferScatter(const OpView &view)
{
    Result<Shape> shape = shapeOfAttributes(view.op);
    if (!shape)
        return shape.error();
    return Infos{{view.inputs[0]->type, std::move(*shape)}};
}

Result<Infos> inferGatherGrad(const OpView &view)
{
    Result<Infos> infos = inferScatter(view);
    if (infos)
        infos->front().type = sumType(infos->front().type);
    return infos;
}

} // namespace

std::vector<OpSchema> shapingSchemas()
{
    return {
        {"Flatten", 1, 1, inferFlatten, noFlops},
        {"Reshape", 1, 1, inferReshape, noFlops},
        {"Squeeze", 1, 1, inferSqueeze, noFlops},
        {"Unsqueeze", 1, 1, inferUnsqueeze, noFlops},
        {"Transpose", 1, 1, inferTranspose, noFlops},
        {"Concat", 1, -1, inferConcat, noFlops},
        {"Split", 1, 1, inferSplit, noFlops},
        {"Slice", 1, 1, inferSlice, noFlops},
        {"SliceGrad", 1, 1, inferScatter, noFlops},
        {"Expand", 1, 1, inferExpand, noFlops},
        {"Tile", 1, 1, inferTile, noFlops},
        {"Pad", 1, 1, inferPad, noFlops},
        {"PadGrad", 1, 1, inferScatter, perInput(1)},
        {"Gather", 2, 2, inferGather, noFlops},
        {"GatherGrad", 2, 2, inferGatherGrad, perInput(1)},
        {"GatherElements", 2, 2, inferGatherElements, noFlops},
        {"GatherElementsGrad", 2, 2, inferScatter, perInput(1)},
        {"GatherND", 2, 2, inferGatherNd, noFlops},
        {"GatherNDGrad", 2, 2, inferScatter, perInput(1)},
        {"OneHot", 2, 2, inferOneHot, noFlops},
        {"Trilu", 1, 1, inferTrilu, noFlops},
        {"ConstantOfShape", 0, 0, inferConstantOfShape, noFlops},
    };
}

} // namespace planloom::graph
