// SPDX-License-Identifier: Apache-2.0
// Sub-problems of training by ADMM (arXiv 2006.05622): made by its compilation, not by models.
#include "engine/graph/operators/families.h"

#include <algorithm>
#include <cmath>

namespace planloom::graph {
namespace {

Status positive(const Op &op, const char *attribute)
{
    if (const double value = op.number(attribute, 0); !(value > 0) || !std::isfinite(value))
        return badInput(std::string("attribute '") + attribute + "' must be a number above 0");
    return {};
}

Status countedIterations(const Op &op, std::int64_t least = 1)
{
    constexpr std::int64_t kMost = 100;
    if (const std::int64_t count = op.integer("iterations", 1); count < least || count > kMost)
        return badInput("attribute 'iterations' must be from " + std::to_string(least) + " to "
                        + std::to_string(kMost));
    return {};
}

Result<Infos> inferProximalTanh(const OpView &view)
{
    for (const Status &good : {positive(view.op, "p"), positive(view.op, "q"), countedIterations(view.op)})
        if (!good)
            return good.error();
    for (std::size_t i = 1; i < view.inputs.size(); ++i)
        if (view.inputs[i]->shape != view.inputs[0]->shape)
            return badInput(std::string(i < 3 ? "alpha and beta" : "duals") + " must be " + view.inputs[0]->shape.text()
                            + ", not " + view.inputs[i]->shape.text());
    if (view.inputs.size() == 4)
        return badInput("both duals, or none, are expected");
    return likeFirst(view);
}

Result<Infos> inferProximalCrossEntropy(const OpView &view)
{
    for (const Status &good : {positive(view.op, "penalty"), countedIterations(view.op, 0)})
        if (!good)
            return good.error();
    const Shape &outputs = view.inputs[0]->shape;
    if (outputs.rank() != 2)
        return badInput("outputs must be [rows, classes], not " + outputs.text());
    if (view.inputs[1]->shape != outputs)
        return badInput("the centre must be " + outputs.text() + ", not " + view.inputs[1]->shape.text());
    if (view.inputs[2]->shape != Shape({outputs[0]}) || view.inputs[2]->type != DType::I64)
        return badInput("labels must be int64" + Shape({outputs[0]}).text() + ", not " + name(view.inputs[2]->type)
                        + view.inputs[2]->shape.text());
    Infos infos{{DType::F32, outputs}};
    if (view.op.integer("losses") != 0)
        infos.push_back({DType::F32, Shape({outputs[0]})});
    return infos;
}

/// A step: the exponential, a division, and the sums of Sherman and Morrison.
double proximalFlops(const OpView &view, std::int64_t samples, double perElement)
{
    return perElement * static_cast<double>(std::max<std::int64_t>(1, view.op.integer("iterations", 1)))
        * static_cast<double>(view.inputs[0]->shape.elements(samples));
}

double proximalTanhFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    return proximalFlops(view, samples, kTranscendental + 9);
}

double proximalCrossEntropyFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    return proximalFlops(view, samples, kTranscendental + 14);
}

Result<Infos> inferOuterSums(const OpView &view)
{
    const Shape &z = view.inputs[0]->shape;
    const std::size_t rank = z.rank();
    if (rank < 2 || rank > 3 || z[rank - 1].batch || (rank == 3 && z[0].batch))
        return badInput("Z must be [steps, rows, columns] or [rows, columns], with samples as rows only, not "
                        + z.text());
    const std::int64_t columns = z[rank - 1].size;
    const std::int64_t steps = rank == 3 ? z[0].size : 1;
    if (static_cast<std::int64_t>(view.op.numbers("weights").size()) != steps)
        return badInput("attribute 'weights' must have a number for each of " + std::to_string(steps) + " steps");
    Infos infos{{DType::F32, Shape::of({columns * (columns + 1) / 2})}};
    if (view.inputs.size() < 2 || view.inputs[1] == nullptr)
        return infos;
    const Shape &y = view.inputs[1]->shape;
    if (y.rank() != rank || !std::equal(z.dims().begin(), z.dims().end() - 1, y.dims().begin()) || y[rank - 1].batch)
        return badInput("Y " + y.text() + " must have the rows of Z " + z.text());
    infos.push_back({DType::F32, Shape::of({y[rank - 1].size, columns})});
    return infos;
}

/// A multiply-add for each row and each number of the sums.
double outerSumsFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    const Shape &z = view.inputs[0]->shape;
    const double rows = static_cast<double>(z.elements(samples)) / static_cast<double>(z[z.rank() - 1].at(samples));
    std::int64_t sums = 0;
    for (const TensorInfo &output : outputs)
        sums += output.shape.elements(1);
    return 2 * rows * static_cast<double>(sums);
}

Result<Infos> inferCholeskySolve(const OpView &view)
{
    const Shape &gram = view.inputs[0]->shape;
    const Shape &product = view.inputs[1]->shape;
    if (product.rank() != 2 || gram.batched() || product[1].batch)
        return badInput("the product must be a matrix whose rows may be samples, not " + product.text());
    const std::int64_t columns = product[1].size;
    if (gram != Shape::of({columns * (columns + 1) / 2}))
        return badInput("the sums of " + std::to_string(columns) + " columns must be "
                        + Shape::of({columns * (columns + 1) / 2}).text() + ", not " + gram.text());
    if (!(view.op.number("ridge", 0) >= 0) || !(view.op.number("shift", 0) >= 0))
        return badInput("attributes 'ridge' and 'shift' must be numbers from 0");
    for (std::size_t i = 2; i < view.inputs.size(); ++i)
        if (view.inputs[i] != nullptr && view.inputs[i]->shape != product)
            return badInput(std::string(i == 2 ? "the last solution" : "the addend") + " must be " + product.text()
                            + ", not " + view.inputs[i]->shape.text());
    return likeSecond(view);
}

double choleskySolveFlops(const OpView &, const Infos &outputs, std::int64_t samples)
{
    const auto rows = static_cast<double>(outputs[0].shape[0].at(samples));
    const auto columns = static_cast<double>(outputs[0].shape[1].size);
    return columns * columns * (columns / 3 + 2 * rows);
}

/// A state of rows whose columns are those of so many shards: the columns of one.
Result<Shape> ofShard(const OpView &view)
{
    const Shape &state = view.inputs[0]->shape;
    const std::int64_t shards = view.op.integer("shards", 1);
    if (shards == 1)
        return state;
    if (shards < 1 || state.rank() != 2 || state[1].batch || state[1].size % shards != 0)
        return badInput("a state of rows with columns of " + std::to_string(shards) + " shards is expected, not "
                        + state.text());
    return Shape({state[0], {state[1].size / shards, false}});
}

Result<Infos> inferReadState(const OpView &view)
{
    const Result<Shape> own = ofShard(view);
    return own ? Result<Infos>(Infos{{DType::F32, *own}}) : own.error();
}

/// shards x numbers, and the numbers of one shard.
Result<Infos> inferSumsOfShards(const OpView &view)
{
    const Shape &state = view.inputs[0]->shape;
    const Shape &own = view.inputs[1]->shape;
    if (state.rank() != 2 || own.rank() != 1 || state[1] != own[0] || state[0].size != view.op.integer("shards", 1))
        return badInput("sums of " + std::to_string(view.op.integer("shards", 1)) + " shards and those of one are "
                        + "expected, not " + state.text() + " and " + own.text());
    return Infos{{DType::F32, own}};
}

double sumsOfShardsFlops(const OpView &view, const Infos &, std::int64_t)
{
    return static_cast<double>(view.inputs[0]->shape.elements(1));
}

Result<Infos> inferKeepState(const OpView &view)
{
    const Result<Shape> own = ofShard(view);
    if (!own)
        return own.error();
    if (view.inputs[1]->shape != *own)
        return badInput("the new value must be " + own->text() + ", not " + view.inputs[1]->shape.text());
    if (const Status good = positive(view.op, "scale"); !good)
        return good.error();
    return Infos{{DType::F32, Shape::of({1})}, {DType::F32, Shape::of({1})}};
}

double keepStateFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    return 6 * static_cast<double>(view.inputs[1]->shape.elements(samples));
}

constexpr OpTraits kSubproblem{.cost = CostClass::Computing, .origin = Origin::Rewrite};

} // namespace

std::vector<Operator> proximalOperators()
{
    OpTraits elements = kSubproblem;
    elements.elementWise = ElementWise::Computes;
    elements.storage = Storage::InPlace;
    return {
        {.type = "ProximalTanh",
         .inputs = {3, 5},
         .infer = inferProximalTanh,
         .flops = proximalTanhFlops,
         .traits = elements},
        {.type = "ProximalCrossEntropy",
         .inputs = {3, 3},
         .infer = inferProximalCrossEntropy,
         .flops = proximalCrossEntropyFlops,
         .traits = {.cost = CostClass::Computing, .origin = Origin::Rewrite, .precision = {"ff-", "f"}}},
        {.type = "OuterSums",
         .inputs = {1, 2},
         .infer = inferOuterSums,
         .flops = outerSumsFlops,
         .traits = kSubproblem},
        {.type = "CholeskySolve",
         .inputs = {2, 4},
         .infer = inferCholeskySolve,
         .flops = choleskySolveFlops,
         .traits = kSubproblem},
        {.type = "KeepState",
         .inputs = {2, 2},
         .infer = inferKeepState,
         .flops = keepStateFlops,
         .traits = {.cost = CostClass::MemoryBound, .origin = Origin::Rewrite, .states = 1U}},
        {.type = "ReadState",
         .infer = inferReadState,
         .traits = {.cost = CostClass::MemoryBound, .origin = Origin::Rewrite}},
        {.type = "SumsOfShards",
         .inputs = {2, 2},
         .infer = inferSumsOfShards,
         .flops = sumsOfShardsFlops,
         .traits = {.cost = CostClass::MemoryBound, .origin = Origin::Rewrite, .states = 1U}},
    };
}

} // namespace planloom::graph
