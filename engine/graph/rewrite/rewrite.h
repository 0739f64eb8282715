// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

#include <vector>

namespace planloom::graph {

/// Builds a TrainingGraph from another, operator by operator: the tool kit of every rewrite (sharding, precision,
/// fusion, layouts). Walk `from().graph.ops()` in order; copy() unchanged operators, emit() new ones, map() old tensors
/// to new ones. Fixed tensors and inputs are copied at their first use unless they were mapped before. Names stay;
/// emitted operators get fresh ones. Not thread-safe.
class Rewriter {
public:
    explicit Rewriter(const TrainingGraph &from);

    [[nodiscard]] const TrainingGraph &from() const { return m_from; }
    [[nodiscard]] const Graph &old() const { return m_from.graph; }
    GraphBuilder &builder() { return m_builder; }

    /// The replacement of @p old so far; invalid ids stay invalid.
    TensorId to(TensorId old);
    /// From now on readers of @p old, and the lists of the TrainingGraph that name it, mean @p made.
    void map(TensorId old, TensorId made);
    [[nodiscard]] bool mapped(TensorId old) const { return m_to[old.index()].valid(); }

    /// The operator as it is, with its inputs mapped and outputs of the same names; @p attributes replace its own if
    /// given.
    void copy(const Op &op);
    void copy(const Op &op, Attributes attributes);
    void copy(const Op &op, Attributes attributes,
              std::vector<TensorId> inputs); ///< these inputs (of the new graph) instead of the mapped ones
    /// A new operator that makes @p outputs, which were declared with builder().activation().
    void add(const std::string &type, const std::string &name, const std::string &scope, std::vector<TensorId> inputs,
             std::vector<TensorId> outputs, Attributes attributes);
    /// A new operator with one output, in @p like's scope. Its shape is inferred in finish().
    TensorId emit(const std::string &type, std::vector<TensorId> inputs, Attributes attributes, const Op &like);
    std::vector<TensorId> emit(const std::string &type, std::vector<TensorId> inputs, Attributes attributes,
                               const Op &like, std::size_t outputs);

    /// A new operator whose outputs take the places and names of @p outputs, tensors of old(); invalid ones get fresh
    /// names.
    std::vector<TensorId> replace(const std::string &type, const std::string &name, std::vector<TensorId> inputs,
                                  Attributes attributes, const Op &like, const std::vector<TensorId> &outputs);

    /// True while operators of the forward pass of from() are being walked: operators added now are forward. Set by the
    /// walk: call beginBackward() before the first backward operator.
    void beginBackward() { m_forwardOps = m_added; }

    /// The rewritten graph; the stash is worked out afresh. Errors: those of GraphBuilder::build.
    Result<TrainingGraph> finish() &&;

private:
    const TrainingGraph &m_from;
    GraphBuilder m_builder;
    std::vector<TensorId> m_to;
    std::size_t m_added = 0;
    std::size_t m_forwardOps = 0;
    int m_fresh = 0;
};

} // namespace planloom::graph
