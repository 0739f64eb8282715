// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model/huggingface_fields.h"

#include "engine/base/json_reader.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::import {
namespace {

using Json = nlohmann::json;

/// Of every model of transformers (PretrainedConfig): generation, tokenizers, labels of heads, bookkeeping.
constexpr const char *kNoEffect[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures", // read by checkArchitectures()
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "use_bfloat16",
    "use_cache",
};

/// Of every model, too.
constexpr FieldRule kEverywhere[] = {
    only("add_cross_attention", "[false]"),
    only("cross_attention_hidden_size", "[]"),
    only("is_decoder", "[false]"),
    only("is_encoder_decoder", "[false]"),
    only("pruned_heads", "[{}]", "save the model with its pruned heads and export it to ONNX"),
    only("quantization_config", "[]", "take the model's files that are not quantized"),
    only("tie_encoder_decoder", "[false]"),
};

std::string shortText(const Json &value)
{
    constexpr std::size_t kMost = 60;
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kMost)
        text = text.substr(0, kMost) + "...";
    return text;
}

bool isOneOf(const Json &value, const char *values)
{
    const Json allowed = Json::parse(values);
    return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

/// "0", "0 or 1": what a list of a rule holds.
std::string listed(const char *values)
{
    std::string text;
    for (const Json &value : Json::parse(values))
        text += (text.empty() ? "" : " or ") + shortText(value);
    return text;
}

template <class List>
std::string joined(const List &names)
{
    return fmt::format("{}", fmt::join(names, ", "));
}

} // namespace

struct ModelFields::Documents {
    const Json &given;
    Json whole; ///< with the values of the fields that are left out
    JsonReader reader{whole};
};

ModelFields::ModelFields(const Json &config, std::span<const FieldRule> family, std::span<const FieldRule> shared)
    : m_rules{family, shared, kEverywhere},
      m_documents(new Documents{config, config}),
      m_reader(m_documents->reader)
{
    for (const auto rules : m_rules)
        for (const FieldRule &rule : rules)
            if (rule.kind == FieldRule::Kind::Built && rule.values && !config.contains(rule.name))
                m_documents->whole.emplace(rule.name, Json::parse(rule.values)); // a family's value stays
}

ModelFields::~ModelFields() = default;

void ModelFields::warn(std::string what) { m_warnings.push_back(std::move(what)); }
void ModelFields::fail(const char *key, const std::string &what) { m_reader.fail(key, what); }
bool ModelFields::failed() const { return m_reader.failed(); }

const FieldRule *ModelFields::ruleOf(std::string_view name) const
{
    for (const auto rules : m_rules)
        for (const FieldRule &rule : rules)
            if (rule.name == name)
                return &rule;
    return nullptr;
}

void ModelFields::check(const std::string &architecture)
{
    checkArchitectures(architecture);
    for (const auto &[name, value] : m_documents->given.items())
        checkField(name, value);
    if (!m_leftOut.empty())
        warn(fmt::format("dropout is not built, and left out: {}", joined(m_leftOut)));
    constexpr std::size_t kMost = 20;
    const std::size_t more = m_unknown.size() > kMost ? m_unknown.size() - kMost : 0;
    m_unknown.resize(m_unknown.size() - more);
    if (!m_unknown.empty())
        warn(fmt::format("fields of config.json that are not known have no effect: {}{}", joined(m_unknown),
                         more > 0 ? fmt::format(" and {} more", more) : ""));
}

void ModelFields::checkArchitectures(const std::string &architecture)
{
    for (const std::string &name : texts("architectures"))
        if (name != architecture)
            refuse("architectures",
                   fmt::format("names {}, whose head is not built; {} is, export others to ONNX", shortText(name),
                               architecture));
}

void ModelFields::checkField(const std::string &name, const Json &value)
{
    const FieldRule *rule = ruleOf(name);
    if (!rule) {
        if (std::find(std::begin(kNoEffect), std::end(kNoEffect), name) == std::end(kNoEffect))
            m_unknown.push_back(shortText(name));
        return;
    }
    const bool limited = rule->kind == FieldRule::Kind::Only || rule->kind == FieldRule::Kind::LeftOut;
    if (!limited || value.is_null() || isOneOf(value, rule->values))
        return;
    if (rule->kind == FieldRule::Kind::LeftOut) {
        m_leftOut.push_back(fmt::format("{} {}", name, shortText(value)));
        return;
    }
    const std::string wanted = listed(rule->values);
    refuse(rule->name,
           fmt::format("is {}, which is not built ({}); {}", shortText(value),
                       wanted.empty() ? std::string("only models without it are") : fmt::format("only {} is", wanted),
                       rule->fix ? rule->fix : "export the model to ONNX"));
}

void ModelFields::refuse(const char *key, const std::string &what)
{
    m_refused = m_refused || !m_reader.failed();
    m_reader.fail(key, what);
}

Error ModelFields::failure(std::string_view text) const
{
    Error error = m_reader.failure(text).error();
    if (m_refused)
        error.code = ErrorCode::Unsupported;
    return error;
}

bool ModelFields::isNull(const char *key) const
{
    const Json &whole = m_documents->whole;
    return !whole.contains(key) || whole[key].is_null();
}

Json ModelFields::fallbackOf(const char *key) const
{
    const FieldRule *rule = ruleOf(key);
    return rule && rule->kind == FieldRule::Kind::Built && rule->values ? Json::parse(rule->values) : Json();
}

std::int64_t ModelFields::integer(const char *key, std::int64_t least, std::int64_t most)
{
    if (const Json fallback = fallbackOf(key); isNull(key) && fallback.is_number_integer())
        return fallback;
    return m_reader.integer(key, least, most);
}

std::optional<std::int64_t> ModelFields::optionalInteger(const char *key, std::int64_t least, std::int64_t most)
{
    if (isNull(key))
        return std::nullopt;
    return m_reader.integer(key, least, most);
}

double ModelFields::positive(const char *key)
{
    if (const Json fallback = fallbackOf(key); isNull(key) && fallback.is_number())
        return fallback;
    const double value = m_reader.number(key);
    if (!(value > 0))
        m_reader.fail(key, "must be positive");
    return value;
}

bool ModelFields::flag(const char *key)
{
    if (const Json fallback = fallbackOf(key); isNull(key) && fallback.is_boolean())
        return fallback;
    return m_reader.flag(key, false);
}

std::string ModelFields::text(const char *key)
{
    if (const Json fallback = fallbackOf(key); isNull(key) && fallback.is_string())
        return fallback;
    return m_reader.text(key);
}

std::optional<JsonReader> ModelFields::optionalObject(const char *key)
{
    if (isNull(key))
        return std::nullopt;
    return m_reader.object(key);
}

std::vector<std::string> ModelFields::texts(const char *key)
{
    std::vector<std::string> all;
    if (!isNull(key))
        m_reader.list(key, [&](JsonReader &entry) { all.push_back(entry.asText()); });
    return all;
}

} // namespace planloom::import
