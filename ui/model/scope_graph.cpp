// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/scope_graph.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <sstream>
#include <unordered_map>

namespace planloom::ui {
namespace {

/// A tensor that so many boxes read is drawn as a stub on each: edges from one box to all make layouts explode.
constexpr std::size_t kSharedReaders = 6;
/// Ranks that an edge given to dot may span. Each rank on the way becomes a virtual node there: densenet-121 takes a
/// minute with all edges and 0.02 s with this limit.
constexpr int kLongestSpan = 8;
/// More operators than this directly in one scope are shown in runs.
constexpr std::size_t kMostChildren = 120;

std::vector<std::string> splitScope(const std::string &scope)
{
    std::vector<std::string> paths;
    for (std::size_t end = 0; end != std::string::npos && !scope.empty();) {
        end = scope.find('/', end ? end + 1 : 0);
        paths.push_back(scope.substr(0, end));
    }
    return paths;
}

std::string lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

std::string lastPart(const std::string &path)
{
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

} // namespace

int VisibleGraph::find(const std::string &key) const
{
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].key == key)
            return static_cast<int>(i);
    return -1;
}

ScopeGraph::ScopeGraph(const graph::Graph &graph, const graph::LayerView *layers) : m_graph(graph)
{
    std::map<std::string, std::size_t> direct; // operators directly in a scope
    for (const graph::Op &op : graph.ops())
        ++direct[op.scope];
    std::map<std::string, std::size_t> seen;
    for (const graph::Op &op : graph.ops()) {
        std::vector<std::string> path = splitScope(op.scope);
        if (direct[op.scope] > kMostChildren) {
            const std::size_t run = seen[op.scope]++ / kMostChildren;
            path.push_back(fmt::format("{}{}operators {}..{}", op.scope, op.scope.empty() ? "" : "/",
                                       run * kMostChildren, std::min((run + 1) * kMostChildren, direct[op.scope]) - 1));
        }
        m_path.push_back(std::move(path));
        m_layerOf.push_back(layers ? layers->layerOf(op.id) : 0);
    }
}

std::string ScopeGraph::holder(const graph::Op &op, const std::set<std::string> &open) const
{
    for (const std::string &scope : m_path[op.id.index()])
        if (!open.contains(scope))
            return scope;
    return {};
}

VisibleGraph ScopeGraph::visible(const std::set<std::string> &open) const
{
    VisibleGraph result;
    std::unordered_map<std::string, int> groups;
    std::vector<int> nodeOf(m_graph.ops().size(), -1);
    std::vector<int> members;
    for (const graph::Op &op : m_graph.ops()) {
        const std::string scope = holder(op, open);
        const std::size_t layer = m_layerOf[op.id.index()];
        int node = static_cast<int>(result.nodes.size());
        const auto known = scope.empty() ? groups.end() : groups.find(scope);
        if (known != groups.end()) {
            node = known->second;
        } else {
            GraphNode made{scope.empty() ? op.name : scope,
                           scope.empty() ? op.type.name() : lastPart(scope),
                           {},
                           !scope.empty(),
                           op.id,
                           layer,
                           layer + 1,
                           0,
                           {}};
            if (scope.empty() && !op.outputs.empty() && op.outputs[0].valid())
                made.detail = m_graph.tensor(op.outputs[0]).shape.text();
            result.nodes.push_back(std::move(made));
            members.push_back(0);
            if (!scope.empty())
                groups.emplace(scope, node);
        }
        GraphNode &box = result.nodes[static_cast<std::size_t>(node)];
        box.firstLayer = std::min(box.firstLayer, layer);
        box.lastLayer = std::max(box.lastLayer, layer + 1);
        ++members[static_cast<std::size_t>(node)];
        nodeOf[op.id.index()] = node;
    }
    for (std::size_t i = 0; i < result.nodes.size(); ++i)
        if (result.nodes[i].group)
            result.nodes[i].detail = fmt::format("{} operator{}", members[i], members[i] == 1 ? "" : "s");
    connect(result, nodeOf);
    return result;
}

void ScopeGraph::stub(VisibleGraph &result, const graph::Tensor &tensor, const std::vector<int> &nodeOf) const
{
    for (const OpId reader : m_graph.consumers(tensor.id)) {
        auto &stubs = result.nodes[static_cast<std::size_t>(nodeOf[reader.index()])].stubs;
        if (std::find(stubs.begin(), stubs.end(), tensor.name) == stubs.end())
            stubs.push_back(tensor.name);
    }
}

void ScopeGraph::connect(VisibleGraph &result, const std::vector<int> &nodeOf) const
{
    std::set<std::pair<int, int>> pairs;
    for (const graph::Tensor &tensor : m_graph.tensors()) {
        if (tensor.role == graph::TensorRole::Input)
            stub(result, tensor, nodeOf);
        if (!tensor.producer.valid())
            continue;
        const int from = nodeOf[tensor.producer.index()];
        std::set<int> readers;
        for (const OpId reader : m_graph.consumers(tensor.id))
            if (nodeOf[reader.index()] != from)
                readers.insert(nodeOf[reader.index()]);
        if (readers.size() > kSharedReaders) {
            stub(result, tensor, nodeOf);
            continue;
        }
        for (const int to : readers)
            pairs.emplace(from, to);
    }
    // Boxes are in the order of their first operators: an edge that runs against it closes a loop of scopes.
    for (const auto &[from, to] : pairs)
        if (from < to) {
            int &rank = result.nodes[static_cast<std::size_t>(to)].rank;
            rank = std::max(rank, result.nodes[static_cast<std::size_t>(from)].rank + 1);
        }
    for (const auto &[from, to] : pairs) {
        const int span =
            result.nodes[static_cast<std::size_t>(to)].rank - result.nodes[static_cast<std::size_t>(from)].rank;
        result.edges.push_back({from, to, from > to || span > kLongestSpan});
    }
}

std::vector<std::string> ScopeGraph::ancestors(const std::string &key) const
{
    for (const graph::Op &op : m_graph.ops()) {
        const auto &path = m_path[op.id.index()];
        if (op.name == key)
            return path;
        const auto scope = std::find(path.begin(), path.end(), key);
        if (scope != path.end())
            return {path.begin(), scope};
    }
    return {};
}

std::string ScopeGraph::parentOf(const std::string &key) const
{
    const auto path = ancestors(key);
    return path.empty() ? std::string() : path.back();
}

std::vector<std::string> ScopeGraph::search(const std::string &text) const
{
    std::vector<std::string> hits;
    const std::string wanted = lower(text);
    if (wanted.empty())
        return hits;
    std::set<std::string> scopes;
    for (const graph::Op &op : m_graph.ops()) {
        for (const std::string &scope : m_path[op.id.index()])
            if (scopes.insert(scope).second && lower(lastPart(scope)).find(wanted) != std::string::npos)
                hits.push_back(scope);
        if (lower(lastPart(op.name)).find(wanted) != std::string::npos
            || lower(op.type).find(wanted) != std::string::npos)
            hits.push_back(op.name);
    }
    return hits;
}

std::vector<std::string> ScopeGraph::allScopes() const
{
    std::set<std::string> scopes;
    for (const auto &path : m_path)
        scopes.insert(path.begin(), path.end());
    return {scopes.begin(), scopes.end()};
}

VisibleGraph windowOf(const VisibleGraph &graph, std::size_t centre, std::size_t most)
{
    const std::size_t count = std::min(most, graph.nodes.size());
    const std::size_t begin = std::min(centre - std::min(centre, count / 2), graph.nodes.size() - count);
    VisibleGraph window;
    const auto from = graph.nodes.begin() + static_cast<std::ptrdiff_t>(begin);
    window.nodes.assign(from, from + static_cast<std::ptrdiff_t>(count));
    const auto shown = [&](int node) { return node - static_cast<int>(begin); };
    const auto isShown = [&](int node) { return shown(node) >= 0 && shown(node) < static_cast<int>(count); };
    for (const GraphEdge &edge : graph.edges) {
        if (!isShown(edge.to))
            continue;
        if (isShown(edge.from))
            window.edges.push_back({shown(edge.from), shown(edge.to), edge.far});
        else
            window.nodes[static_cast<std::size_t>(shown(edge.to))].stubs.push_back(
                lastPart(graph.nodes[static_cast<std::size_t>(edge.from)].key));
    }
    return window;
}

std::string dotSource(const VisibleGraph &graph, const std::vector<std::pair<double, double>> &sizes)
{
    std::string text =
        "digraph model {\n  graph [nodesep=0.18, ranksep=0.3];\n  node [shape=box, fixedsize=true, label=\"\"];\n";
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
        text += fmt::format("  {} [width={:.3f}, height={:.3f}];\n", i, sizes[i].first, sizes[i].second);
    std::vector<bool> placed(graph.nodes.size(), false);
    for (const GraphEdge &edge : graph.edges) {
        if (edge.far)
            continue;
        text += fmt::format("  {} -> {};\n", edge.from, edge.to);
        placed[static_cast<std::size_t>(edge.to)] = true;
    }
    // A box that only far edges reach would float to the top: hold it below the box before it.
    for (std::size_t i = 1; i < graph.nodes.size(); ++i)
        if (!placed[i] && graph.nodes[i].rank > 0)
            text += fmt::format("  {} -> {} [style=invis];\n", i - 1, i);
    return text + "}\n";
}

bool parsePlain(const std::string &text, std::size_t nodes, PlainLayout &layout)
{
    constexpr double kPointsPerInch = 72;
    std::istringstream lines(text);
    layout = {};
    layout.centers.resize(nodes);
    std::size_t found = 0;
    std::string line;
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string what;
        words >> what;
        if (what == "stop")
            return found == nodes;
        if (what == "graph") {
            double scale = 1;
            words >> scale >> layout.width >> layout.height;
            layout.width *= kPointsPerInch;
            layout.height *= kPointsPerInch;
        } else if (what == "node") {
            std::size_t index = 0;
            double x = 0, y = 0;
            if (!(words >> index >> x >> y) || index >= nodes)
                return false;
            layout.centers[index] = {x * kPointsPerInch, layout.height - y * kPointsPerInch};
            ++found;
        } else if (what == "edge") {
            std::size_t from = 0, to = 0, count = 0;
            if (!(words >> from >> to >> count) || from >= nodes || to >= nodes || count > 10000)
                return false;
            auto &points = layout.splines[{static_cast<int>(from), static_cast<int>(to)}];
            for (std::size_t i = 0; i < count; ++i) {
                double x = 0, y = 0;
                if (!(words >> x >> y))
                    return false;
                points.push_back({x * kPointsPerInch, layout.height - y * kPointsPerInch});
            }
        }
    }
    return false;
}

} // namespace planloom::ui
