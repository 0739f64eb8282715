// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/match.h"

#include <algorithm>

namespace planloom::import {
namespace {

using graph::Op;
using graph::Shape;
using Perm = std::vector<std::int64_t>;

bool isGiven(const PatternGraph &in, TensorId id)
{
    const auto outputs = in.graph().outputs();
    return id == in.graph().loss() || std::find(outputs.begin(), outputs.end(), id) != outputs.end();
}

/// Goes up through linear layers, from the exchange of the first two dimensions behind them to the one before.
class TurnedRows {
public:
    TurnedRows(const PatternGraph &in, const Op &last) : m_in(in), m_last(last) {}

    std::optional<Pattern> match()
    {
        if (!exchanges(m_last))
            return {};
        m_turned = m_in.tensor(m_last.inputs[0]).shape;
        TensorId at = m_last.inputs[0];
        std::vector<const Op *> layers;
        const Op *op = m_in.source(at);
        for (; op && !exchanges(*op); op = m_in.source(at)) {
            const auto next = stepUp(*op, at);
            if (!next)
                return {};
            if (op->type != "Reshape")
                layers.push_back(op);
            m_pattern.ops.insert(op->id);
            at = *next;
        }
        if (!op || m_flat || layers.empty())
            return {};
        m_pattern.ops.insert({op->id, m_last.id});
        m_pattern.output = m_last.outputs[0];
        writeSteps(layers, op->inputs[0]);
        return m_in.closed(m_pattern) ? std::optional(m_pattern) : std::nullopt;
    }

private:
    static bool exchanges(const Op &op) { return op.type == "Transpose" && op.integers("perm") == Perm{1, 0, 2}; }

    [[nodiscard]] bool isRow(TensorId id) const
    {
        return m_in.tensor(id).role == graph::TensorRole::Parameter && m_in.tensor(id).shape.rank() == 1;
    }
    [[nodiscard]] bool isMatrix(TensorId id) const
    {
        return m_in.tensor(id).role == graph::TensorRole::Parameter && m_in.tensor(id).shape.rank() == 2;
    }

    /// The input from which @p op makes @p made row by row.
    std::optional<TensorId> stepUp(const Op &op, TensorId made)
    {
        if (op.outputs[0] != made)
            return {};
        if (op.type == "Add") {
            const std::size_t bias = isRow(op.inputs[0]) ? 0 : 1;
            return isRow(op.inputs[bias]) ? std::optional(op.inputs[1 - bias]) : std::nullopt;
        }
        if (op.type == "MatMul" && op.integer("transA") == 0 && op.inputs.size() == 2 && isMatrix(op.inputs[1]))
            return op.inputs[0];
        const bool plain = op.number("alpha", 1) == 1 && op.number("beta", 1) == 1 && op.integer("transA") == 0;
        if (op.type == "Gemm" && plain && isMatrix(op.inputs[1])
            && (op.inputs.size() < 3 || (op.inputs[2].valid() && isRow(op.inputs[2]))))
            return op.inputs[0];
        return op.type == "Reshape" ? flattened(op) : std::nullopt;
    }

    /// (T, N, C) and (T N, C) are the same rows.
    std::optional<TensorId> flattened(const Op &op)
    {
        const Shape &from = m_in.tensor(op.inputs[0]).shape;
        const Shape &to = m_in.tensor(op.outputs[0]).shape;
        const Shape &whole = m_flat ? from : to;
        const Shape &flat = m_flat ? to : from;
        const bool rows = whole.rank() == 3 && flat.rank() == 2 && whole[0] == m_turned[0] && whole[1] == m_turned[1]
            && whole[2] == flat[1];
        m_flat = !m_flat;
        return rows ? std::optional(op.inputs[0]) : std::nullopt;
    }

    void writeSteps(const std::vector<const Op *> &layers, TensorId x)
    {
        Operand at(x);
        for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
            const Op &op = **layer;
            if (op.type == "Add")
                m_pattern.steps.push_back({"Add", {at, op.inputs[isRow(op.inputs[0]) ? 0 : 1]}, {}});
            else
                m_pattern.steps.push_back({"MatMul", {at, op.inputs[1]}, {{"transB", op.integer("transB")}}});
            if (op.type == "Gemm" && op.inputs.size() > 2)
                m_pattern.steps.push_back({"Add", {Operand::made(m_pattern.steps.size() - 1), op.inputs[2]}, {}});
            at = Operand::made(m_pattern.steps.size() - 1);
        }
    }

    const PatternGraph &m_in;
    const Op &m_last;
    Pattern m_pattern;
    Shape m_turned;
    bool m_flat = false;
};

} // namespace

std::optional<Pattern> matchNothing(const PatternGraph &in, const Op &op)
{
    const auto &from = in.tensor(op.inputs[0]);
    const bool dropsNothing = op.type == "Dropout" && op.number("ratio", 1) == 0;
    const bool castsNothing = op.type == "Cast" && from.type == in.tensor(op.outputs[0]).type;
    if ((!dropsNothing && !castsNothing) || from.role != graph::TensorRole::Activation || isGiven(in, op.outputs[0]))
        return {};
    Pattern pattern{{}, op.outputs[0], {op.id}, op.inputs[0]};
    return in.closed(pattern) ? std::optional(pattern) : std::nullopt;
}

std::optional<Pattern> matchLinear(const PatternGraph &in, const Op &op)
{
    const Op *turned = op.inputs.size() == 2 && op.attributes.empty() ? in.source(op.inputs[1], "Transpose") : nullptr;
    if (!turned || turned->integers("perm") != Perm{1, 0}
        || in.tensor(turned->inputs[0]).role != graph::TensorRole::Parameter)
        return {};
    Pattern pattern{{{"MatMul", {op.inputs[0], turned->inputs[0]}, {{"transB", std::int64_t{1}}}}},
                    op.outputs[0],
                    {op.id, turned->id},
                    {}};
    return in.closed(pattern) ? std::optional(pattern) : std::nullopt;
}

std::optional<Pattern> matchTurnedRows(const PatternGraph &in, const Op &op) { return TurnedRows(in, op).match(); }

} // namespace planloom::import
