// SPDX-License-Identifier: Apache-2.0
#include "planners/oneflow/space.h"

#include <charconv>
#include <optional>

namespace planloom::planners::oneflow {
namespace {

/// A name with the first of its numbers between slashes or dots taken out: "h/12/attn" is number 12 of "h/#/attn".
struct Numbered {
    std::string series;
    int number = 0;
};

std::optional<Numbered> numbered(const std::string &name)
{
    const auto ends = [](char c) { return c == '/' || c == '.'; };
    for (std::size_t begin = 0; begin < name.size();) {
        std::size_t end = begin;
        while (end < name.size() && !ends(name[end]))
            ++end;
        int number = 0;
        const char *last = name.data() + end;
        if (const auto [stop, error] = std::from_chars(name.data() + begin, last, number); end > begin && error == std::errc() && stop == last)
            return Numbered{name.substr(0, begin) + "#" + name.substr(end), number};
        begin = end + 1;
    }
    return {};
}

bool alike(const graph::Graph &graph, const std::vector<TensorId> &a, const std::vector<TensorId> &b)
{
    if (a.size() != b.size())
        return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i].valid() != b[i].valid())
            return false;
        if (a[i].valid() && (graph.tensor(a[i]).shape != graph.tensor(b[i]).shape || graph.tensor(a[i]).role != graph.tensor(b[i]).role ||
                             graph.consumers(a[i]).size() != graph.consumers(b[i]).size()))
            return false;
    }
    return true;
}

bool alike(const graph::Graph &graph, const graph::Op &a, const graph::Op &b)
{
    return a.type == b.type && a.attributes == b.attributes && alike(graph, a.inputs, b.inputs) && alike(graph, a.outputs, b.outputs);
}

} // namespace

std::vector<std::size_t> representatives(const graph::Graph &graph)
{
    constexpr int kFewestBlocks = 4;
    std::map<std::string, std::map<int, std::size_t>> series;
    std::vector<std::size_t> chosen(graph.ops().size());
    for (std::size_t op = 0; op < chosen.size(); ++op) {
        chosen[op] = op;
        if (const auto name = numbered(graph.ops()[op].name))
            series[name->series].emplace(name->number, op);
    }
    for (const auto &[name, members] : series) {
        if (members.size() < kFewestBlocks)
            continue;
        const std::size_t second = std::next(members.begin())->second;
        for (auto member = std::next(members.begin(), 2); member != std::prev(members.end()); ++member)
            if (alike(graph, graph.ops()[second], graph.ops()[member->second]))
                chosen[member->second] = second;
    }
    return chosen;
}

} // namespace planloom::planners::oneflow
