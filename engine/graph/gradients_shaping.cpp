// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients.h"

#include <algorithm>

namespace planloom::graph {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A negative axis counted from the end; inference has checked the range.
std::size_t positive(std::int64_t axis, std::size_t rank)
{
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

void reshapeGrad(Backward &b)
{
    b.give(0, b.emit("Reshape", {b.dy()}, b.shapeAttributes(b.input(0).shape)));
}

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
        parts.push_back(b.dy(i).valid() ? b.dy(i) : b.emit("ConstantOfShape", {}, b.shapeAttributes(b.output(i).shape)));
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

void expandGrad(Backward &b)
{
    b.give(0, b.sumTo(0, b.dy()));
}

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
    const Attributes one{{"shape", Sizes{1}}};
    return b.emit("Concat", {b.emit("Reshape", {first}, one), b.emit("Reshape", {second}, one)}, {{"axis", std::int64_t{0}}});
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

void triluGrad(Backward &b)
{
    b.give(0, b.emit("Trilu", {b.dy()}, b.op().attributes));
}

} // namespace

std::vector<GradientRule> shapingGradients()
{
    return {
        {"Flatten", reshapeGrad}, {"Reshape", reshapeGrad},     {"Squeeze", reshapeGrad}, {"Unsqueeze", reshapeGrad},  {"Transpose", transposeGrad},
        {"Concat", concatGrad},   {"Split", splitGrad, ~0U, true},         {"Slice", sliceGrad},     {"Expand", expandGrad, 1U},  {"Tile", tileGrad},
        {"Pad", padGrad, 1U},     {"Gather", gatherGrad, 1U},   {"Trilu", triluGrad},
        {"GatherElements", pickGrad, 1U}, {"GatherND", pickGrad, 1U}, {"OneHot", oneHotGrad, 2U},
    };
}

} // namespace planloom::graph
