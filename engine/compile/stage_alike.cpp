// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stage_alike.h"

#include "engine/plan/stage_settings.h"

#include <algorithm>

namespace planloom::compile {
namespace {

/// Walks over two stages' operators side by side.
class Matcher {
public:
    Matcher(const plan::Plan &plan, const plan::Subject &subject, StageId a, StageId b)
        : m_plan(plan),
          m_graph(*subject.graph),
          m_layers(subject.layers()),
          m_costs(*subject.costs),
          m_a(plan.stages[a.index()]),
          m_b(plan.stages[b.index()]),
          m_first(m_layers.layers[m_a.firstLayer].first),
          m_shift(m_layers.layers[m_b.firstLayer].first.value - m_first.value)
    {
    }

    std::optional<Renaming> match()
    {
        if (!sameLayers() || !sameSettings())
            return std::nullopt;
        const OpId end = m_layers.layers[m_a.lastLayer - 1].last;
        for (OpId op = m_first; op < end; op = OpId(op.value + 1))
            if (!sameOp(m_graph.op(op), m_graph.op(OpId(op.value + m_shift))))
                return std::nullopt;
        if (!sameCut(m_a.firstLayer, m_b.firstLayer) || !sameCut(m_a.lastLayer, m_b.lastLayer))
            return std::nullopt;
        return std::move(m_names);
    }

private:
    [[nodiscard]] bool sameSettings() const
    {
        const auto byPattern = [](const plan::Stage &stage) {
            return std::any_of(stage.shardings.begin(), stage.shardings.end(),
                               [](const auto &entry) { return entry.first.find('*') != std::string::npos; });
        };
        const auto inner = [](const plan::Stage &stage) {
            return stage.mesh.empty() ? std::vector<int>() : std::vector<int>(stage.mesh.begin() + 1, stage.mesh.end());
        };
        const auto neighbour = [&](const plan::Stage &stage, std::ptrdiff_t way) {
            return inner(*(&stage + way)) == inner(stage);
        };
        const bool ends = m_a.firstLayer == 0 || m_b.firstLayer == 0 || m_a.lastLayer == m_layers.size()
            || m_b.lastLayer == m_layers.size();
        if (ends || m_costs.parameterBytes(0, m_a.firstLayer).value() == 0 || byPattern(m_a) || byPattern(m_b))
            return false;
        // Which stages of a custom order split their backward pass takes a look at all of it.
        if (m_plan.schedule.kind == plan::ScheduleKind::Custom)
            return false;
        return plan::settingsOf(m_a).body == plan::settingsOf(m_b).body && neighbour(m_a, -1) == neighbour(m_b, -1)
            && neighbour(m_a, 1) == neighbour(m_b, 1);
    }

    [[nodiscard]] bool sameLayers() const
    {
        const std::size_t count = m_a.lastLayer - m_a.firstLayer;
        if (m_b.lastLayer - m_b.firstLayer != count)
            return false;
        for (std::size_t l = 0; l < count; ++l)
            if (m_layers.layers[m_a.firstLayer + l].last.value + m_shift
                != m_layers.layers[m_b.firstLayer + l].last.value)
                return false;
        return true;
    }

    bool sameOp(const graph::Op &a, const graph::Op &b)
    {
        if (a.type != b.type || a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size()
            || a.attributes != b.attributes)
            return false;
        for (std::size_t i = 0; i < a.inputs.size(); ++i)
            if (!same(a.inputs[i], b.inputs[i]))
                return false;
        for (std::size_t i = 0; i < a.outputs.size(); ++i)
            if (!same(a.outputs[i], b.outputs[i]))
                return false;
        return true;
    }

    bool same(TensorId a, TensorId b)
    {
        if (!a.valid() || !b.valid())
            return a.valid() == b.valid();
        const auto [met, isNew] = m_tensors.try_emplace(a, b);
        if (!isNew)
            return met->second == b;
        const graph::Tensor &one = m_graph.tensor(a);
        const graph::Tensor &other = m_graph.tensor(b);
        if (one.role != graph::TensorRole::Activation)
            m_names[one.name] = other.name;
        return one.type == other.type && one.shape == other.shape && one.role == other.role
            && one.layout == other.layout && sameProducer(one, other) && pin(m_a, one.name) == pin(m_b, other.name);
    }

    /// What comes in from other stages is made by an operator of the same type, so that gradients go back through both
    /// or neither.
    [[nodiscard]] bool sameProducer(const graph::Tensor &a, const graph::Tensor &b) const
    {
        if (!a.producer.valid() || !b.producer.valid())
            return a.producer.valid() == b.producer.valid();
        const bool inside = a.producer >= m_first;
        return inside ? a.producer.value + m_shift == b.producer.value
                      : m_graph.op(a.producer).type == m_graph.op(b.producer).type;
    }

    [[nodiscard]] bool sameCut(std::size_t a, std::size_t b)
    {
        const auto &one = m_layers.cuts[a];
        const auto &other = m_layers.cuts[b];
        return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                          [this](TensorId x, TensorId y) { return same(x, y); });
    }

    static std::string pin(const plan::Stage &stage, const std::string &tensor)
    {
        const auto found = stage.shardings.find(tensor);
        return found == stage.shardings.end() ? std::string() : found->second;
    }

    const plan::Plan &m_plan;
    const graph::Graph &m_graph;
    const graph::LayerView &m_layers;
    const cost::CostModel &m_costs;
    const plan::Stage &m_a;
    const plan::Stage &m_b;
    OpId m_first;
    std::int32_t m_shift; ///< from an operator to its counterpart
    std::map<TensorId, TensorId> m_tensors;
    Renaming m_names;
};

} // namespace

std::optional<Renaming> renaming(const plan::Plan &plan, const plan::Subject &subject, StageId a, StageId b)
{
    return Matcher(plan, subject, a, b).match();
}

} // namespace planloom::compile
