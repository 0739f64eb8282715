// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/block_expressions.h"

namespace planloom::admm {

using graph::Dim;
using graph::DType;
using graph::Shape;

const graph::Attributes BlockExpressions::kTransposed{{"transB", std::int64_t{1}}};

Shape BlockExpressions::shapeOf(const std::string &name) const
{
    if (const auto shared = sharedShape(m_sizes, name))
        return *shared;
    if (const auto found = m_shapes.find(name); found != m_shapes.end())
        return found->second;
    if (name == "labels")
        return Shape({Dim{1, true}});
    const bool ofClasses = name == "o" || name == "r";
    const std::int64_t columns = ofClasses ? m_sizes.classes : name[0] == 'x' ? m_sizes.inputs : m_sizes.hidden;
    return Shape({Dim{1, true}, Dim{columns, false}});
}

TensorId BlockExpressions::value(const std::string &name)
{
    TensorId &tensor = m_values[name];
    if (!tensor.valid())
        tensor = m_builder.input(name, name == "labels" ? DType::I64 : DType::F32, shapeOf(name));
    return tensor;
}

TensorId BlockExpressions::scaled(TensorId tensor, double factor)
{
    if (factor == 1)
        return tensor;
    TensorId &scalar = m_scalars[factor];
    if (!scalar.valid())
        scalar = m_builder.constantFloats(fmt::format("factor{}", m_scalars.size()), {}, factor);
    return m_builder.add("Mul", {tensor, scalar});
}

TensorId BlockExpressions::scaled(TensorId tensor, double factor, int power)
{
    if (!ranges())
        return scaled(tensor, factor);
    std::vector<double> factors = rangeScales(m_method, power);
    for (double &each : factors)
        each *= factor;
    return times(tensor, factors);
}

TensorId BlockExpressions::times(TensorId tensor, const std::vector<double> &factors)
{
    TensorId &own = m_byRange[factors];
    if (!own.valid())
        own = byRange(m_builder, factors, fmt::format("by_range{}", m_byRange.size()));
    return m_builder.add("Mul", {tensor, own});
}

TensorId BlockExpressions::before()
{
    std::vector<double> notFirst(static_cast<std::size_t>(m_method.settings.timeRanges), 1);
    notFirst.front() = 0;
    return times(value("before"), notFirst);
}

TensorId BlockExpressions::filled(std::int64_t columns, double with)
{
    return m_builder.add(
        "ConstantOfShape", {},
        {{"shape", std::vector<std::int64_t>{1, columns}}, {"batch_axis", std::int64_t{0}}, {"value", with}});
}

TensorId BlockExpressions::columns(TensorId matrix, std::int64_t first, std::int64_t last)
{
    return m_builder.add("Slice", {matrix},
                         {{"starts", std::vector{first}},
                          {"ends", std::vector{last}},
                          {"axes", std::vector<std::int64_t>{1}},
                          {"steps", std::vector<std::int64_t>{1}}});
}

TensorId BlockExpressions::driven(std::int64_t step)
{
    if (m_drivenStep != step)
        m_driven = m_builder.add("Gemm", {value("x", step), value("u"), value("b")}, kTransposed);
    m_drivenStep = step;
    return m_driven;
}

TensorId BlockExpressions::state(std::int64_t step)
{
    const TensorId input = value("a", step);
    TensorId &made = m_states[input];
    const auto changed = [&](const char *letter) { return m_changed.contains(fmt::format("{}{}", letter, step)); };
    if (!made.valid())
        made = m_restarted && !changed("a") && !changed("h") ? value("h", step) : m_builder.add("Tanh", {input});
    return made;
}

TensorId BlockExpressions::arrived(std::int64_t step)
{
    const TensorId sum = driven(step);
    if (step == 1 && !ranges())
        return sum;
    const TensorId past = step == 1 ? before() : value("h", step - 1);
    return add(sum, m_builder.add("MatMul", {past, value("w")}, kTransposed));
}

TensorId BlockExpressions::outputMade()
{
    return m_builder.add("Gemm", {value("h", steps()), value("v"), value("c")}, kTransposed);
}

TensorId BlockExpressions::squares(TensorId matrix)
{
    const TensorId sum = m_builder.add("ReduceSum", {m_builder.add("Mul", {matrix, matrix})},
                                       {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}});
    return m_builder.add("Reshape", {sum}, {{"shape", std::vector<std::int64_t>{1}}});
}

/// The hidden state that is asked to be near the tanh of its input, too.
TensorId BlockExpressions::solved(TensorId system, TensorId pulled, std::int64_t step)
{
    return m_builder.add("CholeskySolve", {system, pulled, state(step), scaled(value("q", step), 1, -1)},
                         {{"shift", penalty(step)}});
}

/// What the outputs, or the range behind, ask a range's last hidden state to be.
TensorId BlockExpressions::rightOfLast()
{
    const double rho = m_method.settings.rho;
    const TensorId outputs = subtract(scaled(subtract(value("o"), value("c")), rho), value("r"));
    const double ratio = m_method.penalty[static_cast<std::size_t>(steps())] / m_method.penalty.front();
    const TensorId ahead = times(value("ahead"), ofLastRange(m_method, 0, ratio));
    return add(ifLast(m_builder.add("MatMul", {outputs, value("v")})), m_builder.add("MatMul", {ahead, value("w")}));
}

TensorId BlockExpressions::systemOfLast()
{
    const double ratio = m_method.penalty[static_cast<std::size_t>(steps())] / m_method.penalty.front();
    const auto system = [this](const char *weights, double penalty) {
        return m_builder.add("OuterSums", {value(weights)}, {{"weights", std::vector{penalty}}});
    };
    return add(ifLast(system("v", m_method.settings.rho)),
               times(system("w", penalty(1) * ratio), ofLastRange(m_method, 0, 1)));
}

TensorId BlockExpressions::asSteps(const std::vector<TensorId> &steps)
{
    std::vector<TensorId> all;
    for (const TensorId step : steps)
        all.push_back(m_builder.add("Unsqueeze", {step}, {{"axes", std::vector<std::int64_t>{0}}}));
    return m_builder.add("Concat", all, {{"axis", std::int64_t{0}}});
}

/// The sum of targets' rows, each times a row of @p rows: [columns of targets, columns of rows], added up in double.
TensorId BlockExpressions::summedOuter(TensorId rows, TensorId targets, std::size_t steps)
{
    return m_builder.addMany("OuterSums", {rows, targets}, 2, {{"weights", std::vector<double>(steps, 1)}})[1];
}

/// What a block multiplies.
TensorId BlockExpressions::rowsOf(const std::string &block, std::int64_t step)
{
    if (block == "b" || block == "c")
        return filled(1, 1);
    if (block == "u")
        return value("x", step);
    if (block == "v")
        return value("h", m_sizes.steps);
    return step == 1 ? filled(m_sizes.hidden, 0) : value("h", step - 1);
}

/// The penalty times a residual, less its dual.
TensorId BlockExpressions::weightedMisfit(std::int64_t step)
{
    return subtract(scaled(subtract(value("a", step), arrived(step)), penalty(step)), value("p", step));
}

Result<graph::Graph> BlockExpressions::finish()
{
    for (const auto &[name, tensor] : m_changed) {
        m_builder.rename(tensor, name + "'");
        m_builder.output(tensor);
    }
    return std::move(m_builder).build();
}

} // namespace planloom::admm
