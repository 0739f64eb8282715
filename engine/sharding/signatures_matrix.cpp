// SPDX-License-Identifier: Apache-2.0
// Matrix products (OneFlow §2.4, MatMul and its weight-gradient form) and attention, which is split by whole heads.
#include "engine/sharding/signature_rules.h"

namespace planloom::sharding {
namespace {

int last(const graph::Tensor &tensor, int fromEnd) { return static_cast<int>(tensor.shape.rank()) - fromEnd; }

struct Factors {
    int rows, innerA, innerB, columns; ///< axes of A, A, B, B
    int outRows, outColumns;
};

Factors factorsOf(const OpAtHand &at)
{
    const bool transA = at.op.integer("transA") != 0;
    const bool transB = at.op.integer("transB") != 0;
    const graph::Tensor &a = *at.inputs[0];
    const graph::Tensor &b = *at.inputs[1];
    return {last(a, transA ? 1 : 2), last(a, transA ? 2 : 1), last(b, transB ? 1 : 2),
            last(b, transB ? 2 : 1), last(*at.outputs[0], 2), last(*at.outputs[0], 1)};
}

void matMul(const OpAtHand &at, Proposals &to)
{
    const Factors f = factorsOf(at);
    to.row({f.rows, kAll}, {f.outRows});
    to.row({kAll, f.columns}, {f.outColumns});
    to.row({f.innerA, f.innerB}, {kSum});
    to.plainRow({kSum, kAll}, {kSum});
    to.plainRow({kAll, kSum}, {kSum});
    const graph::Shape &out = at.outputs[0]->shape;
    for (std::size_t axis = 0; axis + 2 < out.rank(); ++axis)
        to.row({aligned(at.inputs[0]->shape, axis, out), aligned(at.inputs[1]->shape, axis, out)},
               {static_cast<int>(axis)});
}

/// GELU is not linear: the product must be whole wherever it is applied.
void matMulGelu(const OpAtHand &at, Proposals &to)
{
    const Factors f = factorsOf(at);
    to.row({f.rows, kAll, kAll}, {f.outRows, f.outRows});
    to.row({kAll, f.columns, 0}, {f.outColumns, f.outColumns});
    const graph::Shape &out = at.outputs[0]->shape;
    for (int axis = 0; axis + 2 < static_cast<int>(out.rank()); ++axis)
        to.row({axis, kAll, kAll}, {axis, axis});
}

void matMulGeluGrad(const OpAtHand &at, Proposals &to)
{
    const Factors f = factorsOf(at);
    to.row({f.rows, kAll, f.outRows}, {f.outRows});
    to.row({kAll, f.columns, f.outColumns}, {f.outColumns});
    const graph::Shape &out = at.outputs[0]->shape;
    for (int axis = 0; axis + 2 < static_cast<int>(out.rank()); ++axis)
        to.row({axis, kAll, axis}, {axis});
}

/// The added term goes with the axes that it has; where the product is a partial sum, it must be one, too.
void gemm(const OpAtHand &at, Proposals &to)
{
    const Factors f = factorsOf(at);
    const graph::Shape &out = at.outputs[0]->shape;
    const graph::Tensor *term = at.inputs.size() > 2 ? at.inputs[2] : nullptr;
    to.row({f.rows, kAll, term ? aligned(term->shape, 0, out) : kAll}, {0});
    to.row({kAll, f.columns, term ? aligned(term->shape, 1, out) : kAll}, {1});
    const int sum = term ? kSum : kAll;
    to.row({f.innerA, f.innerB, sum}, {kSum});
    to.plainRow({kSum, kAll, sum}, {kSum});
    to.plainRow({kAll, kSum, sum}, {kSum});
}

void weightGrad(const OpAtHand &at, Proposals &to)
{
    const int inner = last(*at.inputs[0], 1);
    for (int axis = 0; axis < inner; ++axis)
        to.row({axis, axis}, {kSum});
    to.row({inner, kAll}, {0});
    to.row({kAll, inner}, {1});
    to.plainRow({kSum, kAll}, {kSum});
    to.plainRow({kAll, kSum}, {kSum});
}

/// Q | K | V with whole heads on each device; empty if the heads do not divide.
std::vector<std::int64_t> packedSegments(const OpAtHand &at, const graph::Tensor &packed)
{
    const std::int64_t heads = at.op.integer("heads");
    const std::int64_t kvHeads = at.op.integer("kv_heads", heads);
    if (heads < 1 || kvHeads < 1 || heads % at.parts != 0 || kvHeads % at.parts != 0)
        return {};
    const std::int64_t size = packed.shape[2].size / (heads + 2 * kvHeads);
    return {heads * size, kvHeads * size, kvHeads * size};
}

void attention(const OpAtHand &at, Proposals &to)
{
    const auto segments = packedSegments(at, *at.inputs[0]);
    if (!segments.empty())
        to.add({{split(2, segments)}, {split(2), split(1)}});
    to.plainRow({0, 0}, {0, 0});
}

void attentionGrad(const OpAtHand &at, Proposals &to)
{
    const auto segments = packedSegments(at, *at.inputs[1]);
    if (!segments.empty())
        to.add({{split(2), split(2, segments), split(2), split(1)}, {split(2, segments)}});
    to.plainRow({0, 0, 0, 0, 0}, {0});
}

void unfusedAttention(const OpAtHand &at, Proposals &to)
{
    if (const auto segments = packedSegments(at, *at.inputs[0]); !segments.empty())
        to.add({{split(2, segments)}, {split(2), split(1), split(1), split(1)}});
    to.plainRow({0}, {0, 0, 0, 0});
}

void unfusedAttentionGrad(const OpAtHand &at, Proposals &to)
{
    if (const auto segments = packedSegments(at, *at.inputs[1]); !segments.empty())
        to.add({{split(2), split(2, segments), split(1), split(1), split(1)}, {split(2, segments)}});
    to.plainRow({0, 0, 0, 0, 0}, {0});
}

void rotary(const OpAtHand &at, Proposals &to)
{
    const auto segments = packedSegments(at, *at.inputs[0]);
    if (!segments.empty())
        to.add({{split(2, segments)}, {split(2, segments)}});
    to.plainRow({0}, {0});
}

/// The same, and linear.
void rotaryGrad(const OpAtHand &at, Proposals &to)
{
    rotary(at, to);
    to.linear();
}

void localizeHeads(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    const graph::CostClass cost = at.op.traits().cost;
    const bool behindGradient =
        cost == graph::CostClass::AttentionGradient || cost == graph::CostClass::AttentionInPiecesGradient;
    const Sbp &packed = signature.inputs[behindGradient ? 1 : 0];
    if (!isSplit(packed) || packed.axis != 2)
        return;
    for (const char *key : {"heads", "kv_heads"})
        if (at.op.has(key))
            attributes[key] = at.op.integer(key) / at.parts;
}

} // namespace

std::vector<SignatureRule> matrixRules()
{
    return {
        {"MatMul", matMul},
        {"Gemm", gemm},
        {"MatMulWeightGrad", weightGrad},
        {"MatMulGelu", matMulGelu},
        {"MatMulGeluGrad", matMulGeluGrad},
        {"Attention", attention, localizeHeads},
        {"AttentionGrad", attentionGrad, localizeHeads},
        {"UnfusedAttention", unfusedAttention, localizeHeads},
        {"UnfusedAttentionGrad", unfusedAttentionGrad, localizeHeads},
        {"RotaryEmbedding", rotary, localizeHeads},
        {"RotaryEmbeddingGrad", rotaryGrad, localizeHeads},
    };
}

} // namespace planloom::sharding
