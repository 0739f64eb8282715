// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/graph/graph.h"
#include "engine/graph/layers.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace planloom::ui {

/// A box of the model view: an operator, or a scope or a run of repeated ones (repeats.h) that is shown closed.
struct GraphNode {
    std::string key;    ///< the scope's path, the run's key, or the operator's name: the same from layout to layout
    std::string title;  ///< short name of the scope, or the operator's type
    std::string detail; ///< "42 operators", or the output's shape
    bool group = false;
    std::size_t repeats = 1; ///< scopes of equal structure that the box stands for
    std::vector<OpId> ops;   ///< its operators, in the graph's order; never empty
    std::size_t firstLayer = 0;
    std::size_t lastLayer = 0;      ///< one past the end
    int rank = 0;                   ///< longest path from a source
    std::vector<std::string> stubs; ///< inputs that many boxes share: named here instead of drawn as edges

    [[nodiscard]] OpId firstOp() const { return ops.front(); }
};

/// Between two boxes, by their places in VisibleGraph::nodes.
struct GraphEdge {
    int from = 0;
    int to = 0;
    bool far = false; ///< spans many ranks, or runs against the order: not for dot, drawn as a curve at the side
};

/// Around the boxes of an open scope.
struct GraphFrame {
    std::string key; ///< of the scope
    std::string title;
    int parent = -1;        ///< the frame around it; -1: none
    std::vector<int> nodes; ///< its boxes, those of inner frames too; in order
};

/// The visible boxes and edges for a set of open scopes.
struct VisibleGraph {
    std::vector<GraphNode> nodes; ///< in the order of their first operators
    std::vector<GraphEdge> edges;
    std::vector<GraphFrame> frames;                       ///< outer ones before those inside of them
    [[nodiscard]] int find(const std::string &key) const; ///< -1: none
};

/// The scopes of a model as a tree. Pure value, no widget.
class ScopeGraph {
public:
    ScopeGraph(const graph::Graph &graph, const graph::LayerView *layers);

    /// Boxes and edges with exactly the scopes of @p open shown open. Cost: O(operators + edges).
    [[nodiscard]] VisibleGraph visible(const std::set<std::string> &open) const;
    /// Scopes of @p op, outermost first; runs of repeated ones and of operators are scopes, too.
    [[nodiscard]] const std::vector<std::string> &pathOf(OpId op) const { return m_path[op.index()]; }
    /// Whether @p op lies in scope @p key, or is the operator of that name.
    [[nodiscard]] bool holds(const std::string &key, OpId op) const;
    /// Scopes to open so that operator or scope @p key becomes visible.
    [[nodiscard]] std::vector<std::string> ancestors(const std::string &key) const;
    [[nodiscard]] std::string parentOf(const std::string &key) const; ///< "" at the top
    /// How the box of scope @p key is titled: "h.0 … h.11 ×12".
    [[nodiscard]] std::string titleOf(const std::string &key) const;
    [[nodiscard]] bool isRun(const std::string &key) const { return m_runs.contains(key); } ///< of repeated scopes
    [[nodiscard]] std::vector<std::string> allScopes() const;
    [[nodiscard]] const graph::Graph &graph() const { return m_graph; }

private:
    [[nodiscard]] std::string holder(const graph::Op &op, const std::set<std::string> &open) const;
    [[nodiscard]] GraphNode nodeFor(const graph::Op &op, const std::string &scope) const;
    [[nodiscard]] std::string detailOf(const GraphNode &node) const;
    void connect(VisibleGraph &result, const std::vector<int> &nodeOf) const;
    void stub(VisibleGraph &result, const graph::Tensor &tensor, const std::vector<int> &nodeOf) const;
    void frame(VisibleGraph &result) const;

    struct Run {
        std::string title;
        std::size_t scopes = 0;
    };
    const graph::Graph &m_graph;
    std::vector<std::size_t> m_layerOf;           ///< per operator
    std::vector<std::vector<std::string>> m_path; ///< per operator: its scopes, outermost first
    std::map<std::string, Run> m_runs;            ///< of repeated scopes, by key
};

/// The nodes of @p graph that are @p kept, in its order, with the edges between them and their frames. Edges that come
/// from other nodes become stubs.
VisibleGraph partOf(const VisibleGraph &graph, const std::vector<bool> &kept);
/// At most @p most nodes around node @p centre.
VisibleGraph windowOf(const VisibleGraph &graph, std::size_t centre, std::size_t most);
/// The nodes that at most @p steps edges, in either direction, lie between and @p node. Cost: O(steps * edges).
VisibleGraph neighbourhoodOf(const VisibleGraph &graph, std::size_t node, int steps);

/// Room for boxes (inches) and the titles of frames (points): widths and heights.
struct BoxSizes {
    std::vector<std::pair<double, double>> boxes;
    std::vector<std::pair<double, double>> titles;
};
/// Graphviz source for the near edges; frames are clusters of it.
std::string dotSource(const VisibleGraph &graph, const BoxSizes &sizes);

/// Where `dot -Tplain` put things, points with y downwards.
struct PlainLayout {
    struct Point {
        double x = 0, y = 0;
    };
    double width = 0, height = 0;
    std::vector<Point> centers;                                ///< per node
    std::map<std::pair<int, int>, std::vector<Point>> splines; ///< Bezier points per near edge
};
/// False if @p text is not a whole answer for @p nodes boxes.
bool parsePlain(const std::string &text, std::size_t nodes, PlainLayout &layout);

} // namespace planloom::ui
