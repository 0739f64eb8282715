// SPDX-License-Identifier: Apache-2.0
// Operators that move, select or repeat elements: axes that pass through can be split.
#include "engine/sharding/signature_rules.h"

#include <algorithm>

namespace planloom::sharding {
namespace {

using Sizes = std::vector<std::int64_t>;

std::size_t positive(std::int64_t axis, std::size_t rank)
{
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

/// Axes [first, last) of the input that hold the same elements, in the same order, as axes [outFirst, outLast) of the
/// output.
struct Group {
    std::size_t first, last, outFirst, outLast;
};

/// Cuts both shapes into the smallest groups of equal products (OneFlow §2.4, reshape). The batch, if a group has it,
/// is outermost on both sides; other groups are left out.
std::vector<Group> groupsOf(const graph::Shape &in, const graph::Shape &out)
{
    std::vector<Group> groups;
    std::size_t i = 0;
    std::size_t o = 0;
    while (i < in.rank() && o < out.rank()) {
        Group group{i, i + 1, o, o + 1};
        graph::Dim left = in[i++];
        graph::Dim right = out[o++];
        const bool outermost = left.batch == right.batch;
        bool batchInside = false;
        while (left != right && (i < in.rank() || o < out.rank())) {
            const bool growLeft = i < in.rank()
                && (left.size < right.size || o == out.rank()
                    || (left.size == right.size && !left.batch && right.batch));
            const graph::Dim &more = growLeft ? in[i++] : out[o++];
            graph::Dim &side = growLeft ? left : right;
            side.size *= more.size;
            side.batch = side.batch || more.batch;
            batchInside = batchInside || more.batch;
        }
        group.last = i;
        group.outLast = o;
        if (left == right && outermost && !batchInside)
            groups.push_back(group);
    }
    return groups;
}

std::int64_t sizeOf(const graph::Shape &shape, std::size_t first, std::size_t last)
{
    std::int64_t size = 1;
    for (std::size_t i = first; i < last; ++i)
        size *= shape[i].size;
    return size;
}

std::size_t firstWide(const graph::Shape &shape, std::size_t first, std::size_t last)
{
    while (first + 1 < last && shape[first].size == 1)
        ++first;
    return first;
}

/// An inner axis of the wide side goes with the same positions of the joined axis: equal segments, one for each index
/// before it.
void innerAxes(const graph::Shape &wide, std::size_t first, std::size_t last, int joined, bool wideIsInput,
               Proposals &to)
{
    for (std::size_t axis = first + 1; axis < last; ++axis) {
        const std::int64_t before = sizeOf(wide, first, axis);
        const Sbp inner = split(static_cast<int>(axis));
        const Sbp whole = split(joined, Sizes(static_cast<std::size_t>(before), sizeOf(wide, axis, last)));
        constexpr std::int64_t kMostSegments = 64;
        if (before > 1 && before <= kMostSegments)
            to.add(wideIsInput ? Signature{{inner}, {whole}} : Signature{{whole}, {inner}});
    }
}

void reshape(const OpAtHand &at, Proposals &to)
{
    const graph::Shape &in = at.inputs[0]->shape;
    const graph::Shape &out = at.outputs[0]->shape;
    for (const Group &group : groupsOf(in, out)) {
        const std::size_t first = firstWide(in, group.first, group.last);
        const std::size_t outFirst = firstWide(out, group.outFirst, group.outLast);
        const bool same = in[first].size == out[outFirst].size;
        if (same)
            to.row({static_cast<int>(first)}, {static_cast<int>(outFirst)});
        else
            to.plainRow({static_cast<int>(first)}, {static_cast<int>(outFirst)});
        const bool batched = in[group.first].batch || out[group.outFirst].batch;
        if (!same && !batched && group.last - first == 1)
            innerAxes(out, outFirst, group.outLast, static_cast<int>(first), false, to);
        if (!same && !batched && group.outLast - outFirst == 1)
            innerAxes(in, first, group.last, static_cast<int>(outFirst), true, to);
    }
    to.linear();
}

void localizeReshape(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    if (at.op.type == "Reshape")
        localizeShape(at, signature, attributes);
    if (at.op.type != "Squeeze" || !at.op.integers("axes").empty())
        return;
    Sizes axes; // as inferred from the whole: a part may have more dimensions of size 1
    for (std::size_t i = 0; i < at.inputs[0]->shape.rank(); ++i)
        if (at.inputs[0]->shape[i] == graph::Dim{})
            axes.push_back(static_cast<std::int64_t>(i));
    if (!axes.empty())
        attributes["axes"] = std::move(axes);
}

void transpose(const OpAtHand &at, Proposals &to)
{
    const std::size_t rank = at.inputs[0]->shape.rank();
    const Sizes order = at.op.integers("perm");
    for (std::size_t out = 0; out < rank; ++out) {
        const std::size_t in = order.empty() ? rank - 1 - out : positive(order[out], rank);
        to.row({static_cast<int>(in)}, {static_cast<int>(out)});
    }
    to.linear();
}

void everyAxisBut(const OpAtHand &at, Proposals &to, const std::vector<std::size_t> &kept)
{
    for (std::size_t axis = 0; axis < at.outputs[0]->shape.rank(); ++axis)
        if (std::find(kept.begin(), kept.end(), axis) == kept.end())
            to.row(std::vector<int>(at.inputs.size(), static_cast<int>(axis)),
                   std::vector<int>(at.outputs.size(), static_cast<int>(axis)));
}

/// Along its own axis, Concat lays the parts of each input side by side: a segment for each, or the input's own.
void concat(const OpAtHand &at, Proposals &to)
{
    const auto axis = static_cast<std::size_t>(axisOf(at, 0, at.outputs[0]->shape.rank()));
    everyAxisBut(at, to, {axis});
    Signature joined;
    Sizes segments;
    for (std::size_t i = 0; i < at.inputs.size(); ++i) {
        const bool own = i < at.have.size() && isSplit(at.have[i]) && at.have[i].axis == static_cast<int>(axis)
            && !at.have[i].segments.empty();
        joined.inputs.push_back(own ? at.have[i] : split(static_cast<int>(axis)));
        const Sizes mine = own ? at.have[i].segments : Sizes{at.inputs[i]->shape[axis].size};
        segments.insert(segments.end(), mine.begin(), mine.end());
    }
    joined.outputs.push_back(split(static_cast<int>(axis), segments));
    to.add(std::move(joined));
    to.linear();
}

void splitUp(const OpAtHand &at, Proposals &to)
{
    const auto axis = static_cast<std::size_t>(axisOf(at, 0, at.inputs[0]->shape.rank()));
    everyAxisBut(at, to, {axis});
    Sizes segments;
    for (const graph::Tensor *output : at.outputs)
        segments.push_back(output->shape[axis].size);
    to.add({{split(static_cast<int>(axis), segments)},
            std::vector<Sbp>(at.outputs.size(), split(static_cast<int>(axis)))});
    to.linear();
}

void localizeSplit(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    const Sbp &sbp = signature.inputs[0];
    const auto axis = axisOf(at, 0, at.inputs[0]->shape.rank());
    Sizes sizes;
    for (const graph::Tensor *output : at.outputs)
        sizes.push_back(output->shape[static_cast<std::size_t>(axis)].size
                        / (isSplit(sbp) && sbp.axis == axis ? at.parts : 1));
    attributes["split"] = std::move(sizes);
}

struct Window {
    std::size_t axis;
    std::int64_t start, end, step;
};

/// What Slice and SliceGrad take of each axis that they name; @p whole is the uncut shape.
std::vector<Window> windowsOf(const graph::Op &op, const graph::Shape &whole)
{
    const Sizes starts = op.integers("starts");
    const Sizes ends = op.integers("ends");
    const Sizes axes = op.integers("axes");
    const Sizes steps = op.integers("steps");
    std::vector<Window> windows;
    for (std::size_t i = 0; i < starts.size(); ++i) {
        Window window{axes.empty() ? i : positive(axes[i], whole.rank()), starts[i], ends[i],
                      steps.empty() ? 1 : steps[i]};
        const std::int64_t size = whole[window.axis].size;
        if (window.step == 1) {
            window.start = std::clamp<std::int64_t>(window.start < 0 ? window.start + size : window.start, 0, size);
            window.end = std::clamp<std::int64_t>(window.end < 0 ? window.end + size : window.end, window.start, size);
        }
        windows.push_back(window);
    }
    return windows;
}

/// Whole segments [first, last) of @p sbp that make up the window; last == first if the window cuts one.
std::pair<std::size_t, std::size_t> segmentsIn(const Sizes &segments, const Window &window)
{
    std::size_t first = segments.size();
    std::int64_t at = 0;
    for (std::size_t i = 0; i < segments.size(); at += segments[i], ++i) {
        if (at == window.start)
            first = i;
        if (first < segments.size() && at + segments[i] == window.end)
            return {first, i + 1};
    }
    return {0, 0};
}

bool takesAll(const Window &window, const graph::Shape &whole)
{
    return window.step == 1 && window.start == 0 && window.end == whole[window.axis].size;
}

/// Slice (or, with @p gradient, SliceGrad) along a split axis: whole segments of it.
void slice(const OpAtHand &at, Proposals &to, bool gradient)
{
    const graph::Shape &whole = gradient ? at.outputs[0]->shape : at.inputs[0]->shape;
    std::vector<std::size_t> cut;
    for (const Window &window : windowsOf(at.op, whole)) {
        if (takesAll(window, whole))
            continue;
        cut.push_back(window.axis);
        const bool incoming =
            !at.have.empty() && isSplit(at.have[0]) && at.have[0].axis == static_cast<int>(window.axis);
        if (gradient || !incoming || window.step != 1)
            continue;
        const Sizes &segments = at.have[0].segments;
        const auto [first, last] = segmentsIn(segments, window);
        if (last > first)
            to.add({{at.have[0]},
                    {split(static_cast<int>(window.axis),
                           Sizes(segments.begin() + static_cast<std::ptrdiff_t>(first),
                                 segments.begin() + static_cast<std::ptrdiff_t>(last)))}});
    }
    everyAxisBut(at, to, cut);
    to.linear();
}

void localizeSlice(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    const bool gradient = at.op.type == "SliceGrad";
    const Sbp &sbp = gradient ? signature.outputs[0] : signature.inputs[0];
    const graph::Shape &whole = gradient ? at.outputs[0]->shape : at.inputs[0]->shape;
    if (gradient)
        localizeShape(at, signature, attributes);
    Sizes starts = at.op.integers("starts");
    Sizes ends = at.op.integers("ends");
    const std::vector<Window> windows = windowsOf(at.op, whole);
    for (std::size_t i = 0; i < windows.size(); ++i)
        if (isSplit(sbp) && sbp.axis == static_cast<int>(windows[i].axis)) {
            starts[i] = windows[i].start / at.parts;
            ends[i] = windows[i].end / at.parts;
        }
    attributes["starts"] = std::move(starts);
    attributes["ends"] = std::move(ends);
}

void sliceForward(const OpAtHand &at, Proposals &to) { slice(at, to, false); }

void sliceGrad(const OpAtHand &at, Proposals &to) { slice(at, to, true); }

/// An axis that is repeated can be split after the fact: each device repeats less.
void expand(const OpAtHand &at, Proposals &to)
{
    const graph::Shape &out = at.outputs[0]->shape;
    for (std::size_t axis = 0; axis < out.rank(); ++axis)
        to.row({aligned(at.inputs[0]->shape, axis, out)}, {static_cast<int>(axis)});
    to.linear();
}

void constantOfShape(const OpAtHand &at, Proposals &to)
{
    for (std::size_t axis = 0; axis < at.outputs[0]->shape.rank(); ++axis)
        to.plainRow({}, {static_cast<int>(axis)});
}

void tile(const OpAtHand &at, Proposals &to)
{
    const Sizes repeats = at.op.integers("repeats");
    std::vector<std::size_t> repeated;
    for (std::size_t i = 0; i < repeats.size(); ++i)
        if (repeats[i] != 1)
            repeated.push_back(i);
    everyAxisBut(at, to, repeated);
    to.linear();
}

void pad(const OpAtHand &at, Proposals &to)
{
    const Sizes pads = at.op.integers("pads");
    const std::size_t rank = at.inputs[0]->shape.rank();
    std::vector<std::size_t> padded;
    for (std::size_t i = 0; i < rank && pads.size() == 2 * rank; ++i)
        if (pads[i] != 0 || pads[i + rank] != 0)
            padded.push_back(i);
    for (std::size_t axis = 0; axis < rank; ++axis)
        if (std::find(padded.begin(), padded.end(), axis) == padded.end())
            to.row({static_cast<int>(axis)}, {static_cast<int>(axis)});
    if (at.op.text("mode", "constant") != "constant" || at.op.number("value", 0) == 0)
        to.plainRow({kSum}, {kSum});
}

/// A table split along the axis that is indexed gives zeros for rows that lie elsewhere (see localize.cpp).
void gather(const OpAtHand &at, Proposals &to)
{
    const auto rank = static_cast<int>(at.inputs[0]->shape.rank());
    const auto indices = static_cast<int>(at.inputs[1]->shape.rank());
    const int axis = axisOf(at, 0, at.inputs[0]->shape.rank());
    for (int i = 0; i < indices; ++i)
        to.row({kAll, i}, {axis + i});
    for (int i = 0; i < rank; ++i)
        if (i != axis)
            to.row({i, kAll}, {i < axis ? i : i + indices - 1});
    if (at.inputs[1]->type == graph::DType::I64 && at.inputs[0]->type == graph::DType::F32)
        to.plainRow({axis, kAll}, {kSum});
    to.plainRow({kSum, kAll}, {kSum});
}

void gatherGrad(const OpAtHand &at, Proposals &to)
{
    const auto rank = static_cast<int>(at.outputs[0]->shape.rank());
    const auto indices = static_cast<int>(at.inputs[1]->shape.rank());
    const int axis = axisOf(at, 0, at.outputs[0]->shape.rank());
    for (int i = 0; i < rank; ++i)
        if (i != axis)
            to.row({i < axis ? i : i + indices - 1, kAll}, {i});
    if (at.inputs[1]->type == graph::DType::I64)
        to.plainRow({kAll, kAll}, {axis});
    for (int i = 0; i < indices; ++i)
        to.row({axis + i, i}, {kSum});
    to.plainRow({kSum, kAll}, {kSum});
}

void trilu(const OpAtHand &at, Proposals &to)
{
    const std::size_t rank = at.inputs[0]->shape.rank();
    everyAxisBut(at, to, {rank - 2, rank - 1});
    to.linear();
}

} // namespace

std::vector<SignatureRule> shapingRules()
{
    std::vector<SignatureRule> rules{
        {"Transpose", transpose},
        {"Concat", concat},
        {"Split", splitUp, localizeSplit},
        {"Slice", sliceForward, localizeSlice},
        {"SliceGrad", sliceGrad, localizeSlice},
        {"Expand", expand, localizeShape},
        {"ConstantOfShape", constantOfShape, localizeShape},
        {"Tile", tile},
        {"Pad", pad},
        {"Gather", gather},
        {"ShardGather", gather},
        {"GatherGrad", gatherGrad, localizeShape},
        {"Trilu", trilu},
    };
    for (const char *type : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
        rules.push_back({type, reshape, localizeReshape});
    return rules;
}

} // namespace planloom::sharding
