// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <optional>
#include <set>

namespace planloom::import {

/// A tensor of the graph, or the result of an earlier step of the same pattern.
struct Operand {
    Operand(TensorId of) : tensor(of) {} ///< not explicit: steps list tensors as they are
    static Operand made(std::size_t step)
    {
        Operand operand{TensorId()};
        operand.step = static_cast<int>(step);
        return operand;
    }
    TensorId tensor;
    int step = -1;
};

/// An operator that is written instead; it has one output.
struct Step {
    std::string type;
    std::vector<Operand> inputs;
    graph::Attributes attributes;
    graph::DType makes = graph::DType::F32;
};

/// A part of a graph and its replacement.
struct Pattern {
    std::vector<Step> steps; ///< the last makes `output`; none: `same` stands for it
    TensorId output;         ///< made by the part's last operator
    std::set<OpId> ops;
    TensorId same;
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
    /// The value of an integer constant of one element.
    [[nodiscard]] std::optional<std::int64_t> integer(TensorId id) const;
    /// The operator that alone reads @p id, if it is of @p type.
    [[nodiscard]] const graph::Op *onlyReader(TensorId id, std::string_view type) const;
    [[nodiscard]] const graph::Tensor &tensor(TensorId id) const { return m_graph.tensor(id); }
    /// True if nothing outside of the pattern reads its inner tensors.
    [[nodiscard]] bool closed(const Pattern &pattern) const;

private:
    const graph::Graph &m_graph;
};

/// Constants in files have been through float32, and people write them with few digits.
bool nearly(double a, double b);

/// Dropout that drops nothing, a Cast to the same type.
std::optional<Pattern> matchNothing(const PatternGraph &in, const graph::Op &op);
/// A product with a transposed weight, as torch.nn.Linear is exported.
std::optional<Pattern> matchLinear(const PatternGraph &in, const graph::Op &op);
/// Linear layers between two exchanges of the first two dimensions, which cancel.
std::optional<Pattern> matchTurnedRows(const PatternGraph &in, const graph::Op &op);

// Each is asked of the operator in the pattern's middle: Erf or Tanh; Sigmoid; Sqrt; Softmax.
std::optional<Pattern> matchGelu(const PatternGraph &in, const graph::Op &op);
std::optional<Pattern> matchSilu(const PatternGraph &in, const graph::Op &op);
std::optional<Pattern> matchNormalization(const PatternGraph &in, const graph::Op &op);
std::optional<Pattern> matchAttention(const PatternGraph &in, const graph::Op &op);

/// Scores of pairs of positions are hidden by operators between their product and the Softmax. Reads one such operator.
struct Hiding {
    TensorId scores; ///< before
    bool causal = false;
    TensorId seen; ///< an input (samples, positions) that is not zero where a key may be seen; invalid: causal
};
std::optional<Hiding> readHiding(const PatternGraph &in, const graph::Op &op, std::int64_t positions);

} // namespace planloom::import
