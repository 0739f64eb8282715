// SPDX-License-Identifier: Apache-2.0
// Families of LLaMA's kind.
#include "engine/import/model/huggingface_families.h"
#include "engine/import/model/huggingface_readers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace planloom::import::huggingface {
namespace {

using graph::DecoderConfig;
using graph::TransformerConfig;

// The tables. Values of fields that are left out are those of transformers' configuration classes.
/// Of all decoders of LLaMA's kind.
constexpr FieldRule kDecoder[] = {
    built("head_dim", "null"),
    built("hidden_act", R"("silu")"),
    built("hidden_size"),
    built("initializer_range", "0.02"),
    built("intermediate_size"),
    built("layer_types", "null"),
    built("num_attention_heads"),
    built("num_hidden_layers"),
    built("num_key_value_heads", "null"),
    built("rms_norm_eps", "1e-6"),
    built("rope_parameters", "null"),
    built("rope_scaling", "null"),
    built("rope_theta", "10000.0"),
    built("tie_word_embeddings", "false"),
    built("vocab_size"),
    only("partial_rotary_factor", "[1]"),
    leftOut("attention_dropout"),
    noEffect("is_decoder"),
};

constexpr FieldRule kLlama[] = {
    built("attention_bias", "false"),
    built("max_position_embeddings", "2048"),
    built("mlp_bias", "false"),
};

constexpr FieldRule kMistral[] = {
    built("max_position_embeddings", "131072"),
    built("num_key_value_heads", "8"),
    built("sliding_window", "4096"),
};

constexpr FieldRule kQwen2[] = {
    built("max_position_embeddings", "32768"),
    built("num_key_value_heads", "32"),
    built("sliding_window", "4096"),
    built("use_sliding_window", "false"),
    only("use_mrope", "[false]"),
    noEffect("max_window_layers"), // layers from it on have the window, and samples are not longer than that
};

constexpr FieldRule kQwen3[] = {
    built("attention_bias", "false"),   built("head_dim", "128"),        built("max_position_embeddings", "32768"),
    built("num_key_value_heads", "32"), built("sliding_window", "4096"), built("use_sliding_window", "false"),
    noEffect("max_window_layers"),
};

constexpr FieldRule kGemma[] = {
    built("attention_bias", "false"),
    built("head_dim", "256"),
    built("hidden_activation", R"("gelu_pytorch_tanh")"),
    built("max_position_embeddings", "8192"),
    built("num_key_value_heads", "16"),
    built("tie_word_embeddings", "true"),
    only("hidden_act", R"(["gelu_pytorch_tanh", "gelu"])", "name the activation in hidden_activation"),
    only("use_bidirectional_attention", "[false]"),
};

constexpr FieldRule kGemma2[] = {
    built("attention_bias", "false"),
    built("attn_logit_softcapping", "50.0"),
    built("final_logit_softcapping", "30.0"),
    built("head_dim", "256"),
    built("hidden_activation", R"("gelu_pytorch_tanh")"),
    built("max_position_embeddings", "8192"),
    built("num_key_value_heads", "4"),
    built("query_pre_attn_scalar", "256"),
    built("sliding_window", "4096"),
    built("tie_word_embeddings", "true"),
    only("hidden_act", R"(["gelu_pytorch_tanh", "gelu"])", "name the activation in hidden_activation"),
    only("use_bidirectional_attention", "[false]"),
    noEffect("cache_implementation"),
};

constexpr FieldRule kGemma3[] = {
    built("attention_bias", "false"),
    built("head_dim", "256"),
    built("hidden_activation", R"("gelu_pytorch_tanh")"),
    built("max_position_embeddings", "131072"),
    built("num_key_value_heads", "4"),
    built("query_pre_attn_scalar", "256"),
    built("rope_local_base_freq", "10000.0"),
    built("rope_theta", "1000000.0"),
    built("sliding_window", "4096"),
    built("sliding_window_pattern", "6"),
    built("tie_word_embeddings", "true"),
    only("attn_logit_softcapping", "[]"),
    only("final_logit_softcapping", "[]"),
    only("hidden_act", R"(["gelu_pytorch_tanh", "gelu"])", "name the activation in hidden_activation"),
    only("rope_parameters", "[]", "write rope_theta and rope_local_base_freq instead"),
    only("use_bidirectional_attention", "[false]"),
    noEffect("cache_implementation"),
};

constexpr FieldRule kPhi3[] = {
    built("max_position_embeddings", "4096"),
    built("partial_rotary_factor", "1.0"),
    built("rms_norm_eps", "1e-5"),
    built("sliding_window", "null"),
    only("attention_bias", "[false]"),
    leftOut("embd_pdrop"),
    leftOut("resid_pdrop"),
    noEffect("auto_map"),                         // the same model as code beside the file
    noEffect("original_max_position_embeddings"), // of rope_scaling, which is checked
};

constexpr FieldRule kOlmo[] = {
    built("attention_bias", "false"), built("max_position_embeddings", "2048"), only("clip_qkv", "[]"),
    noEffect("rms_norm_eps"), // its LayerNorm has an epsilon of its own
};

constexpr FieldRule kOlmo2[] = {
    built("attention_bias", "false"),
    built("max_position_embeddings", "2048"),
    built("rms_norm_eps", "1e-5"),
};

constexpr FieldRule kGranite[] = {
    built("attention_bias", "false"),    built("attention_multiplier", "1.0"),     built("embedding_multiplier", "1.0"),
    built("logits_scaling", "1.0"),      built("max_position_embeddings", "2048"), built("mlp_bias", "false"),
    built("residual_multiplier", "1.0"),
};

constexpr FieldRule kStableLm[] = {
    built("layer_norm_eps", "1e-5"),
    built("max_position_embeddings", "4096"),
    built("num_key_value_heads", "32"),
    built("partial_rotary_factor", "0.25"),
    built("use_parallel_residual", "false"),
    built("use_qkv_bias", "false"),
    only("head_dim", "[]"),
    only("layer_types", "[]"),
    only("qk_layernorm", "[false]"),
    leftOut("hidden_dropout"),
    noEffect("rms_norm_eps"), // its LayerNorm has layer_norm_eps
};

/// What all decoders of LLaMA's kind read alike.
DecoderConfig decoderConfig(ModelFields &fields, const char *name, std::optional<std::int64_t> window,
                            std::int64_t sequence, const RotationKeys &keys = {})
{
    DecoderConfig config;
    TransformerConfig &sizes = config.sizes;
    sizes.name = name;
    sizes.layers = fields.integer("num_hidden_layers", 1, kMostLayers);
    sizes.heads = width(fields, "num_attention_heads");
    sizes.hidden = width(fields, "hidden_size");
    sizes.feedForward = width(fields, "intermediate_size");
    sizes.vocabulary = width(fields, "vocab_size");
    sizes.context = decoderSequence(fields, window, sequence);
    sizes.tiedEmbeddings = fields.flag("tie_word_embeddings");
    sizes.initDeviation = fields.positive("initializer_range");
    config.kvHeads = fields.optionalInteger("num_key_value_heads", 1, kMostWidth).value_or(sizes.heads);
    config.headSize = fields.optionalInteger("head_dim", 1, kMostHeadSize).value_or(0);
    const std::int64_t headSize = config.headSize > 0 ? config.headSize : sizes.hidden / sizes.heads;
    const Rotation rotation = readRotation(fields, headSize, keys);
    config.ropeTheta = rotation.theta;
    config.inverseFrequencies = rotation.frequencies;
    return config;
}

void readBiases(ModelFields &fields, DecoderConfig &config)
{
    config.qkvBias = config.outputBias = fields.flag("attention_bias");
}

Result<graph::Graph> finish(ModelFields &fields, const DecoderConfig &config)
{
    if (fields.failed())
        return fields.failure({});
    return graph::decoder(config);
}

/// With RMSNorm and hidden_act.
DecoderConfig plainDecoder(ModelFields &fields, const char *name, std::optional<std::int64_t> window,
                           std::int64_t sequence, const RotationKeys &keys = {})
{
    DecoderConfig config = decoderConfig(fields, name, window, sequence, keys);
    config.epsilon = fields.positive("rms_norm_eps");
    config.activation = activation(fields, "hidden_act");
    return config;
}

Result<graph::Graph> llama(ModelFields &fields, std::int64_t sequence)
{
    DecoderConfig config = plainDecoder(fields, "llama", slidingWindow(fields, false), sequence);
    readBiases(fields, config);
    config.mlpBias = fields.flag("mlp_bias");
    return finish(fields, config);
}

Result<graph::Graph> mistral(ModelFields &fields, std::int64_t sequence)
{
    return finish(fields, plainDecoder(fields, "mistral", slidingWindow(fields, true), sequence));
}

Result<graph::Graph> qwen2(ModelFields &fields, std::int64_t sequence)
{
    const auto window = slidingWindow(fields, fields.flag("use_sliding_window"));
    DecoderConfig config = plainDecoder(fields, "qwen2", window, sequence);
    config.qkvBias = true;
    return finish(fields, config);
}

Result<graph::Graph> qwen3(ModelFields &fields, std::int64_t sequence)
{
    const auto window = slidingWindow(fields, fields.flag("use_sliding_window"));
    DecoderConfig config = plainDecoder(fields, "qwen3", window, sequence);
    readBiases(fields, config);
    config.queryNorm = DecoderConfig::QueryNorm::EachHead;
    return finish(fields, config);
}

/// What all of Gemma's generations have.
DecoderConfig gemmaConfig(ModelFields &fields, const char *name, std::optional<std::int64_t> window,
                          std::int64_t sequence)
{
    DecoderConfig config = decoderConfig(fields, name, window, sequence);
    readBiases(fields, config);
    config.epsilon = fields.positive("rms_norm_eps");
    config.activation = activation(fields, "hidden_activation");
    config.norm = DecoderConfig::Norm::RmsPlusOne;
    config.embeddingScale = std::sqrt(static_cast<double>(config.sizes.hidden));
    return config;
}

Result<graph::Graph> gemma(ModelFields &fields, std::int64_t sequence)
{
    return finish(fields, gemmaConfig(fields, "gemma", slidingWindow(fields, false), sequence));
}

/// A cap that null switches off: 0 then.
double softCap(ModelFields &fields, const char *key) { return fields.isNull(key) ? 0 : fields.positive(key); }

/// Every other layer has a window of attention, the first one included, unless layer_types says which do.
Result<graph::Graph> gemma2(ModelFields &fields, std::int64_t sequence)
{
    const bool alternates = fields.texts("layer_types").empty();
    DecoderConfig config = gemmaConfig(fields, "gemma2", slidingWindow(fields, alternates), sequence);
    config.normed = DecoderConfig::Normed::Around;
    config.attentionScale = 1 / std::sqrt(fields.positive("query_pre_attn_scalar"));
    config.scoreCap = softCap(fields, "attn_logit_softcapping");
    config.logitCap = softCap(fields, "final_logit_softcapping");
    return finish(fields, config);
}

/// Layers with a window of attention, and with it rotary positions of their own: those that layer_types names, else all
/// but every sliding_window_pattern-th.
std::vector<bool> localLayers(ModelFields &fields)
{
    const auto layers = static_cast<std::size_t>(fields.integer("num_hidden_layers", 1, kMostLayers));
    const auto pattern = static_cast<std::size_t>(fields.integer("sliding_window_pattern", 1, kMostLayers));
    const std::vector<std::string> types = fields.texts("layer_types");
    std::vector<bool> local;
    for (std::size_t i = 0; i < layers; ++i)
        local.push_back(types.empty() ? (i + 1) % pattern != 0 : i < types.size() && types[i] == "sliding_attention");
    if (!types.empty() && types.size() != layers)
        fields.fail("layer_types", fmt::format("names {} layers, and num_hidden_layers is {}", types.size(), layers));
    return local;
}

Result<graph::Graph> gemma3(ModelFields &fields, std::int64_t sequence)
{
    const std::vector<bool> local = localLayers(fields);
    const bool slides = std::find(local.begin(), local.end(), true) != local.end();
    DecoderConfig config = gemmaConfig(fields, "gemma3", slidingWindow(fields, slides), sequence);
    config.normed = DecoderConfig::Normed::Around;
    config.queryNorm = DecoderConfig::QueryNorm::EachHead;
    config.attentionScale = 1 / std::sqrt(fields.positive("query_pre_attn_scalar"));
    config.localLayers = local;
    config.localTheta = fields.positive("rope_local_base_freq");
    return finish(fields, config);
}

Result<graph::Graph> phi3(ModelFields &fields, std::int64_t sequence)
{
    const RotationKeys keys{.part = "partial_rotary_factor"};
    DecoderConfig config = plainDecoder(fields, "phi3", slidingWindow(fields, true), sequence, keys);
    config.fusedProjections = true;
    return finish(fields, config);
}

Result<graph::Graph> olmo(ModelFields &fields, std::int64_t sequence)
{
    DecoderConfig config = decoderConfig(fields, "olmo", slidingWindow(fields, false), sequence);
    readBiases(fields, config);
    config.activation = activation(fields, "hidden_act");
    config.norm = DecoderConfig::Norm::LayerWithoutWeights;
    config.epsilon = 1e-5;
    return finish(fields, config);
}

Result<graph::Graph> olmo2(ModelFields &fields, std::int64_t sequence)
{
    DecoderConfig config = plainDecoder(fields, "olmo2", slidingWindow(fields, false), sequence);
    readBiases(fields, config);
    config.normed = DecoderConfig::Normed::Behind;
    config.queryNorm = DecoderConfig::QueryNorm::Whole;
    return finish(fields, config);
}

Result<graph::Graph> granite(ModelFields &fields, std::int64_t sequence)
{
    DecoderConfig config = plainDecoder(fields, "granite", slidingWindow(fields, false), sequence);
    readBiases(fields, config);
    config.mlpBias = fields.flag("mlp_bias");
    config.attentionScale = fields.positive("attention_multiplier");
    config.embeddingScale = fields.positive("embedding_multiplier");
    config.residualScale = fields.positive("residual_multiplier");
    config.logitScale = 1 / fields.positive("logits_scaling");
    return finish(fields, config);
}

Result<graph::Graph> stableLm(ModelFields &fields, std::int64_t sequence)
{
    DecoderConfig config = decoderConfig(fields, "stablelm", std::nullopt, sequence, {.part = "partial_rotary_factor"});
    config.norm = DecoderConfig::Norm::Layer;
    config.epsilon = fields.positive("layer_norm_eps");
    config.activation = activation(fields, "hidden_act");
    config.qkvBias = fields.flag("use_qkv_bias");
    config.parallel = fields.flag("use_parallel_residual");
    return finish(fields, config);
}

constexpr ModelFamily kDecoders[] = {
    {"gemma", "GemmaForCausalLM", kGemma, kDecoder, gemma},
    {"gemma2", "Gemma2ForCausalLM", kGemma2, kDecoder, gemma2},
    {"gemma3_text", "Gemma3ForCausalLM", kGemma3, kDecoder, gemma3},
    {"granite", "GraniteForCausalLM", kGranite, kDecoder, granite},
    {"llama", "LlamaForCausalLM", kLlama, kDecoder, llama},
    {"mistral", "MistralForCausalLM", kMistral, kDecoder, mistral},
    {"olmo", "OlmoForCausalLM", kOlmo, kDecoder, olmo},
    {"olmo2", "Olmo2ForCausalLM", kOlmo2, kDecoder, olmo2},
    {"phi3", "Phi3ForCausalLM", kPhi3, kDecoder, phi3},
    {"qwen2", "Qwen2ForCausalLM", kQwen2, kDecoder, qwen2},
    {"qwen3", "Qwen3ForCausalLM", kQwen3, kDecoder, qwen3},
    {"stablelm", "StableLmForCausalLM", kStableLm, kDecoder, stableLm},
};

} // namespace

std::span<const ModelFamily> decoderFamilies() { return kDecoders; }

} // namespace planloom::import::huggingface
