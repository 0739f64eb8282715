// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <optional>
#include <set>

namespace planloom::import {

/// A part of a graph that one operator can do. Its last operator is the one that makes `output`.
struct Pattern {
    std::string type;
    std::vector<TensorId> inputs;
    TensorId output;
    graph::Attributes attributes;
    std::set<OpId> ops;
};

/// Questions that patterns ask of a graph.
class PatternGraph {
public:
    explicit PatternGraph(const graph::Graph &graph) : m_graph(graph) {}

    [[nodiscard]] const graph::Graph &graph() const { return m_graph; }
    [[nodiscard]] const graph::Op *source(TensorId id) const;
    [[nodiscard]] const graph::Op *source(TensorId id, std::string_view type) const;
    /// The value of a float32 constant of one element.
    [[nodiscard]] std::optional<double> number(TensorId id) const;
    [[nodiscard]] bool isNumber(TensorId id, double value) const;
    /// True if nothing outside of the pattern reads what its operators make, but for its output.
    [[nodiscard]] bool closed(const Pattern &pattern) const;

private:
    const graph::Graph &m_graph;
};

/// Constants in files have been through float32, and people write them with few digits.
bool nearly(double a, double b);

/// Each is asked of the operator in the pattern's middle: Erf or Tanh; Sigmoid; Sqrt; Softmax.
std::optional<Pattern> matchGelu(const PatternGraph &in, const graph::Op &op);
std::optional<Pattern> matchSilu(const PatternGraph &in, const graph::Op &op);
std::optional<Pattern> matchNormalization(const PatternGraph &in, const graph::Op &op);
/// Attention's inputs are one packed projection, or q, k and v, which have yet to be put side by side.
std::optional<Pattern> matchAttention(const PatternGraph &in, const graph::Op &op);

} // namespace planloom::import
