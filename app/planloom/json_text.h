// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::cli {

/// JSON for a double: shortest text that reads back the same; null for what JSON cannot say.
std::string jsonNumber(double value);
/// A quoted, escaped JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string jsonString(std::string_view text);

/// An object that is written once, in order, on one line. Verbs' results are small and flat: no tree is needed.
class JsonObject {
public:
    JsonObject &add(std::string_view key, std::string_view text) { return raw(key, jsonString(text)); }
    JsonObject &add(std::string_view key, const char *text) { return raw(key, jsonString(text)); }
    JsonObject &add(std::string_view key, double number) { return raw(key, jsonNumber(number)); }
    JsonObject &add(std::string_view key, bool flag) { return raw(key, flag ? "true" : "false"); }
    template <std::integral Integer>
    JsonObject &add(std::string_view key, Integer number) { return raw(key, std::to_string(number)); }
    /// @p json is JSON already.
    JsonObject &raw(std::string_view key, std::string_view json);
    [[nodiscard]] std::string text() const { return "{" + m_members + "}"; }

private:
    std::string m_members;
};

class JsonArray {
public:
    JsonArray &add(std::string_view text) { return raw(jsonString(text)); }
    JsonArray &raw(std::string_view json);
    [[nodiscard]] std::string text() const { return "[" + m_entries + "]"; }

private:
    std::string m_entries;
};

JsonArray jsonStrings(const std::vector<std::string> &texts);

} // namespace planloom::cli
