// SPDX-License-Identifier: Apache-2.0
// GPT-2, BERT, ViT, and decoders with LayerNorm and feed-forward networks that are not gated.
#include "engine/import/model/huggingface_families.h"
#include "engine/import/model/huggingface_readers.h"

#include "engine/base/json_reader.h"

#include <fmt/format.h>

namespace planloom::import::huggingface {
namespace {

using graph::ClassicDecoderConfig;
using graph::TransformerConfig;

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

constexpr FieldRule kFalcon[] = {
    built("activation", R"("gelu")"),
    built("bias", "false"),
    built("ffn_hidden_size", "null"),
    built("hidden_size"),
    built("initializer_range", "0.02"),
    built("layer_norm_epsilon", "1e-5"),
    built("max_position_embeddings", "2048"),
    built("multi_query", "true"),
    built("new_decoder_architecture", "false"),
    built("num_attention_heads"),
    built("num_hidden_layers"),
    built("num_kv_heads", "null"),
    built("num_ln_in_parallel_attn", "null"),
    built("parallel_attn", "true"),
    built("rope_parameters", "null"),
    built("rope_scaling", "null"),
    built("rope_theta", "10000.0"),
    built("tie_word_embeddings", "true"),
    built("vocab_size"),
    only("alibi", "[false]"),
    only("apply_residual_connection_post_layernorm", "[false]"),
    leftOut("attention_dropout"),
    leftOut("hidden_dropout"),
    noEffect("auto_map"), // the same model as code beside the file
};

constexpr FieldRule kGptNeox[] = {
    built("attention_bias", "true"),
    built("hidden_act", R"("gelu")"),
    built("hidden_size"),
    built("initializer_range", "0.02"),
    built("intermediate_size"),
    built("layer_norm_eps", "1e-5"),
    built("max_position_embeddings", "2048"),
    built("num_attention_heads"),
    built("num_hidden_layers"),
    built("rope_parameters", "null"),
    built("rope_scaling", "null"),
    built("rotary_emb_base", "10000"),
    built("rotary_pct", "0.25"),
    built("tie_word_embeddings", "false"),
    built("use_parallel_residual", "true"),
    built("vocab_size"),
    only("partial_rotary_factor", "[]", "write rotary_pct instead"),
    only("rope_theta", "[]", "write rotary_emb_base instead"),
    leftOut("attention_dropout"),
    leftOut("hidden_dropout"),
    noEffect("attention_probs_dropout_prob"), // transformers' GPT-NeoX reads the names above
    noEffect("classifier_dropout"),
    noEffect("hidden_dropout_prob"),
};

constexpr FieldRule kOpt[] = {
    built("_remove_final_layer_norm", "false"),
    built("activation_function", R"("relu")"),
    built("do_layer_norm_before", "true"),
    built("enable_bias", "true"),
    built("ffn_dim"),
    built("hidden_size"),
    built("init_std", "0.02"),
    built("max_position_embeddings", "2048"),
    built("num_attention_heads"),
    built("num_hidden_layers"),
    built("tie_word_embeddings", "true"),
    built("vocab_size"),
    built("word_embed_proj_dim", "null"),
    only("layer_norm_elementwise_affine", "[true]"),
    leftOut("attention_dropout"),
    leftOut("dropout"),
    leftOut("layerdrop"),
    noEffect("activation_dropout"), // transformers' OPT has none
};

constexpr FieldRule kPhi[] = {
    built("hidden_act", R"("gelu_new")"),
    built("hidden_size"),
    built("initializer_range", "0.02"),
    built("intermediate_size"),
    built("layer_norm_eps", "1e-5"),
    built("max_position_embeddings", "2048"),
    built("num_attention_heads"),
    built("num_hidden_layers"),
    built("num_key_value_heads", "null"),
    built("partial_rotary_factor", "0.5"),
    built("rope_parameters", "null"),
    built("rope_scaling", "null"),
    built("rope_theta", "10000.0"),
    built("tie_word_embeddings", "false"),
    built("vocab_size"),
    only("qk_layernorm", "[false]"),
    leftOut("attention_dropout"),
    leftOut("embd_pdrop"),
    leftOut("resid_pdrop"),
    noEffect("auto_map"), // the same model as code beside the file
};

constexpr FieldRule kStarcoder2[] = {
    built("hidden_act", R"("gelu_pytorch_tanh")"),
    built("hidden_size"),
    built("initializer_range", "0.018042"),
    built("intermediate_size"),
    built("layer_types", "null"),
    built("max_position_embeddings", "4096"),
    built("norm_epsilon", "1e-5"),
    built("num_attention_heads"),
    built("num_hidden_layers"),
    built("num_key_value_heads", "2"),
    built("rope_parameters", "null"),
    built("rope_scaling", "null"),
    built("rope_theta", "10000.0"),
    built("sliding_window", "null"),
    built("tie_word_embeddings", "true"),
    built("use_bias", "true"),
    built("vocab_size"),
    only("mlp_type", R"(["default"])"),
    only("norm_type", R"(["layer_norm"])"),
    leftOut("attention_dropout"),
    leftOut("embedding_dropout"),
    leftOut("residual_dropout"),
    noEffect("rms_norm_eps"), // its LayerNorm has norm_epsilon
};

constexpr FieldRule kVit[] = {
    built("hidden_act", R"("gelu")"),
    built("hidden_size"),
    built("id2label", "null"),
    built("image_size", "224"),
    built("initializer_range", "0.02"),
    built("intermediate_size"),
    built("layer_norm_eps", "1e-12"),
    built("num_attention_heads"),
    built("num_channels", "3"),
    built("num_hidden_layers"),
    built("num_labels", "null"),
    built("patch_size", "16"),
    built("qkv_bias", "true"),
    only("problem_type", R"(["single_label_classification"])"),
    leftOut("attention_probs_dropout_prob"),
    leftOut("hidden_dropout_prob"),
    noEffect("encoder_stride"), // of masked images
    noEffect("pooler_act"),
    noEffect("pooler_output_size"),
};

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

/// The fields whose names differ between the classic decoders.
struct ClassicKeys {
    const char *inner;
    const char *activation;
    const char *deviation = "initializer_range";
};

/// What the classic decoders read alike; the length of a sample, positions and epsilon are left.
ClassicDecoderConfig classicConfig(ModelFields &fields, const char *name, const ClassicKeys &keys,
                                   const ClassicDecoderConfig::Names &names)
{
    ClassicDecoderConfig config;
    TransformerConfig &sizes = config.sizes;
    sizes.name = name;
    sizes.layers = fields.integer("num_hidden_layers", 1, kMostLayers);
    sizes.heads = width(fields, "num_attention_heads");
    sizes.hidden = width(fields, "hidden_size");
    sizes.feedForward = fields.optionalInteger(keys.inner, 1, kMostWidth).value_or(4 * sizes.hidden);
    sizes.vocabulary = width(fields, "vocab_size");
    sizes.tiedEmbeddings = fields.flag("tie_word_embeddings");
    sizes.initDeviation = fields.positive(keys.deviation);
    sizes.activation = activation(fields, keys.activation);
    config.kvHeads = sizes.heads;
    config.names = names;
    return config;
}

void readClassicRotation(ModelFields &fields, ClassicDecoderConfig &config, const RotationKeys &keys)
{
    const Rotation rotation = readRotation(fields, config.sizes.hidden / config.sizes.heads, keys);
    config.ropeTheta = rotation.theta;
    config.inverseFrequencies = rotation.frequencies;
}

void setBiases(ClassicDecoderConfig &config, bool all) { config.qkvBias = config.outputBias = config.mlpBias = all; }

Result<graph::Graph> finishClassic(ModelFields &fields, const ClassicDecoderConfig &config)
{
    if (fields.failed())
        return fields.failure({});
    return graph::classicDecoder(config);
}

using Block = ClassicDecoderConfig::Block;
using Projections = ClassicDecoderConfig::Projections;

/// Falcon 7B: one key head, one normalisation. 40B and 180B ("new_decoder_architecture"): key heads with their queries,
/// two normalisations side by side. Others: GPT-3's heads, or attention and feed-forward network one behind the other.
Result<graph::Graph> falcon(ModelFields &fields, std::int64_t sequence)
{
    const bool fresh = fields.flag("new_decoder_architecture");
    const bool parallel = fields.flag("parallel_attn");
    const auto norms = fields.optionalInteger("num_ln_in_parallel_attn", 1, 2);
    const bool two = fresh && norms.value_or(2) == 2;
    ClassicDecoderConfig config = classicConfig(fields, "falcon", {"ffn_hidden_size", "activation"},
                                                {.tokens = "transformer.word_embeddings",
                                                 .layers = "transformer.h.",
                                                 .attentionNorm = two ? "ln_attn" : "input_layernorm",
                                                 .feedForwardNorm = two ? "ln_mlp" : "post_attention_layernorm",
                                                 .packed = "self_attention.query_key_value",
                                                 .output = "self_attention.dense",
                                                 .up = "mlp.dense_h_to_4h",
                                                 .down = "mlp.dense_4h_to_h",
                                                 .norm = "transformer.ln_f"});
    config.sizes.epsilon = fields.positive("layer_norm_epsilon");
    config.sizes.context = decoderSequence(fields, std::nullopt, sequence);
    setBiases(config, fields.flag("bias"));
    const auto shared = fields.optionalInteger("num_kv_heads", 1, kMostWidth);
    const bool single = !fresh && fields.flag("multi_query");
    config.projections = single ? Projections::Packed : Projections::Grouped;
    config.kvHeads = single ? 1 : shared.value_or(config.sizes.heads);
    config.block = two ? Block::ParallelOwnNorm : parallel ? Block::ParallelSameNorm : Block::Sequential;
    if (!fresh && norms)
        fields.refuse("num_ln_in_parallel_attn", "is built with new_decoder_architecture only; leave it out");
    if (fresh && !parallel)
        fields.refuse("parallel_attn", "is false, which transformers does not build with new_decoder_architecture");
    if (!fresh && !single && config.kvHeads != config.sizes.heads)
        fields.refuse("num_kv_heads",
                      "differs from num_attention_heads, which is built with new_decoder_architecture only");
    readClassicRotation(fields, config, {});
    return finishClassic(fields, config);
}

Result<graph::Graph> gptNeox(ModelFields &fields, std::int64_t sequence)
{
    ClassicDecoderConfig config = classicConfig(fields, "gpt_neox", {"intermediate_size", "hidden_act"},
                                                {.tokens = "gpt_neox.embed_in",
                                                 .layers = "gpt_neox.layers.",
                                                 .attentionNorm = "input_layernorm",
                                                 .feedForwardNorm = "post_attention_layernorm",
                                                 .packed = "attention.query_key_value",
                                                 .output = "attention.dense",
                                                 .up = "mlp.dense_h_to_4h",
                                                 .down = "mlp.dense_4h_to_h",
                                                 .norm = "gpt_neox.final_layer_norm",
                                                 .head = "embed_out"});
    config.sizes.epsilon = fields.positive("layer_norm_eps");
    config.sizes.context = decoderSequence(fields, std::nullopt, sequence);
    config.projections = Projections::Grouped;
    config.block = fields.flag("use_parallel_residual") ? Block::ParallelOwnNorm : Block::Sequential;
    config.qkvBias = config.outputBias = fields.flag("attention_bias");
    readClassicRotation(fields, config, {.theta = "rotary_emb_base", .part = "rotary_pct"});
    return finishClassic(fields, config);
}

Result<graph::Graph> opt(ModelFields &fields, std::int64_t sequence)
{
    constexpr const char *kPositions = "max_position_embeddings";
    constexpr std::int64_t kFirst = 2; // rows of the table in front of the first token's
    const bool before = fields.flag("do_layer_norm_before");
    const bool last = before && !fields.flag("_remove_final_layer_norm");
    ClassicDecoderConfig config = classicConfig(fields, "opt", {"ffn_dim", "activation_function", "init_std"},
                                                {.tokens = "model.decoder.embed_tokens",
                                                 .positions = "model.decoder.embed_positions",
                                                 .layers = "model.decoder.layers.",
                                                 .attentionNorm = "self_attn_layer_norm",
                                                 .feedForwardNorm = "final_layer_norm",
                                                 .query = "self_attn.q_proj",
                                                 .key = "self_attn.k_proj",
                                                 .value = "self_attn.v_proj",
                                                 .output = "self_attn.out_proj",
                                                 .up = "fc1",
                                                 .down = "fc2",
                                                 .norm = last ? "model.decoder.final_layer_norm" : "",
                                                 .projectIn = "model.decoder.project_in",
                                                 .projectOut = "model.decoder.project_out"});
    const std::int64_t positions = width(fields, kPositions);
    config.sizes.context = checkedSequence(fields, kPositions, positions, sequence);
    config.sizes.positions = positions + kFirst;
    config.firstPosition = kFirst;
    config.sizes.epsilon = 1e-5; // of torch's LayerNorm
    config.block = before ? Block::Sequential : Block::NormBehind;
    const auto tokenWidth = fields.optionalInteger("word_embed_proj_dim", 1, kMostWidth);
    config.tokenWidth = tokenWidth && *tokenWidth != config.sizes.hidden ? *tokenWidth : 0;
    setBiases(config, fields.flag("enable_bias"));
    return finishClassic(fields, config);
}

/// Names that Phi and StarCoder 2 share with LLaMA.
ClassicDecoderConfig::Names llamaNames()
{
    return {.tokens = "model.embed_tokens",
            .layers = "model.layers.",
            .attentionNorm = "input_layernorm",
            .feedForwardNorm = "post_attention_layernorm",
            .query = "self_attn.q_proj",
            .key = "self_attn.k_proj",
            .value = "self_attn.v_proj"};
}

Result<graph::Graph> phi(ModelFields &fields, std::int64_t sequence)
{
    ClassicDecoderConfig::Names names = llamaNames();
    names.output = "self_attn.dense";
    names.up = "mlp.fc1";
    names.down = "mlp.fc2";
    names.norm = "model.final_layernorm";
    ClassicDecoderConfig config = classicConfig(fields, "phi", {"intermediate_size", "hidden_act"}, names);
    config.sizes.epsilon = fields.positive("layer_norm_eps");
    config.sizes.context = decoderSequence(fields, std::nullopt, sequence);
    config.kvHeads = fields.optionalInteger("num_key_value_heads", 1, kMostWidth).value_or(config.sizes.heads);
    config.block = Block::ParallelSameNorm;
    config.headBias = true;
    readClassicRotation(fields, config, {.part = "partial_rotary_factor"});
    return finishClassic(fields, config);
}

Result<graph::Graph> starcoder2(ModelFields &fields, std::int64_t sequence)
{
    ClassicDecoderConfig::Names names = llamaNames();
    names.output = "self_attn.o_proj";
    names.up = "mlp.c_fc";
    names.down = "mlp.c_proj";
    names.norm = "model.norm";
    ClassicDecoderConfig config = classicConfig(fields, "starcoder2", {"intermediate_size", "hidden_act"}, names);
    config.sizes.epsilon = fields.positive("norm_epsilon");
    config.sizes.context = decoderSequence(fields, slidingWindow(fields, true), sequence);
    config.kvHeads = fields.integer("num_key_value_heads", 1, kMostWidth);
    setBiases(config, fields.flag("use_bias"));
    readClassicRotation(fields, config, {});
    return finishClassic(fields, config);
}

/// As many as id2label names, else num_labels, else 2.
std::int64_t classesOf(ModelFields &fields)
{
    if (const auto labels = fields.optionalObject("id2label"))
        return static_cast<std::int64_t>(labels->value().size());
    return fields.optionalInteger("num_labels", 1, kMostWidth).value_or(2);
}

Result<graph::Graph> vit(ModelFields &fields, std::int64_t sequence)
{
    graph::VisionTransformerConfig config;
    TransformerConfig &sizes = config.sizes;
    sizes.name = "vit";
    sizes.layers = fields.integer("num_hidden_layers", 1, kMostLayers);
    sizes.heads = width(fields, "num_attention_heads");
    sizes.hidden = width(fields, "hidden_size");
    sizes.feedForward = width(fields, "intermediate_size");
    sizes.initDeviation = fields.positive("initializer_range");
    sizes.activation = activation(fields, "hidden_act");
    sizes.epsilon = fields.positive("layer_norm_eps");
    config.imageSize = width(fields, "image_size");
    config.patchSize = width(fields, "patch_size");
    config.channels = width(fields, "num_channels");
    config.classes = classesOf(fields);
    config.qkvBias = fields.flag("qkv_bias");
    if (config.classes == 1)
        fields.refuse("id2label",
                      "names one label: the loss of a regression, which is not built; export the model to "
                      "ONNX");
    if (sequence > 0)
        fields.fail("image_size", "makes samples of images, which have no length in tokens; leave --sequence out");
    if (fields.failed())
        return fields.failure({});
    return graph::visionTransformer(config);
}

constexpr ModelFamily kClassics[] = {
    {"bert", "BertForMaskedLM", kBert, {}, bertLike},
    {"falcon", "FalconForCausalLM", kFalcon, {}, falcon},
    {"gpt2", "GPT2LMHeadModel", kGpt2, {}, gpt2},
    {"gpt_neox", "GPTNeoXForCausalLM", kGptNeox, {}, gptNeox},
    {"opt", "OPTForCausalLM", kOpt, {}, opt},
    {"phi", "PhiForCausalLM", kPhi, {}, phi},
    {"starcoder2", "Starcoder2ForCausalLM", kStarcoder2, {}, starcoder2},
    {"vit", "ViTForImageClassification", kVit, {}, vit},
};

} // namespace

std::span<const ModelFamily> classicFamilies() { return kClassics; }

} // namespace planloom::import::huggingface
