// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face transformers, for the gpt2, llama and bert families.
#include "engine/graph/zoo.h"
#include "engine/import/import.h"

#include <fmt/format.h>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

namespace planloom::import {
namespace {

using nlohmann::json;

/// More than any model has; keeps a hostile file from asking for an endless graph.
constexpr std::int64_t kMostLayers = 2000;
constexpr std::int64_t kMostWidth = 1 << 22;

/// Reads fields and remembers the first thing that was wrong.
class Fields {
public:
    explicit Fields(const json &config) : m_config(config) {}

    std::int64_t integer(const char *key, std::optional<std::int64_t> fallback, std::int64_t most = kMostWidth)
    {
        const auto found = m_config.find(key);
        if (found == m_config.end() || found->is_null()) {
            if (!fallback)
                complain(fmt::format("lacks '{}'; add it", key));
            return fallback.value_or(1);
        }
        if (!found->is_number_integer() || found->get<double>() < 1 || found->get<double>() > static_cast<double>(most)) {
            complain(fmt::format("'{}' must be a whole number from 1 to {}", key, most));
            return 1;
        }
        return found->get<std::int64_t>();
    }

    double number(const char *key, double fallback)
    {
        const auto found = m_config.find(key);
        if (found == m_config.end() || found->is_null())
            return fallback;
        if (!found->is_number() || !(found->get<double>() > 0)) {
            complain(fmt::format("'{}' must be a positive number", key));
            return fallback;
        }
        return found->get<double>();
    }

    bool flag(const char *key, bool fallback)
    {
        const auto found = m_config.find(key);
        if (found == m_config.end() || found->is_null())
            return fallback;
        if (!found->is_boolean())
            complain(fmt::format("'{}' must be true or false", key));
        return found->is_boolean() ? found->get<bool>() : fallback;
    }

    [[nodiscard]] const std::optional<Error> &problem() const { return m_problem; }

private:
    void complain(std::string message)
    {
        if (!m_problem)
            m_problem = badInput(std::move(message));
    }
    const json &m_config;
    std::optional<Error> m_problem;
};

using Family = std::function<Result<graph::Graph>(Fields &)>;

Result<graph::Graph> checked(Fields &fields, const std::function<Result<graph::Graph>()> &build)
{
    if (fields.problem())
        return *fields.problem();
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

/// Sequences are as long as the positions that the model was made for, up to this; longer contexts are a choice of training.
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
    static const std::map<std::string, Family, std::less<>> table = {{"gpt2", gpt2}, {"bert", bertLike}, {"llama", llamaLike}};
    return table;
}

int lineOf(std::string_view text, std::size_t byte)
{
    return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size())), '\n'));
}

bool tooDeep(std::string_view text)
{
    constexpr int kDeepest = 64;
    int depth = 0;
    for (const char c : text) {
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        if (depth > kDeepest)
            return true;
    }
    return false;
}

} // namespace

Result<Model> readHuggingFaceConfig(std::string_view text, const std::string &name)
{
    if (tooDeep(text))
        return badInput("is nested too deeply for a model's configuration").in(name);
    json config;
    try {
        config = json::parse(text);
    } catch (const json::parse_error &error) {
        return badInput("is not valid JSON; check it near this line").in(name, lineOf(text, error.byte));
    }
    if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string())
        return badInput("has no 'model_type'; a Hugging Face config.json names one").in(name);
    const std::string type = config["model_type"];
    const auto family = families().find(type);
    if (family == families().end())
        return unsupported(fmt::format("is of model type '{}'; gpt2, llama and bert are built in, export others to ONNX", type)).in(name);
    Fields fields(config);
    auto graph = family->second(fields);
    if (!graph)
        return graph.error().in(name);
    return Model{std::make_shared<const graph::Graph>(*std::move(graph)), nullptr, name, {}};
}

} // namespace planloom::import
