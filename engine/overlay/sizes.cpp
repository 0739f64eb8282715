// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/sizes.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

namespace planloom::overlay {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The innermost lists of numbers of "[[8, 16], [[4], []]]", as far as the text goes.
std::vector<Sizes> listsIn(std::string_view text)
{
    std::vector<Sizes> lists;
    Sizes open;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] == '[') {
            open.clear();
        } else if (text[at] == ']') {
            if (!open.empty())
                lists.push_back(open);
            open.clear();
        }
        std::int64_t number = 0;
        const auto read = std::from_chars(text.data() + at, text.data() + text.size(), number);
        if (read.ec == std::errc())
            open.push_back(number);
        at = read.ec == std::errc() ? static_cast<std::size_t>(read.ptr - text.data()) : at + 1;
    }
    return lists;
}

} // namespace

std::optional<bool> sizesAgree(const graph::Graph &graph, const Unit &unit, std::string_view arguments)
{
    constexpr std::string_view kKey = "Input Dims: ";
    const std::size_t key = arguments.find(kKey);
    if (key == std::string_view::npos)
        return std::nullopt;
    const std::size_t begin = key + kKey.size();
    const std::vector<Sizes> lists = listsIn(arguments.substr(begin, arguments.find('\n', begin) - begin));
    bool any = false;
    for (const OpId op : unit.ops) {
        for (const TensorId id : graph.op(op).inputs) {
            if (!id.valid() || graph.tensor(id).role != graph::TensorRole::Parameter)
                continue;
            const Sizes wanted = graph.tensor(id).shape.at(1);
            if (wanted.size() < 2)
                continue;
            any = true;
            const Sizes turned(wanted.rbegin(), wanted.rend());
            if (std::ranges::find(lists, wanted) == lists.end() && std::ranges::find(lists, turned) == lists.end())
                return false;
        }
    }
    return any ? std::optional(true) : std::nullopt;
}

} // namespace planloom::overlay
