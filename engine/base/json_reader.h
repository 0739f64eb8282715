// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom {

/// Parses JSON text. A syntax error names its line and column. For .cpp files only: this header costs seconds to
/// compile.
Result<nlohmann::json> parseJson(std::string_view text);

/// The line, from 1, of the value that @p keys (names and list positions from the top) lead to, or of the last one
/// found on the way.
int lineOfField(std::string_view text, const std::vector<std::string> &keys);

/// Reads the fields of one JSON value out of a hostile document. The first thing wrong is kept, with the path of its
/// field
/// ("nodes[3].name"); from then on every read returns its fallback, so that callers check failure() once, at the end.
/// Readers made from one another share that memory. Not thread-safe; must not outlive the document.
class JsonReader {
public:
    explicit JsonReader(const nlohmann::json &document, std::string path = {});

    [[nodiscard]] const nlohmann::json &value() const { return *m_value; }
    [[nodiscard]] const std::string &path() const { return m_path; }
    [[nodiscard]] bool has(const char *key) const { return m_value->is_object() && m_value->contains(key); }

    /// The field, which must be there and be of the kind asked for.
    std::string text(const char *key);
    double number(const char *key);
    std::int64_t integer(const char *key, std::int64_t least,
                         std::int64_t most = std::numeric_limits<std::int64_t>::max());
    JsonReader object(const char *key);

    /// The field, or @p fallback where it is left out.
    std::string text(const char *key, const std::string &fallback);
    double number(const char *key, double fallback);
    std::int64_t integerOr(const char *key, std::int64_t fallback, std::int64_t least, std::int64_t most);
    bool flag(const char *key, bool fallback);

    /// Calls @p visit on each entry of an array or object field, in order; an absent field has none.
    void each(const char *key, const std::function<void(JsonReader &)> &visit);
    /// The same over this value's own entries; keys are the last part of an entry's name().
    void each(const std::function<void(JsonReader &)> &visit);
    /// The same over a list, which must be there.
    void list(const char *key, const std::function<void(JsonReader &)> &visit);
    [[nodiscard]] const std::string &name() const { return m_name; }

    // This value itself.
    std::string asText();
    double asNumber();
    std::int64_t asInteger(std::int64_t least, std::int64_t most);

    /// Says that the field @p key (empty: this value) is wrong; only the first call of a document counts.
    void fail(const std::string &key, const std::string &what);
    [[nodiscard]] bool failed() const { return m_failure->error.has_value(); }
    /// The first error, or success. With the document's text, the error names the line of the field.
    [[nodiscard]] Status failure(std::string_view text = {}) const;

private:
    struct Failure {
        std::optional<Error> error;
        std::vector<std::string> keys; ///< of the field, from the top
    };
    JsonReader(const JsonReader &parent, const nlohmann::json &value, std::string path, std::string name);
    const nlohmann::json *find(const char *key);
    const nlohmann::json *m_value;
    std::string m_path;
    std::string m_name;
    std::vector<std::string> m_keys;
    std::shared_ptr<Failure> m_failure;
};

} // namespace planloom
