// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace planloom::graph {

/// The backward pass of a part of a graph while it grows: which gradients have come together, and the operator whose
/// gradient is being written. Rules (below) see one operator at a time. Used by one thread.
class Backward {
public:
    /// @p original is differentiated; @p toPart maps its tensors to those of @p builder; @p wanted: which of its
    /// tensors get gradients.
    Backward(const Graph &original, GraphBuilder &builder, const std::vector<TensorId> &toPart,
             const std::vector<bool> &wanted)
        : m_original(original),
          m_builder(builder),
          m_toPart(toPart),
          m_wanted(wanted),
          m_contributions(original.tensors().size()),
          m_expected(original.tensors().size(), 0)
    {
    }

    // --- for rules: the operator at hand

    [[nodiscard]] const Op &op() const { return *m_op; }
    /// Whether input @p i exists and gets a gradient.
    [[nodiscard]] bool wants(std::size_t i) const;
    [[nodiscard]] const Tensor &input(std::size_t i) const { return m_original.tensor(m_op->inputs[i]); }
    [[nodiscard]] const Tensor &output(std::size_t i = 0) const { return m_original.tensor(m_op->outputs[i]); }
    [[nodiscard]] bool hasInput(std::size_t i) const { return i < m_op->inputs.size() && m_op->inputs[i].valid(); }
    /// Forward values, as tensors of the part.
    [[nodiscard]] TensorId x(std::size_t i = 0) const { return m_toPart[m_op->inputs[i].index()]; }
    [[nodiscard]] TensorId y(std::size_t i = 0) const { return m_toPart[m_op->outputs[i].index()]; }
    /// Gradient of output @p i; invalid if it has none.
    [[nodiscard]] TensorId dy(std::size_t i = 0) const { return m_outputGradients[i]; }

    /// Adds a backward operator.
    TensorId emit(const OpType &type, std::vector<TensorId> inputs, Attributes attributes = {});
    std::vector<TensorId> emit(const OpType &type, std::vector<TensorId> inputs, Attributes attributes,
                               std::size_t outputs);
    TensorId scalar(float value);
    /// @p gradient, shaped like output 0, summed down to the shape of input @p i.
    TensorId sumTo(std::size_t i, TensorId gradient);
    /// Hands in a contribution to the gradient of input @p i, shaped like it. It may be a tensor that serves elsewhere,
    /// too.
    void give(std::size_t i, TensorId gradient);
    /// Attributes `shape` and `batch_axis` of @p shape.
    Attributes shapeAttributes(const Shape &shape);
    /// The operator cannot be differentiated after all; the first reason is reported.
    void refuse(const std::string &reason);
    [[nodiscard]] bool refused() const { return !m_refusal.empty(); }
    [[nodiscard]] const std::string &refusal() const { return m_refusal; }

    // --- for differentiate()

    void begin(const Op &op);
    /// One more contribution to the gradient of @p tensor will come.
    void expect(TensorId tensor) { ++m_expected[tensor.index()]; }
    /// A gradient that comes from outside the part.
    TensorId feed(TensorId tensor);
    /// The gradient of @p tensor (of the original graph) from the contributions so far; invalid without any. @p own:
    /// made by an operator that makes nothing else's gradient.
    TensorId total(TensorId tensor, bool own = false);

private:
    struct Contributions {
        std::vector<TensorId> parts;
        TensorId fed;
        TensorId total;
    };
    [[nodiscard]] std::string gradientName(TensorId tensor) const { return "grad/" + m_original.tensor(tensor).name; }

    const Graph &m_original;
    GraphBuilder &m_builder;
    const std::vector<TensorId> &m_toPart;
    const std::vector<bool> &m_wanted;
    std::vector<Contributions> m_contributions; ///< by tensor of the original graph
    std::vector<int> m_expected;
    std::vector<TensorId> m_outputGradients;
    std::unordered_map<TensorId, bool> m_given; ///< tensors made by emit: already some tensor's gradient?
    const Op *m_op = nullptr;
    std::string m_stem;
    int m_emitted = 0;
    std::string m_refusal;
};

} // namespace planloom::graph
