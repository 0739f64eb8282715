// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/layers.h"

#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace planloom::graph {
namespace {

/// Operators [first, last), named after their common scope.
struct Group {
    std::size_t first;
    std::size_t last;
    std::string key; ///< repeated block or top-level scope; empty: none
};

/// Scopes are looked into this deep: real ones have up to 8 components, and a hostile file could have thousands.
constexpr int kDeepestScope = 16;

/// Length of the part before the index if a scope component is one of a numbered series ("7", "layer1.0"), else npos.
std::size_t seriesStem(std::string_view component)
{
    const std::size_t digits = component.find_last_not_of("0123456789");
    if (digits == component.size() - 1)
        return std::string_view::npos;
    if (digits == std::string_view::npos)
        return 0;
    return component[digits] == '.' ? digits : std::string_view::npos;
}

/// Calls f(series, prefix) for each numbered component of @p scope from outermost to innermost: "h/3/mlp" gives ("h/",
/// "h/3").
template <class F>
void eachBlock(std::string_view scope, F f)
{
    std::size_t begin = 0;
    for (int depth = 0; begin < scope.size() && depth < kDeepestScope; ++depth) {
        const std::size_t end = std::min(scope.find('/', begin), scope.size());
        const std::string_view component = scope.substr(begin, end - begin);
        const std::size_t stem = component.empty() ? std::string_view::npos : seriesStem(component);
        if (stem != std::string_view::npos)
            f(scope.substr(0, begin + stem), scope.substr(0, end));
        begin = end + 1;
    }
}

/// For each operator the outermost repeated block that it lies in, or empty. A block is repeated if its series has two
/// members.
std::vector<std::string> blockKeys(const Graph &graph)
{
    std::map<std::string, std::set<std::string>, std::less<>> series;
    for (const Op &op : graph.ops())
        eachBlock(op.scope,
                  [&](std::string_view stem, std::string_view prefix) { series[std::string(stem)].emplace(prefix); });
    std::vector<std::string> keys;
    keys.reserve(graph.ops().size());
    for (const Op &op : graph.ops()) {
        std::string key;
        eachBlock(op.scope, [&](std::string_view stem, std::string_view prefix) {
            if (key.empty() && series.find(stem)->second.size() > 1)
                key = prefix;
        });
        keys.push_back(std::move(key));
    }
    return keys;
}

/// Operators without a block between two operators of one block belong to it (constants' casts, fused names).
void fillGaps(std::vector<std::string> &keys)
{
    std::size_t last = keys.size();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (keys[i].empty())
            continue;
        if (last < i && keys[last] == keys[i])
            std::fill(keys.begin() + static_cast<std::ptrdiff_t>(last), keys.begin() + static_cast<std::ptrdiff_t>(i),
                      keys[i]);
        last = i;
    }
}

/// The first @p depth components of a scope.
std::string_view scopePrefix(std::string_view scope, int depth)
{
    std::size_t end = 0;
    for (int i = 0; i < depth && end != std::string_view::npos; ++i)
        end = scope.find('/', end == 0 ? 0 : end + 1);
    return scope.substr(0, end);
}

/// Worth a separate layer: reads weights (scales and biases of normalisations aside) or computes a lot.
bool isHeavy(const Graph &graph, const Op &op)
{
    if (op.traits().ownLayer)
        return true;
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
        return id.valid() && graph.tensor(id).role == TensorRole::Parameter && graph.tensor(id).shape.rank() > 1;
    });
}

std::size_t heavyOps(const Graph &graph, const Group &group)
{
    const auto ops = graph.ops().subspan(group.first, group.last - group.first);
    return static_cast<std::size_t>(
        std::count_if(ops.begin(), ops.end(), [&](const Op &op) { return isHeavy(graph, op); }));
}

/// Cuts operators without a repeated block where the scope's first @p depth components change, deeper where a part is
/// still more than @p limit heavy operators. An operator without so deep a scope stands alone.
void splitByScope(const Graph &graph, const Group &whole, int depth, std::size_t limit, std::vector<Group> &groups)
{
    std::size_t first = whole.first;
    for (std::size_t i = whole.first; i < whole.last; ++i) {
        const std::string_view prefix = scopePrefix(graph.ops()[i].scope, depth);
        const bool deepEnough = std::count(prefix.begin(), prefix.end(), '/') == depth - 1 && !prefix.empty();
        if (i + 1 < whole.last && deepEnough && scopePrefix(graph.ops()[i + 1].scope, depth) == prefix)
            continue;
        const Group part{first, i + 1, std::string(prefix)};
        if (deepEnough && depth < kDeepestScope && heavyOps(graph, part) > limit)
            splitByScope(graph, part, depth + 1, limit, groups);
        else
            groups.push_back(part);
        first = i + 1;
    }
}

/// First groups, before illegal boundaries and weak groups are merged away: repeated blocks, and the operators between
/// two of them as one group, unless that is most of the graph: then its scopes.
std::vector<Group> rawGroups(const Graph &graph)
{
    std::vector<std::string> keys = blockKeys(graph);
    fillGaps(keys);
    const std::size_t total = heavyOps(graph, {0, keys.size(), {}});
    const std::size_t limit = std::max<std::size_t>(total / 3, 2);
    const bool blocks = std::any_of(keys.begin(), keys.end(), [](const std::string &key) { return !key.empty(); });
    std::vector<Group> groups;
    for (std::size_t first = 0, i = 1; i <= keys.size(); ++i) {
        if (i < keys.size() && keys[i] == keys[first])
            continue;
        const Group group{first, i, keys[first]};
        if (group.key.empty() && (!blocks || heavyOps(graph, group) > std::max<std::size_t>(limit, 8)))
            splitByScope(graph, group, 1, limit, groups);
        else
            groups.push_back(group);
        first = i;
    }
    return groups;
}

/// One past the last reader of each tensor, as an operator position; 0 if unread.
std::vector<std::size_t> lastReads(const Graph &graph)
{
    std::vector<std::size_t> last(graph.tensors().size(), 0);
    for (const Tensor &tensor : graph.tensors())
        if (const auto consumers = graph.consumers(tensor.id); !consumers.empty())
            last[tensor.id.index()] = consumers.back().index() + 1;
    return last;
}

/// legal[p]: the graph may be cut before operator p.
std::vector<bool> legalCuts(const Graph &graph)
{
    std::vector<int> change(graph.ops().size() + 2, 0);
    const std::vector<std::size_t> last = lastReads(graph);
    for (const Tensor &tensor : graph.tensors()) {
        if (tensor.role != TensorRole::Activation || tensor.shape.batchLeading() || last[tensor.id.index()] == 0)
            continue;
        ++change[tensor.producer.index() + 1];
        --change[last[tensor.id.index()]];
    }
    std::vector<bool> legal(graph.ops().size() + 1, false);
    int crossing = 0;
    for (std::size_t p = 0; p < legal.size(); ++p) {
        crossing += change[p];
        legal[p] = crossing == 0;
    }
    return legal;
}

/// Joins groups whose boundary is no legal cut; the one with a key lends its name.
std::vector<Group> mergeIllegal(std::vector<Group> groups, const std::vector<bool> &legal)
{
    std::vector<Group> merged;
    for (Group &group : groups) {
        if (merged.empty() || legal[group.first]) {
            merged.push_back(std::move(group));
            continue;
        }
        merged.back().last = group.last;
        if (merged.back().key.empty())
            merged.back().key = std::move(group.key);
    }
    return merged;
}

/// Joins groups of small operators with the group before them; at the start, with the one after.
std::vector<Group> mergeLight(const Graph &graph, std::vector<Group> groups)
{
    std::vector<Group> merged;
    for (Group &group : groups) {
        const bool heavy = heavyOps(graph, group) > 0;
        if (merged.empty() || (heavy && (merged.size() > 1 || heavyOps(graph, merged.front()) > 0))) {
            merged.push_back(std::move(group));
            continue;
        }
        if (heavy)
            merged.back().key = std::move(group.key);
        merged.back().last = group.last;
    }
    return merged;
}

/// The scope that all operators of a group share, cut at whole components.
std::string sharedScope(const Graph &graph, const Group &group)
{
    std::string shared = graph.ops()[group.first].scope;
    for (std::size_t i = group.first; i < group.last && !shared.empty(); ++i) {
        const std::string &scope = graph.ops()[i].scope;
        while (!shared.empty() && scope != shared && scope.compare(0, shared.size() + 1, shared + "/") != 0) {
            const std::size_t slash = shared.rfind('/');
            shared.resize(slash == std::string::npos ? 0 : slash);
        }
    }
    return shared;
}

std::vector<Layer> nameLayers(const Graph &graph, const std::vector<Group> &groups)
{
    std::vector<Layer> layers;
    std::unordered_map<std::string, int> used;
    for (const Group &group : groups) {
        std::string name = group.key.empty() ? sharedScope(graph, group) : group.key;
        if (name.empty())
            name = graph.ops()[group.first].name;
        const int count = ++used[name];
        if (count > 1)
            name += "#" + std::to_string(count);
        layers.push_back({std::move(name), OpId(static_cast<std::int64_t>(group.first)),
                          OpId(static_cast<std::int64_t>(group.last))});
    }
    return layers;
}

std::vector<Group> groupsOf(const Graph &graph)
{
    const auto ops = graph.ops();
    if (isLayerProfile(graph)) {
        std::vector<Group> each;
        for (const Op &op : ops)
            each.push_back({op.id.index(), op.id.index() + 1, op.name});
        return each;
    }
    return mergeLight(graph, mergeIllegal(rawGroups(graph), legalCuts(graph)));
}

} // namespace

Bytes LayerView::cutBytes(const Graph &graph, std::size_t k, std::int64_t samples) const
{
    Bytes bytes;
    for (const TensorId id : cuts[k])
        bytes += graph.tensor(id).bytes(samples);
    return bytes;
}

std::size_t LayerView::layerOf(OpId op) const
{
    const auto after = std::upper_bound(layers.begin(), layers.end(), op,
                                        [](OpId id, const Layer &layer) { return id < layer.first; });
    return static_cast<std::size_t>(after - layers.begin()) - 1;
}

LayerView layersOf(const Graph &graph)
{
    LayerView view;
    view.layers = nameLayers(graph, groupsOf(graph));
    const std::vector<std::size_t> last = lastReads(graph);
    std::vector<TensorId> live;
    for (const Layer &layer : view.layers) {
        std::erase_if(live, [&](TensorId id) { return last[id.index()] <= layer.first.index(); });
        view.cuts.push_back(live);
        for (std::size_t op = layer.first.index(); op < layer.last.index(); ++op)
            for (const TensorId output : graph.ops()[op].outputs)
                live.push_back(output);
    }
    return view;
}

} // namespace planloom::graph
