// SPDX-License-Identifier: Apache-2.0
// Elements and slices picked by index tensors, and padding that repeats: data can be split where it is not indexed,
// indices anywhere.
#include "engine/sharding/signature_rules.h"

namespace planloom::sharding {
namespace {

/// Axes other than the indexed one, along which data and indices are equally long: split both.
void gatherElements(const OpAtHand &at, Proposals &to)
{
    const graph::Shape &data = at.inputs[0]->shape;
    const int axis = axisOf(at, 0, data.rank());
    for (int i = 0; i < static_cast<int>(data.rank()); ++i)
        if (i != axis && data[static_cast<std::size_t>(i)] == at.inputs[1]->shape[static_cast<std::size_t>(i)])
            to.plainRow({i, i}, {i});
    to.plainRow({kAll, axis}, {axis});
    to.plainRow({kSum, kAll}, {kSum});
}

void gatherElementsGrad(const OpAtHand &at, Proposals &to)
{
    const graph::Shape &data = at.outputs[0]->shape;
    const int axis = axisOf(at, 0, data.rank());
    for (int i = 0; i < static_cast<int>(data.rank()); ++i)
        if (i != axis && data[static_cast<std::size_t>(i)] == at.inputs[1]->shape[static_cast<std::size_t>(i)])
            to.plainRow({i, i}, {i});
    to.plainRow({axis, axis}, {kSum});
    to.plainRow({kSum, kAll}, {kSum});
}

struct Slices {
    int blocks, prefix,
        first; ///< batch dimensions; dimensions of the indices but the last; first dimension of a slice in the data
};

Slices slicesOf(const OpAtHand &at)
{
    const graph::Shape &indices = at.inputs[1]->shape;
    const auto blocks = static_cast<int>(at.op.integer("batch_dims"));
    return {blocks, static_cast<int>(indices.rank()) - 1, blocks + static_cast<int>(indices.dims().back().size)};
}

void gatherNd(const OpAtHand &at, Proposals &to)
{
    const Slices slices = slicesOf(at);
    for (int i = 0; i < slices.prefix; ++i)
        to.plainRow({i < slices.blocks ? i : kAll, i}, {i});
    for (int i = slices.first; i < static_cast<int>(at.inputs[0]->shape.rank()); ++i)
        to.plainRow({i, kAll}, {slices.prefix + i - slices.first});
    to.plainRow({kSum, kAll}, {kSum});
}

void gatherNdGrad(const OpAtHand &at, Proposals &to)
{
    const Slices slices = slicesOf(at);
    for (int i = 0; i < slices.prefix; ++i)
        to.plainRow({i, i}, {i < slices.blocks ? i : kSum});
    for (int i = slices.first; i < static_cast<int>(at.outputs[0]->shape.rank()); ++i)
        to.plainRow({slices.prefix + i - slices.first, kAll}, {i});
    to.plainRow({kSum, kAll}, {kSum});
}

void oneHot(const OpAtHand &at, Proposals &to)
{
    const auto rank = static_cast<int>(at.inputs[0]->shape.rank());
    const int axis = axisOf(at, -1, static_cast<std::size_t>(rank + 1));
    for (int i = 0; i < rank; ++i)
        to.plainRow({i, kAll}, {i < axis ? i : i + 1});
    to.plainRow({kAll, kSum}, {kSum});
}

/// dY -> like what was padded.
void padGrad(const OpAtHand &at, Proposals &to)
{
    const std::vector<std::int64_t> pads = at.op.integers("pads");
    const std::size_t rank = at.inputs[0]->shape.rank();
    for (std::size_t i = 0; i < rank && pads.size() == 2 * rank; ++i)
        if (pads[i] == 0 && pads[i + rank] == 0)
            to.row({static_cast<int>(i)}, {static_cast<int>(i)});
    to.linear();
}

/// Axes other than the scattered one, along which data, indices and updates are equally long.
void scatterElements(const OpAtHand &at, Proposals &to)
{
    const graph::Shape &data = at.inputs[0]->shape;
    const int axis = axisOf(at, 0, data.rank());
    for (int i = 0; i < static_cast<int>(data.rank()); ++i)
        if (i != axis && data[static_cast<std::size_t>(i)] == at.inputs[1]->shape[static_cast<std::size_t>(i)])
            to.plainRow({i, i, i}, {i});
}

/// Inside the slices that are scattered.
void scatterNd(const OpAtHand &at, Proposals &to)
{
    const Slices slices = slicesOf(at);
    for (int i = slices.first; i < static_cast<int>(at.inputs[0]->shape.rank()); ++i)
        to.plainRow({i, kAll, slices.prefix + i - slices.first}, {i});
}

void topK(const OpAtHand &at, Proposals &to)
{
    const std::size_t rank = at.inputs[0]->shape.rank();
    for (int i = 0; i < static_cast<int>(rank); ++i)
        if (i != axisOf(at, -1, rank))
            to.row({i}, {i, i});
}

} // namespace

std::vector<SignatureRule> indexingRules()
{
    return {
        {"GatherElements", gatherElements},
        {"GatherElementsGrad", gatherElementsGrad, localizeShape},
        {"GatherND", gatherNd},
        {"GatherNDGrad", gatherNdGrad, localizeShape},
        {"OneHot", oneHot},
        {"ScatterElements", scatterElements},
        {"ScatterND", scatterNd},
        {"TopK", topK},
        {"PadGrad", padGrad, localizeShape},
    };
}

} // namespace planloom::sharding
