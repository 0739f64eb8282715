// SPDX-License-Identifier: Apache-2.0
// Tensors laid one behind the other in one block, in equal shards: what the exchange of gradients and parameters is
// done with.
#include "engine/graph/operators/families.h"

namespace planloom::graph {
namespace {

Result<Infos> inferPack(const OpView &view)
{
    const std::int64_t parts = view.op.integer("parts");
    const std::int64_t elements = view.op.integer("elements");
    const std::vector<std::int64_t> offsets = view.op.integers("offsets");
    if (parts < 1 || elements < 1 || elements % parts != 0)
        return badInput("attributes 'elements' " + std::to_string(elements) + " and 'parts' " + std::to_string(parts)
                        + " make no equal shards");
    if (offsets.size() != view.inputs.size())
        return badInput("attribute 'offsets' has " + std::to_string(offsets.size()) + " entries for "
                        + std::to_string(view.inputs.size()) + " inputs");
    for (std::size_t i = 0; i < view.inputs.size(); ++i) {
        if (view.inputs[i] == nullptr)
            continue;
        if (view.inputs[i]->type != DType::F32 || view.inputs[i]->shape.batched())
            return badInput("input " + std::to_string(i) + " must be float32 of a fixed size, not "
                            + view.inputs[i]->shape.text());
        if (offsets[i] < 0 || offsets[i] > elements - view.inputs[i]->shape.elements(1))
            return badInput("input " + std::to_string(i) + " does not fit behind offset " + std::to_string(offsets[i]));
    }
    return Infos{{DType::F32, Shape::of({parts, elements / parts})}};
}

Result<Infos> inferUnpack(const OpView &view)
{
    const std::vector<std::int64_t> offsets = view.op.integers("offsets");
    const std::vector<std::int64_t> ranks = view.op.integers("ranks");
    const std::vector<std::int64_t> sizes = view.op.integers("sizes");
    if (offsets.size() != ranks.size())
        return badInput("attributes 'offsets' and 'ranks' must have an entry for each output");
    const std::int64_t elements = view.inputs[0]->shape.elements(1);
    Infos infos;
    auto next = sizes.begin();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (ranks[i] < 0 || ranks[i] > sizes.end() - next)
            return badInput("attribute 'sizes' has too few entries");
        const std::vector<std::int64_t> own(next, next + ranks[i]);
        next += ranks[i];
        infos.push_back({view.inputs[0]->type, Shape::of(own)});
        if (offsets[i] < 0 || offsets[i] > elements - infos.back().shape.elements(1))
            return badInput("output " + std::to_string(i) + " does not fit behind offset "
                            + std::to_string(offsets[i]));
    }
    return infos;
}

} // namespace

std::vector<Operator> flatOperators()
{
    OpTraits whole = kRewritten;
    whole.storage = Storage::Whole;
    OpTraits parts = kRewritten;
    parts.storage = Storage::Parts;
    return {
        {.type = "Pack", .inputs = {0, -1}, .infer = inferPack, .traits = whole},
        {.type = "Unpack", .infer = inferUnpack, .traits = parts},
    };
}

} // namespace planloom::graph
