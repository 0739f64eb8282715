// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients.h"

#include <algorithm>

namespace planloom::graph {
namespace {

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
        giveProduct(b, 0, transA ? b.emit("MatMul", {b.x(1), b.dy()}, transposed(transB, true)) : b.emit("MatMul", {b.dy(), b.x(1)}, transposed(false, !transB)));
    if (!b.wants(1))
        return;
    if (!transA && b.input(1).shape.rank() == 2) { // a weight: sum over all leading dimensions in one product
        b.give(1, transB ? b.emit("MatMulWeightGrad", {b.dy(), b.x(0)}) : b.emit("MatMulWeightGrad", {b.x(0), b.dy()}));
        return;
    }
    giveProduct(b, 1, transB ? b.emit("MatMul", {b.dy(), b.x(0)}, transposed(true, transA)) : b.emit("MatMul", {b.x(0), b.dy()}, transposed(!transA, false)));
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
        b.give(0, transA ? b.emit("MatMul", {b.x(1), dy}, transposed(transB, true)) : b.emit("MatMul", {dy, b.x(1)}, transposed(false, !transB)));
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

void unfusedAttentionGrad(Backward &b)
{
    b.give(0, b.emit("UnfusedAttentionGrad", {b.dy(), b.x(0), b.y(1), b.y(2), b.y(3)}, b.op().attributes));
}

void rotaryGrad(Backward &b)
{
    b.give(0, b.emit("RotaryEmbeddingGrad", {b.dy()}, b.op().attributes));
}

} // namespace

std::vector<GradientRule> matrixGradients()
{
    return {
        {"MatMul", matMulGrad}, {"Gemm", gemmGrad}, {"Attention", attentionGrad, 1U}, {"RotaryEmbedding", rotaryGrad},
        {"UnfusedAttention", unfusedAttentionGrad},
    };
}

} // namespace planloom::graph
