// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/graph/graph.h"
#include "engine/graph/layers.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace planloom::ui {

/// A box of the model view: an operator, or a scope that is shown closed.
struct GraphNode {
    std::string key;    ///< the scope's path, or the operator's name: the same from layout to layout
    std::string title;  ///< last part of the path, or the operator's type
    std::string detail; ///< "42 operators", or the output's shape
    bool group = false;
    OpId firstOp; ///< smallest of its operators
    std::size_t firstLayer = 0;
    std::size_t lastLayer = 0;      ///< one past the end
    int rank = 0;                   ///< longest path from a source
    std::vector<std::string> stubs; ///< inputs that many boxes share: named here instead of drawn as edges
};

/// Between two boxes, by their places in VisibleGraph::nodes.
struct GraphEdge {
    int from = 0;
    int to = 0;
    bool far = false; ///< spans many ranks, or runs against the order: not for dot, drawn as a curve at the side
};

/// The visible boxes and edges for a set of open scopes.
struct VisibleGraph {
    std::vector<GraphNode> nodes; ///< in the order of their first operators
    std::vector<GraphEdge> edges;
    [[nodiscard]] int find(const std::string &key) const; ///< -1: none
};

/// The scopes of a model as a tree. Pure value, no widget.
class ScopeGraph {
public:
    ScopeGraph(const graph::Graph &graph, const graph::LayerView *layers);

    /// Boxes and edges with exactly the scopes of @p open shown open. Cost: O(operators + edges).
    [[nodiscard]] VisibleGraph visible(const std::set<std::string> &open) const;
    /// Scopes to open so that operator or scope @p key becomes visible.
    [[nodiscard]] std::vector<std::string> ancestors(const std::string &key) const;
    [[nodiscard]] std::string parentOf(const std::string &key) const; ///< "" at the top
    /// Keys of operators and scopes whose name or type contains @p text, in order, any case.
    [[nodiscard]] std::vector<std::string> search(const std::string &text) const;
    [[nodiscard]] std::vector<std::string> allScopes() const;

private:
    [[nodiscard]] std::string holder(const graph::Op &op, const std::set<std::string> &open) const;
    void connect(VisibleGraph &result, const std::vector<int> &nodeOf) const;
    void stub(VisibleGraph &result, const graph::Tensor &tensor, const std::vector<int> &nodeOf) const;

    const graph::Graph &m_graph;
    std::vector<std::size_t> m_layerOf;           ///< per operator
    std::vector<std::vector<std::string>> m_path; ///< per operator: its scopes, outermost first
};

/// At most @p most nodes of @p graph around node @p centre, in its order, with the edges between them. Edges that come
/// from other nodes become stubs.
VisibleGraph windowOf(const VisibleGraph &graph, std::size_t centre, std::size_t most);

/// Graphviz source for the near edges, boxes of the given sizes (inches).
std::string dotSource(const VisibleGraph &graph, const std::vector<std::pair<double, double>> &sizes);

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
