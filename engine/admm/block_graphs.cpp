// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/block_graphs.h"

#include "engine/admm/block_expressions.h"

#include <cmath>
#include <cstring>
#include <map>

namespace planloom::admm {

std::optional<graph::Shape> sharedShape(const Sizes &sizes, const std::string &name)
{
    using graph::Shape;
    const auto [n, h, c, steps] = sizes;
    const auto triangle = [](std::int64_t columns) { return columns * (columns + 1) / 2; };
    const std::map<std::string, Shape> shapes{{"u", Shape::of({h, n})},
                                              {"w", Shape::of({h, h})},
                                              {"b", Shape::of({h})},
                                              {"v", Shape::of({c, h})},
                                              {"c", Shape::of({c})},
                                              {"gram_in", Shape::of({triangle(n + h + 1)})},
                                              {"product_in", Shape::of({h, n + h + 1})},
                                              {"gram_out", Shape::of({triangle(h + 1)})},
                                              {"product_out", Shape::of({c, h + 1})}};
    const auto found = shapes.find(name);
    return found != shapes.end() ? std::optional(found->second) : std::nullopt;
}

std::int64_t sharedElements(const Sizes &sizes, const std::string &name)
{
    return sharedShape(sizes, name)->elements(1);
}

TensorId byRange(graph::GraphBuilder &builder, const std::vector<double> &values, const std::string &name)
{
    const auto ranges = static_cast<std::int64_t>(values.size());
    std::vector<std::byte> data(values.size() * sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<float>(values[i]);
        std::memcpy(data.data() + i * sizeof value, &value, sizeof value);
    }
    const TensorId all = builder.constant(name, graph::DType::F32, graph::Shape::of({ranges}), std::move(data));
    return builder.add("ShardSlice", {all},
                       {{"mesh_dim", std::int64_t{1}},
                        {"parts", ranges},
                        {"axis", std::int64_t{0}},
                        {"segments", std::vector{ranges}}});
}

std::vector<double> rangeScales(const Method &method, int power)
{
    const auto ranges = static_cast<std::size_t>(method.settings.timeRanges);
    const std::size_t steps = method.penalty.size() / ranges;
    std::vector<double> scales;
    for (std::size_t range = 0; range < ranges; ++range)
        scales.push_back(std::pow(method.penalty[range * steps] / method.penalty[(ranges - 1) * steps], power));
    return scales;
}

std::vector<double> ofLastRange(const Method &method, double there, double elsewhere)
{
    std::vector<double> values(static_cast<std::size_t>(method.settings.timeRanges), elsewhere);
    values.back() = there;
    return values;
}

namespace {

using graph::Attributes;

/// Writes updates one after another: each reads the newest values of the variables.
class UpdateWriter : private BlockExpressions {
public:
    using BlockExpressions::BlockExpressions;
    using BlockExpressions::finish;

    void restart();
    /// @p last: of the iteration, whose cross-entropy the Lagrangian has.
    void output(bool last = false);
    void backward();
    void forward();
    /// Of the steps' inputs, where the sweep has not made them.
    void inputDuals();
    void setDuals();
    void outputDual();
    void sumIn();
    void sumOut();
    void solveIn();
    void solveOut();
    void lastHidden() { hidden(steps()); }
    void restBackward();
    void firstInput();
    void restForward();
    void pull();
    void step(const std::string &block);
    void takeStep(const std::string &block);

private:
    void hidden(std::int64_t step);
    /// Returns what the step's input would be without residual.
    TensorId input(std::int64_t step);
    /// A step's new duals, which setDuals() sets, or the squared residual where it has none: in a sweep that is the
    /// last to update what they are made of.
    void inputDual(std::int64_t step, TensorId arrived);
    void hiddenDual(std::int64_t step);
    [[nodiscard]] bool hasDuals(std::int64_t step) const
    {
        return m_method.settings.duals == Duals::All || step == steps();
    }
    [[nodiscard]] bool interleaved() const { return m_method.settings.order == Order::Interleaved; }

    std::map<std::string, TensorId> m_newDuals;
};

void UpdateWriter::restart()
{
    for (std::int64_t step = 1; step <= m_sizes.steps; ++step) {
        set("a", step, arrived(step));
        set("h", step, state(step));
    }
    set("o", m_builder.add("Gemm", {value("h", m_sizes.steps), value("v"), value("c")}, kTransposed));
}

void UpdateWriter::output(bool last)
{
    const double rho = m_method.settings.rho;
    const TensorId centre = add(outputMade(), scaled(value("r"), 1 / rho));
    Attributes how{{"penalty", rho}, {"iterations", std::int64_t{exact() ? m_method.settings.newtonSteps : 0}}};
    if (last)
        how["losses"] = std::int64_t{1};
    const auto made =
        m_builder.addMany("ProximalCrossEntropy", {value("o"), centre, value("labels")}, last ? 2 : 1, std::move(how));
    set("o", made[0]);
    if (last) {
        const TensorId sum = m_builder.add("ReduceSum", {made[1]},
                                           {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{1}}});
        set("risk", ifLast(sum));
    }
}

/// The step's system is that of what reads h: w of the next step, or v.
void UpdateWriter::hidden(std::int64_t step)
{
    const double q = penalty(step);
    if (ranges() && step == steps()) { // divided by the ratio of penalties, as all of a range are
        const TensorId right = rightOfLast();
        set("h", step, solved(systemOfLast(), right, step));
        return;
    }
    const bool last = step == m_sizes.steps;
    const double next = last ? m_method.settings.rho : penalty(step + 1);
    const TensorId wanted = last ? subtract(value("o"), value("c")) : subtract(value("a", step + 1), driven(step + 1));
    const TensorId misfit = subtract(scaled(wanted, next), last ? value("r") : scaled(value("p", step + 1), 1, -1));
    const TensorId weights = last ? value("v") : value("w");
    const TensorId pulled = m_builder.add("MatMul", {misfit, weights});
    if (!exact()) { // next * the squared norm is no less than the system's largest eigenvalue
        const TensorId right = add(add(scaled(state(step), q), value("q", step)), pulled);
        const TensorId before = value("h", step);
        const TensorId tau = scaled(squares(weights), next);
        const TensorId made = m_builder.add("MatMul", {before, weights}, kTransposed);
        const TensorId curved = scaled(m_builder.add("MatMul", {made, weights}), next);
        const TensorId moved = subtract(add(right, m_builder.add("Mul", {before, tau})), curved);
        set("h", step,
            m_builder.add("Div", {moved, add(tau, m_builder.constantFloats(fmt::format("shift{}", step), {1}, q))}));
        return;
    }
    const TensorId system = m_builder.add("OuterSums", {weights}, {{"weights", std::vector{next}}});
    set("h", step, solved(system, pulled, step));
}

void UpdateWriter::pull()
{
    set("pull", subtract(scaled(subtract(value("a", 1), driven(1)), penalty(1)), scaled(value("p", 1), 1, -1)));
}

void UpdateWriter::restBackward()
{
    for (std::int64_t step = steps() - 1; step > 0; --step)
        hidden(step);
    for (std::int64_t step = steps(); step > 0; --step)
        input(step);
}

void UpdateWriter::firstInput()
{
    input(1);
    pull();
}

void UpdateWriter::restForward()
{
    for (std::int64_t step = 2; step <= steps(); ++step)
        input(step);
    for (std::int64_t step = 1; step <= steps(); ++step) {
        hidden(step);
        hiddenDual(step);
    }
}

TensorId UpdateWriter::input(std::int64_t step)
{
    const double p = penalty(step);
    const TensorId made = arrived(step);
    set("a", step,
        m_builder.add("ProximalTanh",
                      {value("a", step), made, value("h", step), scaled(value("p", step), 1, -1),
                       scaled(value("q", step), 1, -1)},
                      {{"p", p}, {"q", p}, {"iterations", std::int64_t{exact() ? m_method.settings.tanhSteps : 1}}}));
    return made;
}

void UpdateWriter::backward()
{
    for (std::int64_t step = m_sizes.steps; step > 0; --step) {
        hidden(step);
        if (interleaved())
            input(step);
    }
    for (std::int64_t step = m_sizes.steps; !interleaved() && step > 0; --step)
        input(step);
}

void UpdateWriter::forward()
{
    for (std::int64_t step = 1; !interleaved() && step <= m_sizes.steps; ++step)
        input(step);
    for (std::int64_t step = 1; step <= m_sizes.steps; ++step) {
        if (interleaved()) // the states before it are no more updated
            inputDual(step, input(step));
        hidden(step);
        hiddenDual(step);
    }
}

void UpdateWriter::inputDual(std::int64_t step, TensorId arrived)
{
    const TensorId residual = subtract(value("a", step), arrived);
    if (!hasDuals(step))
        return set("square_a", step, squares(residual));
    m_newDuals[fmt::format("p{}", step)] = subtract(value("p", step), scaled(residual, penalty(step), 1));
}

void UpdateWriter::hiddenDual(std::int64_t step)
{
    const TensorId residual = subtract(value("h", step), state(step));
    if (!hasDuals(step))
        return set("square_h", step, squares(residual));
    m_newDuals[fmt::format("q{}", step)] = subtract(value("q", step), scaled(residual, penalty(step), 1));
}

void UpdateWriter::inputDuals()
{
    for (std::int64_t step = 1; !interleaved() && step <= steps(); ++step)
        inputDual(step, arrived(step));
}

void UpdateWriter::setDuals()
{
    for (const auto &[name, dual] : m_newDuals)
        set(name, dual);
}

void UpdateWriter::outputDual()
{
    const TensorId made = outputMade();
    set("r", subtract(value("r"), scaled(subtract(value("o"), made), m_method.settings.rho)));
}

void UpdateWriter::sumIn()
{
    std::vector<TensorId> rows;
    std::vector<TensorId> targets;
    const auto stacked = [this](const std::vector<TensorId> &steps) {
        return m_builder.add("Concat", steps, {{"axis", std::int64_t{0}}});
    };
    const auto asStep = [this](TensorId tensor) {
        return m_builder.add("Unsqueeze", {tensor}, {{"axes", std::vector<std::int64_t>{0}}});
    };
    const TensorId ones = filled(1, 1);
    for (std::int64_t step = 1; step <= steps(); ++step) {
        const TensorId past = step > 1 ? value("h", step - 1) : ranges() ? before() : filled(m_sizes.hidden, 0);
        const TensorId row = m_builder.add("Concat", {value("x", step), past, ones}, {{"axis", std::int64_t{1}}});
        rows.push_back(asStep(row));
        targets.push_back(asStep(subtract(scaled(value("a", step), penalty(step), 1), value("p", step))));
    }
    const std::vector<double> weights(m_method.penalty.end() - steps(), m_method.penalty.end());
    const auto sums = m_builder.addMany("OuterSums", {stacked(rows), stacked(targets)}, 2, {{"weights", weights}});
    set("gram_in", scaled(sums[0], 1, 1));
    set("product_in", sums[1]);
}

void UpdateWriter::sumOut()
{
    const double rho = m_method.settings.rho;
    const TensorId rows = m_builder.add("Concat", {value("h", steps()), filled(1, 1)}, {{"axis", std::int64_t{1}}});
    const TensorId targets = subtract(scaled(value("o"), rho), value("r"));
    const auto sums = m_builder.addMany("OuterSums", {rows, targets}, 2, {{"weights", std::vector{rho}}});
    set("gram_out", ifLast(sums[0]));
    set("product_out", ifLast(sums[1]));
}

void UpdateWriter::solveIn()
{
    const std::int64_t n = m_sizes.inputs;
    const std::int64_t h = m_sizes.hidden;
    const TensorId packed =
        m_builder.add("CholeskySolve", {value("gram_in"), value("product_in")}, {{"ridge", m_method.settings.ridge}});
    set("u", columns(packed, 0, n));
    set("w", columns(packed, n, n + h));
    set("b", m_builder.add("Reshape", {columns(packed, n + h, n + h + 1)}, {{"shape", std::vector{h}}}));
}

void UpdateWriter::solveOut()
{
    const std::int64_t h = m_sizes.hidden;
    const TensorId packed =
        m_builder.add("CholeskySolve", {value("gram_out"), value("product_out")}, {{"ridge", m_method.settings.ridge}});
    set("v", columns(packed, 0, h));
    set("c", m_builder.add("Reshape", {columns(packed, h, h + 1)}, {{"shape", std::vector{m_sizes.classes}}}));
}

void UpdateWriter::step(const std::string &block)
{
    const bool ofOutput = block == "v" || block == "c";
    std::vector<TensorId> rows;
    std::vector<TensorId> targets;
    std::vector<TensorId> squared;
    for (std::int64_t step = 1; step <= (ofOutput ? 1 : m_sizes.steps); ++step) {
        const double weight = ofOutput ? m_method.settings.rho : penalty(step);
        rows.push_back(rowsOf(block, step));
        targets.push_back(ofOutput ? subtract(scaled(subtract(value("o"), outputMade()), weight), value("r"))
                                   : weightedMisfit(step));
        squared.push_back(scaled(m_builder.add("Mul", {rows.back(), rows.back()}), weight));
    }
    const TensorId numerator = summedOuter(asSteps(rows), asSteps(targets), rows.size());
    const TensorId ones = asSteps(std::vector<TensorId>(rows.size(), filled(1, 1)));
    const TensorId norms = summedOuter(ones, asSteps(squared), rows.size()); // of each column
    const TensorId norm =
        m_builder.add("ReduceSum", {norms}, {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}});
    const bool bias = block == "b" || block == "c";
    set("numerator",
        bias ? m_builder.add("Reshape", {numerator},
                             {{"shape", std::vector<std::int64_t>{block == "b" ? m_sizes.hidden : m_sizes.classes}}})
             : numerator);
    set("norm", m_builder.add("Reshape", {norm}, {{"shape", std::vector<std::int64_t>{1}}}));
}

/// block + (numerator - ridge * block) / (norm + ridge). A block whose norm and ridge are both 0 stays.
void UpdateWriter::takeStep(const std::string &block)
{
    constexpr double kNotZero = 1e-30;
    const bool bias = block == "b" || block == "c";
    const double ridge = bias ? 0 : m_method.settings.ridge;
    declare("numerator", shapeOf(block));
    declare("norm", graph::Shape::of({1}));
    const bool up = m_method.settings.subproblems == Subproblems::Released && !bias;
    const TensorId step = up ? m_builder.add("Neg", {value("numerator")}) : value("numerator");
    const TensorId pull = ridge > 0 ? subtract(step, scaled(value(block), ridge)) : step;
    const TensorId norm = add(value("norm"), m_builder.constantFloats("ridge", {1}, ridge > 0 ? ridge : kNotZero));
    set(block, add(value(block), m_builder.add("Div", {pull, norm})));
}

Status checkMethod(const Sizes &sizes, const Method &method)
{
    if (const Status good = method.settings.check(); !good)
        return good;
    if (static_cast<std::int64_t>(method.penalty.size()) != sizes.steps)
        return badInput(fmt::format("{} penalties for {} steps", method.penalty.size(), sizes.steps));
    return {};
}

} // namespace

Result<graph::Graph> blockGraph(Part part, const Sizes &sizes, const Method &method, bool passed)
{
    if (const Status good = checkMethod(sizes, method); !good)
        return good.error();
    const bool sums = method.settings.subproblems == Subproblems::Exact;
    const bool sweepsFirst =
        part == Part::Backward || part == Part::LastHidden || part == Part::RestBackward || part == Part::Alone;
    UpdateWriter writer(sizes, method, method.settings.restart && sweepsFirst);
    switch (part) {
    case Part::Begin:
        if (method.settings.restart && !passed)
            writer.restart();
        writer.output();
        if (sums)
            writer.sumOut();
        if (method.settings.timeRanges > 1)
            writer.pull();
        break;
    case Part::Backward:
        writer.backward();
        if (sums)
            writer.sumIn();
        break;
    case Part::Forward:
        writer.forward();
        if (sums)
            writer.sumOut();
        writer.setDuals();
        break;
    case Part::End:
        writer.output(true);
        writer.inputDuals();
        writer.setDuals();
        writer.outputDual();
        break;
    case Part::Alone:
        if (method.settings.restart && !passed)
            writer.restart();
        writer.output();
        writer.backward();
        writer.forward();
        writer.output(true);
        writer.sumIn();
        writer.sumOut();
        writer.inputDuals();
        writer.setDuals();
        writer.outputDual();
        break;
    case Part::LastHidden: writer.lastHidden(); break;
    case Part::RestBackward:
        writer.restBackward();
        writer.sumIn();
        break;
    case Part::FirstInput: writer.firstInput(); break;
    case Part::RestForward:
        writer.restForward();
        writer.sumOut();
        writer.setDuals();
        break;
    case Part::SolveIn: writer.solveIn(); break;
    case Part::SolveOut: writer.solveOut(); break;
    }
    return writer.finish();
}

Result<graph::Graph> stepGraph(const char *block, const Sizes &sizes, const Method &method)
{
    if (const Status good = checkMethod(sizes, method); !good)
        return good.error();
    UpdateWriter writer(sizes, method, false);
    writer.step(block);
    return writer.finish();
}

Result<graph::Graph> takeStepGraph(const char *block, const Sizes &sizes, const Method &method)
{
    if (const Status good = checkMethod(sizes, method); !good)
        return good.error();
    UpdateWriter writer(sizes, method, false);
    writer.takeStep(block);
    return writer.finish();
}

} // namespace planloom::admm
