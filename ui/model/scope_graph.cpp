// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/scope_graph.h"

#include "ui/model/repeats.h"

#include <algorithm>
#include <cmath>
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

std::string lastPart(const std::string &path)
{
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// Drops frames that are not to be kept; those inside of them get the next one around as parent.
template <class Keep>
void keepFrames(VisibleGraph &graph, const Keep &keep)
{
    std::vector<int> place; // of the kept frame that stands for each
    std::vector<GraphFrame> kept;
    for (const GraphFrame &frame : graph.frames) {
        const int parent = frame.parent < 0 ? -1 : place[static_cast<std::size_t>(frame.parent)];
        place.push_back(parent);
        if (!keep(frame))
            continue;
        place.back() = static_cast<int>(kept.size());
        kept.push_back(frame);
        kept.back().parent = parent;
    }
    graph.frames = std::move(kept);
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
    std::unordered_map<std::string, std::string> runOf; // by scope
    for (const Repeat &repeat : repeatsOf(graph)) {
        m_runs.emplace(repeat.key, Run{repeat.title, repeat.scopes.size()});
        for (const std::string &scope : repeat.scopes)
            runOf.emplace(scope, repeat.key);
    }
    std::map<std::string, std::size_t> direct; // operators directly in a scope
    for (const graph::Op &op : graph.ops())
        ++direct[op.scope];
    std::map<std::string, std::size_t> seen;
    for (const graph::Op &op : graph.ops()) {
        std::vector<std::string> path;
        for (std::string &scope : scopePaths(op.scope)) {
            if (const auto run = runOf.find(scope); run != runOf.end())
                path.push_back(run->second);
            path.push_back(std::move(scope));
        }
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

bool ScopeGraph::holds(const std::string &key, OpId op) const
{
    const auto &path = m_path[op.index()];
    return std::ranges::find(path, key) != path.end() || m_graph.op(op).name == key;
}

std::string ScopeGraph::titleOf(const std::string &key) const
{
    const auto run = m_runs.find(key);
    return run == m_runs.end() ? shortName(key) : fmt::format("{} ×{}", run->second.title, run->second.scopes);
}

/// A box for @p op alone, or for the closed scope @p scope, without its operators.
GraphNode ScopeGraph::nodeFor(const graph::Op &op, const std::string &scope) const
{
    GraphNode made;
    made.group = !scope.empty();
    made.key = made.group ? scope : op.name;
    made.title = made.group ? titleOf(scope) : op.type.name();
    if (const auto run = m_runs.find(scope); run != m_runs.end())
        made.repeats = run->second.scopes;
    made.firstLayer = m_layerOf[op.id.index()];
    made.lastLayer = made.firstLayer + 1;
    return made;
}

std::string ScopeGraph::detailOf(const GraphNode &node) const
{
    const graph::Op &op = m_graph.op(node.firstOp());
    if (!node.group)
        return op.outputs.empty() || !op.outputs[0].valid() ? std::string()
                                                            : m_graph.tensor(op.outputs[0]).shape.text();
    const std::size_t each = node.ops.size() / node.repeats;
    const std::string operators = fmt::format("{} operator{}", each, each == 1 ? "" : "s");
    return node.repeats > 1 ? fmt::format("{} × {}", node.repeats, operators) : operators;
}

VisibleGraph ScopeGraph::visible(const std::set<std::string> &open) const
{
    VisibleGraph result;
    std::unordered_map<std::string, int> groups;
    std::vector<int> nodeOf(m_graph.ops().size(), -1);
    for (const graph::Op &op : m_graph.ops()) {
        const std::string scope = holder(op, open);
        int node = static_cast<int>(result.nodes.size());
        const auto known = scope.empty() ? groups.end() : groups.find(scope);
        if (known != groups.end()) {
            node = known->second;
        } else {
            result.nodes.push_back(nodeFor(op, scope));
            if (!scope.empty())
                groups.emplace(scope, node);
        }
        GraphNode &box = result.nodes[static_cast<std::size_t>(node)];
        const std::size_t layer = m_layerOf[op.id.index()];
        box.firstLayer = std::min(box.firstLayer, layer);
        box.lastLayer = std::max(box.lastLayer, layer + 1);
        box.ops.push_back(op.id);
        nodeOf[op.id.index()] = node;
    }
    for (GraphNode &box : result.nodes)
        box.detail = detailOf(box);
    connect(result, nodeOf);
    frame(result);
    return result;
}

/// A frame for each open scope, unless the frame inside of it has the same boxes, or it has nothing but a run's box.
void ScopeGraph::frame(VisibleGraph &result) const
{
    std::unordered_map<std::string, int> places;
    for (std::size_t n = 0; n < result.nodes.size(); ++n) {
        int parent = -1;
        for (const std::string &scope : m_path[result.nodes[n].firstOp().index()]) {
            if (scope == result.nodes[n].key)
                break;
            const auto [place, isNew] = places.emplace(scope, static_cast<int>(result.frames.size()));
            if (isNew)
                result.frames.push_back({scope, titleOf(scope), parent, {}});
            parent = place->second;
            result.frames[static_cast<std::size_t>(parent)].nodes.push_back(static_cast<int>(n));
        }
    }
    keepFrames(result, [&](const GraphFrame &each) {
        const bool onlyRun =
            each.nodes.size() == 1 && result.nodes[static_cast<std::size_t>(each.nodes[0])].repeats > 1;
        return !onlyRun && std::ranges::none_of(result.frames, [&](const GraphFrame &inner) {
            return inner.parent >= 0 && &result.frames[static_cast<std::size_t>(inner.parent)] == &each
                && inner.nodes == each.nodes;
        });
    });
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

std::vector<std::string> ScopeGraph::allScopes() const
{
    std::set<std::string> scopes;
    for (const auto &path : m_path)
        scopes.insert(path.begin(), path.end());
    return {scopes.begin(), scopes.end()};
}

VisibleGraph partOf(const VisibleGraph &graph, const std::vector<bool> &kept)
{
    VisibleGraph part;
    std::vector<int> place(graph.nodes.size(), -1);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        if (!kept[n])
            continue;
        place[n] = static_cast<int>(part.nodes.size());
        part.nodes.push_back(graph.nodes[n]);
    }
    const auto placeOf = [&](int node) { return place[static_cast<std::size_t>(node)]; };
    for (const GraphEdge &edge : graph.edges) {
        if (placeOf(edge.to) < 0)
            continue;
        if (placeOf(edge.from) >= 0)
            part.edges.push_back({placeOf(edge.from), placeOf(edge.to), edge.far});
        else
            part.nodes[static_cast<std::size_t>(placeOf(edge.to))].stubs.push_back(
                lastPart(graph.nodes[static_cast<std::size_t>(edge.from)].key));
    }
    part.frames = graph.frames;
    for (GraphFrame &frame : part.frames) {
        std::erase_if(frame.nodes, [&](int node) { return placeOf(node) < 0; });
        std::ranges::transform(frame.nodes, frame.nodes.begin(), placeOf);
    }
    keepFrames(part, [](const GraphFrame &frame) { return !frame.nodes.empty(); });
    return part;
}

VisibleGraph windowOf(const VisibleGraph &graph, std::size_t centre, std::size_t most)
{
    const std::size_t count = std::min(most, graph.nodes.size());
    const std::size_t begin = std::min(centre - std::min(centre, count / 2), graph.nodes.size() - count);
    std::vector<bool> kept(graph.nodes.size(), false);
    std::fill_n(kept.begin() + static_cast<std::ptrdiff_t>(begin), count, true);
    return partOf(graph, kept);
}

VisibleGraph neighbourhoodOf(const VisibleGraph &graph, std::size_t node, int steps)
{
    std::vector<bool> kept(graph.nodes.size(), false);
    kept[node] = true;
    for (int step = 0; step < steps; ++step) {
        const std::vector<bool> before = kept;
        for (const GraphEdge &edge : graph.edges) {
            const auto from = static_cast<std::size_t>(edge.from);
            const auto to = static_cast<std::size_t>(edge.to);
            kept[from] = kept[from] || before[to];
            kept[to] = kept[to] || before[from];
        }
    }
    return partOf(graph, kept);
}

namespace {

/// Boxes in their frames: frame @p frame with those inside of it, or what has none (-1).
void writeBoxes(std::string &text, const VisibleGraph &graph, const BoxSizes &sizes,
                const std::vector<std::vector<int>> &boxesOf, int frame)
{
    for (const int box : boxesOf[static_cast<std::size_t>(frame + 1)]) {
        const auto &[width, height] = sizes.boxes[static_cast<std::size_t>(box)];
        text += fmt::format("  {} [width={:.3f}, height={:.3f}];\n", box, width, height);
    }
    for (std::size_t f = static_cast<std::size_t>(frame + 1); f < graph.frames.size(); ++f) {
        if (graph.frames[f].parent != frame)
            continue;
        text += fmt::format("  subgraph cluster_{} {{\n", f);
        if (f < sizes.titles.size()) // an empty table keeps the title's room
            text += fmt::format("  label=<<TABLE BORDER=\"0\" FIXEDSIZE=\"TRUE\" WIDTH=\"{:.0f}\" HEIGHT=\"{:.0f}\">"
                                "<TR><TD></TD></TR></TABLE>>;\n",
                                std::ceil(sizes.titles[f].first), std::ceil(sizes.titles[f].second));
        writeBoxes(text, graph, sizes, boxesOf, static_cast<int>(f));
        text += "  }\n";
    }
}

} // namespace

std::string dotSource(const VisibleGraph &graph, const BoxSizes &sizes)
{
    std::string text = "digraph model {\n  graph [nodesep=0.18, ranksep=0.3];\n"
                       "  node [shape=box, fixedsize=true, label=\"\"];\n";
    std::vector<std::size_t> frameOf(graph.nodes.size(), 0); // the innermost one + 1
    for (std::size_t f = 0; f < graph.frames.size(); ++f)
        for (const int node : graph.frames[f].nodes)
            frameOf[static_cast<std::size_t>(node)] = f + 1;
    std::vector<std::vector<int>> boxesOf(graph.frames.size() + 1);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        boxesOf[frameOf[n]].push_back(static_cast<int>(n));
    writeBoxes(text, graph, sizes, boxesOf, -1);
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
