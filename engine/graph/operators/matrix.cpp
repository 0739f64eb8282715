// SPDX-License-Identifier: Apache-2.0
// Matrix products, attention, rotary positions, and their gradients.
#include "engine/graph/operators/families.h"

#include <algorithm>

namespace planloom::graph {
namespace {

struct MatrixDims {
    Dim rows, inner, columns;
};

/// The last two dimensions of both factors, transposed as asked for. Error: the inner sizes differ.
Result<MatrixDims> matrixDims(const Shape &a, const Shape &b, bool transA, bool transB)
{
    if (a.rank() < 2 || b.rank() < 2)
        return badInput("both factors need at least two dimensions; Unsqueeze vectors first");
    const Dim rows = a[a.rank() - (transA ? 1 : 2)];
    const Dim innerA = a[a.rank() - (transA ? 2 : 1)];
    const Dim innerB = b[b.rank() - (transB ? 1 : 2)];
    const Dim columns = b[b.rank() - (transB ? 2 : 1)];
    if (innerA != innerB)
        return badInput("inner sizes of " + a.text() + " and " + b.text() + " differ");
    return MatrixDims{rows, innerA, columns};
}

Shape leading(const Shape &shape, std::size_t dropped)
{
    return Shape({shape.dims().begin(), shape.dims().end() - static_cast<std::ptrdiff_t>(dropped)});
}

/// The product of inputs 0 and 1.
Result<Infos> inferProduct(const OpView &view)
{
    const Shape &a = view.inputs[0]->shape;
    const Shape &b = view.inputs[1]->shape;
    const Result<MatrixDims> dims = matrixDims(a, b, view.op.integer("transA") != 0, view.op.integer("transB") != 0);
    if (!dims)
        return dims.error();
    const Result<Shape> batch = broadcast(leading(a, 2), leading(b, 2));
    if (!batch)
        return batch.error();
    std::vector<Dim> out = batch->dims();
    out.push_back(dims->rows);
    out.push_back(dims->columns);
    return Infos{{view.inputs[0]->type, Shape(std::move(out))}};
}

Result<Infos> inferMatMul(const OpView &view)
{
    Result<Infos> infos = inferProduct(view);
    if (infos && view.inputs.size() > 2 && view.inputs[2]
        && (view.inputs[1]->shape.rank() != 2 || view.inputs[2]->shape != Shape({infos->front().shape.dims().back()})))
        return badInput("the bias " + view.inputs[2]->shape.text() + " is not a row of the product");
    return infos;
}

double matMulFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    const Shape &a = view.inputs[0]->shape;
    const Dim inner = a[a.rank() - (view.op.integer("transA") != 0 ? 2 : 1)];
    return 2.0 * static_cast<double>(outputs[0].shape.elements(samples)) * static_cast<double>(inner.at(samples));
}

/// The product, and its GELU.
Result<Infos> inferMatMulGelu(const OpView &view)
{
    Result<Infos> infos = inferMatMul(view);
    if (infos)
        infos->push_back(infos->front());
    return infos;
}

Result<Infos> inferMatMulGeluGrad(const OpView &view)
{
    const OpView factors{view.op, {view.inputs.begin(), view.inputs.begin() + 2}};
    Result<Infos> infos = inferProduct(factors);
    if (infos && infos->front().shape != view.inputs[2]->shape)
        return badInput("GELU's input " + view.inputs[2]->shape.text() + " is not shaped like the product "
                        + infos->front().shape.text());
    return infos;
}

double matMulGeluFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    return matMulFlops(view, outputs, samples)
        + kTranscendental * static_cast<double>(outputs[0].shape.elements(samples));
}

Result<Infos> inferGemm(const OpView &view)
{
    if (view.inputs[0]->shape.rank() != 2 || view.inputs[1]->shape.rank() != 2)
        return badInput("both factors must be matrices");
    Result<Infos> infos = inferProduct(view);
    if (!infos || view.inputs.size() < 3 || !view.inputs[2])
        return infos;
    const Result<Shape> sum = broadcast(infos->front().shape, view.inputs[2]->shape);
    if (!sum || *sum != infos->front().shape)
        return badInput("the added term " + view.inputs[2]->shape.text() + " does not broadcast to "
                        + infos->front().shape.text());
    return infos;
}

Result<Infos> inferWeightGrad(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    const Shape &dy = view.inputs[1]->shape;
    if (x.rank() < 2 || dy.rank() != x.rank() || leading(x, 1) != leading(dy, 1))
        return badInput("leading dimensions of " + x.text() + " and " + dy.text() + " differ");
    return Infos{{sumType(view.inputs[0]->type), Shape({x.dims().back(), dy.dims().back()})}};
}

double weightGradFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    return 2.0 * static_cast<double>(view.inputs[0]->shape.elements(samples))
        * static_cast<double>(outputs[0].shape.dims().back().at(samples));
}

struct Heads {
    std::int64_t query, keyValue, size;
};

/// Head counts from the attributes, and the size of one head from the packed width.
Result<Heads> headsOf(const OpView &view, const Shape &packed)
{
    Heads heads{view.op.integer("heads"), 0, 0};
    heads.keyValue = view.op.integer("kv_heads", heads.query);
    if (packed.rank() != 3 || packed[1].batch || packed[2].batch)
        return badInput("Q, K and V are expected packed as [N, T, (heads + 2 kv_heads) * size], not " + packed.text());
    constexpr std::int64_t kMostHeads = 1 << 20;
    if (heads.query < 1 || heads.keyValue < 1 || heads.query > kMostHeads || heads.query % heads.keyValue != 0)
        return badInput("attribute 'heads' must be positive and a multiple of 'kv_heads'");
    const std::int64_t all = heads.query + 2 * heads.keyValue;
    if (packed[2].size % all != 0)
        return badInput("the packed width " + std::to_string(packed[2].size)
                        + " is not a multiple of heads + 2 kv_heads = " + std::to_string(all));
    heads.size = packed[2].size / all;
    return heads;
}

Result<Infos> inferAttention(const OpView &view)
{
    const Shape &packed = view.inputs[0]->shape;
    const Result<Heads> heads = headsOf(view, packed);
    if (!heads)
        return heads.error();
    if (view.inputs.size() > 1 && view.inputs[1] && view.inputs[1]->shape != leading(packed, 1))
        return badInput("the mask must be " + leading(packed, 1).text() + ", not " + view.inputs[1]->shape.text());
    return Infos{{view.inputs[0]->type, Shape({packed[0], packed[1], {heads->query * heads->size, false}})},
                 {DType::F32, Shape({packed[0], {heads->query, false}, packed[1]})}};
}

/// Two products of 2 T*T*size per head, half of it where the future is masked.
double attentionFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    const double perPair = view.op.integer("causal") != 0 ? 2 : 4;
    return perPair * static_cast<double>(outputs[0].shape.elements(samples))
        * static_cast<double>(outputs[0].shape[1].at(samples));
}

/// Five products instead of two: the probabilities are computed again.
double attentionGradFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    const Shape &dy = view.inputs[0]->shape;
    const double perPair = view.op.integer("causal") != 0 ? 5 : 10;
    return perPair * static_cast<double>(dy.elements(samples)) * static_cast<double>(dy[1].at(samples));
}

Result<Infos> inferAttentionGrad(const OpView &view)
{
    const Result<Heads> heads = headsOf(view, view.inputs[1]->shape);
    if (!heads)
        return heads.error();
    return Infos{{view.inputs[1]->type, view.inputs[1]->shape}};
}

Result<Infos> inferRotary(const OpView &view)
{
    const Result<Heads> heads = headsOf(view, view.inputs[0]->shape);
    if (!heads)
        return heads.error();
    if (heads->size % 2 != 0)
        return badInput("rotary positions need an even head size, not " + std::to_string(heads->size));
    const std::size_t frequencies = view.op.numbers("inverse_frequencies").size();
    if (static_cast<std::int64_t>(frequencies) > heads->size / 2)
        return badInput("attribute 'inverse_frequencies' has " + std::to_string(frequencies)
                        + " numbers, more than the " + std::to_string(heads->size / 2) + " pairs of a head");
    return likeFirst(view);
}

Attributes transposed(bool first, bool second)
{
    Attributes attributes;
    if (first)
        attributes["transA"] = std::int64_t{1};
    if (second)
        attributes["transB"] = std::int64_t{1};
    return attributes;
}

/// A product for the gradient of input @p i; batch dimensions that were broadcast are summed.
void giveProduct(Backward &b, std::size_t i, TensorId product)
{
    const auto &have = b.output().shape.dims();
    const auto &want = b.input(i).shape.dims();
    if (have.size() == want.size() && std::equal(have.begin(), have.end() - 2, want.begin()))
        b.give(i, product);
    else
        b.give(i, b.emit("ReduceSumTo", {product}, b.shapeAttributes(b.input(i).shape)));
}

/// y = a' b' with either factor transposed: da = dy b'^T and db = a'^T dy, transposed where the factor is.
void matMulGrad(Backward &b)
{
    const bool transA = b.op().integer("transA") != 0;
    const bool transB = b.op().integer("transB") != 0;
    if (b.wants(0))
        giveProduct(b, 0,
                    transA ? b.emit("MatMul", {b.x(1), b.dy()}, transposed(transB, true))
                           : b.emit("MatMul", {b.dy(), b.x(1)}, transposed(false, !transB)));
    if (!b.wants(1))
        return;
    if (!transA && b.input(1).shape.rank() == 2) { // a weight: sum over all leading dimensions in one product
        b.give(1, transB ? b.emit("MatMulWeightGrad", {b.dy(), b.x(0)}) : b.emit("MatMulWeightGrad", {b.x(0), b.dy()}));
        return;
    }
    giveProduct(b, 1,
                transB ? b.emit("MatMul", {b.dy(), b.x(0)}, transposed(true, transA))
                       : b.emit("MatMul", {b.x(0), b.dy()}, transposed(!transA, false)));
}

TensorId scaled(Backward &b, TensorId gradient, double factor)
{
    return factor == 1 ? gradient : b.emit("Mul", {gradient, b.scalar(static_cast<float>(factor))});
}

/// y = alpha a' b' + beta c. The factor alpha goes onto dy once, the smaller side of both products in most models.
void gemmGrad(Backward &b)
{
    const bool transA = b.op().integer("transA") != 0;
    const bool transB = b.op().integer("transB") != 0;
    const TensorId dy = b.wants(0) || b.wants(1) ? scaled(b, b.dy(), b.op().number("alpha", 1)) : b.dy();
    if (b.wants(0))
        b.give(0,
               transA ? b.emit("MatMul", {b.x(1), dy}, transposed(transB, true))
                      : b.emit("MatMul", {dy, b.x(1)}, transposed(false, !transB)));
    if (b.wants(1) && !transA)
        b.give(1, transB ? b.emit("MatMulWeightGrad", {dy, b.x(0)}) : b.emit("MatMulWeightGrad", {b.x(0), dy}));
    if (b.wants(1) && transA)
        b.give(1, transB ? b.emit("MatMul", {dy, b.x(0)}, transposed(true, true)) : b.emit("MatMul", {b.x(0), dy}));
    if (b.wants(2))
        b.give(2, scaled(b, b.sumTo(2, b.dy()), b.op().number("beta", 1)));
}

void attentionGrad(Backward &b)
{
    std::vector<TensorId> inputs{b.dy(), b.x(0), b.y(0), b.y(1)};
    if (b.hasInput(1))
        inputs.push_back(b.x(1));
    b.give(0, b.emit("AttentionGrad", std::move(inputs), b.op().attributes));
}

void rotaryGrad(Backward &b) { b.give(0, b.emit("RotaryEmbeddingGrad", {b.dy()}, b.op().attributes)); }

Operator attention()
{
    return {.type = "Attention",
            .inputs = {1, 2},
            .infer = inferAttention,
            .flops = attentionFlops,
            .backwardFlops = 2.5, // five products instead of two
            .gradient = gradientBy(attentionGrad, 1U),
            .traits = {.cost = CostClass::Attention, .precision = {"h-", "hf"}, .ownLayer = true}};
}

Operator rotary(const char *type, const Gradient &gradient, Origin origin)
{
    return {.type = type,
            .infer = inferRotary,
            .flops = perOutput(3),
            .gradient = gradient,
            .traits = {.cost = CostClass::MemoryBound, .origin = origin, .precision = kHalf}};
}

Operator product(const char *type, Result<Infos> (*infer)(const OpView &), void (*gradient)(Backward &))
{
    return {.type = type,
            .inputs = {2, 3},
            .infer = infer,
            .flops = matMulFlops,
            .backwardFlops = kEachFactor,
            .gradient = gradientBy(gradient),
            .traits = {.cost = CostClass::Product, .precision = {"hhf", "h"}, .ownLayer = true}};
}

Operator fusedProduct(const char *type, Result<Infos> (*infer)(const OpView &))
{
    return {.type = type,
            .inputs = {3, 3},
            .infer = infer,
            .flops = matMulGeluFlops,
            .traits = {.cost = CostClass::Product, .origin = Origin::Rewrite}};
}

} // namespace

std::vector<Operator> matrixOperators()
{
    return {
        product("MatMul", inferMatMul, matMulGrad),
        product("Gemm", inferGemm, gemmGrad),
        {.type = "MatMulWeightGrad",
         .inputs = {2, 2},
         .infer = inferWeightGrad,
         .flops = weightGradFlops,
         .traits = {.cost = CostClass::WeightGradient,
                    .origin = Origin::Gradient,
                    .precision = {"h", "f"},
                    .accumulates = true}},
        fusedProduct("MatMulGelu", inferMatMulGelu),
        fusedProduct("MatMulGeluGrad", inferMatMulGeluGrad),
        attention(),
        {.type = "AttentionGrad",
         .inputs = {4, 5},
         .infer = inferAttentionGrad,
         .flops = attentionGradFlops,
         .traits = {.cost = CostClass::AttentionGradient, .origin = Origin::Gradient, .precision = {"hhhf-", "h"}}},
        rotary("RotaryEmbedding", gradientBy(rotaryGrad), Origin::Model),
        rotary("RotaryEmbeddingGrad", {}, Origin::Gradient),
    };
}

} // namespace planloom::graph
