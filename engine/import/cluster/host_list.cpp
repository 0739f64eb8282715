// SPDX-License-Identifier: Apache-2.0
// Host lists by Slurm's manual of scontrol (show hostnames) and slurm.conf ("NodeName").
#include "engine/import/cluster/host_list.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace planloom::import {
namespace {

/// Where the host list's next part ends: at a comma outside of brackets, or at its end.
std::size_t endOfHost(std::string_view text)
{
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '[')
            inside = true;
        else if (text[i] == ']')
            inside = false;
        else if (text[i] == ',' && !inside)
            return i;
    }
    return text.size();
}

bool hostNumber(std::string_view digits, std::size_t &number)
{
    constexpr std::size_t kMostDigits = 18;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return digits.size() <= kMostDigits && error == std::errc{} && end == digits.data() + digits.size();
}

/// The texts of one bracket: "01-03,20".
Result<std::vector<std::string>> expandBracket(std::string_view text, std::size_t most)
{
    std::vector<std::string> texts;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        const std::string_view part = text.substr(at, comma - at);
        const std::size_t dash = std::min(part.find('-'), part.size());
        const std::string_view low = part.substr(0, dash);
        const std::string_view high = dash == part.size() ? low : part.substr(dash + 1);
        std::size_t first = 0;
        std::size_t last = 0;
        if (!hostNumber(low, first) || !hostNumber(high, last))
            return badInput(fmt::format("\"[{}]\" is no list of numbers; write it as [01-16,20]", text.substr(0, 60)));
        if (last < first)
            return badInput(fmt::format("the range {} runs down; write the smaller number first", part));
        if (last - first >= most || texts.size() + (last - first) >= most)
            return badInput(fmt::format("[{}] are more than {} names", text.substr(0, 60), most));
        for (std::size_t number = first; number <= last; ++number)
            texts.push_back(fmt::format("{:0{}}", number, low.size()));
        at = comma + 1;
    }
    return texts;
}

/// One name, whose brackets stand for several.
Result<std::vector<std::string>> expandHost(std::string_view text, std::size_t most)
{
    std::vector<std::string> names{{}};
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t open = std::min(text.find('[', at), text.size());
        for (std::string &name : names)
            name += text.substr(at, open - at);
        if (open == text.size())
            break;
        const std::size_t close = text.find(']', open);
        if (close == std::string_view::npos)
            return badInput(fmt::format("\"{}\" has a [ without its ]", text.substr(0, 60)));
        const auto parts = expandBracket(text.substr(open + 1, close - open - 1), most);
        if (!parts)
            return parts.error();
        if (names.size() * parts->size() > most)
            return badInput(fmt::format("\"{}\" stands for more than {} names", text.substr(0, 60), most));
        std::vector<std::string> longer;
        for (const std::string &name : names) {
            for (const std::string &part : *parts)
                longer.push_back(name + part);
        }
        names = std::move(longer);
        at = close + 1;
    }
    return names;
}

} // namespace

Result<std::vector<std::string>> expandHostList(std::string_view text, std::size_t most)
{
    std::vector<std::string> all;
    while (!text.empty()) {
        const std::size_t end = endOfHost(text);
        const std::string_view part = text.substr(0, end);
        if (part.empty() || part.find(']') < part.find('['))
            return badInput(fmt::format("\"{}\" is no list of names; write it as n[01-16,20]", text.substr(0, 60)));
        const auto names = expandHost(part, most);
        if (!names)
            return names.error();
        if (all.size() + names->size() > most)
            return badInput(fmt::format("the list stands for more than {} names", most));
        all.insert(all.end(), names->begin(), names->end());
        text.remove_prefix(end == text.size() ? end : end + 1);
    }
    return all;
}

} // namespace planloom::import
