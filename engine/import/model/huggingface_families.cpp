// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model/huggingface_families.h"

#include "engine/base/json_reader.h"
#include "engine/graph/zoo/zoo.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <numbers>
#include <utility>

namespace planloom::import {
namespace {

using graph::Activation;
using graph::DecoderConfig;
using graph::TransformerConfig;

/// More than any model has; keeps a hostile file from asking for an endless graph.
constexpr std::int64_t kMostLayers = 2000;
constexpr std::int64_t kMostWidth = 1 << 22;
constexpr std::int64_t kMostHeadSize = 1 << 16;

/// Tokens of a sample where the configuration allows more and none are asked for: longer samples are a choice of
/// training.
constexpr std::int64_t kLongestSample = 4096;

// The tables. Values of fields that are left out are those of transformers' configuration classes.
constexpr FieldRule kGpt2[] = {
    built("activation_function", R"("gelu_new")"),
    built("initializer_range", "0.02"),
    built("layer_norm_epsilon", "1e-5"),
    built("n_embd"),
    built("n_head"),
    built("n_inner", "null"),
    built("n_layer"),
    built("n_positions"),
    built("tie_word_embeddings", "true"),
    built("vocab_size"),
    only("scale_attn_by_inverse_layer_idx", "[false]"),
    only("scale_attn_weights", "[true]"),
    leftOut("attn_pdrop"),
    leftOut("embd_pdrop"),
    leftOut("resid_pdrop"),
    noEffect("is_decoder"),
    noEffect("n_ctx"),
    noEffect("reorder_and_upcast_attn"),
    noEffect("summary_activation"),
    noEffect("summary_first_dropout"),
    noEffect("summary_proj_to_labels"),
    noEffect("summary_type"),
    noEffect("summary_use_proj"),
};

constexpr FieldRule kBert[] = {
    built("hidden_act", R"("gelu")"),
    built("hidden_size"),
    built("initializer_range", "0.02"),
    built("intermediate_size"),
    built("layer_norm_eps", "1e-12"),
    built("max_position_embeddings"),
    built("num_attention_heads"),
    built("num_hidden_layers"),
    built("tie_word_embeddings", "true"),
    built("type_vocab_size", "2"),
    built("vocab_size"),
    only("position_embedding_type", R"(["absolute"])"),
    leftOut("attention_probs_dropout_prob"),
    leftOut("hidden_dropout_prob"),
    noEffect("classifier_dropout"),
    noEffect("directionality"),
    noEffect("pooler_fc_size"),
    noEffect("pooler_num_attention_heads"),
    noEffect("pooler_num_fc_layers"),
    noEffect("pooler_size_per_head"),
    noEffect("pooler_type"),
};

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

std::int64_t width(ModelFields &fields, const char *key) { return fields.integer(key, 1, kMostWidth); }

Activation activation(ModelFields &fields, const char *key)
{
    static const std::map<std::string, Activation, std::less<>> known = {
        {"gelu", Activation::Gelu},
        {"gelu_fast", Activation::GeluTanh},
        {"gelu_new", Activation::GeluTanh},
        {"gelu_python", Activation::Gelu},
        {"gelu_pytorch_tanh", Activation::GeluTanh},
        {"relu", Activation::Relu},
        {"silu", Activation::Silu},
        {"swish", Activation::Silu},
    };
    const std::string name = fields.text(key);
    const auto found = known.find(name);
    if (found != known.end())
        return found->second;
    fields.refuse(key,
                  fmt::format("is \"{}\", which is not built; gelu, gelu_new, relu and silu are, export others to "
                              "ONNX",
                              name));
    return Activation::Gelu;
}

/// Tokens of a sample of a model with @p most positions.
std::int64_t checkedSequence(ModelFields &fields, const char *positions, std::int64_t most, std::int64_t sequence)
{
    if (sequence > most)
        fields.fail(positions,
                    fmt::format("is {}: samples of {} tokens are longer; give --sequence {} or less", most, sequence,
                                most));
    return sequence > 0 ? sequence : most;
}

/// The common part of models with a table of positions.
TransformerConfig tableOfPositions(ModelFields &fields, const char *positions, std::int64_t sequence)
{
    TransformerConfig config;
    config.vocabulary = width(fields, "vocab_size");
    config.positions = width(fields, positions);
    config.context = checkedSequence(fields, positions, config.positions, sequence);
    config.tiedEmbeddings = fields.flag("tie_word_embeddings");
    config.initDeviation = fields.positive("initializer_range");
    return config;
}

Result<graph::Graph> gpt2(ModelFields &fields, std::int64_t sequence)
{
    TransformerConfig config = tableOfPositions(fields, "n_positions", sequence);
    config.name = "gpt2";
    config.layers = fields.integer("n_layer", 1, kMostLayers);
    config.heads = width(fields, "n_head");
    config.hidden = width(fields, "n_embd");
    config.feedForward = fields.optionalInteger("n_inner", 1, kMostWidth).value_or(4 * config.hidden);
    config.activation = activation(fields, "activation_function");
    config.epsilon = fields.positive("layer_norm_epsilon");
    if (fields.failed())
        return fields.failure({});
    return graph::gpt(config);
}

Result<graph::Graph> bertLike(ModelFields &fields, std::int64_t sequence)
{
    TransformerConfig config = tableOfPositions(fields, "max_position_embeddings", sequence);
    config.name = "bert";
    config.layers = fields.integer("num_hidden_layers", 1, kMostLayers);
    config.heads = width(fields, "num_attention_heads");
    config.hidden = width(fields, "hidden_size");
    config.feedForward = width(fields, "intermediate_size");
    config.activation = activation(fields, "hidden_act");
    config.epsilon = fields.positive("layer_norm_eps");
    config.tokenTypes = width(fields, "type_vocab_size");
    if (fields.failed())
        return fields.failure({});
    return graph::bert(config);
}

/// The window of attention that the configuration gives to some layers.
std::optional<std::int64_t> slidingWindow(ModelFields &fields, bool always)
{
    constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
    bool slides = always;
    for (const std::string &type : fields.texts("layer_types")) {
        if (type != "full_attention" && type != "sliding_attention")
            fields.refuse("layer_types", fmt::format("names {}, which is not built; export the model to ONNX", type));
        slides = slides || type == "sliding_attention";
    }
    return slides ? fields.optionalInteger("sliding_window", 1, kMostTokens) : std::nullopt;
}

/// Tokens of a sample: those asked for, else as many as the model was made for, up to kLongestSample. A window of
/// attention is not built, and makes no difference for samples that are not longer.
std::int64_t decoderSequence(ModelFields &fields, std::optional<std::int64_t> window, std::int64_t sequence)
{
    constexpr const char *kPositions = "max_position_embeddings";
    const std::int64_t most = width(fields, kPositions);
    checkedSequence(fields, kPositions, most, sequence);
    if (window && sequence > *window)
        fields.refuse("sliding_window",
                      fmt::format("is {}: samples of {} tokens need windows of attention, which are not built; give "
                                  "--sequence {} or less",
                                  *window, sequence, *window));
    if (sequence > 0)
        return sequence;
    const std::int64_t cut = std::min({most, kLongestSample, window.value_or(most)});
    if (cut < most)
        fields.warn(fmt::format("samples have {} of the {} tokens that the model was made for{}", cut, most,
                                window && cut == *window
                                    ? ", as many as its window of attention: longer ones are not built"
                                    : "; --sequence N makes them longer"));
    return cut;
}

/// Frequencies of a scaled rotation, of those that theta alone makes (Dubey et al., The Llama 3 Herd of Models, 2024;
/// transformers' _compute_llama3_parameters): high ones stay, low ones are divided by a factor, the others lie between.
struct Llama3Scaling {
    double factor, low, high, positions;

    [[nodiscard]] double operator()(double frequency) const
    {
        const double wavelength = 2 * std::numbers::pi / frequency;
        if (wavelength < positions / high)
            return frequency;
        if (wavelength > positions / low)
            return frequency / factor;
        const double smooth = (positions / wavelength - low) / (high - low);
        return (1 - smooth) * frequency / factor + smooth * frequency;
    }
};

std::vector<double> scaledFrequencies(double theta, std::int64_t headSize, const std::function<double(double)> &scale)
{
    std::vector<double> all;
    for (std::int64_t i = 0; i < headSize / 2; ++i)
        all.push_back(scale(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(headSize))));
    return all;
}

double positiveNumber(JsonReader &reader, const char *key)
{
    const double value = reader.number(key);
    if (!(value > 0))
        reader.fail(key, "must be positive");
    return value;
}

/// The rotation of positions: rope_theta and rope_scaling, or rope_parameters, which holds both.
void readRotation(ModelFields &fields, DecoderConfig &config, std::int64_t headSize)
{
    config.ropeTheta = fields.positive("rope_theta");
    const char *key = "rope_parameters";
    auto scaling = fields.optionalObject(key);
    if (scaling && scaling->has("rope_theta"))
        config.ropeTheta = positiveNumber(*scaling, "rope_theta");
    if (auto old = fields.optionalObject("rope_scaling")) {
        key = "rope_scaling";
        scaling = old;
    }
    if (!scaling || fields.failed())
        return;
    constexpr std::int64_t kMostScaled = 4096; // every layer holds the frequencies
    const std::string type = scaling->text("rope_type", scaling->text("type", "default"));
    if (headSize > kMostScaled && (type == "linear" || type == "llama3"))
        return fields.fail(key, fmt::format("scales heads of {} elements; up to {} are built", headSize, kMostScaled));
    if (type == "linear") {
        const double factor = positiveNumber(*scaling, "factor");
        config.inverseFrequencies =
            scaledFrequencies(config.ropeTheta, headSize, [&](double frequency) { return frequency / factor; });
    } else if (type == "llama3") {
        const Llama3Scaling llama3{positiveNumber(*scaling, "factor"), positiveNumber(*scaling, "low_freq_factor"),
                                   positiveNumber(*scaling, "high_freq_factor"),
                                   positiveNumber(*scaling, "original_max_position_embeddings")};
        if (!(llama3.high > llama3.low))
            scaling->fail("high_freq_factor", "must be greater than low_freq_factor");
        config.inverseFrequencies = scaledFrequencies(config.ropeTheta, headSize, llama3);
    } else if (type != "default" && type != "dynamic") { // dynamic: only beyond max_position_embeddings
        fields.refuse(key,
                      fmt::format("is of type {}, which is not built; default, linear, llama3 and dynamic are, export "
                                  "the model to ONNX",
                                  type));
    }
    const auto isNumber = [](double frequency) { return std::isfinite(frequency); };
    if (!std::all_of(config.inverseFrequencies.begin(), config.inverseFrequencies.end(), isNumber))
        fields.fail("rope_theta", fmt::format("and {} make a frequency that is no number", key));
}

/// What all decoders of LLaMA's kind read alike.
DecoderConfig decoderConfig(ModelFields &fields, const char *name, std::optional<std::int64_t> window,
                            std::int64_t sequence)
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
    readRotation(fields, config, config.headSize > 0 ? config.headSize : sizes.hidden / sizes.heads);
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
                           std::int64_t sequence)
{
    DecoderConfig config = decoderConfig(fields, name, window, sequence);
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

Result<graph::Graph> gemma(ModelFields &fields, std::int64_t sequence)
{
    DecoderConfig config = decoderConfig(fields, "gemma", slidingWindow(fields, false), sequence);
    readBiases(fields, config);
    config.epsilon = fields.positive("rms_norm_eps");
    config.activation = activation(fields, "hidden_activation");
    config.norm = DecoderConfig::Norm::RmsPlusOne;
    config.embeddingScale = std::sqrt(static_cast<double>(config.sizes.hidden));
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
    DecoderConfig config = decoderConfig(fields, "gemma3", slidingWindow(fields, slides), sequence);
    readBiases(fields, config);
    config.epsilon = fields.positive("rms_norm_eps");
    config.activation = activation(fields, "hidden_activation");
    config.norm = DecoderConfig::Norm::RmsPlusOne;
    config.normed = DecoderConfig::Normed::Around;
    config.queryNorm = DecoderConfig::QueryNorm::EachHead;
    config.embeddingScale = std::sqrt(static_cast<double>(config.sizes.hidden));
    config.attentionScale = 1 / std::sqrt(fields.positive("query_pre_attn_scalar"));
    config.localLayers = local;
    config.localTheta = fields.positive("rope_local_base_freq");
    return finish(fields, config);
}

Result<graph::Graph> phi3(ModelFields &fields, std::int64_t sequence)
{
    DecoderConfig config = plainDecoder(fields, "phi3", slidingWindow(fields, true), sequence);
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

constexpr ModelFamily kFamilies[] = {
    {"bert", "BertForMaskedLM", kBert, {}, bertLike},
    {"gemma", "GemmaForCausalLM", kGemma, kDecoder, gemma},
    {"gemma3_text", "Gemma3ForCausalLM", kGemma3, kDecoder, gemma3},
    {"gpt2", "GPT2LMHeadModel", kGpt2, {}, gpt2},
    {"granite", "GraniteForCausalLM", kGranite, kDecoder, granite},
    {"llama", "LlamaForCausalLM", kLlama, kDecoder, llama},
    {"mistral", "MistralForCausalLM", kMistral, kDecoder, mistral},
    {"olmo", "OlmoForCausalLM", kOlmo, kDecoder, olmo},
    {"olmo2", "Olmo2ForCausalLM", kOlmo2, kDecoder, olmo2},
    {"phi3", "Phi3ForCausalLM", kPhi3, kDecoder, phi3},
    {"qwen2", "Qwen2ForCausalLM", kQwen2, kDecoder, qwen2},
    {"qwen3", "Qwen3ForCausalLM", kQwen3, kDecoder, qwen3},
};

constexpr std::string_view kExperts = "experts, of which each token takes a few, are not built";
constexpr std::string_view kEncoderDecoder = "attention from a decoder to an encoder is not built";
constexpr std::string_view kImages = "encoders of images are not built from config.json";

constexpr std::pair<std::string_view, std::string_view> kNotBuilt[] = {
    {"bart", kEncoderDecoder},
    {"clip", kImages},
    {"dbrx", kExperts},
    {"deepseek_v2", kExperts},
    {"deepseek_v3", kExperts},
    {"gemma2", "soft-capped scores are not built"},
    {"gemma3", "encoders of images are not built; gemma3_text is"},
    {"gpt_oss", kExperts},
    {"granitemoe", kExperts},
    {"jamba", kExperts},
    {"llama4", kExperts},
    {"llama4_text", kExperts},
    {"llava", kImages},
    {"mamba", "state spaces are not built"},
    {"mamba2", "state spaces are not built"},
    {"mixtral", kExperts},
    {"mllama", kImages},
    {"olmoe", kExperts},
    {"phimoe", kExperts},
    {"qwen2_moe", kExperts},
    {"qwen2_vl", kImages},
    {"qwen3_moe", kExperts},
    {"t5", kEncoderDecoder},
    {"vit", kImages},
    {"whisper", kEncoderDecoder},
};

} // namespace

std::span<const ModelFamily> modelFamilies() { return kFamilies; }

std::string_view whyNotBuilt(std::string_view type)
{
    for (const auto &[name, why] : kNotBuilt)
        if (name == type)
            return why;
    return {};
}

} // namespace planloom::import
