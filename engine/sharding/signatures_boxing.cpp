// SPDX-License-Identifier: Apache-2.0
// Operators that the sharding of an outer dimension of the mesh put in, on the dimensions further in.
#include "engine/sharding/signature_rules.h"

namespace planloom::sharding {
namespace {

/// Every axis of the input goes to @p shift further on in the output; sums pass.
void shifted(const OpAtHand &at, Proposals &to, int shift, int except)
{
    const auto rank = static_cast<int>(at.inputs[0]->shape.rank());
    for (int axis = shift < 0 ? -shift : 0; axis < rank; ++axis)
        if (axis != except)
            to.row({axis}, {axis + shift});
    to.linear();
}

void inPlace(const OpAtHand &at, Proposals &to) { shifted(at, to, 0, -1); }

void allGather(const OpAtHand &at, Proposals &to) { shifted(at, to, 1, -1); }

void reduceScatter(const OpAtHand &at, Proposals &to) { shifted(at, to, -1, 0); }

/// The blocks stay whole.
void allToAll(const OpAtHand &at, Proposals &to) { shifted(at, to, 0, 0); }

void onOtherAxes(const OpAtHand &at, Proposals &to) { shifted(at, to, 0, axisOf(at, 0, at.inputs[0]->shape.rank())); }

std::vector<std::int64_t> equalSegments(std::int64_t size, std::int64_t count)
{
    return std::vector<std::int64_t>(static_cast<std::size_t>(count), size / count);
}

void partition(const OpAtHand &at, Proposals &to)
{
    const int axis = axisOf(at, 0, at.inputs[0]->shape.rank());
    shifted(at, to, 1, axis);
    const graph::Dim &dim = at.inputs[0]->shape[static_cast<std::size_t>(axis)];
    if (at.op.integers("segments").size() == 1 && !dim.batch)
        to.add({{split(axis, equalSegments(dim.size, at.op.integer("parts")))}, {split(axis + 1)}});
}

void assemble(const OpAtHand &at, Proposals &to)
{
    const int axis = axisOf(at, 0, at.outputs[0]->shape.rank());
    shifted(at, to, -1, axis + 1);
    const graph::Dim &dim = at.outputs[0]->shape[static_cast<std::size_t>(axis)];
    if (at.op.integers("segments").size() == 1 && !dim.batch)
        to.add({{split(axis + 1)}, {split(axis, equalSegments(dim.size, at.inputs[0]->shape[0].size))}});
}

/// Blocks of whole tensors stay whole.
void whole(const OpAtHand &, Proposals &) {}

/// The one segment of an axis that is split further in.
void localizeSegments(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    const bool assembles = at.op.type == "Assemble";
    const Sbp &whole = assembles ? signature.outputs[0] : signature.inputs[0];
    const graph::Shape &shape = assembles ? at.outputs[0]->shape : at.inputs[0]->shape;
    const int axis = axisOf(at, 0, shape.rank());
    if (isSplit(whole) && whole.axis == axis)
        attributes["segments"] = std::vector<std::int64_t>{shape[static_cast<std::size_t>(axis)].size / at.parts};
}

} // namespace

std::vector<SignatureRule> boxingRules()
{
    return {
        {"AllReduce", inPlace},
        {"AllGather", allGather},
        {"ReduceScatter", reduceScatter},
        {"AllToAll", allToAll},
        {"ServerRound", inPlace},
        {"NeighbourShift", inPlace},
        {"ShardSlice", onOtherAxes},
        {"ShardPad", onOtherAxes},
        {"KeepOnFirst", inPlace},
        {"Partition", partition, localizeSegments},
        {"Assemble", assemble, localizeSegments},
        {"ShiftIndices", inPlace},
        {"Pack", whole},
        {"Unpack", whole},
    };
}

} // namespace planloom::sharding
