// SPDX-License-Identifier: Apache-2.0
#include "executor/device/trained_case.h"

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
/// Elements of one input whose gradient is compared; all of them where there are no more. The sanitizer looks at the
/// kernels, which the number does not change.
#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kProbes = 2;
#else
constexpr std::int64_t kProbes = 24;
#endif

const std::vector<Case> &gradientCases()
{
    static const std::vector<Case> kCases = allCases();
    return kCases;
}

double lossOf(const TrainedCase &setup, Values values)
{
    runReference(setup.part->graph, 0, setup.part->forwardOps, values);
    return values[setup.part->loss.index()][0];
}

/// Where the gradient of input @p i, as the kernels make it, differs from finite differences.
std::string compareGradient(const TrainedCase &setup, const Machine &machine, std::size_t i)
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
        const TrainedCase setup = TrainedCaseBuilder(c).build();
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
            const TrainedCase setup = TrainedCaseBuilder(c).build();
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
