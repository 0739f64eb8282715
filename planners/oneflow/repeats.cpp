// SPDX-License-Identifier: Apache-2.0
#include "planners/oneflow/space.h"

#include "engine/sharding/megatron.h"

#include <algorithm>
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
        if (const auto [stop, error] = std::from_chars(name.data() + begin, last, number);
            end > begin && error == std::errc() && stop == last)
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
        if (a[i].valid()
            && (graph.tensor(a[i]).shape != graph.tensor(b[i]).shape
                || graph.tensor(a[i]).role != graph.tensor(b[i]).role
                || graph.consumers(a[i]).size() != graph.consumers(b[i]).size()))
            return false;
    }
    return true;
}

bool alike(const graph::Graph &graph, const graph::Op &a, const graph::Op &b)
{
    return a.type == b.type && a.attributes == b.attributes && alike(graph, a.inputs, b.inputs)
        && alike(graph, a.outputs, b.outputs);
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

std::vector<std::size_t> tensorRepresentatives(const graph::Graph &graph, const std::vector<std::size_t> &standsFor)
{
    std::vector<std::size_t> chosen(graph.tensors().size());
    for (std::size_t t = 0; t < chosen.size(); ++t)
        chosen[t] = t;
    for (std::size_t o = 0; o < standsFor.size(); ++o) {
        const graph::Op &op = graph.ops()[o];
        const graph::Op &other = graph.ops()[standsFor[o]];
        for (std::size_t i = 0; i < op.outputs.size(); ++i)
            chosen[op.outputs[i].index()] = other.outputs[i].index();
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            if (op.inputs[i].valid() && graph.tensor(op.inputs[i]).role == graph::TensorRole::Parameter
                && other.inputs[i] != op.inputs[i])
                chosen[op.inputs[i].index()] = chosen[other.inputs[i].index()];
    }
    return chosen;
}

std::vector<std::vector<sharding::Signature>> candidateSignatures(const graph::Graph &graph, int parts,
                                                                  const std::vector<std::size_t> &standsFor,
                                                                  const std::vector<std::size_t> &tensorStandsFor)
{
    std::vector<std::vector<sharding::Sbp>> segmented(graph.tensors().size());
    const auto appendOnce = [](auto &list, auto entry) {
        if (std::find(list.begin(), list.end(), entry) == list.end())
            list.push_back(std::move(entry));
    };
    sharding::Mesh mesh;
    mesh.sizes = {1, parts};
    for (const auto &[name, pin] : sharding::megatronPins(graph, mesh))
        if (const TensorId id = graph.find(name); id.valid() && !pin[1].segments.empty())
            segmented[id.index()].push_back(pin[1]);
    std::vector<std::vector<sharding::Signature>> all(standsFor.size());
    for (std::size_t o = 0; o < standsFor.size(); ++o) {
        if (standsFor[o] != o)
            continue;
        const graph::Op &op = graph.ops()[o];
        sharding::OpAtHand at = sharding::atHand(graph, op, parts);
        at.have.assign(op.inputs.size(), sharding::broadcast());
        all[o] = sharding::signatures(at);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid())
                continue;
            for (const sharding::Sbp &layout : segmented[tensorStandsFor[op.inputs[i].index()]]) {
                at.have[i] = layout;
                for (sharding::Signature &signature : sharding::signatures(at))
                    appendOnce(all[o], std::move(signature));
            }
            at.have[i] = sharding::broadcast();
        }
        for (const sharding::Signature &signature : all[o])
            for (std::size_t i = 0; i < op.outputs.size(); ++i)
                if (!signature.outputs[i].segments.empty())
                    appendOnce(segmented[op.outputs[i].index()], signature.outputs[i]);
    }
    return all;
}

} // namespace planloom::planners::oneflow
