// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/update/formula.h"

#include <string_view>
#include <vector>

namespace planloom::update {

class Draft;

/// A value in a formula that is being written; refers to its Draft.
class Value {
public:
    Value(Draft &draft, std::int16_t node) : m_draft(&draft), m_node(node) {}
    [[nodiscard]] Draft &draft() const { return *m_draft; }
    [[nodiscard]] std::int16_t node() const { return m_node; }

private:
    Draft *m_draft;
    std::int16_t m_node;
};

/// A formula that is being written: hands out its inputs, takes what is stored.
class Draft {
public:
    /// For the given settings and the states in effect.
    Draft(std::vector<std::pair<std::string, double>> settings, std::vector<std::string_view> states);

    Value weight() { return input(Operator::Weight, true); }
    Value gradient(); ///< scaled
    /// A state in effect, before the step.
    Value state(std::string_view name);
    Value learningRate() { return input(Operator::LearningRate, false); }
    Value weightDecay() { return input(Operator::WeightDecay, false); }
    Value step() { return input(Operator::Step, false); } ///< from 1
    Value constant(double value);
    [[nodiscard]] double setting(std::string_view name) const { return m_formula.setting(name); }

    void setWeight(Value value) { m_formula.stores.push_back({value.node(), Store::kWeight}); }
    void setState(std::string_view name, Value value);

    Value add(Operator type, std::array<std::int16_t, 3> arguments);
    [[nodiscard]] Formula take();

private:
    Value input(Operator type, bool each, std::int16_t index = 0);
    [[nodiscard]] std::int16_t indexOf(std::string_view state) const;
    Formula m_formula;
    std::vector<std::string_view> m_states;
};

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);
Value operator+(Value a, double b);
Value squareRoot(Value a);
Value sign(Value a);
Value power(double base, Value exponent);
/// @p then where @p condition is above 0, else @p otherwise.
Value wherePositive(Value condition, Value then, Value otherwise);
Value norm(Value a);
/// share * old + (1 - share) * fresh
Value movingAverage(double share, Value old, Value fresh);

} // namespace planloom::update
