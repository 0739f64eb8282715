// SPDX-License-Identifier: Apache-2.0
// Iterations of ADMM by operators, against the same in double precision.
#include "executor/device/operator_case.h"

#include "engine/admm/block_graphs.h"
#include "tests/engine/admm/admm_example.h"

#include <QTest>

#include <map>
#include <string>

using namespace planloom;
using namespace planloom::admm;
using cases::Array;
using cases::Machine;

namespace {

using Variables = std::map<std::string, Array>;

/// Samples become rows.
Array arrayOf(const Matrix &matrix)
{
    Array array({matrix.rows(), matrix.cols()});
    for (Eigen::Index i = 0; i < matrix.size(); ++i)
        array[i] = matrix(i / matrix.cols(), i % matrix.cols());
    return array;
}

Array lineOf(const Vector &vector)
{
    Array array({vector.size()});
    for (Eigen::Index i = 0; i < vector.size(); ++i)
        array[i] = vector[i];
    return array;
}

Variables variablesOf(const Training &training)
{
    const Worker &worker = training.workers.front();
    const Parameters &parameters = training.parameters;
    Variables all{{"u", arrayOf(parameters.u)},
                  {"w", arrayOf(parameters.w)},
                  {"b", lineOf(parameters.b)},
                  {"v", arrayOf(parameters.v)},
                  {"c", lineOf(parameters.c)},
                  {"o", arrayOf(worker.blocks.o.transpose())},
                  {"r", arrayOf(worker.blocks.l3.transpose())}};
    for (std::size_t t = 0; t < worker.samples.x.size(); ++t) {
        const std::string step = std::to_string(t + 1);
        all["x" + step] = arrayOf(worker.samples.x[t].transpose());
        all["a" + step] = arrayOf(worker.blocks.a[t].transpose());
        all["h" + step] = arrayOf(worker.blocks.h[t].transpose());
        all["p" + step] = arrayOf(worker.blocks.l1[t].transpose());
        all["q" + step] = arrayOf(worker.blocks.l2[t].transpose());
    }
    Array labels({static_cast<std::int64_t>(worker.samples.labels.size())});
    for (std::int64_t m = 0; m < labels.size(); ++m)
        labels[m] = worker.samples.labels[static_cast<std::size_t>(m)];
    all["labels"] = labels;
    return all;
}

/// Empty if all went well.
std::string runPart(Part part, const Sizes &sizes, const Method &method, Variables &variables)
{
    const auto graph = blockGraph(part, sizes, method);
    if (!graph)
        return graph.error().text();
    Machine machine(*graph);
    for (const TensorId input : graph->withRole(graph::TensorRole::Input))
        machine.set(input, variables.at(graph->tensor(input).name));
    if (std::string problem = machine.run(0, graph->ops().size()); !problem.empty())
        return problem;
    for (const TensorId output : graph->outputs()) {
        const std::string &name = graph->tensor(output).name;
        variables[name.substr(0, name.size() - 1)] = machine.get(output);
    }
    return {};
}

} // namespace

class TestAdmmGraphs : public QObject {
    Q_OBJECT

private slots:
    void iterations_data();
    void iterations();
    void readsWhatItNeeds();
    void settingsAreChecked();
};

void TestAdmmGraphs::iterations_data()
{
    QTest::addColumn<bool>("restart");
    QTest::addColumn<bool>("split");
    QTest::addColumn<bool>("lastDuals");
    QTest::addColumn<double>("gamma");
    QTest::newRow("standard") << true << false << false << 0.7;
    QTest::newRow("kept") << false << false << false << 1.0;
    QTest::newRow("split") << true << true << false << 0.7;
    QTest::newRow("duals of the last step") << true << false << true << 0.7;
}

void TestAdmmGraphs::iterations()
{
    QFETCH(bool, restart);
    QFETCH(bool, split);
    QFETCH(bool, lastDuals);
    QFETCH(double, gamma);
    Settings settings = exactSettings();
    settings.restart = restart;
    settings.order = split ? Order::Split : Order::Interleaved;
    settings.duals = lastDuals ? Duals::Last : Duals::All;
    settings.gamma = gamma;
    auto training = Training::of(settings, exampleParameters(), exampleSamples(), 1);
    QVERIFY(training.ok());
    Variables variables = variablesOf(*training);
    const Sizes sizes{2, 2, 2, 2};
    for (int iteration = 0; iteration < 5; ++iteration) {
        QVERIFY(iterate(*training).ok());
        for (const Part part :
             {Part::Begin, Part::SolveOut, Part::Backward, Part::SolveIn, Part::Forward, Part::SolveOut, Part::End})
            QCOMPARE(runPart(part, sizes, training->method, variables), std::string());
        for (const auto &[name, expected] : variablesOf(*training)) {
            const std::string wrong = cases::difference(variables.at(name), expected, 4e-6, 4e-6);
            QVERIFY2(wrong.empty(), (name + ": " + wrong).c_str());
        }
    }
}

/// What a part does not read has no place in its inputs: with a restart the last iteration's a and h are not kept until
/// then.
void TestAdmmGraphs::readsWhatItNeeds()
{
    Settings settings = exactSettings();
    settings.restart = true;
    const auto begin = blockGraph(Part::Begin, {2, 2, 2, 2}, *Method::of(settings, 2));
    QVERIFY2(begin.ok(), begin ? "" : begin.error().text().c_str());
    QStringList inputs;
    for (const TensorId input : begin->withRole(graph::TensorRole::Input))
        inputs << QString::fromStdString(begin->tensor(input).name);
    inputs.sort();
    QCOMPARE(inputs, (QStringList{"b", "c", "labels", "r", "u", "v", "w", "x1", "x2"}));
    const auto solve = blockGraph(Part::SolveIn, {2, 2, 2, 2}, *Method::of(settings, 2));
    QVERIFY(solve.ok());
    QCOMPARE(solve->outputs().size(), std::size_t{3});
}

void TestAdmmGraphs::settingsAreChecked()
{
    Settings settings = exactSettings();
    const Method method = *Method::of(settings, 2);
    QVERIFY(!blockGraph(Part::End, {2, 2, 2, 3}, method).ok());
    Method linearised = method;
    linearised.settings.subproblems = Subproblems::Linearised;
    const auto refused = blockGraph(Part::End, {2, 2, 2, 2}, linearised);
    QVERIFY(!refused.ok());
    QVERIFY(QString::fromStdString(refused.error().text()).contains("choose subproblems \"exact\""));
}

QTEST_GUILESS_MAIN(TestAdmmGraphs)
#include "tst_admm_graphs.moc"
