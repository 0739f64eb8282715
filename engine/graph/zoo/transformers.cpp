// SPDX-License-Identifier: Apache-2.0
// GPT-2 and BERT.
#include "engine/graph/zoo/transformer_builder.h"

#include <cmath>

namespace planloom::graph {

Status checkSizes(const TransformerConfig &config, std::int64_t kvHeads)
{
    constexpr std::int64_t kMost = 1 << 24;
    for (const std::int64_t size : {config.layers, config.heads, config.hidden, config.feedForward, config.vocabulary,
                                    config.context, config.tokenTypes, kvHeads})
        if (size < 1 || size > kMost)
            return badInput("model '" + config.name
                            + "': layers, heads, sizes, vocabulary and context must lie between 1 and "
                            + std::to_string(kMost));
    if (config.layers > 10'000)
        return badInput("model '" + config.name + "': more than 10000 layers");
    if (config.heads % kvHeads != 0)
        return badInput("model '" + config.name + "': " + std::to_string(config.heads) + " heads are not a multiple of "
                        + std::to_string(kvHeads) + " key-value heads");
    return {};
}

namespace {

TensorId dropped(TransformerBuilder &b, const TransformerConfig &config, TensorId x)
{
    return config.unfusedDropout > 0 ? b.add("MaskedDropout", {x}, {{"ratio", config.unfusedDropout}}, "dropout") : x;
}

constexpr double kGptEpsilon = 1e-5;
constexpr double kBertEpsilon = 1e-12;

/// One pre-norm block of GPT-2. Projections into the residual stream start smaller, so that its variance does not grow
/// with depth.
TensorId gptBlock(TransformerBuilder &b, const TransformerConfig &config, std::int64_t index, TensorId x)
{
    const double epsilon = config.epsilon.value_or(kGptEpsilon);
    const std::string prefix = "transformer.h." + std::to_string(index);
    const std::int64_t width = config.hidden;
    const double residual = config.initDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
    const auto block = b.scope("h/" + std::to_string(index));
    const TensorId first = b.layerNorm(x, prefix + ".ln_1", epsilon, "ln_1");
    {
        const auto attention = b.scope("attn");
        const TensorId packed =
            b.conv1d(first, prefix + ".attn.c_attn", width, 3 * width, config.initDeviation, "c_attn");
        Attributes how{{"heads", config.heads}, {"causal", std::int64_t{1}}};
        if (config.unfusedDropout > 0)
            how["ratio"] = config.unfusedDropout;
        const TensorId mixed =
            b.add(config.unfusedDropout > 0 ? "UnfusedAttention" : "Attention", {packed}, std::move(how), "attention");
        const TensorId projected = b.conv1d(mixed, prefix + ".attn.c_proj", width, width, residual, "c_proj");
        x = b.add("Add", {x, dropped(b, config, projected)}, {}, "residual");
    }
    const TensorId second = b.layerNorm(x, prefix + ".ln_2", epsilon, "ln_2");
    const auto mlpScope = b.scope("mlp");
    const TensorId wide =
        b.conv1d(second, prefix + ".mlp.c_fc", width, config.feedForward, config.initDeviation, "c_fc");
    const TensorId active = b.activation(wide, config.activation.value_or(Activation::GeluTanh), "gelu");
    const TensorId projected = b.conv1d(active, prefix + ".mlp.c_proj", config.feedForward, width, residual, "c_proj");
    return b.add("Add", {x, dropped(b, config, projected)}, {}, "residual");
}

/// One post-norm encoder layer of BERT.
TensorId bertLayer(TransformerBuilder &b, const TransformerConfig &config, std::int64_t index, TensorId x)
{
    const double epsilon = config.epsilon.value_or(kBertEpsilon);
    const std::string prefix = "bert.encoder.layer." + std::to_string(index);
    const std::int64_t width = config.hidden;
    const auto layer = b.scope("encoder/layer/" + std::to_string(index));
    {
        const auto attention = b.scope("attention");
        const TensorId packed = b.packedProjections(x, prefix + ".attention.self", {"query", "key", "value"});
        const TensorId mixed =
            b.add("Attention", {packed}, {{"heads", config.heads}, {"causal", std::int64_t{0}}}, "self");
        const TensorId projected = b.linear(mixed, prefix + ".attention.output.dense", width, width, true, "dense");
        x = b.layerNorm(b.add("Add", {projected, x}, {}, "residual"), prefix + ".attention.output.LayerNorm", epsilon,
                        "LayerNorm");
    }
    const TensorId wide = b.linear(x, prefix + ".intermediate.dense", width, config.feedForward, true, "intermediate");
    const TensorId active = b.activation(wide, config.activation.value_or(Activation::Gelu), "gelu");
    const TensorId projected = b.linear(active, prefix + ".output.dense", config.feedForward, width, true, "output");
    return b.layerNorm(b.add("Add", {projected, x}, {}, "residual"), prefix + ".output.LayerNorm", epsilon,
                       "LayerNorm");
}

std::int64_t positionRows(const TransformerConfig &config)
{
    return config.positions > 0 ? config.positions : config.context;
}

/// Heads of equal size that fill the width, and as many positions as tokens at least.
Status checkDense(const TransformerConfig &config)
{
    if (const Status fits = checkSizes(config, config.heads); !fits)
        return fits;
    if (config.hidden % config.heads != 0)
        return badInput("model '" + config.name + "': the hidden size " + std::to_string(config.hidden)
                        + " is not a multiple of the " + std::to_string(config.heads) + " heads");
    if (positionRows(config) < config.context)
        return badInput("model '" + config.name + "': samples of " + std::to_string(config.context)
                        + " tokens need as many positions, not " + std::to_string(positionRows(config)));
    return {};
}

} // namespace

Result<Graph> gpt(const TransformerConfig &config)
{
    if (const Status fits = checkDense(config); !fits)
        return fits.error();
    TransformerBuilder b(config);
    const TensorId table = b.matrix("transformer.wte.weight", config.vocabulary, config.hidden, config.initDeviation);
    TensorId x;
    {
        const auto embedding = b.scope("embedding");
        const TensorId words = b.add("Gather", {table, b.tokens}, {}, "wte");
        const TensorId places = b.rows("transformer.wpe.weight", positionRows(config), "position_ids", true, "wpe");
        x = dropped(b, config, b.add("Add", {words, places}, {}, "embeddings"));
    }
    for (std::int64_t i = 0; i < config.layers; ++i)
        x = gptBlock(b, config, i, x);
    const auto head = b.scope("head");
    x = b.layerNorm(x, "transformer.ln_f", config.epsilon.value_or(kGptEpsilon), "ln_f");
    const TensorId headTable = config.tiedEmbeddings
        ? table
        : b.matrix("lm_head.weight", config.vocabulary, config.hidden, config.initDeviation);
    return b.finish(x, headTable, {});
}

Result<Graph> bert(const TransformerConfig &config)
{
    if (const Status fits = checkDense(config); !fits)
        return fits.error();
    TransformerBuilder b(config);
    const double epsilon = config.epsilon.value_or(kBertEpsilon);
    const std::string prefix = "bert.embeddings.";
    const TensorId table =
        b.matrix(prefix + "word_embeddings.weight", config.vocabulary, config.hidden, config.initDeviation);
    TensorId x;
    {
        const auto embeddings = b.scope("embeddings");
        x = b.add("Gather", {table, b.tokens}, {}, "word_embeddings");
        x = b.add("Add",
                  {x,
                   b.rows(prefix + "position_embeddings.weight", positionRows(config), "position_ids", true,
                          "position_embeddings")},
                  {}, "with_positions");
        x = b.add("Add",
                  {x,
                   b.rows(prefix + "token_type_embeddings.weight", config.tokenTypes, "token_type_ids", false,
                          "token_type_embeddings")},
                  {}, "with_types");
        x = b.layerNorm(x, prefix + "LayerNorm", epsilon, "LayerNorm");
    }
    for (std::int64_t i = 0; i < config.layers; ++i)
        x = bertLayer(b, config, i, x);
    const auto head = b.scope("cls");
    x = b.linear(x, "cls.predictions.transform.dense", config.hidden, config.hidden, true, "transform");
    x = b.activation(x, config.activation.value_or(Activation::Gelu), "gelu");
    x = b.layerNorm(x, "cls.predictions.transform.LayerNorm", epsilon, "LayerNorm");
    const TensorId headTable = config.tiedEmbeddings
        ? table
        : b.matrix("cls.predictions.decoder.weight", config.vocabulary, config.hidden, config.initDeviation);
    return b.finish(x, headTable,
                    b.builder().parameter("cls.predictions.bias", Shape::of({config.vocabulary}), zeros()));
}

} // namespace planloom::graph
