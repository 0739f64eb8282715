// SPDX-License-Identifier: Apache-2.0
// Decoders with LayerNorm and feed-forward networks that are not gated: GPT-NeoX, Phi, OPT, Falcon, StarCoder 2.
#include "engine/graph/zoo/transformer_builder.h"

#include <algorithm>

namespace planloom::graph {
namespace {

using Block = ClassicDecoderConfig::Block;
using Projections = ClassicDecoderConfig::Projections;

/// One layer, with the names of its parameters.
class ClassicLayer {
public:
    ClassicLayer(TransformerBuilder &builder, const ClassicDecoderConfig &config, std::int64_t index)
        : m_b(builder),
          m_config(config),
          m_prefix(config.names.layers + std::to_string(index) + "."),
          m_headSize(config.sizes.hidden / config.sizes.heads)
    {
    }

    TensorId operator()(TensorId x)
    {
        const auto &names = m_config.names;
        switch (m_config.block) {
        case Block::ParallelOwnNorm:
        case Block::ParallelSameNorm: {
            const TensorId first = norm(x, names.attentionNorm);
            const bool same = m_config.block == Block::ParallelSameNorm;
            const TensorId second = same ? first : norm(x, names.feedForwardNorm);
            return added(added(x, attention(first)), feedForward(second));
        }
        case Block::NormBehind:
            x = norm(added(x, attention(x)), names.attentionNorm);
            return norm(added(x, feedForward(x)), names.feedForwardNorm);
        case Block::Sequential: break;
        }
        x = added(x, attention(norm(x, names.attentionNorm)));
        return added(x, feedForward(norm(x, names.feedForwardNorm)));
    }

private:
    TensorId norm(TensorId x, const std::string &name)
    {
        return m_b.layerNorm(x, m_prefix + name, *m_config.sizes.epsilon, name);
    }

    TensorId added(TensorId x, TensorId result) { return m_b.add("Add", {x, result}, {}, "residual"); }

    TensorId linear(TensorId x, const std::string &name, std::int64_t in, std::int64_t out, bool bias)
    {
        return m_b.linear(x, m_prefix + name, in, out, bias, name.substr(name.rfind('.') + 1));
    }

    /// Query, key and value as Attention wants them.
    TensorId projections(TensorId x)
    {
        const auto &names = m_config.names;
        const std::int64_t width = m_config.sizes.hidden;
        const std::int64_t shared = m_config.kvHeads * m_headSize;
        if (m_config.projections == Projections::Apart) {
            const TensorId query = linear(x, names.query, width, width, m_config.qkvBias);
            const TensorId key = linear(x, names.key, width, shared, m_config.qkvBias);
            const TensorId value = linear(x, names.value, width, shared, m_config.qkvBias);
            return m_b.add("Concat", {query, key, value}, {{"axis", std::int64_t{-1}}}, "qkv");
        }
        const TensorId packed = linear(x, names.packed, width, width + 2 * shared, m_config.qkvBias);
        return m_config.projections == Projections::Grouped ? ungrouped(packed) : packed;
    }

    /// [N, T, key heads * (group + 2) * size] as [N, T, all queries, all keys, all values].
    TensorId ungrouped(TensorId packed)
    {
        const std::int64_t tokens = m_config.sizes.context;
        const std::int64_t shared = m_config.kvHeads;
        const std::int64_t group = m_config.sizes.heads / shared;
        const TensorId apart = m_b.reshaped(packed, {1, tokens, shared, group + 2, m_headSize}, "groups");
        const auto parts =
            m_b.builder().addMany("Split", {apart}, 3,
                                  {{"axis", std::int64_t{3}}, {"split", std::vector<std::int64_t>{group, 1, 1}}},
                                  "groups.parts");
        std::vector<TensorId> flat;
        for (std::size_t i = 0; i < parts.size(); ++i)
            flat.push_back(m_b.reshaped(parts[i], {1, tokens, shared * (i == 0 ? group : 1) * m_headSize},
                                        "groups.part" + std::to_string(i)));
        return m_b.add("Concat", flat, {{"axis", std::int64_t{-1}}}, "qkv");
    }

    TensorId attention(TensorId x)
    {
        const auto scope = m_b.scope("attention");
        const Attributes heads{{"heads", m_config.sizes.heads}, {"kv_heads", m_config.kvHeads}};
        TensorId packed = projections(x);
        if (m_config.ropeTheta > 0) {
            Attributes turns = heads;
            turns["theta"] = m_config.ropeTheta;
            if (!m_config.inverseFrequencies.empty())
                turns["inverse_frequencies"] = m_config.inverseFrequencies;
            packed = m_b.add("RotaryEmbedding", {packed}, std::move(turns), "rotary");
        }
        Attributes mixes = heads;
        mixes["causal"] = std::int64_t{1};
        const TensorId mixed = m_b.add("Attention", {packed}, std::move(mixes), "attention");
        const std::int64_t width = m_config.sizes.hidden;
        return linear(mixed, m_config.names.output, width, width, m_config.outputBias);
    }

    TensorId feedForward(TensorId x)
    {
        const auto scope = m_b.scope("mlp");
        const std::int64_t width = m_config.sizes.hidden;
        const std::int64_t inner = m_config.sizes.feedForward;
        const TensorId up = linear(x, m_config.names.up, width, inner, m_config.mlpBias);
        const TensorId active = m_b.activation(up, *m_config.sizes.activation, "act");
        return linear(active, m_config.names.down, inner, width, m_config.mlpBias);
    }

    TransformerBuilder &m_b;
    const ClassicDecoderConfig &m_config;
    std::string m_prefix;
    std::int64_t m_headSize;
};

Status checkClassic(const ClassicDecoderConfig &config)
{
    const TransformerConfig &sizes = config.sizes;
    if (const Status fits = checkSizes(sizes, config.kvHeads); !fits)
        return fits;
    const std::string model = "model '" + sizes.name + "': ";
    if (sizes.hidden % sizes.heads != 0)
        return badInput(model + "the hidden size " + std::to_string(sizes.hidden) + " is not a multiple of the "
                        + std::to_string(sizes.heads) + " heads");
    if (static_cast<std::int64_t>(config.inverseFrequencies.size()) > sizes.hidden / sizes.heads / 2)
        return badInput(model + "rotary positions have more frequencies than a head has pairs of elements");
    if (config.ropeTheta > 0 && sizes.hidden / sizes.heads % 2 != 0)
        return badInput(model + "rotary positions need an even head size");
    if (sizes.positions > 0 && sizes.positions < sizes.context + config.firstPosition)
        return badInput(model + "samples of " + std::to_string(sizes.context) + " tokens need as many positions");
    return {};
}

/// Tokens, with their positions where a table has them.
TensorId embedded(TransformerBuilder &b, const ClassicDecoderConfig &config, TensorId table)
{
    const TransformerConfig &sizes = config.sizes;
    const auto scope = b.scope("embedding");
    TensorId x = b.add("Gather", {table, b.tokens}, {}, "tokens");
    if (config.tokenWidth > 0)
        x = b.linear(x, config.names.projectIn, config.tokenWidth, sizes.hidden, false, "project_in");
    if (sizes.positions == 0)
        return x;
    return b.add("Add",
                 {x,
                  b.rows(config.names.positions + ".weight", sizes.positions, "position_ids", true, "positions",
                         config.firstPosition)},
                 {}, "with_positions");
}

} // namespace

Result<Graph> classicDecoder(const ClassicDecoderConfig &config)
{
    if (const Status fits = checkClassic(config); !fits)
        return fits.error();
    const TransformerConfig &sizes = config.sizes;
    TransformerBuilder b(sizes);
    const std::int64_t tokenWidth = config.tokenWidth > 0 ? config.tokenWidth : sizes.hidden;
    const TensorId table = b.matrix(config.names.tokens + ".weight", sizes.vocabulary, tokenWidth, sizes.initDeviation);
    TensorId x = embedded(b, config, table);
    for (std::int64_t i = 0; i < sizes.layers; ++i) {
        const auto scope = b.scope("layers/" + std::to_string(i));
        x = ClassicLayer(b, config, i)(x);
    }
    const auto head = b.scope("head");
    if (!config.names.norm.empty())
        x = b.layerNorm(x, config.names.norm, *sizes.epsilon, "norm");
    if (config.tokenWidth > 0)
        x = b.linear(x, config.names.projectOut, sizes.hidden, tokenWidth, false, "project_out");
    const TensorId headTable = sizes.tiedEmbeddings
        ? table
        : b.matrix(config.names.head + ".weight", sizes.vocabulary, tokenWidth, sizes.initDeviation);
    return b.finish(x, headTable,
                    config.headBias
                        ? b.builder().parameter(config.names.head + ".bias", Shape::of({sizes.vocabulary}), zeros())
                        : TensorId{});
}

} // namespace planloom::graph
