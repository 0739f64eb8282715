// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/sbp.h"

#include <charconv>

namespace planloom::sharding {
namespace {

Result<Sbp> parseOne(std::string_view word)
{
    if (word == "B")
        return Sbp{Sbp::Kind::Broadcast, 0};
    if (word == "P")
        return Sbp{Sbp::Kind::Partial, 0};
    int axis = -1;
    if (word.size() > 3 && word.starts_with("S(") && word.ends_with(")")) {
        const auto digits = word.substr(2, word.size() - 3);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), axis);
        if (error == std::errc{} && end == digits.data() + digits.size() && axis >= 0)
            return Sbp{Sbp::Kind::Split, axis};
    }
    return badInput("'" + std::string(word) + "' is not a sharding; write S(axis), B or P, separated by commas");
}

} // namespace

std::string toText(const NdSbp &sbp)
{
    std::string text;
    for (const Sbp &one : sbp) {
        if (!text.empty())
            text += ',';
        switch (one.kind) {
        case Sbp::Kind::Split: text += "S(" + std::to_string(one.axis) + ")"; break;
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
