// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face transformers, for the gpt2, llama and bert families.
#include "engine/base/json_reader.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/import.h"

#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>

namespace planloom::import {
namespace {

/// More than any model has; keeps a hostile file from asking for an endless graph.
constexpr std::int64_t kMostLayers = 2000;
constexpr std::int64_t kMostWidth = 1 << 22;

/// The configuration's fields; one that is null counts as left out.
class Fields {
public:
    explicit Fields(const nlohmann::json &config) : m_reader(config) {}

    std::int64_t integer(const char *key, std::optional<std::int64_t> fallback, std::int64_t most = kMostWidth)
    {
        if (fallback && !given(key))
            return *fallback;
        return m_reader.integer(key, 1, most);
    }

    double number(const char *key, double fallback)
    {
        if (!given(key))
            return fallback;
        const double value = m_reader.number(key);
        if (!(value > 0))
            m_reader.fail(key, "must be positive");
        return value;
    }

    bool flag(const char *key, bool fallback) { return given(key) ? m_reader.flag(key, fallback) : fallback; }

    [[nodiscard]] const JsonReader &reader() const { return m_reader; }

private:
    [[nodiscard]] bool given(const char *key) const { return m_reader.has(key) && !m_reader.value()[key].is_null(); }
    JsonReader m_reader;
};

using Family = std::function<Result<graph::Graph>(Fields &)>;

Result<graph::Graph> checked(Fields &fields, const std::function<Result<graph::Graph>()> &build)
{
    if (fields.reader().failed())
        return fields.reader().failure().error();
    return build();
}

Result<graph::Graph> gpt2(Fields &fields)
{
    graph::TransformerConfig config;
    config.name = "gpt2";
    config.layers = fields.integer("n_layer", std::nullopt, kMostLayers);
    config.heads = fields.integer("n_head", std::nullopt);
    config.hidden = fields.integer("n_embd", std::nullopt);
    config.feedForward = fields.integer("n_inner", 4 * config.hidden);
    config.vocabulary = fields.integer("vocab_size", std::nullopt);
    config.context = fields.integer("n_positions", std::nullopt);
    config.tiedEmbeddings = fields.flag("tie_word_embeddings", true);
    config.initDeviation = fields.number("initializer_range", 0.02);
    return checked(fields, [&] { return graph::gpt(config); });
}

Result<graph::Graph> bertLike(Fields &fields)
{
    graph::TransformerConfig config;
    config.name = "bert";
    config.layers = fields.integer("num_hidden_layers", std::nullopt, kMostLayers);
    config.heads = fields.integer("num_attention_heads", std::nullopt);
    config.hidden = fields.integer("hidden_size", std::nullopt);
    config.feedForward = fields.integer("intermediate_size", 4 * config.hidden);
    config.vocabulary = fields.integer("vocab_size", std::nullopt);
    config.context = fields.integer("max_position_embeddings", std::nullopt);
    config.tiedEmbeddings = fields.flag("tie_word_embeddings", true);
    config.initDeviation = fields.number("initializer_range", 0.02);
    return checked(fields, [&] { return graph::bert(config); });
}

/// Sequences are as long as the positions that the model was made for, up to this; longer contexts are a choice of
/// training.
constexpr std::int64_t kLongestSample = 4096;

Result<graph::Graph> llamaLike(Fields &fields)
{
    graph::TransformerConfig config;
    config.name = "llama";
    config.layers = fields.integer("num_hidden_layers", std::nullopt, kMostLayers);
    config.heads = fields.integer("num_attention_heads", std::nullopt);
    config.hidden = fields.integer("hidden_size", std::nullopt);
    config.feedForward = fields.integer("intermediate_size", std::nullopt);
    config.vocabulary = fields.integer("vocab_size", std::nullopt);
    config.context = std::min(kLongestSample, fields.integer("max_position_embeddings", 2048));
    config.tiedEmbeddings = fields.flag("tie_word_embeddings", false);
    config.initDeviation = fields.number("initializer_range", 0.02);
    const std::int64_t kvHeads = fields.integer("num_key_value_heads", config.heads);
    const double theta = fields.number("rope_theta", 10000.0);
    const double epsilon = fields.number("rms_norm_eps", 1e-6);
    return checked(fields, [&] { return graph::llama(config, kvHeads, theta, epsilon); });
}

const std::map<std::string, Family, std::less<>> &families()
{
    static const std::map<std::string, Family, std::less<>> table = {{"gpt2", gpt2},
                                                                     {"bert", bertLike},
                                                                     {"llama", llamaLike}};
    return table;
}

} // namespace

Result<Model> readHuggingFaceConfig(std::string_view text, const std::string &name)
{
    const auto config = parseJson(text);
    if (!config)
        return config.error().in(name);
    if (!config->is_object() || !config->contains("model_type") || !(*config)["model_type"].is_string())
        return badInput("has no 'model_type'; a Hugging Face config.json names one").in(name);
    const std::string type = (*config)["model_type"];
    const auto family = families().find(type);
    if (family == families().end())
        return unsupported(
                   fmt::format("is of model type '{}'; gpt2, llama and bert are built in, export others to ONNX", type))
            .in(name);
    Fields fields(*config);
    auto graph = family->second(fields);
    if (fields.reader().failed())
        return fields.reader().failure(text).error().in(name);
    if (!graph)
        return graph.error().in(name);
    return Model{std::make_shared<const graph::Graph>(*std::move(graph)), nullptr, name, {}};
}

} // namespace planloom::import
