// SPDX-License-Identifier: Apache-2.0
// Fields of a Hugging Face config.json, checked against the table of a family. For .cpp files of this folder only.
#pragma once

#include "engine/base/result.h"

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom {
class JsonReader;
}

namespace planloom::import {

/// What the importer does with a field.
struct FieldRule {
    enum class Kind : std::uint8_t {
        Built,    ///< the model is built from it
        Only,     ///< refused unless left out, null or one of `values`
        LeftOut,  ///< changes training and is not built: a warning unless left out, null or one of `values`
        NoEffect, ///< has none on the network and its training
    };
    const char *name;
    Kind kind;
    /// JSON. Built: the value where the field is left out, as transformers has it; null: the field is required. Only,
    /// LeftOut: a list.
    const char *values = nullptr;
    const char *fix = nullptr; ///< Only: what to do instead; null: export the model to ONNX
};

constexpr FieldRule built(const char *name, const char *fallback = nullptr)
{
    return {name, FieldRule::Kind::Built, fallback};
}
constexpr FieldRule only(const char *name, const char *values, const char *fix = nullptr)
{
    return {name, FieldRule::Kind::Only, values, fix};
}
constexpr FieldRule leftOut(const char *name, const char *values = "[0]")
{
    return {name, FieldRule::Kind::LeftOut, values};
}
constexpr FieldRule noEffect(const char *name) { return {name, FieldRule::Kind::NoEffect}; }

/// The fields of one configuration. Reads give the value, or what transformers takes where the field is left out; one
/// that is null counts as left out only for optional...() reads. The first thing wrong is kept, as by JsonReader.
class ModelFields {
public:
    /// A rule of @p family stands before one of @p shared. The tables and @p config must outlive it.
    ModelFields(const nlohmann::json &config, std::span<const FieldRule> family, std::span<const FieldRule> shared);
    ~ModelFields();
    ModelFields(const ModelFields &) = delete;
    ModelFields &operator=(const ModelFields &) = delete;

    /// Applies the rules to all fields, those that every model has included. What is left out and what is not known
    /// becomes a warning; an entry of `architectures` other than @p architecture is refused.
    void check(const std::string &architecture);

    /// Null, or left out where transformers has no value either.
    [[nodiscard]] bool isNull(const char *key) const;
    std::int64_t integer(const char *key, std::int64_t least, std::int64_t most);
    std::optional<std::int64_t> optionalInteger(const char *key, std::int64_t least, std::int64_t most);
    double positive(const char *key);
    bool flag(const char *key);
    std::string text(const char *key);
    /// The field's object; nullopt if it is null or left out.
    std::optional<JsonReader> optionalObject(const char *key);
    /// The field's entries, which must be texts; empty if it is null or left out.
    std::vector<std::string> texts(const char *key);

    void warn(std::string what);
    [[nodiscard]] const std::vector<std::string> &warnings() const { return m_warnings; }
    void fail(const char *key, const std::string &what);
    /// What the file asks for is not built.
    void refuse(const char *key, const std::string &what);
    [[nodiscard]] bool failed() const;
    [[nodiscard]] Error failure(std::string_view text) const;

private:
    [[nodiscard]] nlohmann::json fallbackOf(const char *key) const;
    void checkArchitectures(const std::string &architecture);
    void checkField(const std::string &name, const nlohmann::json &value);
    [[nodiscard]] const FieldRule *ruleOf(std::string_view name) const;

    struct Documents;
    std::array<std::span<const FieldRule>, 3> m_rules; ///< the family's, shared ones, those of every model
    std::unique_ptr<Documents> m_documents;
    JsonReader &m_reader;
    std::vector<std::string> m_warnings;
    std::vector<std::string> m_unknown;
    std::vector<std::string> m_leftOut;
    bool m_refused = false;
};

} // namespace planloom::import
