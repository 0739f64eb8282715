// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json_reader.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace planloom {
namespace {

const nlohmann::json kNothing;

// Nesting is bounded because our formats need a dozen levels, and because every walk over a document recurses.
constexpr int kDeepest = 200;

bool tooDeep(std::string_view text)
{
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\')
                ++i;
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth > kDeepest)
            return true;
    }
    return false;
}

/// The part of the library's message after "[json.exception.parse_error.101] parse error at line 1, column 2: ".
std::string reason(const std::string &message)
{
    const std::size_t mark = message.find("column");
    const std::size_t colon = message.find(": ", mark == std::string::npos ? 0 : mark);
    return colon == std::string::npos ? message : message.substr(colon + 2);
}

/// Walks over the text of a valid document.
class Scanner {
public:
    explicit Scanner(std::string_view text) : m_text(text) {}

    /// Moves from the start of a value to the start of its entry @p key; false if there is none.
    bool enter(const std::string &key)
    {
        skipSpace();
        const bool object = peek() == '{';
        if (!object && peek() != '[')
            return false;
        ++m_at;
        for (std::size_t index = 0;; ++index) {
            skipSpace();
            if (peek() == ',') {
                ++m_at;
                skipSpace();
            }
            if (m_at >= m_text.size() || peek() == '}' || peek() == ']')
                return false;
            std::string name = std::to_string(index);
            if (object) {
                name = quoted();
                skipSpace();
                ++m_at; // the colon
                skipSpace();
            }
            if (name == key)
                return true;
            skipValue();
        }
    }

    [[nodiscard]] int line() const
    {
        return 1
            + static_cast<int>(std::count(
                m_text.begin(), m_text.begin() + static_cast<std::ptrdiff_t>(std::min(m_at, m_text.size())), '\n'));
    }

    void skipSpace()
    {
        while (m_at < m_text.size()
               && (m_text[m_at] == ' ' || m_text[m_at] == '\n' || m_text[m_at] == '\r' || m_text[m_at] == '\t'))
            ++m_at;
    }

private:
    [[nodiscard]] char peek() const { return m_at < m_text.size() ? m_text[m_at] : '\0'; }

    /// The text between quotes as it is written: escaped keys are not found, and then the line of their parent is
    /// given.
    std::string quoted()
    {
        const std::size_t begin = ++m_at;
        while (m_at < m_text.size() && m_text[m_at] != '"')
            m_at += m_text[m_at] == '\\' ? 2 : 1;
        const std::size_t end = std::min(m_at++, m_text.size());
        return std::string(m_text.substr(begin, end - begin));
    }

    void skipValue()
    {
        int depth = 0;
        while (m_at < m_text.size()) {
            const char c = m_text[m_at];
            if (depth == 0 && (c == ',' || c == '}' || c == ']'))
                return;
            if (c == '"') {
                quoted();
                continue;
            }
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            ++m_at;
        }
    }

    std::string_view m_text;
    std::size_t m_at = 0;
};

std::string join(const std::string &path, const std::string &key) { return path.empty() ? key : path + "." + key; }

} // namespace

int lineOfField(std::string_view text, const std::vector<std::string> &keys)
{
    Scanner scanner(text);
    scanner.skipSpace();
    int line = scanner.line();
    for (const std::string &key : keys) {
        if (!scanner.enter(key))
            break;
        line = scanner.line();
    }
    return line;
}

Result<nlohmann::json> parseJson(std::string_view text)
{
    if (tooDeep(text))
        return badInput(fmt::format("JSON nested deeper than {} levels; no such document is ours", kDeepest));
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error &e) {
        const std::size_t at = std::min(text.size(), e.byte == 0 ? 0 : e.byte - 1);
        const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
        Error error = badInput(fmt::format("not valid JSON: {}", reason(e.what())));
        error.line = static_cast<int>(line);
        return error;
    } catch (const nlohmann::json::exception &e) {
        return badInput(fmt::format("not usable JSON: {}", reason(e.what())));
    }
}

JsonReader::JsonReader(const nlohmann::json &document, std::string path)
    : m_value(&document),
      m_path(std::move(path)),
      m_failure(std::make_shared<Failure>())
{
}

JsonReader::JsonReader(const JsonReader &parent, const nlohmann::json &value, std::string path, std::string name)
    : m_value(&value),
      m_path(std::move(path)),
      m_name(std::move(name)),
      m_keys(parent.m_keys),
      m_failure(parent.m_failure)
{
    m_keys.push_back(m_name);
}

void JsonReader::fail(const std::string &key, const std::string &what)
{
    if (failed())
        return;
    const std::string field = key.empty() ? m_path : join(m_path, key);
    m_failure->error = badInput(field.empty() ? what : fmt::format("field \"{}\": {}", field, what));
    m_failure->keys = m_keys;
    if (!key.empty())
        m_failure->keys.push_back(key);
}

Status JsonReader::failure(std::string_view text) const
{
    if (!failed())
        return {};
    Error error = *m_failure->error;
    if (!text.empty())
        error.line = lineOfField(text, m_failure->keys);
    return error;
}

const nlohmann::json *JsonReader::find(const char *key)
{
    if (failed())
        return nullptr;
    if (!m_value->is_object()) {
        fail({}, "an object in braces is needed here");
        return nullptr;
    }
    const auto it = m_value->find(key);
    if (it == m_value->end()) {
        fail(key, "is missing");
        return nullptr;
    }
    return &*it;
}

JsonReader JsonReader::object(const char *key)
{
    const nlohmann::json *found = find(key);
    JsonReader field(*this, found ? *found : kNothing, join(m_path, key), key);
    if (found && !found->is_object())
        field.fail({}, "an object in braces is needed here");
    return field;
}

std::string JsonReader::text(const char *key)
{
    const nlohmann::json *found = find(key);
    return found ? JsonReader(*this, *found, join(m_path, key), key).asText() : std::string();
}

double JsonReader::number(const char *key)
{
    const nlohmann::json *found = find(key);
    return found ? JsonReader(*this, *found, join(m_path, key), key).asNumber() : 0.0;
}

std::int64_t JsonReader::integer(const char *key, std::int64_t least, std::int64_t most)
{
    const nlohmann::json *found = find(key);
    return found ? JsonReader(*this, *found, join(m_path, key), key).asInteger(least, most) : least;
}

std::string JsonReader::text(const char *key, const std::string &fallback) { return has(key) ? text(key) : fallback; }

double JsonReader::number(const char *key, double fallback) { return has(key) ? number(key) : fallback; }

std::int64_t JsonReader::integerOr(const char *key, std::int64_t fallback, std::int64_t least, std::int64_t most)
{
    return has(key) ? integer(key, least, most) : fallback;
}

bool JsonReader::flag(const char *key, bool fallback)
{
    if (failed() || !has(key))
        return fallback;
    const nlohmann::json &found = (*m_value)[key];
    if (found.is_boolean())
        return found.get<bool>();
    fail(key, "must be true or false");
    return fallback;
}

std::string JsonReader::asText()
{
    if (m_value->is_string())
        return m_value->get<std::string>();
    fail({}, "must be text in quotes");
    return {};
}

double JsonReader::asNumber()
{
    if (m_value->is_number() && std::isfinite(m_value->get<double>()))
        return m_value->get<double>();
    fail({}, "must be a number");
    return 0.0;
}

std::int64_t JsonReader::asInteger(std::int64_t least, std::int64_t most)
{
    const bool fits = m_value->is_number_integer()
        && (!m_value->is_number_unsigned()
            || m_value->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (fits && m_value->get<std::int64_t>() >= least && m_value->get<std::int64_t>() <= most)
        return m_value->get<std::int64_t>();
    using Limits = std::numeric_limits<std::int64_t>;
    if (most == Limits::max() && least == Limits::min())
        fail({}, "must be a whole number of 64 bits");
    else if (most == Limits::max())
        fail({}, fmt::format("must be a whole number, at least {}", least));
    else
        fail({}, fmt::format("must be a whole number from {} to {}", least, most));
    return least;
}

void JsonReader::each(const char *key, const std::function<void(JsonReader &)> &visit)
{
    if (!has(key) || failed())
        return;
    JsonReader(*this, (*m_value)[key], join(m_path, key), key).each(visit);
}

void JsonReader::list(const char *key, const std::function<void(JsonReader &)> &visit)
{
    const nlohmann::json *found = find(key);
    if (found && !found->is_array())
        fail(key, "a list is needed here");
    else if (found)
        each(key, visit);
}

void JsonReader::each(const std::function<void(JsonReader &)> &visit)
{
    if (!m_value->is_structured())
        fail({}, "a list or an object is needed here");
    if (failed())
        return;
    if (m_value->is_object()) {
        for (const auto &[key, entry] : m_value->items()) {
            JsonReader field(*this, entry, join(m_path, key), key);
            visit(field);
        }
        return;
    }
    for (std::size_t i = 0; i < m_value->size(); ++i) {
        JsonReader field(*this, (*m_value)[i], fmt::format("{}[{}]", m_path, i), std::to_string(i));
        visit(field);
    }
}

} // namespace planloom
