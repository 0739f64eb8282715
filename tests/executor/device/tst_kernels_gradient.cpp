// SPDX-License-Identifier: Apache-2.0
#include "executor/device/operator_cases.h"

#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/operators/operators.h"

#include <QtTest/QTest>

#include <array>
#include <optional>
#include <set>

using namespace planloom;
using namespace planloom::cases;

namespace {

/// Central differences of the double-precision reference: the error is of the order of kStep squared.
constexpr double kStep = 1e-5;
/// Elements of one input whose gradient is compared; all of them where there are no more.
constexpr std::int64_t kProbes = 24;

const std::vector<Case> &gradientCases()
{
    static const std::vector<Case> kCases = allCases();
    return kCases;
}

/// Around one operator: every input x_i comes in from an earlier part; the loss is sum_k <w_k, y_k> + sum_i <v_i, x_i>,
/// with fixed random w and v, so that every element of every gradient is its own number.
struct Setup {
    std::optional<graph::TrainingGraph> part;
    std::vector<Array> inputs;        ///< one per entry of part->inputs
    std::map<std::string, Array> fed; ///< other inputs of the part, by name
    std::string problem;
};

class Builder {
public:
    explicit Builder(const Case &c) : m_case(c), m_builder("case") {}

    Setup build()
    {
        if (auto status = outputInfos(); !status) {
            m_setup.problem = status.error().text();
            return std::move(m_setup);
        }
        addInputs();
        const OpId firstOp(
            static_cast<std::int64_t>(m_incoming.size())); // each incoming tensor is made by one operator
        const std::vector<TensorId> outputs = addOperator();
        addLoss(outputs);
        auto whole = std::move(m_builder).build();
        if (!whole) {
            m_setup.problem = whole.error().text();
            return std::move(m_setup);
        }
        auto part =
            graph::differentiate(*whole, firstOp, OpId(static_cast<std::int64_t>(whole->ops().size())), m_incoming, {});
        if (!part)
            m_setup.problem = part.error().text();
        else
            m_setup.part = std::move(*part);
        return std::move(m_setup);
    }

private:
    /// Shapes and types of the outputs, as inference gives them.
    Status outputInfos()
    {
        graph::GraphBuilder builder("shapes");
        std::vector<TensorId> inputs;
        for (std::size_t i = 0; i < m_case.inputs.size(); ++i)
            inputs.push_back(m_case.inputs[i].present ? builder.input("x" + std::to_string(i), m_case.inputs[i].type,
                                                                      m_case.inputs[i].shape())
                                                      : TensorId{});
        std::vector<TensorId> outputs;
        for (int i = 0; i < m_case.outputs; ++i)
            outputs.push_back(builder.activation("y" + std::to_string(i)));
        builder.addOp(m_case.type, "op", {}, inputs, outputs, m_case.attributes);
        auto graph = std::move(builder).build();
        if (!graph)
            return graph.error();
        for (int i = 0; i < m_case.outputs; ++i)
            m_outputs.push_back(graph->tensor(graph->find("y" + std::to_string(i))));
        return {};
    }

    /// A trained input is a parameter and a graph input added up outside the part, so that it is an activation that may
    /// carry the batch.
    void addInputs()
    {
        const TensorId parameter =
            m_builder.parameter("p", graph::Shape(), {graph::Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0});
        for (std::size_t i = 0; i < m_case.inputs.size(); ++i) {
            const Input &input = m_case.inputs[i];
            const std::string name = "x" + std::to_string(i);
            if (!input.present) {
                m_inputs.emplace_back();
                continue;
            }
            if (input.type != DType::F32 || !input.trained) {
                m_inputs.push_back(m_builder.input(name, input.type, input.shape()));
                m_setup.fed[name] = valuesOf(input, i + 1);
                continue;
            }
            addIncoming(name, input, parameter, i + 1);
            m_inputs.push_back(m_incoming.back());
        }
        if (m_incoming.empty()) // something must be trained
            addIncoming("extra", real({2}), parameter, 99);
    }

    void addIncoming(const std::string &name, const Input &input, TensorId parameter, std::uint64_t seed)
    {
        const TensorId raw = m_builder.input("raw/" + name, DType::F32, input.shape());
        m_incoming.push_back(m_builder.add("Add", {raw, parameter}, {}, name));
        m_incomingShapes.push_back(input.shape());
        m_setup.inputs.push_back(valuesOf(input, seed));
    }

    std::vector<TensorId> addOperator()
    {
        std::vector<TensorId> outputs;
        for (int i = 0; i < m_case.outputs; ++i)
            outputs.push_back(m_builder.activation("y" + std::to_string(i)));
        m_builder.addOp(m_case.type, "op", {}, m_inputs, outputs, m_case.attributes);
        return outputs;
    }

    void addLoss(const std::vector<TensorId> &outputs)
    {
        TensorId loss;
        const std::size_t counted =
            std::string(m_case.type) == "Split" ? outputs.size() : static_cast<std::size_t>(m_case.trainedOutputs);
        for (std::size_t k = 0; k < counted; ++k) {
            const TensorId y = m_outputs[k].type == DType::F32
                ? outputs[k]
                : m_builder.add("Cast", {outputs[k]}, {{"to", std::string("float32")}});
            loss = plusWeighted(loss, y, m_outputs[k].shape, "w" + std::to_string(k));
        }
        for (std::size_t i = 0; i < m_incoming.size(); ++i)
            loss = plusWeighted(loss, m_incoming[i], m_incomingShapes[i], "v" + std::to_string(i));
        m_builder.loss(loss);
    }

    TensorId plusWeighted(TensorId sum, TensorId x, const graph::Shape &shape, const std::string &name)
    {
        const TensorId weight = m_builder.input(name, DType::F32, shape);
        m_setup.fed[name] = valuesOf(real(shape.at(kSamples)), 1000 + m_setup.fed.size());
        const TensorId term =
            m_builder.add("ReduceSum", {m_builder.add("Mul", {x, weight})}, {{"keepdims", std::int64_t{0}}});
        return sum.valid() ? m_builder.add("Add", {sum, term}) : term;
    }

    const Case &m_case;
    graph::GraphBuilder m_builder;
    std::vector<graph::Tensor> m_outputs;
    std::vector<TensorId> m_inputs;
    std::vector<TensorId> m_incoming;
    std::vector<graph::Shape> m_incomingShapes;
    Setup m_setup;
};

/// Constants, and everything that is fed.
Values startValues(const Setup &setup)
{
    const graph::Graph &graph = setup.part->graph;
    Values values(graph.tensors().size());
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role == graph::TensorRole::Constant)
            values[tensor.id.index()] = fromBytes(tensor.type, tensor.shape.at(kSamples), tensor.init.data->data());
    }
    for (const auto &[name, array] : setup.fed) {
        if (graph.find(name).valid())
            values[graph.find(name).index()] = array;
    }
    for (std::size_t i = 0; i < setup.inputs.size(); ++i)
        values[setup.part->inputs[i].index()] = setup.inputs[i];
    return values;
}

/// Inputs of both passes; the loss counts once.
void feed(const Setup &setup, const Values &values, Machine &machine)
{
    for (const graph::Tensor &tensor : setup.part->graph.tensors()) {
        if (tensor.role == graph::TensorRole::Input && !values[tensor.id.index()].values.empty())
            machine.set(tensor.id, values[tensor.id.index()]);
    }
    Array one((Dims()));
    one[0] = 1;
    machine.set(setup.part->lossGradient, one);
}

double lossOf(const Setup &setup, Values values)
{
    runReference(setup.part->graph, 0, setup.part->forwardOps, values);
    return values[setup.part->loss.index()][0];
}

/// Where the gradient of input @p i, as the kernels make it, differs from finite differences.
std::string compareGradient(const Setup &setup, const Machine &machine, std::size_t i)
{
    const TensorId gradient = setup.part->inputGradients[i];
    if (!gradient.valid())
        return "input " + std::to_string(i) + " has no gradient";
    const Array got = machine.get(gradient);
    const Array &x = setup.inputs[i];
    if (got.dims != x.dims)
        return "the gradient has another shape than its input";
    const Values values = startValues(setup);
    const std::int64_t stride = std::max<std::int64_t>(1, x.size() / kProbes);
    for (std::int64_t at = 0; at < x.size(); at += stride) {
        std::array<double, 2> losses{};
        for (const int side : {0, 1}) {
            Values moved = values;
            moved[setup.part->inputs[i].index()][at] += side == 0 ? -kStep : kStep;
            losses[static_cast<std::size_t>(side)] = lossOf(setup, std::move(moved));
        }
        const double expected = (losses[1] - losses[0]) / (2 * kStep);
        if (!(std::fabs(got[at] - expected) <= 2e-5 + 1e-4 * std::fabs(expected)))
            return "gradient of input " + std::to_string(i) + ", element " + std::to_string(at) + " is "
                + std::to_string(got[at]) + ", finite differences say " + std::to_string(expected);
    }
    return {};
}

} // namespace

class KernelsGradient : public QObject {
    Q_OBJECT

private slots:
    void agreesWithFiniteDifferences_data()
    {
        QTest::addColumn<int>("at");
        for (std::size_t i = 0; i < gradientCases().size(); ++i)
            QTest::addRow("%s #%d", gradientCases()[i].name, static_cast<int>(i)) << static_cast<int>(i);
    }

    void agreesWithFiniteDifferences()
    {
        QFETCH(int, at);
        const Case &c = gradientCases()[static_cast<std::size_t>(at)];
        const Setup setup = Builder(c).build();
        QVERIFY2(setup.part.has_value(), setup.problem.c_str());
        const Values values = startValues(setup);
        Machine machine(setup.part->graph);
        feed(setup, values, machine);
        const std::string problem = machine.run(0, setup.part->graph.ops().size());
        QVERIFY2(problem.empty(), problem.c_str());
        const double loss = machine.get(setup.part->loss)[0];
        const double expected = lossOf(setup, values);
        QVERIFY2(std::fabs(loss - expected) <= 1e-4 + 1e-5 * std::fabs(expected), std::to_string(loss).c_str());
        for (std::size_t i = 0; i < setup.inputs.size(); ++i) {
            const std::string wrong = compareGradient(setup, machine, i);
            QVERIFY2(wrong.empty(), wrong.c_str());
        }
    }

    /// Twice with the same number of threads: the same bits in every tensor of both passes.
    void sameBitsOnEveryRun()
    {
        for (const Case &c : gradientCases()) {
            const Setup setup = Builder(c).build();
            QVERIFY2(setup.part.has_value(), setup.problem.c_str());
            const graph::Graph &graph = setup.part->graph;
            Machine first(graph);
            Machine second(graph);
            for (Machine *machine : {&first, &second}) {
                feed(setup, startValues(setup), *machine);
                QCOMPARE(machine->run(0, graph.ops().size()), std::string());
            }
            for (const graph::Tensor &tensor : graph.tensors())
                QVERIFY2(first.bytes(tensor.id) == second.bytes(tensor.id), c.name);
        }
    }

    void everyDifferentiableTypeHasACase()
    {
        std::set<std::string> covered;
        for (const Case &c : gradientCases())
            covered.insert(c.type);
        for (const graph::Operator &row : graph::operators())
            if (row.gradient.flow == graph::Gradient::Flow::Flows)
                QVERIFY2(covered.contains(row.type) != row.traits.planOnly, row.type);
    }
};

QTEST_GUILESS_MAIN(KernelsGradient)
#include "tst_kernels_gradient.moc"
