// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace planloom::planners::oneflow {

inline constexpr double kNever = std::numeric_limits<double>::infinity(); ///< seconds of an impossible choice

/// Nodes that each choose one of their states; a choice has a cost, and on every edge so has each pair of
/// choices costs. Infinity forbids. OneFlow's auto-parallel module searches such a graph: a node is an operator, its
/// states are signatures.
struct ChoiceGraph {
    struct Edge {
        int a = 0;
        int b = 0;                ///< another node
        std::vector<double> cost; ///< row-major: states of a x states of b
    };
    std::vector<std::vector<double>> nodes; ///< cost per state; at least one
    std::vector<Edge> edges;                ///< parallel ones add up

    int add(std::vector<double> costs);
    void connect(int a, int b, std::vector<double> cost);
};

/// A choice for every node.
struct Solution {
    std::vector<int> states; ///< per node
    double cost = 0;         ///< infinity: nothing that is allowed was found
    bool exact = true;       ///< false: the rest after elimination was refined locally
    std::size_t kernel = 0;  ///< nodes that could not be eliminated
    std::size_t largestTable = 0;
};

/// Limits of solve().
struct SolveSettings {
    std::size_t largestTable = std::size_t{1}
        << 20; ///< entries of the table that an eliminated node leaves; 8 bytes each
};

double costOf(const ChoiceGraph &graph, const std::vector<int> &states);

/// The cheapest choice of all. Nodes are eliminated one after the other, the one that leaves the smallest table first:
/// a leaf folds into its neighbour, a chain becomes an edge, parallel edges add up, and a node with k neighbours
/// becomes a table over those k (a dynamic programme over a tree decomposition). Where the smallest table is above the
/// limit the rest is a kernel: it starts from the best of @p seeds and of one greedy assignment, and single nodes and
/// neighbouring pairs move until nothing gets better. Ties go to the earlier state. Deterministic.
Solution solve(const ChoiceGraph &graph, const SolveSettings &settings = {},
               const std::vector<std::vector<int>> &seeds = {});

} // namespace planloom::planners::oneflow
