// SPDX-License-Identifier: Apache-2.0
// Attention and dropout as frameworks ran them before attention was fused: what is quadratic in the tokens lies in memory, and so do masks.
// They stand for published measurements in plans and simulations; no device has kernels for them.
#include "engine/graph/operators_families.h"

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

Result<Infos> inferAttention(const OpView &view)
{
    const Tensor &packed = *view.inputs[0];
    const Result<Shape> scores = scoresOf(view, packed.shape);
    if (!scores)
        return scores.error();
    const Shape mixed({packed.shape[0], packed.shape[1], {packed.shape[2].size / 3, false}});
    return Infos{{packed.type, mixed}, {packed.type, *scores}, {DType::Bool, *scores}, {packed.type, *scores}};
}

Result<Infos> inferAttentionGrad(const OpView &view)
{
    const Result<Shape> scores = scoresOf(view, view.inputs[1]->shape);
    if (!scores)
        return scores.error();
    for (const std::size_t i : {2, 3, 4})
        if (view.inputs[i]->shape != *scores)
            return badInput("probabilities and mask must be " + scores->text() + ", not " + view.inputs[i]->shape.text());
    return Infos{{view.inputs[1]->type, view.inputs[1]->shape}};
}

/// Each product has 2 T*T*size a head; nothing is left out where the future is masked.
template <int kProducts>
double attentionFlops(const OpView &view, const Infos &, std::int64_t samples)
{
    const Shape &mixed = kProducts == 2 ? view.inputs[0]->shape : view.inputs[1]->shape; // packed: three times as wide
    return 2.0 * kProducts * static_cast<double>(mixed.elements(samples)) / 3 * static_cast<double>(mixed[1].at(samples));
}

Result<Infos> inferDropout(const OpView &view)
{
    return Infos{{view.inputs[0]->type, view.inputs[0]->shape}, {DType::Bool, view.inputs[0]->shape}};
}

} // namespace

std::vector<OpSchema> unfusedSchemas()
{
    return {
        {"UnfusedAttention", 1, 1, inferAttention, attentionFlops<2>},
        {"UnfusedAttentionGrad", 5, 5, inferAttentionGrad, attentionFlops<4>},
        {"MaskedDropout", 1, 1, inferDropout, noFlops},
        {"MaskedDropoutGrad", 2, 2, likeFirst, perOutput(2)},
    };
}

} // namespace planloom::graph
