// SPDX-License-Identifier: Apache-2.0
// Matrix products, attention, rotary positions, and their gradients.
#include "engine/graph/operators_families.h"

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

Result<Infos> inferMatMul(const OpView &view)
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
    if (view.op.type.starts_with("MatMul") && view.inputs.size() > 2 && view.inputs[2] && (b.rank() != 2 || view.inputs[2]->shape != Shape({dims->columns})))
        return badInput("the bias " + view.inputs[2]->shape.text() + " is not a row of the product");
    return Infos{{view.inputs[0]->type, Shape(std::move(out))}};
}

double matMulFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    const Shape &a = view.inputs[0]->shape;
    const Dim inner = a[a.rank() - (view.op.integer("transA") != 0 ? 2 : 1)];
    return 2.0 * static_cast<double>(outputs[0].shape.elements(samples)) * static_cast<double>(inner.at(samples));
}

/// The product, and what GELU makes of it.
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
    Result<Infos> infos = inferMatMul(factors);
    if (infos && infos->front().shape != view.inputs[2]->shape)
        return badInput("GELU's input " + view.inputs[2]->shape.text() + " is not shaped like the product " + infos->front().shape.text());
    return infos;
}

double matMulGeluFlops(const OpView &view, const Infos &outputs, std::int64_t samples)
{
    return matMulFlops(view, outputs, samples) + kTranscendental * static_cast<double>(outputs[0].shape.elements(samples));
}

Result<Infos> inferGemm(const OpView &view)
{
    if (view.inputs[0]->shape.rank() != 2 || view.inputs[1]->shape.rank() != 2)
        return badInput("both factors must be matrices");
    Result<Infos> infos = inferMatMul(view);
    if (!infos || view.inputs.size() < 3 || !view.inputs[2])
        return infos;
    const Result<Shape> sum = broadcast(infos->front().shape, view.inputs[2]->shape);
    if (!sum || *sum != infos->front().shape)
        return badInput("the added term " + view.inputs[2]->shape.text() + " does not broadcast to " + infos->front().shape.text());
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
    return 2.0 * static_cast<double>(view.inputs[0]->shape.elements(samples)) * static_cast<double>(outputs[0].shape.dims().back().at(samples));
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
        return badInput("the packed width " + std::to_string(packed[2].size) + " is not a multiple of heads + 2 kv_heads = " + std::to_string(all));
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
    return perPair * static_cast<double>(outputs[0].shape.elements(samples)) * static_cast<double>(outputs[0].shape[1].at(samples));
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
    return likeFirst(view);
}

} // namespace

std::vector<OpSchema> matrixSchemas()
{
    return {
        {"MatMul", 2, 3, inferMatMul, matMulFlops},
        {"Gemm", 2, 3, inferGemm, matMulFlops},
        {"MatMulWeightGrad", 2, 2, inferWeightGrad, weightGradFlops},
        {"Attention", 1, 2, inferAttention, attentionFlops},
        {"AttentionGrad", 4, 5, inferAttentionGrad, attentionGradFlops},
        {"RotaryEmbedding", 1, 1, inferRotary, perOutput(3)},
        {"RotaryEmbeddingGrad", 1, 1, inferRotary, perOutput(3)},
    };
}

std::vector<OpSchema> fusedProductSchemas()
{
    return {
        {"MatMulGelu", 3, 3, inferMatMulGelu, matMulGeluFlops},
        {"MatMulGeluGrad", 3, 3, inferMatMulGeluGrad, matMulGeluFlops},
    };
}

} // namespace planloom::graph
