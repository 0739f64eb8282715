// SPDX-License-Identifier: Apache-2.0
// Attention and dropout as frameworks ran them before attention was fused: tensors quadratic in the tokens lie in
// memory, and so do masks. They stand for published measurements in plans and simulations; no device has kernels for
// them.
#include "engine/graph/operators/families.h"

namespace planloom::graph {
namespace {

/// [N, heads, T, T].
Result<Shape> scoresOf(const OpView &view, const Shape &packed)
{
    const std::int64_t heads = view.op.integer("heads");
    if (packed.rank() != 3 || packed[1].batch || packed[2].batch || heads < 1 || packed[2].size % (3 * heads) != 0)
        return badInput("Q, K and V are expected packed as [N, T, 3 * heads * size], not " + packed.text());
    return Shape({packed[0], {heads, false}, packed[1], packed[1]});
}

Result<Infos> inferUnfusedAttention(const OpView &view)
{
    const Tensor &packed = *view.inputs[0];
    const Result<Shape> scores = scoresOf(view, packed.shape);
    if (!scores)
        return scores.error();
    const Shape mixed({packed.shape[0], packed.shape[1], {packed.shape[2].size / 3, false}});
    return Infos{{packed.type, mixed}, {packed.type, *scores}, {DType::Bool, *scores}, {packed.type, *scores}};
}

Result<Infos> inferUnfusedAttentionGrad(const OpView &view)
{
    const Result<Shape> scores = scoresOf(view, view.inputs[1]->shape);
    if (!scores)
        return scores.error();
    for (const std::size_t i : {2, 3, 4})
        if (view.inputs[i]->shape != *scores)
            return badInput("probabilities and mask must be " + scores->text() + ", not "
                            + view.inputs[i]->shape.text());
    return Infos{{view.inputs[1]->type, view.inputs[1]->shape}};
}

/// Each product has 2 T*T*size a head; nothing is left out where the future is masked.
template <int kProducts>
double attentionFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    const Shape &mixed = kProducts == 2 ? view.inputs[0]->shape : view.inputs[1]->shape; // packed: three times as wide
    return 2.0 * kProducts * static_cast<double>(mixed.elements(samples)) / 3
        * static_cast<double>(mixed[1].at(samples));
}

Result<Infos> inferUnfusedDropout(const OpView &view)
{
    return Infos{{view.inputs[0]->type, view.inputs[0]->shape}, {DType::Bool, view.inputs[0]->shape}};
}

void unfusedAttentionGrad(Backward &b)
{
    b.give(0, b.emit("UnfusedAttentionGrad", {b.dy(), b.x(0), b.y(1), b.y(2), b.y(3)}, b.op().attributes));
}

void maskedDropoutGrad(Backward &b) { b.give(0, b.emit("MaskedDropoutGrad", {b.dy(), b.y(1)}, b.op().attributes)); }

constexpr OpTraits planned(OpTraits traits)
{
    traits.precision = kHalf;
    traits.planOnly = true;
    return traits;
}

} // namespace

std::vector<Operator> unfusedOperators()
{
    constexpr OpTraits kMasks{.cost = CostClass::MemoryBound, .elementWise = ElementWise::Moves};
    constexpr OpTraits kMasksAgain{.cost = CostClass::MemoryBound,
                                   .origin = Origin::Gradient,
                                   .elementWise = ElementWise::Moves};
    return {
        {.type = "UnfusedAttention",
         .infer = inferUnfusedAttention,
         .flops = attentionFlops<2>,
         .backwardFlops = 2,
         .gradient = gradientBy(unfusedAttentionGrad),
         .traits = planned({.cost = CostClass::AttentionInPieces, .ownLayer = true})},
        {.type = "UnfusedAttentionGrad",
         .inputs = {5, 5},
         .infer = inferUnfusedAttentionGrad,
         .flops = attentionFlops<4>,
         .traits = planned({.cost = CostClass::AttentionInPiecesGradient, .origin = Origin::Gradient})},
        {.type = "MaskedDropout",
         .infer = inferUnfusedDropout,
         .gradient = gradientBy(maskedDropoutGrad),
         .traits = planned(kMasks)},
        {.type = "MaskedDropoutGrad",
         .inputs = {2, 2},
         .infer = likeFirst,
         .flops = perOutput(2),
         .traits = planned(kMasksAgain)},
    };
}

} // namespace planloom::graph
