// SPDX-License-Identifier: Apache-2.0
// Reductions: axes that stay can be split; a sum over a split axis is partial (OneFlow §2.4).
#include "engine/sharding/signature_rules.h"

#include <algorithm>

namespace planloom::sharding {
namespace {

/// Which axes of a tensor of rank @p rank the operator's `axes` (all if empty), or its `axis`, name.
std::vector<bool> reducedAxes(const graph::Op &op, std::size_t rank)
{
    std::vector<std::int64_t> axes = op.integers("axes");
    if (op.has("axis"))
        axes.push_back(op.integer("axis"));
    else if (op.type == "ArgMax" || op.type == "ArgMin")
        axes.push_back(0);
    std::vector<bool> reduced(rank, axes.empty());
    for (const std::int64_t axis : axes)
        reduced[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)] = true;
    return reduced;
}

/// Where axis @p axis of the input is in the result.
int keptAxis(const graph::Op &op, const std::vector<bool> &reduced, std::size_t axis)
{
    if (op.integer("keepdims", 1) != 0)
        return static_cast<int>(axis);
    return static_cast<int>(std::count(reduced.begin(), reduced.begin() + static_cast<std::ptrdiff_t>(axis), false));
}

void reduce(const OpAtHand &at, Proposals &to)
{
    const std::vector<bool> reduced = reducedAxes(at.op, at.inputs[0]->shape.rank());
    for (std::size_t axis = 0; axis < reduced.size(); ++axis)
        if (!reduced[axis])
            to.row({static_cast<int>(axis)}, {keptAxis(at.op, reduced, axis)});
}

void reduceSum(const OpAtHand &at, Proposals &to)
{
    reduce(at, to);
    const std::vector<bool> reduced = reducedAxes(at.op, at.inputs[0]->shape.rank());
    for (std::size_t axis = 0; axis < reduced.size(); ++axis)
        if (reduced[axis])
            to.row({static_cast<int>(axis)}, {kSum});
    to.linear();
}

void reduceMean(const OpAtHand &at, Proposals &to)
{
    reduce(at, to);
    to.linear();
}

/// dY -> like X.
void reduceMeanGrad(const OpAtHand &at, Proposals &to)
{
    const std::vector<bool> reduced = reducedAxes(at.op, at.outputs[0]->shape.rank());
    for (std::size_t axis = 0; axis < reduced.size(); ++axis)
        if (!reduced[axis])
            to.row({keptAxis(at.op, reduced, axis)}, {static_cast<int>(axis)});
    to.linear();
}

/// dY, X, Y -> like X.
void reduceGrad(const OpAtHand &at, Proposals &to)
{
    const std::vector<bool> reduced = reducedAxes(at.op, at.inputs[1]->shape.rank());
    for (std::size_t axis = 0; axis < reduced.size(); ++axis) {
        const int kept = keptAxis(at.op, reduced, axis);
        if (!reduced[axis])
            to.row({kept, static_cast<int>(axis), kept}, {static_cast<int>(axis)});
    }
}

void cumSum(const OpAtHand &at, Proposals &to)
{
    const std::size_t rank = at.inputs[0]->shape.rank();
    for (std::size_t axis = 0; axis < rank; ++axis)
        if (static_cast<int>(axis) != axisOf(at, 0, rank))
            to.row({static_cast<int>(axis)}, {static_cast<int>(axis)});
    to.linear();
}

} // namespace

std::vector<SignatureRule> reductionRules()
{
    return {
        {"ReduceSum", reduceSum},
        {"ReduceMean", reduceMean},
        {"ReduceMax", reduce},
        {"ReduceMin", reduce},
        {"ReduceProd", reduce},
        {"ArgMax", reduce},
        {"ArgMin", reduce},
        {"CumSum", cumSum},
        {"ReduceMeanGrad", reduceMeanGrad, localizeShape},
        {"ReduceMaxGrad", reduceGrad},
        {"ReduceMinGrad", reduceGrad},
        {"ReduceProdGrad", reduceGrad},
    };
}

} // namespace planloom::sharding
