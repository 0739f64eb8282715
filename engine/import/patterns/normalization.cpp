// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/match.h"

namespace planloom::import {
namespace {

using graph::Op;

/// Follows a normalisation from the square root in its middle to both ends.
class NormalizationMatcher {
public:
    NormalizationMatcher(const PatternGraph &in, const Op &root) : m_in(in), m_root(root) {}

    std::optional<Pattern> match()
    {
        m_pattern.ops.insert(m_root.id);
        if (!readVariance() || !readQuotient() || !readScale())
            return {};
        m_pattern.steps = {
            {m_type, {m_inputs.begin(), m_inputs.end()}, {{"axis", std::int64_t{-1}}, {"epsilon", m_epsilon}}}};
        return m_in.closed(m_pattern) ? std::optional(m_pattern) : std::nullopt;
    }

private:
    /// The mean of @p id over the last axis, if @p mean is one.
    [[nodiscard]] const Op *meanOverLast(TensorId mean) const
    {
        const Op *op = m_in.source(mean, "ReduceMean");
        if (!op || op->integer("keepdims", 1) != 1)
            return nullptr;
        const auto axes = op->integers("axes");
        const auto rank = static_cast<std::int64_t>(m_in.graph().tensor(op->inputs[0]).shape.rank());
        return axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1) ? op : nullptr;
    }

    /// Sqrt(ReduceMean(d * d) + epsilon)
    bool readVariance()
    {
        const Op *add = m_in.source(m_root.inputs[0], "Add");
        for (const std::size_t at : {0, 1}) {
            const Op *mean = add ? meanOverLast(add->inputs[at]) : nullptr;
            const auto epsilon = add ? m_in.number(add->inputs[1 - at]) : std::nullopt;
            const Op *square = mean ? m_in.source(mean->inputs[0]) : nullptr;
            if (!epsilon || !square || square->inputs.size() != 2)
                continue;
            const bool power = square->type == "Pow" && m_in.isNumber(square->inputs[1], 2);
            if (!power && !(square->type == "Mul" && square->inputs[0] == square->inputs[1]))
                continue;
            m_epsilon = *epsilon;
            m_squared = square->inputs[0];
            m_pattern.ops.insert({add->id, mean->id, square->id});
            return true;
        }
        return false;
    }

    [[nodiscard]] const Op *onlyReader(TensorId id) const
    {
        const auto readers = m_in.graph().consumers(id);
        return readers.size() == 1 ? &m_in.graph().op(readers[0]) : nullptr;
    }

    static TensorId other(const Op &op, TensorId id) { return op.inputs[0] == id ? op.inputs[1] : op.inputs[0]; }

    /// d / root, or d times the reciprocal of root, where d is the squared value or is computed like it.
    bool readQuotient()
    {
        TensorId at = m_root.outputs[0];
        const Op *next = onlyReader(at);
        bool inverse = false;
        if (next
            && (next->type == "Reciprocal"
                || (next->type == "Div" && next->inputs[1] == at && m_in.isNumber(next->inputs[0], 1)))) {
            m_pattern.ops.insert(next->id);
            inverse = true;
            at = next->outputs[0];
            next = onlyReader(at);
        }
        if (!next || next->type != (inverse ? "Mul" : "Div") || (!inverse && next->inputs[1] != at))
            return false;
        m_pattern.ops.insert(next->id);
        m_normalized = next->outputs[0];
        return readDeviation(other(*next, at));
    }

    /// The numerator: x - mean(x), once or twice, else x itself.
    bool readDeviation(TensorId divided)
    {
        const Op *first = deviation(m_squared);
        const Op *second = deviation(divided);
        if (first && second && first->inputs[0] == second->inputs[0]) {
            for (const Op *op : {first, second})
                m_pattern.ops.insert({op->id, meanOverLast(op->inputs[1])->id});
            m_type = "LayerNormalization";
            m_inputs = {first->inputs[0]};
            return true;
        }
        m_type = "RMSNormalization";
        m_inputs = {divided};
        return divided == m_squared;
    }

    [[nodiscard]] const Op *deviation(TensorId id) const
    {
        const Op *sub = m_in.source(id, "Sub");
        const Op *mean = sub ? meanOverLast(sub->inputs[1]) : nullptr;
        return mean && mean->inputs[0] == sub->inputs[0] ? sub : nullptr;
    }

    [[nodiscard]] bool isRow(TensorId id) const
    {
        const auto &tensor = m_in.graph().tensor(id);
        const auto &x = m_in.graph().tensor(m_inputs[0]).shape;
        return tensor.role != graph::TensorRole::Activation && tensor.shape.rank() == 1
            && tensor.shape[0] == x.dims().back();
    }

    bool readScale()
    {
        const Op *scale = onlyReader(m_normalized);
        if (!scale || scale->type != "Mul" || !isRow(other(*scale, m_normalized)))
            return false;
        m_inputs.push_back(other(*scale, m_normalized));
        m_pattern.ops.insert(scale->id);
        m_pattern.output = scale->outputs[0];
        const Op *shift = onlyReader(m_pattern.output);
        if (m_type != "LayerNormalization" || !shift || shift->type != "Add" || !isRow(other(*shift, m_pattern.output)))
            return true;
        m_inputs.push_back(other(*shift, m_pattern.output));
        m_pattern.ops.insert(shift->id);
        m_pattern.output = shift->outputs[0];
        return true;
    }

    const PatternGraph &m_in;
    const Op &m_root;
    Pattern m_pattern;
    std::string m_type;
    std::vector<TensorId> m_inputs;
    double m_epsilon = 0;
    TensorId m_squared, m_normalized;
};

} // namespace

std::optional<Pattern> matchNormalization(const PatternGraph &in, const Op &op)
{
    return NormalizationMatcher(in, op).match();
}

} // namespace planloom::import
