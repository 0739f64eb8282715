// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/match.h"

#include <cstring>
#include <map>

namespace planloom::import {
namespace {

using graph::DType;
using graph::Op;
using graph::Shape;
using graph::Tensor;

constexpr double kMasked = -1e4;   ///< exporters write masked scores as this or less
constexpr int kMostMaskSteps = 12; ///< more operators than any exporter takes to make a mask ready

/// An element a pair of positions, from a constant of bools or float32; empty if it is something else.
std::vector<double> pairs(const Tensor &mask, std::int64_t positions)
{
    const auto count = static_cast<std::size_t>(positions) * static_cast<std::size_t>(positions);
    const std::size_t width = mask.type == DType::Bool ? 1 : sizeof(float);
    const std::size_t rank = mask.shape.rank();
    const bool known = mask.role == graph::TensorRole::Constant && mask.init.data
        && (mask.type == DType::Bool || mask.type == DType::F32);
    if (!known || rank < 2 || mask.shape[rank - 1].size != positions || mask.shape[rank - 2].size != positions
        || mask.init.data->size() != count * width)
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

/// The effect of operators on a mask's element on its way to the scores: the operators between, evaluated for one value
/// of the input.
class MaskEvaluator {
public:
    MaskEvaluator(const PatternGraph &in, std::int64_t positions) : m_in(in), m_positions(positions) {}

    std::optional<double> evaluate(TensorId id, double value, int steps = kMostMaskSteps)
    {
        if (const auto number = m_in.number(id))
            return number;
        if (const auto number = m_in.integer(id))
            return static_cast<double>(*number);
        if (!id.valid())
            return {};
        const Tensor &tensor = m_in.tensor(id);
        if (tensor.role == graph::TensorRole::Input)
            return takeInput(id) ? std::optional(value) : std::nullopt;
        const Op *op = m_in.source(id);
        if (!op || steps == 0 || op->inputs.empty() || !op->inputs[0].valid() || !keepsKeys(*op))
            return {};
        std::vector<double> operands;
        for (const TensorId input : op->inputs) {
            const auto operand = evaluate(input, value, steps - 1);
            if (!operand)
                return {};
            operands.push_back(*operand);
        }
        return apply(*op, operands);
    }

    [[nodiscard]] TensorId input() const { return m_input; }

private:
    bool takeInput(TensorId id)
    {
        const Shape &shape = m_in.tensor(id).shape;
        const bool fits = shape.rank() == 2 && shape[1] == graph::Dim{m_positions, false};
        if (!fits || (m_input.valid() && m_input != id))
            return false;
        m_input = id;
        return true;
    }

    /// Samples stay in the first dimension and keys in the last, with nothing between but ones and dimensions repeated
    /// by Expand.
    [[nodiscard]] bool keepsKeys(const Op &op) const
    {
        const Shape &made = m_in.tensor(op.outputs[0]).shape;
        const Shape &from = m_in.tensor(op.inputs[0]).shape;
        if (made.rank() < 2 || made[made.rank() - 1].size != m_positions)
            return false;
        if (op.type == "Expand")
            return from.rank() == made.rank() && from[0] == made[0] && from[from.rank() - 1].size == m_positions;
        if (op.type != "Unsqueeze" && op.type != "Reshape" && op.type != "Squeeze")
            return true;
        if (from.rank() < 2 || from[0] != made[0])
            return false;
        for (std::size_t axis = 1; axis + 1 < made.rank(); ++axis)
            if (made[axis].size != 1)
                return false;
        return true;
    }

    std::optional<double> apply(const Op &op, const std::vector<double> &x)
    {
        using Evaluate = double (*)(double, double);
        static const std::map<std::string, Evaluate, std::less<>> binary = {
            {"Add", [](double a, double b) { return a + b; }},
            {"Sub", [](double a, double b) { return a - b; }},
            {"Mul", [](double a, double b) { return a * b; }},
            {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
            {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
            {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
        };
        const std::string &type = op.type;
        if (const auto found = binary.find(type); found != binary.end() && x.size() == 2)
            return found->second(x[0], x[1]);
        if (type == "Where" && x.size() == 3)
            return x[0] != 0 ? x[1] : x[2];
        if (type == "Not")
            return x[0] == 0 ? 1.0 : 0.0;
        if (type == "Cast" && m_in.tensor(op.outputs[0]).type == DType::Bool)
            return x[0] != 0 ? 1.0 : 0.0;
        if (type == "Cast" || type == "Unsqueeze" || type == "Reshape" || type == "Squeeze" || type == "Expand"
            || type == "Identity")
            return x[0];
        return {};
    }

    const PatternGraph &m_in;
    std::int64_t m_positions;
    TensorId m_input;
};

/// True if @p id picks rows of a table: it holds words.
bool isLookedUp(const PatternGraph &in, TensorId id)
{
    for (const OpId reader : in.graph().consumers(id))
        if (in.graph().op(reader).type == "Gather")
            return true;
    return false;
}

/// The effect of one operator on scores: @p mask decides, and hides where @p hides is set and leaves as it is where @p
/// shows does.
template <class Hides, class Shows>
std::optional<Hiding> readMask(const PatternGraph &in, TensorId mask, TensorId scores, std::int64_t positions,
                               Hides hides, Shows shows)
{
    const std::vector<double> values = pairs(in.tensor(mask), positions);
    bool causal = !values.empty();
    for (std::size_t i = 0; causal && i < values.size(); ++i) {
        const auto length = static_cast<std::size_t>(positions);
        causal = i % length > i / length ? hides(values[i]) : shows(values[i]);
    }
    if (causal)
        return Hiding{scores, true, {}};
    MaskEvaluator way(in, positions);
    const auto hidden = way.evaluate(mask, 0);
    const auto seen = way.evaluate(mask, 1);
    if (!hidden || !seen || !way.input().valid() || !hides(*hidden) || !shows(*seen))
        return {};
    for (const double other : {2.0, 7.0}) // a mask holds 0 and 1; words, of which one stands for nothing, hold more
        if (const auto value = way.evaluate(mask, other); isLookedUp(in, way.input()) && !(value && shows(*value)))
            return {};
    return Hiding{scores, false, way.input()};
}

} // namespace

std::optional<Hiding> readHiding(const PatternGraph &in, const Op &op, std::int64_t positions)
{
    if (op.type == "Where" && op.inputs.size() == 3) {
        for (const std::size_t masked : {1, 2}) {
            const auto value = in.number(op.inputs[masked]);
            if (!value || *value > kMasked)
                continue;
            const auto hides = [masked](double c) { return (c != 0) == (masked == 1); };
            const auto shows = [masked](double c) { return (c != 0) != (masked == 1); };
            if (auto found = readMask(in, op.inputs[0], op.inputs[3 - masked], positions, hides, shows))
                return found;
        }
    }
    if (op.type != "Add")
        return {};
    for (const std::size_t mask : {1, 0})
        if (auto found = readMask(
                in, op.inputs[mask], op.inputs[1 - mask], positions, [](double c) { return c <= kMasked; },
                [](double c) { return c == 0; }))
            return found;
    return {};
}

} // namespace planloom::import
