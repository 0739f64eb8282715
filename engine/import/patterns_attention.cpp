// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns_match.h"

#include <cmath>
#include <cstring>

namespace planloom::import {
namespace {

using graph::DType;
using graph::Op;
using graph::Tensor;
using Perm = std::vector<std::int64_t>;

constexpr double kMasked = -1e4; ///< exporters write what is masked as this or less

/// Follows attention from its Softmax to the projections and to what joins the heads again.
class AttentionMatcher {
public:
    AttentionMatcher(const PatternGraph &in, const Op &softmax) : m_in(in), m_softmax(softmax) {}

    std::optional<Pattern> match()
    {
        m_pattern.type = "Attention";
        m_pattern.ops.insert(m_softmax.id);
        const auto &scores = tensor(m_softmax.inputs[0]).shape;
        const auto axis = m_softmax.integer("axis", -1);
        if (scores.rank() != 4 || (axis != -1 && axis != 3) || scores[2] != scores[3])
            return {};
        m_length = scores[2].size;
        if (!readScores(m_softmax.inputs[0]) || !readResult())
            return {};
        if (!nearly(m_scale, 1 / std::sqrt(static_cast<double>(m_size))))
            return {};
        usePackedProjection();
        m_pattern.attributes["heads"] = m_heads;
        m_pattern.attributes["kv_heads"] = m_heads;
        m_pattern.attributes["causal"] = std::int64_t{m_causal ? 1 : 0};
        return m_in.closed(m_pattern) ? std::optional(m_pattern) : std::nullopt;
    }

private:
    [[nodiscard]] const Tensor &tensor(TensorId id) const { return m_in.graph().tensor(id); }

    [[nodiscard]] const Op *onlyReader(TensorId id, std::string_view type) const
    {
        const auto readers = m_in.graph().consumers(id);
        const Op *op = readers.size() == 1 ? &m_in.graph().op(readers[0]) : nullptr;
        return op && op->type == type ? op : nullptr;
    }

    /// Takes a product with a number, or a quotient, off @p id.
    bool readScale(TensorId &id)
    {
        const Op *op = m_in.source(id);
        if (!op || (op->type != "Mul" && op->type != "Div"))
            return false;
        for (const std::size_t at : {1, 0}) {
            const auto number = m_in.number(op->inputs[at]);
            if (!number || *number == 0 || (op->type == "Div" && at == 0))
                continue;
            m_scale *= op->type == "Div" ? 1 / *number : *number;
            m_pattern.ops.insert(op->id);
            id = op->inputs[1 - at];
            return true;
        }
        return false;
    }

    /// An element a pair of positions, from a constant of bools or float32; empty if it is something else.
    [[nodiscard]] std::vector<double> pairs(TensorId id) const
    {
        const Tensor &mask = tensor(id);
        const auto count = static_cast<std::size_t>(m_length) * static_cast<std::size_t>(m_length);
        const std::size_t width = mask.type == DType::Bool ? 1 : sizeof(float);
        const std::size_t rank = mask.shape.rank();
        const bool known = mask.role == graph::TensorRole::Constant && mask.init.data && (mask.type == DType::Bool || mask.type == DType::F32);
        if (!known || rank < 2 || mask.shape[rank - 1].size != m_length || mask.shape[rank - 2].size != m_length || mask.init.data->size() != count * width)
            return {};
        std::vector<double> values(count);
        for (std::size_t i = 0; i < count; ++i) {
            float value = static_cast<float>((*mask.init.data)[i] != std::byte{0} ? 1 : 0);
            if (width != 1)
                std::memcpy(&value, mask.init.data->data() + i * width, width);
            values[i] = static_cast<double>(value);
        }
        return values;
    }

    /// True if @p test tells exactly the pairs of which the second position comes later.
    template <class Test>
    [[nodiscard]] bool tellsLater(const std::vector<double> &values, Test test) const
    {
        const auto length = static_cast<std::size_t>(m_length);
        for (std::size_t i = 0; i < values.size(); ++i)
            if (!test(values[i], i % length > i / length))
                return false;
        return !values.empty();
    }

    bool readMask(TensorId &id)
    {
        const Op *op = m_in.source(id);
        if (!op || m_causal)
            return false;
        if (op->type == "Where") {
            for (const std::size_t masked : {1, 2}) {
                const auto value = m_in.number(op->inputs[masked]);
                if (!value || *value > kMasked || !tellsLater(pairs(op->inputs[0]), [&](double c, bool later) { return (c != 0) == (later == (masked == 1)); }))
                    continue;
                return takeMask(*op, op->inputs[3 - masked], id);
            }
        } else if (op->type == "Add") {
            for (const std::size_t mask : {1, 0})
                if (tellsLater(pairs(op->inputs[mask]), [](double c, bool later) { return later ? c <= kMasked : c == 0; }))
                    return takeMask(*op, op->inputs[1 - mask], id);
        }
        return false;
    }

    bool takeMask(const Op &op, TensorId scores, TensorId &id)
    {
        m_causal = true;
        m_pattern.ops.insert(op.id);
        id = scores;
        return true;
    }

    bool readScores(TensorId id)
    {
        readMask(id);
        while (readScale(id)) {
        }
        const Op *product = m_in.source(id, "MatMul");
        if (!product || product->inputs.size() != 2 || product->integer("transA") != 0 || product->integer("transB") != 0)
            return false;
        m_pattern.ops.insert(product->id);
        return readHeads(product->inputs[0], {0, 2, 1, 3}) && readKeys(product->inputs[1]);
    }

    bool readKeys(TensorId id)
    {
        while (readScale(id)) {
        }
        const Op *turned = m_in.source(id, "Transpose");
        if (turned && turned->integers("perm") == Perm{0, 1, 3, 2}) {
            m_pattern.ops.insert(turned->id);
            return readHeads(turned->inputs[0], {0, 2, 1, 3});
        }
        return readHeads(id, {0, 2, 3, 1});
    }

    /// Transpose(Reshape(x)) with x (N, T, heads * size).
    bool readHeads(TensorId id, const Perm &perm)
    {
        while (readScale(id)) {
        }
        const Op *turned = m_in.source(id, "Transpose");
        const Op *split = turned && turned->integers("perm") == perm ? m_in.source(turned->inputs[0], "Reshape") : nullptr;
        if (!split)
            return false;
        const auto &whole = tensor(split->inputs[0]).shape;
        const auto &parts = tensor(split->outputs[0]).shape;
        if (whole.rank() != 3 || parts.rank() != 4 || whole[0] != parts[0] || whole[1] != parts[1] || parts[1].size != m_length)
            return false;
        if (m_heads != 0 && (parts[2].size != m_heads || parts[3].size != m_size))
            return false;
        m_heads = parts[2].size;
        m_size = parts[3].size;
        m_pattern.ops.insert({turned->id, split->id});
        m_pattern.inputs.push_back(split->inputs[0]);
        return whole[2].size == m_heads * m_size;
    }

    /// The product with the values, and the heads side by side again.
    bool readResult()
    {
        const Op *product = onlyReader(m_softmax.outputs[0], "MatMul");
        if (!product || product->inputs.size() != 2 || product->inputs[0] != m_softmax.outputs[0] || product->integer("transB") != 0)
            return false;
        const double scale = m_scale;
        if (product->integer("transA") != 0 || !readHeads(product->inputs[1], {0, 2, 1, 3}) || m_scale != scale)
            return false;
        const Op *turned = onlyReader(product->outputs[0], "Transpose");
        const Op *joined = turned && turned->integers("perm") == Perm{0, 2, 1, 3} ? onlyReader(turned->outputs[0], "Reshape") : nullptr;
        if (!joined || tensor(joined->outputs[0]).shape != tensor(m_pattern.inputs[0]).shape)
            return false;
        m_pattern.ops.insert({product->id, turned->id, joined->id});
        m_pattern.output = joined->outputs[0];
        return true;
    }

    /// Where one projection was split into q, k and v, it is what our operator reads.
    void usePackedProjection()
    {
        const Op *split = m_in.source(m_pattern.inputs[0], "Split");
        if (!split || split->outputs != m_pattern.inputs || (split->integer("axis") != 2 && split->integer("axis") != -1))
            return;
        m_pattern.ops.insert(split->id);
        m_pattern.inputs = {split->inputs[0]};
    }

    const PatternGraph &m_in;
    const Op &m_softmax;
    Pattern m_pattern;
    std::int64_t m_length = 0, m_heads = 0, m_size = 0;
    double m_scale = 1;
    bool m_causal = false;
};

} // namespace

std::optional<Pattern> matchAttention(const PatternGraph &in, const Op &op) { return AttentionMatcher(in, op).match(); }

} // namespace planloom::import
