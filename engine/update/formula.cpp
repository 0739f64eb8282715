// SPDX-License-Identifier: Apache-2.0
#include "engine/update/formula.h"

#include <algorithm>
#include <set>

namespace planloom::update {

namespace {

bool isElementInput(Operator type)
{
    return type == Operator::Weight || type == Operator::Gradient || type == Operator::State;
}

bool isScalarOnly(Operator type) { return type == Operator::Power || type == Operator::WherePositive; }

/// What @p phase computes, from its last results down to what lies in memory.
class PhaseWalk {
public:
    PhaseWalk(const Formula &formula, int phase) : m_formula(formula), m_phase(phase)
    {
        for (const Store &store : formula.stores)
            if (formula.phaseOf(store) == phase)
                need(store.node);
        for (const Node &node : formula.nodes)
            if (node.type == Operator::Norm && node.phase == phase + 1)
                need(node.arguments[0]);
    }

    [[nodiscard]] const std::set<std::int16_t> &computed() const { return m_computed; }
    [[nodiscard]] const std::set<std::int16_t> &inputs() const { return m_inputs; }
    /// Earlier results that lie where they were stored.
    [[nodiscard]] const std::set<std::int16_t> &stored() const { return m_stored; }

private:
    void need(std::int16_t id)
    {
        const Node &node = m_formula.node(id);
        if (!node.each)
            return;
        if (isElementInput(node.type)) {
            m_inputs.insert(id);
            return;
        }
        if (m_formula.storedBefore(id, m_phase) != nullptr) {
            m_stored.insert(id);
            return;
        }
        if (!m_computed.insert(id).second)
            return;
        for (const std::int16_t argument : node.arguments)
            if (argument >= 0)
                need(argument);
    }

    const Formula &m_formula;
    int m_phase;
    std::set<std::int16_t> m_computed, m_inputs, m_stored;
};

} // namespace

int Formula::phaseOf(const Store &store) const { return node(store.node).phase; }

double Formula::setting(std::string_view name) const
{
    for (const auto &[known, value] : settings)
        if (known == name)
            return value;
    return 0;
}

std::vector<std::int16_t> Formula::elementNodes(int phase) const
{
    const PhaseWalk walk(*this, phase);
    return {walk.computed().begin(), walk.computed().end()};
}

const Store *Formula::storedBefore(std::int16_t node, int phase) const
{
    for (const Store &store : stores)
        if (store.node == node && phaseOf(store) < phase)
            return &store;
    return nullptr;
}

int Formula::streams(int phase) const
{
    const PhaseWalk walk(*this, phase);
    const auto written =
        std::count_if(stores.begin(), stores.end(), [&](const Store &store) { return phaseOf(store) == phase; });
    const bool clears = phase + 1 == phases();
    return static_cast<int>(walk.inputs().size() + walk.stored().size()) + static_cast<int>(written) + (clears ? 1 : 0);
}

Status Formula::check() const
{
    const auto wrong = [this](const std::string &what) { return badInput("update rule " + rule + " " + what); };
    if (states > kMostStates)
        return wrong("has more states than devices take");
    std::vector<int> stored(static_cast<std::size_t>(states) + 1, 0);
    for (const Store &store : stores) {
        if (store.target < Store::kWeight || store.target >= states)
            return wrong("stores a state that it does not declare");
        ++stored[static_cast<std::size_t>(store.target + 1)];
    }
    if (std::any_of(stored.begin(), stored.end(), [](int times) { return times != 1; }))
        return wrong("must store the weight and each of its states once");
    for (const Node &node : nodes) {
        if (node.phase > 1)
            return wrong("takes a norm of what depends on a norm");
        if (node.each && isScalarOnly(node.type))
            return wrong("uses an operator of scalars on elements");
        if (node.type == Operator::Norm && !this->node(node.arguments[0]).each)
            return wrong("takes the norm of a scalar");
        if (node.type == Operator::State && (node.index < 0 || node.index >= states))
            return wrong("reads a state that it does not declare");
    }
    for (const Store &store : stores) {
        const Node &value = node(store.node);
        if (!value.each || isElementInput(value.type))
            return wrong("stores what it has not computed for each element");
        if (store.target == Store::kWeight && value.phase + 1 != phases())
            return wrong("must store the weight in its last phase");
    }
    for (int phase = 1; phase < phases(); ++phase) {
        const PhaseWalk walk(*this, phase);
        for (const std::int16_t input : walk.inputs())
            for (const Store &store : stores)
                if (node(input).type == Operator::State && store.target == node(input).index && phaseOf(store) < phase)
                    return wrong("reads a state after it has overwritten it");
    }
    return {};
}

} // namespace planloom::update
