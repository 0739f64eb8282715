// SPDX-License-Identifier: Apache-2.0
// Operators that gather or scatter elements by indices, and the largest elements along an axis.
#include "engine/graph/operators/families.h"

#include <algorithm>

namespace planloom::graph {

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
    return Infos{{view.inputs[0]->type, Shape(std::move(dims))}};
}

namespace {

bool areIndices(const Tensor &tensor) { return tensor.type == DType::I64 || tensor.type == DType::I32; }

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
    if (blocks < 0 || blocks >= static_cast<std::int64_t>(indices.size()) || depth < 1
        || depth > static_cast<std::int64_t>(data.size()) - blocks)
        return badInput("indices " + view.inputs[1]->shape.text() + " do not fit " + view.inputs[0]->shape.text());
    const auto first = static_cast<std::ptrdiff_t>(blocks);
    if (!std::equal(data.begin(), data.begin() + first, indices.begin()))
        return badInput("the leading dimensions of data and indices differ");
    for (std::ptrdiff_t i = first; i < first + depth; ++i)
        if (data[static_cast<std::size_t>(i)].batch)
            return badInput("dimension " + std::to_string(i) + " carries the batch and cannot be indexed");
    std::vector<Dim> dims(indices.begin(), indices.end() - 1);
    dims.insert(dims.end(), data.begin() + first + depth, data.end());
    return Infos{{view.inputs[0]->type, Shape(std::move(dims))}};
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

Result<Infos> inferGatherGrad(const OpView &view)
{
    Result<Infos> infos = inferFromAttributes(view);
    if (infos)
        infos->front().type = sumType(infos->front().type);
    return infos;
}

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
        return badInput("indices " + indices.text() + " and updates " + view.inputs[2]->shape.text()
                        + " must have one shape, of the data's rank");
    return likeFirst(view);
}

Result<Infos> inferScatterNd(const OpView &view)
{
    const Shape &data = view.inputs[0]->shape;
    const Shape &indices = view.inputs[1]->shape;
    if (const Status known = checkReduction(view.op); !known)
        return known.error();
    if (indices.rank() < 1 || indices.dims().back().batch || indices.dims().back().size < 0
        || indices.dims().back().size > static_cast<std::int64_t>(data.rank()))
        return badInput("the last dimension of indices " + indices.text() + " counts more dimensions than the data "
                        + data.text() + " has");
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
        return badInput("the " + std::to_string(k) + " largest of dimension " + std::to_string(*axis) + " of "
                        + view.inputs[0]->shape.text() + " cannot be taken");
    dims[*axis].size = k;
    return Infos{{view.inputs[0]->type, Shape(dims)}, {DType::I64, Shape(dims)}};
}

void gatherGrad(Backward &b)
{
    Attributes attributes = b.shapeAttributes(b.input(0).shape);
    attributes["axis"] = b.op().integer("axis");
    b.give(0, b.emit("GatherGrad", {b.dy(), b.x(1)}, std::move(attributes)));
}

/// TYPEGrad(dy, indices): gradients added where the elements came from.
void pickGrad(Backward &b)
{
    Attributes attributes = b.shapeAttributes(b.input(0).shape);
    for (const char *key : {"axis", "batch_dims"})
        if (b.op().has(key))
            attributes[key] = b.op().integer(key);
    b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.x(1)}, std::move(attributes)));
}

/// Two scalars as a vector.
TensorId pair(Backward &b, TensorId first, TensorId second)
{
    const Attributes one{{"shape", std::vector<std::int64_t>{1}}};
    return b.emit("Concat", {b.emit("Reshape", {first}, one), b.emit("Reshape", {second}, one)},
                  {{"axis", std::int64_t{0}}});
}

/// The sum of the gradients where the index is, and of all others.
void oneHotGrad(Backward &b)
{
    const Attributes whole{{"keepdims", std::int64_t{0}}};
    const TensorId mask = b.emit("OneHot", {b.x(0), pair(b, b.scalar(0), b.scalar(1))}, b.op().attributes);
    const TensorId hot = b.emit("ReduceSum", {b.emit("Mul", {b.dy(), mask})}, whole);
    const TensorId all = b.emit("ReduceSum", {b.dy()}, whole);
    b.give(1, pair(b, b.emit("Sub", {all, hot}), hot));
}

/// The data keep their gradient where nothing was put; updates take it from where they went. Of updates that went to
/// one place in turn only sums are differentiable.
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

void scatterElementsGrad(Backward &b) { scatterGrad(b, "GatherElements"); }

void scatterNdGrad(Backward &b) { scatterGrad(b, "GatherND"); }

void topKGrad(Backward &b)
{
    Attributes attributes = b.shapeAttributes(b.input(0).shape);
    attributes["axis"] = b.op().integer("axis", -1);
    b.give(0, b.emit("GatherElementsGrad", {b.dy(), b.y(1)}, std::move(attributes)));
}

constexpr std::uint32_t kDataAndUpdates = 1U | 4U;

Operator indexing(const char *type, int inputs, Result<Infos> (*infer)(const OpView &), const Gradient &gradient,
                  const OpTraits &traits = kMemoryBound)
{
    return {.type = type, .inputs = {inputs, inputs}, .infer = infer, .gradient = gradient, .traits = traits};
}

/// Adds up rows by indices.
Operator adding(const char *type, Result<Infos> (*infer)(const OpView &), const OpTraits &traits = kGradientPass)
{
    Operator row = indexing(type, 2, infer, {}, traits);
    row.flops = perInput(1);
    return row;
}

} // namespace

std::vector<Operator> indexingOperators()
{
    constexpr OpTraits kTable{.cost = CostClass::MemoryBound, .precision = {"h-", "h"}, .picksRows = true};
    constexpr OpTraits kTableGradient{
        .cost = CostClass::MemoryBound, .origin = Origin::Gradient, .precision = {"-", "f"}, .accumulates = true};
    std::vector<Operator> rows{
        indexing("Gather", 2, inferGather, gradientBy(gatherGrad, 1U), kTable),
        adding("GatherGrad", inferGatherGrad, kTableGradient),
        indexing("GatherElements", 2, inferGatherElements, gradientBy(pickGrad, 1U)),
        adding("GatherElementsGrad", inferFromAttributes),
        indexing("GatherND", 2, inferGatherNd, gradientBy(pickGrad, 1U)),
        adding("GatherNDGrad", inferFromAttributes),
        indexing("OneHot", 2, inferOneHot, gradientBy(oneHotGrad, 2U)),
        indexing("ScatterElements", 3, inferScatterElements, gradientBy(scatterElementsGrad, kDataAndUpdates)),
        indexing("ScatterND", 3, inferScatterNd, gradientBy(scatterNdGrad, kDataAndUpdates)),
        indexing("TopK", 1, inferTopK, gradientBy(topKGrad)),
    };
    rows.back().flops = perInput(4);
    return rows;
}

} // namespace planloom::graph
