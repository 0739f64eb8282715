// SPDX-License-Identifier: Apache-2.0
#include "planners/automap/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

namespace planloom::planners::automap {
namespace {

std::vector<std::string_view> pieces(std::string_view text, char separator)
{
    std::vector<std::string_view> found;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        found.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return found;
}

bool readNumber(std::string_view text, std::size_t &number)
{
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && stop == text.data() + text.size();
}

} // namespace

std::string toText(const Memory &memory)
{
    std::string text = fmt::format("episodes={}", memory.episodes);
    for (const auto &[game, actions] : memory.best)
        text += fmt::format(";{}={}", game, fmt::join(actions, "."));
    return text;
}

Result<Memory> memoryFrom(const std::string &text)
{
    Memory memory;
    if (text == "none")
        return memory;
    for (const std::string_view part : pieces(text, ';')) {
        const std::size_t equals = part.find('=');
        const auto wrong = [&] {
            return badInput(fmt::format("option resume: '{}' is not the state of a search; copy the option resume of "
                                        "a plan by automap, such as episodes=200;opp=1.0.0;pp2=13",
                                        part));
        };
        if (equals == std::string_view::npos || equals == 0)
            return wrong();
        const std::string key(part.substr(0, equals));
        const std::string_view value = part.substr(equals + 1);
        if (key == "episodes") {
            if (!readNumber(value, memory.episodes))
                return wrong();
            continue;
        }
        std::vector<std::size_t> &actions = memory.best[key];
        for (const std::string_view action : value.empty() ? std::vector<std::string_view>{} : pieces(value, '.'))
            if (!readNumber(action, actions.emplace_back()))
                return wrong();
    }
    return memory;
}

} // namespace planloom::planners::automap
