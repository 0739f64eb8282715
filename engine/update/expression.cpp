// SPDX-License-Identifier: Apache-2.0
#include "engine/update/expression.h"

#include <algorithm>

namespace planloom::update {

namespace {

constexpr std::int16_t kNone = -1;

bool isInput(Operator type) { return type < Operator::Add; }

} // namespace

Draft::Draft(std::vector<std::pair<std::string, double>> settings, std::vector<std::string_view> states)
    : m_states(std::move(states))
{
    m_formula.settings = std::move(settings);
    m_formula.states = static_cast<int>(m_states.size());
}

Value Draft::gradient() { return input(Operator::GradientScale, false) * input(Operator::Gradient, true); }

Value Draft::state(std::string_view name) { return input(Operator::State, true, indexOf(name)); }

Value Draft::constant(double value)
{
    m_formula.nodes.push_back({.type = Operator::Constant, .value = value});
    return {*this, static_cast<std::int16_t>(m_formula.nodes.size() - 1)};
}

void Draft::setState(std::string_view name, Value value) { m_formula.stores.push_back({value.node(), indexOf(name)}); }

Value Draft::add(Operator type, std::array<std::int16_t, 3> arguments)
{
    Node node{.type = type, .arguments = arguments};
    for (const std::int16_t argument : arguments) {
        if (argument == kNone)
            continue;
        node.each = node.each || m_formula.node(argument).each;
        node.phase = std::max(node.phase, m_formula.node(argument).phase);
    }
    if (type == Operator::Norm) {
        node.each = false;
        ++node.phase;
        node.index = static_cast<std::int16_t>(m_formula.norms++);
    }
    m_formula.nodes.push_back(node);
    return {*this, static_cast<std::int16_t>(m_formula.nodes.size() - 1)};
}

Formula Draft::take()
{
    std::stable_sort(m_formula.stores.begin(), m_formula.stores.end(),
                     [](const Store &a, const Store &b) { return a.target > b.target; });
    return std::move(m_formula);
}

Value Draft::input(Operator type, bool each, std::int16_t index)
{
    auto known = std::find_if(m_formula.nodes.begin(), m_formula.nodes.end(), [&](const Node &node) {
        return isInput(type) && node.type == type && node.index == index;
    });
    if (known == m_formula.nodes.end())
        known = m_formula.nodes.insert(m_formula.nodes.end(), {.type = type, .each = each, .index = index});
    return {*this, static_cast<std::int16_t>(known - m_formula.nodes.begin())};
}

std::int16_t Draft::indexOf(std::string_view state) const
{
    return static_cast<std::int16_t>(std::find(m_states.begin(), m_states.end(), state) - m_states.begin());
}

Value operator+(Value a, Value b) { return a.draft().add(Operator::Add, {a.node(), b.node(), kNone}); }
Value operator-(Value a, Value b) { return a.draft().add(Operator::Subtract, {a.node(), b.node(), kNone}); }
Value operator*(Value a, Value b) { return a.draft().add(Operator::Multiply, {a.node(), b.node(), kNone}); }
Value operator/(Value a, Value b) { return a.draft().add(Operator::Divide, {a.node(), b.node(), kNone}); }
Value operator+(double a, Value b) { return b.draft().constant(a) + b; }
Value operator-(double a, Value b) { return b.draft().constant(a) - b; }
Value operator*(double a, Value b) { return b.draft().constant(a) * b; }
Value operator/(double a, Value b) { return b.draft().constant(a) / b; }
Value operator+(Value a, double b) { return a + a.draft().constant(b); }
Value squareRoot(Value a) { return a.draft().add(Operator::SquareRoot, {a.node(), kNone, kNone}); }
Value sign(Value a) { return a.draft().add(Operator::Sign, {a.node(), kNone, kNone}); }

Value power(double base, Value exponent)
{
    Draft &draft = exponent.draft();
    return draft.add(Operator::Power, {draft.constant(base).node(), exponent.node(), kNone});
}

Value wherePositive(Value condition, Value then, Value otherwise)
{
    return condition.draft().add(Operator::WherePositive, {condition.node(), then.node(), otherwise.node()});
}

Value norm(Value a) { return a.draft().add(Operator::Norm, {a.node(), kNone, kNone}); }

Value movingAverage(double share, Value old, Value fresh) { return share * old + (1 - share) * fresh; }

} // namespace planloom::update
