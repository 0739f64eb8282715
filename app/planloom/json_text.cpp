// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/json_text.h"

#include <cmath>
#include <fmt/format.h>

namespace planloom::cli {
namespace {

/// Length of the UTF-8 sequence at @p at; 0 if there is none.
std::size_t sequenceLength(std::string_view text, std::size_t at)
{
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
    const unsigned first = byte(at);
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return tail(at + 1) ? 2 : 0;
    if (first >= 0xe0 && first < 0xf0) {
        const bool overlong = first == 0xe0 && byte(at + 1) < 0xa0;
        const bool surrogate = first == 0xed && byte(at + 1) >= 0xa0;
        return tail(at + 1) && tail(at + 2) && !overlong && !surrogate ? 3 : 0;
    }
    if (first >= 0xf0 && first < 0xf5) {
        const bool overlong = first == 0xf0 && byte(at + 1) < 0x90;
        const bool tooLarge = first == 0xf4 && byte(at + 1) >= 0x90;
        return tail(at + 1) && tail(at + 2) && tail(at + 3) && !overlong && !tooLarge ? 4 : 0;
    }
    return 0;
}

} // namespace

std::string jsonNumber(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string jsonString(std::string_view text)
{
    std::string out = "\"";
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = sequenceLength(text, at);
        const char c = text[at];
        if (length == 0)
            out += "\xef\xbf\xbd";
        else if (length == 1 && (c == '"' || c == '\\'))
            (out += '\\') += c;
        else if (length == 1 && static_cast<unsigned char>(c) < 0x20)
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
            out += text.substr(at, length);
        at += length == 0 ? 1 : length;
    }
    return out + '"';
}

JsonObject &JsonObject::raw(std::string_view key, std::string_view json)
{
    m_members += fmt::format("{}{}:{}", m_members.empty() ? "" : ",", jsonString(key), json);
    return *this;
}

JsonArray &JsonArray::raw(std::string_view json)
{
    m_entries += m_entries.empty() ? "" : ",";
    m_entries += json;
    return *this;
}

JsonArray jsonStrings(const std::vector<std::string> &texts)
{
    JsonArray array;
    for (const auto &text : texts)
        array.add(text);
    return array;
}

} // namespace planloom::cli
