// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"
#include "executor/device/plugin/abi.h"

#include <algorithm>
#include <cstring>
#include <string>

// Between the values of device.h and those of the C table.
namespace planloom::device {

static_assert(update::kMostStates == 4, "PlanloomUpdateRange::states");

inline void setError(PlanloomError &to, const Error &error)
{
    to.code = 1 + static_cast<std::int32_t>(error.code);
    const std::size_t bytes = std::min(error.message.size(), sizeof to.text - 1);
    std::memcpy(to.text, error.message.data(), bytes);
    to.text[bytes] = '\0';
}

inline Error errorOf(const PlanloomError &error)
{
    const bool known = error.code > 0 && error.code <= 1 + static_cast<std::int32_t>(ErrorCode::Failed);
    return {known ? static_cast<ErrorCode>(error.code - 1) : ErrorCode::Failed,
            std::string(error.text, ::strnlen(error.text, sizeof error.text)),
            {},
            0};
}

inline PlanloomUpdateRange toTable(const UpdateRange &range)
{
    PlanloomUpdateRange made{};
    made.parameter = range.parameter;
    made.gradient = range.gradient;
    std::copy(range.states.begin(), range.states.end(), made.states);
    made.copy = range.copy;
    made.count = range.count;
    made.rateFactor = range.rateFactor;
    made.decay = range.decay;
    made.tensor = range.tensor;
    made.counts = range.counts ? 1 : 0;
    return made;
}
inline UpdateRange fromTable(const PlanloomUpdateRange &range)
{
    UpdateRange made;
    made.parameter = range.parameter;
    made.gradient = range.gradient;
    std::copy(range.states, range.states + 4, made.states.begin());
    made.copy = range.copy;
    made.count = range.count;
    made.rateFactor = range.rateFactor;
    made.decay = range.decay;
    made.tensor = range.tensor;
    made.counts = range.counts != 0;
    return made;
}

inline PlanloomUpdateStep toTable(const UpdateStep &how)
{
    return {how.learningRate, how.step, how.gradientScale, how.phase, how.squares, how.allSquares};
}
inline UpdateStep fromTable(const PlanloomUpdateStep &how)
{
    return {how.learningRate, how.step, how.gradientScale, static_cast<int>(how.phase), how.squares, how.allSquares};
}

inline PlanloomDraw toTable(const Draw &draw)
{
    return {draw.seed, draw.step, draw.firstSample, draw.samples, draw.training ? 1 : 0};
}
inline Draw fromTable(const PlanloomDraw &draw)
{
    return {draw.seed, draw.step, draw.firstSample, draw.samples, draw.training != 0};
}

inline PlanloomScoredRows toTable(const ScoredRows &rows)
{
    return {static_cast<std::int64_t>(rows.form), rows.values, rows.labels, rows.rows, rows.width, rows.ignored};
}
inline ScoredRows fromTable(const PlanloomScoredRows &rows)
{
    return {static_cast<ScoredRows::Form>(rows.form), rows.values, rows.labels, rows.rows, rows.width, rows.ignored};
}
static_assert(sizeof(PlanloomRowScores) == sizeof(RowScores)); // written through either type

/// The arrays that a PlanloomOperator points to; @p op and the arguments must outlive it.
class OperatorText {
public:
    OperatorText(const graph::Op &op, std::span<const Argument> inputs, std::span<const Argument> outputs)
    {
        for (const auto &[name, value] : op.attributes)
            add(name, value);
        addArguments(m_inputs, inputs);
        addArguments(m_outputs, outputs);
        m_operator = {op.type.name().c_str(), op.name.c_str(),
                      m_attributes.data(),    static_cast<std::int64_t>(m_attributes.size()),
                      m_inputs.data(),        static_cast<std::int64_t>(m_inputs.size()),
                      m_outputs.data(),       static_cast<std::int64_t>(m_outputs.size())};
    }
    OperatorText(const OperatorText &) = delete;
    OperatorText &operator=(const OperatorText &) = delete;
    [[nodiscard]] const PlanloomOperator &get() const { return m_operator; }

private:
    void add(const std::string &name, const graph::Attribute &value)
    {
        PlanloomAttribute made{};
        made.name = name.c_str();
        made.kind = static_cast<std::int32_t>(value.index());
        made.count = 1;
        if (const auto *integer = std::get_if<std::int64_t>(&value)) {
            made.integers = integer;
        } else if (const auto *number = std::get_if<double>(&value)) {
            made.numbers = number;
        } else if (const auto *text = std::get_if<std::string>(&value)) {
            made.text = text->c_str();
            made.count = static_cast<std::int64_t>(text->size());
        } else if (const auto *integers = std::get_if<std::vector<std::int64_t>>(&value)) {
            made.integers = integers->data();
            made.count = static_cast<std::int64_t>(integers->size());
        } else if (const auto *numbers = std::get_if<std::vector<double>>(&value)) {
            made.numbers = numbers->data();
            made.count = static_cast<std::int64_t>(numbers->size());
        }
        m_attributes.push_back(made);
    }
    static void addArguments(std::vector<PlanloomArgument> &to, std::span<const Argument> arguments)
    {
        for (const Argument &argument : arguments)
            to.push_back({static_cast<std::int32_t>(argument.type), argument.present ? 1 : 0,
                          static_cast<std::int32_t>(argument.layout), static_cast<std::int32_t>(argument.dims.size()),
                          argument.dims.data()});
    }

    std::vector<PlanloomAttribute> m_attributes;
    std::vector<PlanloomArgument> m_inputs, m_outputs;
    PlanloomOperator m_operator{};
};

inline graph::Attribute attributeOf(const PlanloomAttribute &from)
{
    const auto count = static_cast<std::size_t>(from.count);
    switch (from.kind) {
    case 0: return from.integers[0];
    case 1: return from.numbers[0];
    case 2: return std::string(from.text, count);
    case 3: return std::vector<std::int64_t>(from.integers, from.integers + count);
    default: return std::vector<double>(from.numbers, from.numbers + count);
    }
}

inline graph::Op operatorOf(const PlanloomOperator &from)
{
    graph::Op op;
    op.type = graph::OpType(from.type);
    op.name = from.name;
    for (std::int64_t i = 0; i < from.attributeCount; ++i)
        op.attributes[from.attributes[i].name] = attributeOf(from.attributes[i]);
    return op;
}

inline std::vector<Argument> argumentsOf(const PlanloomArgument *from, std::int64_t count)
{
    std::vector<Argument> made;
    for (const PlanloomArgument *at = from; at < from + count; ++at)
        made.push_back({static_cast<graph::DType>(at->type), std::vector<std::int64_t>(at->dims, at->dims + at->rank),
                        at->present != 0, static_cast<graph::Layout>(at->layout)});
    return made;
}

/// The arrays that a PlanloomFormula points to; @p formula must outlive it.
class FormulaText {
public:
    explicit FormulaText(const update::Formula &formula)
    {
        for (const auto &[name, value] : formula.settings) {
            m_names.push_back(name.c_str());
            m_values.push_back(value);
        }
        for (const update::Node &node : formula.nodes)
            m_nodes.push_back({static_cast<std::int32_t>(node.type),
                               node.each ? 1 : 0,
                               node.phase,
                               node.index,
                               {node.arguments[0], node.arguments[1], node.arguments[2]},
                               node.value});
        for (const update::Store &store : formula.stores)
            m_stores.push_back({store.node, store.target});
        m_formula = {formula.rule.c_str(), m_names.data(),
                     m_values.data(),      static_cast<std::int64_t>(m_names.size()),
                     formula.states,       formula.norms,
                     m_nodes.data(),       static_cast<std::int64_t>(m_nodes.size()),
                     m_stores.data(),      static_cast<std::int64_t>(m_stores.size())};
    }
    FormulaText(const FormulaText &) = delete;
    FormulaText &operator=(const FormulaText &) = delete;
    [[nodiscard]] const PlanloomFormula &get() const { return m_formula; }

private:
    std::vector<const char *> m_names;
    std::vector<double> m_values;
    std::vector<PlanloomNode> m_nodes;
    std::vector<PlanloomStore> m_stores;
    PlanloomFormula m_formula{};
};

inline update::Formula formulaOf(const PlanloomFormula &from)
{
    update::Formula made;
    made.rule = from.rule;
    made.states = from.states;
    made.norms = from.norms;
    for (std::int64_t i = 0; i < from.settingCount; ++i)
        made.settings.emplace_back(from.settingNames[i], from.settingValues[i]);
    const auto narrow = [](std::int32_t number) { return static_cast<std::int16_t>(number); };
    for (const PlanloomNode *at = from.nodes; at < from.nodes + from.nodeCount; ++at)
        made.nodes.push_back({static_cast<update::Operator>(at->type),
                              at->each != 0,
                              static_cast<std::int8_t>(at->phase),
                              narrow(at->index),
                              {narrow(at->arguments[0]), narrow(at->arguments[1]), narrow(at->arguments[2])},
                              at->value});
    for (const PlanloomStore *at = from.stores; at < from.stores + from.storeCount; ++at)
        made.stores.push_back({narrow(at->node), narrow(at->target)});
    return made;
}

} // namespace planloom::device
