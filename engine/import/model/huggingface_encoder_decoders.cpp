// SPDX-License-Identifier: Apache-2.0
// Families with an encoder and a decoder.
#include "engine/import/model/huggingface_families.h"
#include "engine/import/model/huggingface_readers.h"

namespace planloom::import::huggingface {
namespace {

// Values of fields that are left out are those of transformers' configuration classes.
constexpr FieldRule kT5[] = {
    built("d_ff"),
    built("d_kv"),
    built("d_model"),
    built("dense_act_fn", "null"),
    built("feed_forward_proj", R"("relu")"),
    built("initializer_factor", "1.0"),
    built("is_gated_act", "null"),
    built("layer_norm_epsilon", "1e-6"),
    built("n_positions", "512"),
    built("num_decoder_layers", "null"),
    built("num_heads"),
    built("num_layers"),
    built("relative_attention_max_distance", "128"),
    built("relative_attention_num_buckets", "32"),
    built("tie_word_embeddings", "true"),
    built("vocab_size"),
    only("is_encoder_decoder", "[true]"),
    leftOut("dropout_rate"),
    noEffect("classifier_dropout"),
};

/// feed_forward_proj is an activation, or "gated-" and one; dense_act_fn and is_gated_act stand before it.
void readFeedForward(ModelFields &fields, graph::T5Config &config)
{
    constexpr std::string_view kGated = "gated-";
    const std::string kind = fields.text("feed_forward_proj");
    config.gated = kind.starts_with(kGated);
    if (!fields.isNull("is_gated_act"))
        config.gated = fields.flag("is_gated_act");
    if (!fields.isNull("dense_act_fn"))
        config.sizes.activation = activation(fields, "dense_act_fn");
    else if (kind == "gated-gelu")
        config.sizes.activation = graph::Activation::GeluTanh; // "for backwards compatibility" in transformers
    else
        config.sizes.activation =
            activationNamed(fields, "feed_forward_proj", kind.starts_with(kGated) ? kind.substr(kGated.size()) : kind);
}

Result<graph::Graph> t5(ModelFields &fields, std::int64_t sequence)
{
    graph::T5Config config;
    graph::TransformerConfig &sizes = config.sizes;
    sizes.name = "t5";
    sizes.layers = fields.integer("num_layers", 1, kMostLayers);
    config.decoderLayers = fields.optionalInteger("num_decoder_layers", 1, kMostLayers).value_or(sizes.layers);
    sizes.heads = width(fields, "num_heads");
    sizes.hidden = width(fields, "d_model");
    sizes.feedForward = width(fields, "d_ff");
    sizes.vocabulary = width(fields, "vocab_size");
    const std::int64_t usual = width(fields, "n_positions"); // no limit: positions are distances
    sizes.context = sequence > 0 ? sequence : usual;
    sizes.tiedEmbeddings = fields.flag("tie_word_embeddings");
    sizes.epsilon = fields.positive("layer_norm_epsilon");
    config.headSize = fields.integer("d_kv", 1, kMostHeadSize);
    config.buckets = width(fields, "relative_attention_num_buckets");
    config.maxDistance = width(fields, "relative_attention_max_distance");
    config.initFactor = fields.positive("initializer_factor");
    readFeedForward(fields, config);
    if (fields.failed())
        return fields.failure({});
    return graph::t5(config);
}

constexpr ModelFamily kEncoderDecoders[] = {
    {"t5", "T5ForConditionalGeneration", kT5, {}, t5},
};

} // namespace

std::span<const ModelFamily> encoderDecoderFamilies() { return kEncoderDecoders; }

} // namespace planloom::import::huggingface
