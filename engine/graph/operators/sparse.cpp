// SPDX-License-Identifier: Apache-2.0
// Products of a sparse matrix, given as lists of column indices, and a dense one: how graph networks add up neighbours.
#include "engine/graph/operators/families.h"

namespace planloom::graph {
namespace {

bool isMean(const Op &op) { return op.text("reduce", "sum") == "mean"; }

/// Lists of entries: offsets and indices.
Status checkEntries(const Op &op, const Tensor &offsets, const Tensor &indices)
{
    const std::string reduce = op.text("reduce", "sum");
    if (reduce != "sum" && reduce != "mean")
        return badInput("attribute 'reduce' is '" + reduce + "'; sum and mean are known");
    for (const Tensor *tensor : {&offsets, &indices})
        if (tensor->type != DType::I64 || tensor->shape.rank() != 1)
            return badInput(std::string("offsets and indices must be int64 vectors, not ") + name(tensor->type)
                            + tensor->shape.text());
    return {};
}

/// A matrix whose rows may be samples.
Status checkRows(const Shape &shape, const char *what)
{
    if (shape.rank() == 2 && !shape[1].batch)
        return {};
    return badInput(std::string(what) + " must be a matrix whose rows may be samples, not " + shape.text());
}

/// offsets, indices, X, weights?
Result<Infos> inferSpMM(const OpView &view)
{
    const Tensor &offsets = *view.inputs[0];
    const Tensor &indices = *view.inputs[1];
    const Tensor &x = *view.inputs[2];
    for (const Status &good : {checkEntries(view.op, offsets, indices), checkRows(x.shape, "X")})
        if (!good)
            return good.error();
    if (view.inputs.size() > 3 && view.inputs[3] != nullptr && view.inputs[3]->shape != indices.shape)
        return badInput("weights must be " + indices.shape.text() + ", one an entry, not "
                        + view.inputs[3]->shape.text());
    return Infos{{x.type, Shape({offsets.shape[0], x.shape[1]})}};
}

/// dY, offsets, indices, weights? -> dX
Result<Infos> inferSpMMGrad(const OpView &view)
{
    const Tensor &dy = *view.inputs[0];
    for (const Status &good : {checkEntries(view.op, *view.inputs[1], *view.inputs[2]), checkRows(dy.shape, "dY")})
        if (!good)
            return good.error();
    if (dy.shape[0] != view.inputs[1]->shape[0])
        return badInput("dY " + dy.shape.text() + " must have a row for each of the offsets "
                        + view.inputs[1]->shape.text());
    return inferFromAttributes(view);
}

/// dY, offsets, indices, X -> the gradient of the weights
Result<Infos> inferSpMMWeightGrad(const OpView &view)
{
    const Tensor &dy = *view.inputs[0];
    for (const Status &good : {checkEntries(view.op, *view.inputs[1], *view.inputs[2]), checkRows(dy.shape, "dY"),
                               checkRows(view.inputs[3]->shape, "X")})
        if (!good)
            return good.error();
    if (dy.shape[1] != view.inputs[3]->shape[1])
        return badInput("dY " + dy.shape.text() + " and X " + view.inputs[3]->shape.text() + " differ in columns");
    return typedLikeFirst(view, view.inputs[2]->shape.dims());
}

/// An addition, with weights a multiplication as well, for each entry and column; a mean scales the rows.
double entryFlops(const OpView &view, std::size_t indices, std::size_t matrix, bool weighted, std::int64_t samples)
{
    const auto entries = static_cast<double>(view.inputs[indices]->shape.elements(samples));
    const Shape &shape = view.inputs[matrix]->shape;
    const auto columns = static_cast<double>(shape[1].size);
    return entries * columns * (weighted ? 2 : 1);
}

double spMMFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    const bool weighted = view.inputs.size() > 3 && view.inputs[3] != nullptr;
    const double scaled = isMean(view.op) ? static_cast<double>(outputs[0].shape.elements(samples)) : 0;
    return entryFlops(view, 1, 2, weighted, samples) + scaled;
}

double spMMGradFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    return entryFlops(view, 2, 0, isMean(view.op) || view.inputs.size() > 3, samples);
}

double spMMWeightGradFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    return entryFlops(view, 2, 0, true, samples);
}

void spMMGrad(Backward &b)
{
    const Attributes reduce{{"reduce", b.op().text("reduce", "sum")}};
    std::vector<TensorId> inputs{b.dy(), b.x(0), b.x(1)};
    if (b.wants(2)) {
        std::vector<TensorId> weighted = inputs;
        if (b.hasInput(3))
            weighted.push_back(b.x(3));
        b.give(2, b.emit("SpMMGrad", std::move(weighted), with(b.shapeAttributes(b.input(2).shape), reduce)));
    }
    if (b.wants(3)) {
        inputs.push_back(b.x(2));
        b.give(3, b.emit("SpMMWeightGrad", std::move(inputs), reduce));
    }
}

} // namespace

std::vector<Operator> sparseOperators()
{
    constexpr std::uint32_t kRowsAndWeights = 4U | 8U;
    return {
        {.type = "SpMM",
         .inputs = {3, 4},
         .infer = inferSpMM,
         .flops = spMMFlops,
         .gradient = gradientBy(spMMGrad, kRowsAndWeights),
         .traits = {.cost = CostClass::MemoryBound, .precision = {"--f", "f"}}},
        {.type = "SpMMGrad",
         .inputs = {3, 4},
         .infer = inferSpMMGrad,
         .flops = spMMGradFlops,
         .traits = {.cost = CostClass::MemoryBound, .origin = Origin::Gradient, .precision = {"f--f", "f"}}},
        {.type = "SpMMWeightGrad",
         .inputs = {4, 4},
         .infer = inferSpMMWeightGrad,
         .flops = spMMWeightGradFlops,
         .traits = {.cost = CostClass::MemoryBound, .origin = Origin::Gradient, .precision = {"f--f", "f"}}},
    };
}

} // namespace planloom::graph
