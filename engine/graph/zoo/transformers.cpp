// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"

#include <array>
#include <cmath>
#include <numeric>

namespace planloom::graph {
namespace {

Initializer zeros() { return {Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0}; }

Initializer ones() { return {Initializer::Kind::Ones, 0, 0, nullptr, {}, 0}; }

Status check(const TransformerConfig &config, std::int64_t kvHeads)
{
    constexpr std::int64_t kMost = 1 << 24;
    for (const std::int64_t size :
         {config.layers, config.heads, config.hidden, config.feedForward, config.vocabulary, config.context, kvHeads})
        if (size < 1 || size > kMost)
            return badInput("model '" + config.name
                            + "': layers, heads, sizes, vocabulary and context must lie between 1 and "
                            + std::to_string(kMost));
    if (config.layers > 10'000)
        return badInput("model '" + config.name + "': more than 10000 layers");
    if (config.hidden % config.heads != 0)
        return badInput("model '" + config.name + "': the hidden size " + std::to_string(config.hidden)
                        + " is not a multiple of the " + std::to_string(config.heads) + " heads");
    if (config.heads % kvHeads != 0)
        return badInput("model '" + config.name + "': " + std::to_string(config.heads) + " heads are not a multiple of "
                        + std::to_string(kvHeads) + " key-value heads");
    return {};
}

/// Shared by the three architectures: scopes that pop by themselves, linear layers, normalisations, the head.
class TransformerBuilder {
public:
    explicit TransformerBuilder(const TransformerConfig &config) : m_config(config), m_builder(config.name)
    {
        tokens = m_builder.input("tokens", DType::I64, Shape::batched({config.context}));
        labels = m_builder.input("labels", DType::I64, Shape::batched({config.context}));
    }

    class Scope {
    public:
        Scope(GraphBuilder &builder, const std::string &name) : m_builder(builder) { builder.pushScope(name); }
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;
        ~Scope() { m_builder.popScope(); }

    private:
        GraphBuilder &m_builder;
    };

    [[nodiscard]] Scope scope(const std::string &name) { return {m_builder, name}; }
    GraphBuilder &builder() { return m_builder; }
    TensorId add(const std::string &type, std::vector<TensorId> inputs, Attributes attributes = {},
                 std::string name = {})
    {
        return m_builder.add(type, std::move(inputs), std::move(attributes), std::move(name));
    }

    TensorId matrix(const std::string &name, std::int64_t rows, std::int64_t columns, double deviation)
    {
        return m_builder.parameter(name, Shape::of({rows, columns}), normal(deviation));
    }

    /// The rows of a table for 0 ... context - 1, or for as many zeros: [T, hidden], the same for every sample.
    TensorId rows(const std::string &parameter, std::int64_t count, const std::string &constant, bool ascending,
                  const std::string &name)
    {
        std::vector<std::int64_t> ids(static_cast<std::size_t>(m_config.context), 0);
        if (ascending)
            std::iota(ids.begin(), ids.end(), 0);
        const TensorId table = matrix(parameter, count, m_config.hidden, m_config.initDeviation);
        return add("Gather", {table, m_builder.constantInts(constant, ids)}, {}, name);
    }

    /// x W + b with W stored (in, out), as GPT-2's Conv1D does.
    TensorId conv1d(TensorId x, const std::string &parameter, std::int64_t in, std::int64_t out, double deviation,
                    const std::string &name)
    {
        const TensorId product = add("MatMul", {x, matrix(parameter + ".weight", in, out, deviation)}, {}, name);
        return bias(product, parameter, out, name);
    }

    /// x W^T (+ b) with W stored (out, in), as torch's Linear does.
    TensorId linear(TensorId x, const std::string &parameter, std::int64_t in, std::int64_t out, bool withBias,
                    const std::string &name)
    {
        const TensorId weight = matrix(parameter + ".weight", out, in, m_config.initDeviation);
        const TensorId product = add("MatMul", {x, weight}, {{"transB", std::int64_t{1}}}, name);
        return withBias ? bias(product, parameter, out, name) : product;
    }

    TensorId layerNorm(TensorId x, const std::string &parameter, double epsilon, const std::string &name)
    {
        const TensorId scale = m_builder.parameter(parameter + ".weight", Shape::of({m_config.hidden}), ones());
        const TensorId shift = m_builder.parameter(parameter + ".bias", Shape::of({m_config.hidden}), zeros());
        return add("LayerNormalization", {x, scale, shift}, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}}, name);
    }

    TensorId rmsNorm(TensorId x, const std::string &parameter, double epsilon, const std::string &name)
    {
        const TensorId scale = m_builder.parameter(parameter + ".weight", Shape::of({m_config.hidden}), ones());
        return add("RMSNormalization", {x, scale}, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}}, name);
    }

    /// Q, K and V projections stored apart, packed as Attention wants them.
    TensorId packedProjections(TensorId x, const std::string &parameter, const std::array<const char *, 3> &names,
                               std::int64_t kvWidth, bool withBias)
    {
        std::vector<TensorId> parts;
        for (std::size_t i = 0; i < names.size(); ++i)
            parts.push_back(linear(x, parameter + "." + names[i], m_config.hidden, i == 0 ? m_config.hidden : kvWidth,
                                   withBias, names[i]));
        return add("Concat", parts, {{"axis", std::int64_t{-1}}}, "qkv");
    }

    /// [N, T, C] -> [N*T, C]: before the product with the vocabulary, where a copy is small.
    TensorId asRows(TensorId x)
    {
        return add("Reshape", {x},
                   {{"shape", std::vector<std::int64_t>{m_config.context, m_config.hidden}},
                    {"batch_axis", std::int64_t{0}}},
                   "rows");
    }

    /// Mean cross-entropy of rows x table^T (+ bias) against the labels.
    Result<Graph> finish(TensorId x, TensorId table, TensorId outputBias)
    {
        TensorId logits = add("MatMul", {asRows(x), table}, {{"transB", std::int64_t{1}}}, "logits");
        if (outputBias.valid())
            logits = add("Add", {logits, outputBias}, {}, "logits.bias");
        const TensorId targets =
            add("Reshape", {labels},
                {{"shape", std::vector<std::int64_t>{m_config.context}}, {"batch_axis", std::int64_t{0}}}, "targets");
        const TensorId loss =
            add("SoftmaxCrossEntropyLoss", {logits, targets}, {{"ignore_index", std::int64_t{-100}}}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
        return std::move(m_builder).build();
    }

    TensorId tokens;
    TensorId labels;

private:
    TensorId bias(TensorId x, const std::string &parameter, std::int64_t size, const std::string &name)
    {
        const TensorId term = m_builder.parameter(parameter + ".bias", Shape::of({size}), zeros());
        return add("Add", {x, term}, {}, name + ".bias");
    }

    const TransformerConfig &m_config;
    GraphBuilder m_builder;
};

TensorId dropped(TransformerBuilder &b, const TransformerConfig &config, TensorId x)
{
    return config.unfusedDropout > 0 ? b.add("MaskedDropout", {x}, {{"ratio", config.unfusedDropout}}, "dropout") : x;
}

/// One pre-norm block of GPT-2. Projections into the residual stream start smaller, so that its variance does not grow
/// with depth.
TensorId gptBlock(TransformerBuilder &b, const TransformerConfig &config, std::int64_t index, TensorId x)
{
    constexpr double kEpsilon = 1e-5;
    const std::string prefix = "transformer.h." + std::to_string(index);
    const std::int64_t width = config.hidden;
    const double residual = config.initDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
    const auto block = b.scope("h/" + std::to_string(index));
    const TensorId first = b.layerNorm(x, prefix + ".ln_1", kEpsilon, "ln_1");
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
    const TensorId second = b.layerNorm(x, prefix + ".ln_2", kEpsilon, "ln_2");
    const auto mlpScope = b.scope("mlp");
    const TensorId wide =
        b.conv1d(second, prefix + ".mlp.c_fc", width, config.feedForward, config.initDeviation, "c_fc");
    const TensorId active = b.add("Gelu", {wide}, {{"approximate", std::string("tanh")}}, "gelu");
    const TensorId projected = b.conv1d(active, prefix + ".mlp.c_proj", config.feedForward, width, residual, "c_proj");
    return b.add("Add", {x, dropped(b, config, projected)}, {}, "residual");
}

/// One post-norm encoder layer of BERT.
TensorId bertLayer(TransformerBuilder &b, const TransformerConfig &config, std::int64_t index, TensorId x)
{
    constexpr double kEpsilon = 1e-12;
    const std::string prefix = "bert.encoder.layer." + std::to_string(index);
    const std::int64_t width = config.hidden;
    const auto layer = b.scope("encoder/layer/" + std::to_string(index));
    {
        const auto attention = b.scope("attention");
        const TensorId packed =
            b.packedProjections(x, prefix + ".attention.self", {"query", "key", "value"}, width, true);
        const TensorId mixed =
            b.add("Attention", {packed}, {{"heads", config.heads}, {"causal", std::int64_t{0}}}, "self");
        const TensorId projected = b.linear(mixed, prefix + ".attention.output.dense", width, width, true, "dense");
        x = b.layerNorm(b.add("Add", {projected, x}, {}, "residual"), prefix + ".attention.output.LayerNorm", kEpsilon,
                        "LayerNorm");
    }
    const TensorId wide = b.linear(x, prefix + ".intermediate.dense", width, config.feedForward, true, "intermediate");
    const TensorId active = b.add("Gelu", {wide}, {{"approximate", std::string("none")}}, "gelu");
    const TensorId projected = b.linear(active, prefix + ".output.dense", config.feedForward, width, true, "output");
    return b.layerNorm(b.add("Add", {projected, x}, {}, "residual"), prefix + ".output.LayerNorm", kEpsilon,
                       "LayerNorm");
}

struct Rotary {
    std::int64_t kvHeads;
    double theta;
    double epsilon;
};

/// One block of LLaMA.
TensorId llamaBlock(TransformerBuilder &b, const TransformerConfig &config, const Rotary &rotary, std::int64_t index,
                    TensorId x)
{
    const std::string prefix = "model.layers." + std::to_string(index);
    const std::int64_t width = config.hidden;
    const auto block = b.scope("layers/" + std::to_string(index));
    const TensorId first = b.rmsNorm(x, prefix + ".input_layernorm", rotary.epsilon, "input_layernorm");
    {
        const auto attention = b.scope("self_attn");
        const std::int64_t kvWidth = width / config.heads * rotary.kvHeads;
        const TensorId packed =
            b.packedProjections(first, prefix + ".self_attn", {"q_proj", "k_proj", "v_proj"}, kvWidth, false);
        const TensorId turned =
            b.add("RotaryEmbedding", {packed},
                  {{"heads", config.heads}, {"kv_heads", rotary.kvHeads}, {"theta", rotary.theta}}, "rotary");
        const TensorId mixed =
            b.add("Attention", {turned},
                  {{"heads", config.heads}, {"kv_heads", rotary.kvHeads}, {"causal", std::int64_t{1}}}, "attention");
        const TensorId projected = b.linear(mixed, prefix + ".self_attn.o_proj", width, width, false, "o_proj");
        x = b.add("Add", {x, projected}, {}, "residual");
    }
    const TensorId second =
        b.rmsNorm(x, prefix + ".post_attention_layernorm", rotary.epsilon, "post_attention_layernorm");
    const auto mlpScope = b.scope("mlp");
    const TensorId gate = b.linear(second, prefix + ".mlp.gate_proj", width, config.feedForward, false, "gate_proj");
    const TensorId up = b.linear(second, prefix + ".mlp.up_proj", width, config.feedForward, false, "up_proj");
    const TensorId active = b.add("Mul", {b.add("Silu", {gate}, {}, "act_fn"), up}, {}, "gated");
    const TensorId projected =
        b.linear(active, prefix + ".mlp.down_proj", config.feedForward, width, false, "down_proj");
    return b.add("Add", {x, projected}, {}, "residual");
}

} // namespace

Result<Graph> gpt(const TransformerConfig &config)
{
    if (const Status fits = check(config, config.heads); !fits)
        return fits.error();
    TransformerBuilder b(config);
    const TensorId table = b.matrix("transformer.wte.weight", config.vocabulary, config.hidden, config.initDeviation);
    TensorId x;
    {
        const auto embedding = b.scope("embedding");
        const TensorId words = b.add("Gather", {table, b.tokens}, {}, "wte");
        const TensorId places = b.rows("transformer.wpe.weight", config.context, "position_ids", true, "wpe");
        x = dropped(b, config, b.add("Add", {words, places}, {}, "embeddings"));
    }
    for (std::int64_t i = 0; i < config.layers; ++i)
        x = gptBlock(b, config, i, x);
    const auto head = b.scope("head");
    x = b.layerNorm(x, "transformer.ln_f", 1e-5, "ln_f");
    const TensorId headTable = config.tiedEmbeddings
        ? table
        : b.matrix("lm_head.weight", config.vocabulary, config.hidden, config.initDeviation);
    return b.finish(x, headTable, {});
}

Result<Graph> bert(const TransformerConfig &config)
{
    if (const Status fits = check(config, config.heads); !fits)
        return fits.error();
    TransformerBuilder b(config);
    const std::string prefix = "bert.embeddings.";
    const TensorId table =
        b.matrix(prefix + "word_embeddings.weight", config.vocabulary, config.hidden, config.initDeviation);
    TensorId x;
    {
        const auto embeddings = b.scope("embeddings");
        constexpr std::int64_t kTokenTypes = 2;
        x = b.add("Gather", {table, b.tokens}, {}, "word_embeddings");
        x = b.add("Add",
                  {x,
                   b.rows(prefix + "position_embeddings.weight", config.context, "position_ids", true,
                          "position_embeddings")},
                  {}, "with_positions");
        x = b.add("Add",
                  {x,
                   b.rows(prefix + "token_type_embeddings.weight", kTokenTypes, "token_type_ids", false,
                          "token_type_embeddings")},
                  {}, "with_types");
        x = b.layerNorm(x, prefix + "LayerNorm", 1e-12, "LayerNorm");
    }
    for (std::int64_t i = 0; i < config.layers; ++i)
        x = bertLayer(b, config, i, x);
    const auto head = b.scope("cls");
    x = b.linear(x, "cls.predictions.transform.dense", config.hidden, config.hidden, true, "transform");
    x = b.add("Gelu", {x}, {{"approximate", std::string("none")}}, "gelu");
    x = b.layerNorm(x, "cls.predictions.transform.LayerNorm", 1e-12, "LayerNorm");
    const TensorId headTable = config.tiedEmbeddings
        ? table
        : b.matrix("cls.predictions.decoder.weight", config.vocabulary, config.hidden, config.initDeviation);
    return b.finish(x, headTable,
                    b.builder().parameter("cls.predictions.bias", Shape::of({config.vocabulary}), zeros()));
}

Result<Graph> llama(const TransformerConfig &config, std::int64_t kvHeads, double ropeTheta, double epsilon)
{
    if (const Status fits = check(config, kvHeads); !fits)
        return fits.error();
    if (config.hidden / config.heads % 2 != 0)
        return badInput("model '" + config.name + "': rotary positions need an even head size");
    TransformerBuilder b(config);
    const TensorId table =
        b.matrix("model.embed_tokens.weight", config.vocabulary, config.hidden, config.initDeviation);
    TensorId x;
    {
        const auto embedding = b.scope("embedding");
        x = b.add("Gather", {table, b.tokens}, {}, "embed_tokens");
    }
    for (std::int64_t i = 0; i < config.layers; ++i)
        x = llamaBlock(b, config, {kvHeads, ropeTheta, epsilon}, i, x);
    const auto head = b.scope("head");
    x = b.rmsNorm(x, "model.norm", epsilon, "norm");
    const TensorId headTable = config.tiedEmbeddings
        ? table
        : b.matrix("lm_head.weight", config.vocabulary, config.hidden, config.initDeviation);
    return b.finish(x, headTable, {});
}

} // namespace planloom::graph
