// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/sbp.h"

#include <charconv>

namespace planloom::sharding {
namespace {

constexpr std::int64_t kMostSegment = std::int64_t{1} << 46;

/// A number at the front of @p text, which is cut off; false if there is none or it lies outside [least, most].
bool takeNumber(std::string_view &text, std::int64_t least, std::int64_t most, std::int64_t &value)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value < least || value > most)
        return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

/// "2" or "2:64+32+32".
bool parseSplit(std::string_view text, Sbp &sbp)
{
    std::int64_t axis = 0;
    if (!takeNumber(text, 0, 63, axis))
        return false;
    sbp.kind = Sbp::Kind::Split;
    sbp.axis = static_cast<int>(axis);
    for (char separator = ':'; !text.empty(); separator = '+') {
        if (text.front() != separator)
            return false;
        text.remove_prefix(1);
        std::int64_t segment = 0;
        if (!takeNumber(text, 1, kMostSegment, segment))
            return false;
        sbp.segments.push_back(segment);
    }
    return true;
}

Result<Sbp> parseOne(std::string_view word)
{
    Sbp sbp;
    if (word == "B")
        return sbp;
    if (word == "P") {
        sbp.kind = Sbp::Kind::Partial;
        return sbp;
    }
    if (word.size() > 3 && word.starts_with("S(") && word.ends_with(")")
        && parseSplit(word.substr(2, word.size() - 3), sbp))
        return sbp;
    return badInput("'" + std::string(word)
                    + "' is not a sharding; write S(axis), S(axis:size+size), B or P, separated by commas");
}

std::string splitText(const Sbp &sbp)
{
    std::string text = "S(" + std::to_string(sbp.axis);
    for (std::size_t i = 0; i < sbp.segments.size(); ++i)
        text += (i == 0 ? ":" : "+") + std::to_string(sbp.segments[i]);
    return text + ")";
}

} // namespace

std::string toText(const NdSbp &sbp)
{
    std::string text;
    for (const Sbp &one : sbp) {
        if (!text.empty())
            text += ',';
        switch (one.kind) {
        case Sbp::Kind::Split: text += splitText(one); break;
        case Sbp::Kind::Broadcast: text += 'B'; break;
        case Sbp::Kind::Partial: text += 'P'; break;
        }
    }
    return text;
}

Result<NdSbp> fromText(const std::string &text)
{
    NdSbp result;
    std::string_view rest = text;
    while (true) {
        const auto comma = rest.find(',');
        auto one = parseOne(rest.substr(0, comma));
        if (!one)
            return one.error();
        result.push_back(*one);
        if (comma == std::string_view::npos)
            return result;
        rest.remove_prefix(comma + 1);
    }
}

} // namespace planloom::sharding
