// SPDX-License-Identifier: Apache-2.0
// LLaMA and its descendants: rotary positions, gated feed-forward networks.
#include "engine/graph/zoo/transformer_builder.h"

#include <cmath>

namespace planloom::graph {
namespace {

/// The configuration with what it leaves to be derived.
struct Decoder {
    const DecoderConfig &config;
    std::int64_t headSize;
    TensorId ones; ///< LayerWithoutWeights: the scale of every normalisation

    [[nodiscard]] std::int64_t queryWidth() const { return config.sizes.heads * headSize; }
    [[nodiscard]] std::int64_t kvWidth() const { return config.kvHeads * headSize; }
};

TensorId norm(TransformerBuilder &b, const Decoder &d, TensorId x, const std::string &parameter, std::int64_t size,
              const std::string &name)
{
    const Attributes how{{"axis", std::int64_t{-1}}, {"epsilon", d.config.epsilon}};
    if (d.config.norm == DecoderConfig::Norm::LayerWithoutWeights)
        return b.add("LayerNormalization", {x, d.ones}, how, name);
    const bool plusOne = d.config.norm == DecoderConfig::Norm::RmsPlusOne;
    TensorId scale = b.builder().parameter(parameter + ".weight", Shape::of({size}), plusOne ? zeros() : ones());
    if (d.config.norm == DecoderConfig::Norm::Layer)
        return b.add("LayerNormalization",
                     {x, scale, b.builder().parameter(parameter + ".bias", Shape::of({size}), zeros())}, how, name);
    if (plusOne)
        scale = b.add("Add", {scale, b.builder().constantFloats(parameter + ".one", {1}, 1)}, {}, name + ".scale");
    return b.add("RMSNormalization", {x, scale}, how, name);
}

/// Each head normalised by itself: [N, T, heads * size] as [N, T, heads, size] and back.
TensorId headNorm(TransformerBuilder &b, const Decoder &d, TensorId x, const std::string &parameter, std::int64_t heads,
                  const std::string &name)
{
    const auto reshaped = [&](TensorId id, std::vector<std::int64_t> shape, const std::string &as) {
        return b.add("Reshape", {id}, {{"shape", std::move(shape)}, {"batch_axis", std::int64_t{0}}}, as);
    };
    const std::int64_t tokens = d.config.sizes.context;
    const TensorId apart = reshaped(x, {1, tokens, heads, d.headSize}, name + ".heads");
    return reshaped(norm(b, d, apart, parameter, d.headSize, name), {1, tokens, heads * d.headSize}, name + ".packed");
}

/// Query, key and value as Attention wants them.
TensorId projections(TransformerBuilder &b, const Decoder &d, TensorId x, const std::string &prefix)
{
    const DecoderConfig &config = d.config;
    const std::int64_t width = config.sizes.hidden;
    if (config.fusedProjections)
        return b.linear(x, prefix + ".qkv_proj", width, d.queryWidth() + 2 * d.kvWidth(), config.qkvBias, "qkv_proj");
    TensorId query = b.linear(x, prefix + ".q_proj", width, d.queryWidth(), config.qkvBias, "q_proj");
    TensorId key = b.linear(x, prefix + ".k_proj", width, d.kvWidth(), config.qkvBias, "k_proj");
    const TensorId value = b.linear(x, prefix + ".v_proj", width, d.kvWidth(), config.qkvBias, "v_proj");
    switch (config.queryNorm) {
    case DecoderConfig::QueryNorm::None: break;
    case DecoderConfig::QueryNorm::EachHead:
        query = headNorm(b, d, query, prefix + ".q_norm", config.sizes.heads, "q_norm");
        key = headNorm(b, d, key, prefix + ".k_norm", config.kvHeads, "k_norm");
        break;
    case DecoderConfig::QueryNorm::Whole:
        query = norm(b, d, query, prefix + ".q_norm", d.queryWidth(), "q_norm");
        key = norm(b, d, key, prefix + ".k_norm", d.kvWidth(), "k_norm");
        break;
    }
    // Attention divides by the square root of a head's size; cappedAttention() has the factor.
    if (config.attentionScale > 0 && config.scoreCap == 0)
        query = b.scaled(query, config.attentionScale * std::sqrt(static_cast<double>(d.headSize)),
                         prefix + ".query_scale", "query.scaled");
    return b.add("Concat", {query, key, value}, {{"axis", std::int64_t{-1}}}, "qkv");
}

/// Causal attention over @p packed query, key and value of which the scores are capped by tanh, in pieces: all T x T
/// scores of a head are kept, as transformers does it ("eager").
TensorId cappedAttention(TransformerBuilder &b, const Decoder &d, TensorId packed, const std::string &prefix)
{
    const DecoderConfig &config = d.config;
    const std::int64_t tokens = config.sizes.context;
    const std::int64_t shared = config.kvHeads;
    const std::int64_t group = config.sizes.heads / shared; // heads that share a key
    const std::int64_t size = d.headSize;
    using Sizes = std::vector<std::int64_t>;
    const auto moved = [&](TensorId x, Sizes shape, Sizes order, const std::string &name) {
        return b.add("Transpose", {b.reshaped(x, std::move(shape), name + ".heads")}, {{"perm", std::move(order)}},
                     name + ".by_head");
    };
    const auto parts =
        b.builder().addMany("Split", {packed}, 3,
                            {{"axis", std::int64_t{-1}}, {"split", Sizes{d.queryWidth(), d.kvWidth(), d.kvWidth()}}},
                            "qkv_parts");
    const TensorId query = b.reshaped(moved(parts[0], {1, tokens, shared, group, size}, {0, 2, 3, 1, 4}, "query"),
                                      {1, shared, group * tokens, size}, "query.rows");
    const TensorId key = moved(parts[1], {1, tokens, shared, size}, {0, 2, 1, 3}, "key");
    const TensorId value = moved(parts[2], {1, tokens, shared, size}, {0, 2, 1, 3}, "value");
    const double scale = config.attentionScale > 0 ? config.attentionScale : 1 / std::sqrt(static_cast<double>(size));
    TensorId scores = b.add("MatMul", {query, key}, {{"transB", std::int64_t{1}}}, "scores");
    scores = b.softCapped(scores, config.scoreCap, scale, prefix + ".score_cap", "scores");
    constexpr double kHidden = -1e9; // no probability is left of it
    const TensorId hidden =
        b.add("ConstantOfShape", {}, {{"shape", Sizes{tokens, tokens}}, {"value", kHidden}}, "hidden");
    const TensorId mask = b.add("Trilu", {hidden}, {{"upper", std::int64_t{1}}, {"k", std::int64_t{1}}}, "mask");
    scores = b.add("Add", {b.reshaped(scores, {1, shared, group, tokens, tokens}, "scores.apart"), mask}, {}, "causal");
    const TensorId shares = b.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}, "probabilities");
    const TensorId mixed =
        b.add("MatMul", {b.reshaped(shares, {1, shared, group * tokens, tokens}, "probabilities.rows"), value}, {},
              "mixed");
    return b.reshaped(moved(mixed, {1, shared, group, tokens, size}, {0, 3, 1, 2, 4}, "mixed"),
                      {1, tokens, d.queryWidth()}, "attention");
}

/// @p x: the residual stream; @p normed: what attention reads.
TensorId attention(TransformerBuilder &b, const Decoder &d, std::int64_t index, TensorId x, TensorId normed,
                   const std::string &layer)
{
    const DecoderConfig &config = d.config;
    const std::string prefix = layer + ".self_attn";
    const auto scope = b.scope("self_attn");
    const Attributes heads{{"heads", config.sizes.heads}, {"kv_heads", config.kvHeads}};
    const bool local = !config.localLayers.empty() && config.localLayers[static_cast<std::size_t>(index)];
    Attributes turns = heads;
    turns["theta"] = local ? config.localTheta : config.ropeTheta;
    if (!config.inverseFrequencies.empty() && !local)
        turns["inverse_frequencies"] = config.inverseFrequencies;
    Attributes mixes = heads;
    mixes["causal"] = std::int64_t{1};
    const TensorId turned = b.add("RotaryEmbedding", {projections(b, d, normed, prefix)}, std::move(turns), "rotary");
    const TensorId mixed = config.scoreCap > 0 ? cappedAttention(b, d, turned, prefix)
                                               : b.add("Attention", {turned}, std::move(mixes), "attention");
    TensorId projected =
        b.linear(mixed, prefix + ".o_proj", d.queryWidth(), config.sizes.hidden, config.outputBias, "o_proj");
    if (config.normed != DecoderConfig::Normed::Before)
        projected =
            norm(b, d, projected, layer + ".post_attention_layernorm", config.sizes.hidden, "post_attention_layernorm");
    return b.add("Add", {x, b.scaled(projected, config.residualScale, prefix + ".residual_scale", "scaled")}, {},
                 "residual");
}

TensorId feedForward(TransformerBuilder &b, const DecoderConfig &config, TensorId x, const std::string &prefix)
{
    const std::int64_t width = config.sizes.hidden;
    const std::int64_t inner = config.sizes.feedForward;
    TensorId gate;
    TensorId up;
    if (config.fusedProjections) {
        const TensorId both = b.linear(x, prefix + ".gate_up_proj", width, 2 * inner, config.mlpBias, "gate_up_proj");
        const auto halves =
            b.builder().addMany("Split", {both}, 2,
                                {{"axis", std::int64_t{-1}}, {"split", std::vector<std::int64_t>{inner, inner}}},
                                "gate_up");
        gate = halves[0];
        up = halves[1];
    } else {
        gate = b.linear(x, prefix + ".gate_proj", width, inner, config.mlpBias, "gate_proj");
        up = b.linear(x, prefix + ".up_proj", width, inner, config.mlpBias, "up_proj");
    }
    const TensorId active = b.add("Mul", {b.activation(gate, config.activation, "act_fn"), up}, {}, "gated");
    return b.linear(active, prefix + ".down_proj", inner, width, config.mlpBias, "down_proj");
}

TensorId block(TransformerBuilder &b, const Decoder &d, std::int64_t index, TensorId x)
{
    const DecoderConfig &config = d.config;
    const std::string prefix = "model.layers." + std::to_string(index);
    const std::int64_t width = config.sizes.hidden;
    const auto scope = b.scope("layers/" + std::to_string(index));
    const bool before = config.normed != DecoderConfig::Normed::Behind;
    const bool behind = config.normed != DecoderConfig::Normed::Before;
    const auto normed = [&](TensorId id, const std::string &name) {
        return norm(b, d, id, prefix + "." + name, width, name);
    };
    const TensorId first = before ? normed(x, "input_layernorm") : x;
    x = attention(b, d, index, x, first, prefix);
    TensorId second = config.parallel ? first : x;
    if (before && !config.parallel)
        second = normed(x, behind ? "pre_feedforward_layernorm" : "post_attention_layernorm");
    const auto mlp = b.scope("mlp");
    TensorId fed = feedForward(b, config, second, prefix + ".mlp");
    if (behind)
        fed = normed(fed, "post_feedforward_layernorm");
    return b.add("Add", {x, b.scaled(fed, config.residualScale, prefix + ".mlp.residual_scale", "scaled")}, {},
                 "residual");
}

Status check(const DecoderConfig &config, std::int64_t headSize)
{
    const TransformerConfig &sizes = config.sizes;
    if (const Status fits = checkSizes(sizes, config.kvHeads); !fits)
        return fits;
    const std::string model = "model '" + sizes.name + "': ";
    constexpr std::int64_t kMostHeadSize = 1 << 16;
    if (headSize < 1 || headSize > kMostHeadSize)
        return badInput(model + "a head's size must lie between 1 and " + std::to_string(kMostHeadSize) + ", not "
                        + std::to_string(headSize));
    if (config.headSize == 0 && sizes.hidden % sizes.heads != 0)
        return badInput(model + "the hidden size " + std::to_string(sizes.hidden) + " is not a multiple of the "
                        + std::to_string(sizes.heads) + " heads");
    if (headSize % 2 != 0)
        return badInput(model + "rotary positions need an even head size");
    if (static_cast<std::int64_t>(config.inverseFrequencies.size()) > headSize / 2)
        return badInput(model + "rotary positions have more frequencies than a head has pairs of elements");
    if (!config.localLayers.empty() && static_cast<std::int64_t>(config.localLayers.size()) != sizes.layers)
        return badInput(model + "each layer is local or not: " + std::to_string(sizes.layers) + " values are needed");
    return {};
}

} // namespace

Result<Graph> decoder(const DecoderConfig &config)
{
    const TransformerConfig &sizes = config.sizes;
    const std::int64_t headSize =
        config.headSize > 0 ? config.headSize : sizes.hidden / std::max<std::int64_t>(1, sizes.heads);
    if (const Status fits = check(config, headSize); !fits)
        return fits.error();
    TransformerBuilder b(sizes);
    Decoder d{config, headSize, {}};
    if (config.norm == DecoderConfig::Norm::LayerWithoutWeights)
        d.ones = b.builder().constantFloats("norm_scale", {sizes.hidden}, 1);
    const TensorId table = b.matrix("model.embed_tokens.weight", sizes.vocabulary, sizes.hidden, sizes.initDeviation);
    TensorId x;
    {
        const auto embedding = b.scope("embedding");
        x = b.scaled(b.add("Gather", {table, b.tokens}, {}, "embed_tokens"), config.embeddingScale, "embedding_scale",
                     "scaled");
    }
    for (std::int64_t i = 0; i < sizes.layers; ++i)
        x = block(b, d, i, x);
    const auto head = b.scope("head");
    x = norm(b, d, x, "model.norm", sizes.hidden, "norm");
    const TensorId headTable =
        sizes.tiedEmbeddings ? table : b.matrix("lm_head.weight", sizes.vocabulary, sizes.hidden, sizes.initDeviation);
    return b.finish(x, headTable, {}, config.logitScale, config.logitCap);
}

Result<Graph> llama(const TransformerConfig &config, std::int64_t kvHeads, double ropeTheta, double epsilon)
{
    return decoder({.sizes = config, .kvHeads = kvHeads, .ropeTheta = ropeTheta, .epsilon = epsilon});
}

} // namespace planloom::graph
