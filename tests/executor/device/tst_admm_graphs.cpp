// SPDX-License-Identifier: Apache-2.0
// Iterations of ADMM by operators, against the same in double precision.
#include "executor/device/operator_case.h"

#include "engine/admm/message.h"
#include "engine/dispatch/versions.h"
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

Variables variablesOf(const Training &training, std::size_t of = 0)
{
    const Worker &worker = training.workers[of];
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
std::string runGraph(const Result<graph::Graph> &graph, Variables &variables, std::int64_t samples = 2)
{
    if (!graph)
        return graph.error().text();
    Machine machine(*graph, samples);
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

std::string runPart(Part part, const Sizes &sizes, const Method &method, Variables &variables)
{
    return runGraph(blockGraph(part, sizes, method), variables);
}

} // namespace

class TestAdmmGraphs : public QObject {
    Q_OBJECT

private slots:
    void iterations_data();
    void iterations();
    void linearised_data();
    void linearised();
    void versions_data();
    void versions();
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

void TestAdmmGraphs::linearised_data()
{
    QTest::addColumn<bool>("restart");
    QTest::addColumn<double>("ridge");
    QTest::newRow("as published") << false << 0.0;
    QTest::newRow("restart, ridge") << true << 0.05;
}

/// One step on each sub-problem, as published, ten sums an iteration; the first iteration is the one worked by hand
/// (tst_admm).
void TestAdmmGraphs::linearised()
{
    QFETCH(bool, restart);
    QFETCH(double, ridge);
    Settings settings = publishedSettings();
    settings.restart = restart;
    settings.ridge = ridge;
    auto training = Training::of(settings, exampleParameters(), exampleSamples(), 1);
    QVERIFY(training.ok());
    Variables variables = variablesOf(*training);
    const Sizes sizes{2, 2, 2, 2};
    const Method &method = training->method;
    std::string problem;
    const auto part = [&](Part what) { problem += runPart(what, sizes, method, variables); };
    const auto steps = [&](std::initializer_list<const char *> blocks) {
        for (const char *block : blocks) {
            problem += runGraph(stepGraph(block, sizes, method), variables);
            problem += runGraph(takeStepGraph(block, sizes, method), variables);
        }
    };
    for (int iteration = 0; iteration < 5; ++iteration) {
        QVERIFY(iterate(*training).ok());
        part(Part::Begin);
        steps({"c", "v"});
        part(Part::Backward);
        steps({"b", "w", "u", "u", "w", "b"});
        part(Part::Forward);
        steps({"v", "c"});
        part(Part::End);
        QVERIFY2(problem.empty(), problem.c_str());
        const double within = iteration == 0 ? 1e-6 : 4e-6; // together 2e-6 of numbers up to 1; errors add up then
        for (const auto &[name, expected] : variablesOf(*training)) {
            const std::string wrong = cases::difference(variables.at(name), expected, within, within);
            QVERIFY2(wrong.empty(), (name + ": " + wrong).c_str());
        }
    }
}

void TestAdmmGraphs::versions_data()
{
    QTest::addColumn<int>("barrier");
    QTest::addColumn<double>("proximal");
    QTest::addColumn<QList<double>>("wanted");
    QTest::newRow("one arrival") << 1 << 0.0 << QList{1.168407247, 1.055190378, 0.954404040, 0.765973206, 0.685105991};
    QTest::newRow("both") << 2 << 0.0 << QList{1.168407247, 0.904115627, 0.615667665};
    QTest::newRow("proximal") << 1 << 0.5 << QList<double>();
}

/// The asynchronous form: a worker's part by operators, its message to the server's arithmetic, versions by their
/// policy. Objectives behind each version, by hand and in double precision.
void TestAdmmGraphs::versions()
{
    QFETCH(int, barrier);
    QFETCH(double, proximal);
    QFETCH(QList<double>, wanted);
    Settings settings = exactSettings();
    settings.restart = true;
    settings.tanhSteps = 4;
    settings.parallel = Parallel::Asynchronous;
    settings.barrier = barrier;
    settings.delay = 2;
    settings.proximal = proximal;
    const Sizes sizes{2, 2, 2, 2};
    auto expected = Asynchronous::of(settings, exampleParameters(), exampleSamples(), 2);
    const auto begun = Training::of(settings, exampleParameters(), exampleSamples(), 2);
    QVERIFY(expected.ok() && begun.ok());
    std::vector<Variables> workers{variablesOf(*begun, 0), variablesOf(*begun, 1)};
    std::vector<std::vector<float>> messages(2);
    ParameterServer server(sizes, settings, {1, 1});
    QCOMPARE(server.layout().figures(), std::int64_t{15 + 10 + 6 + 6});
    dispatch::Versions versions(2, barrier, 2);
    qsizetype made = 0;
    const QList<int> arrivals = barrier == 2 ? QList{0, 1, 0, 1, 0, 1} : QList{0, 1, 0, 0, 1, 0, 1};
    for (const int k : arrivals) {
        Variables &own = workers[static_cast<std::size_t>(k)];
        std::vector<float> message;
        const auto append = [&message](const Array &values) {
            for (std::int64_t i = 0; i < values.size(); ++i)
                message.push_back(static_cast<float>(values[i]));
        };
        const Variables old = own;
        QCOMPARE(runGraph(blockGraph(Part::Alone, sizes, begun->method), own, 1), std::string());
        for (const char *sum : {"gram_in", "product_in", "gram_out", "product_out"})
            append(own.at(sum));
        message.resize(message.size() + 4); // figures
        if (server.layout().bringsParameters)
            for (const char *parameter : {"u", "w", "b", "v", "c"})
                append(old.at(parameter));
        QCOMPARE(static_cast<std::int64_t>(message.size()), server.layout().elements);
        messages[static_cast<std::size_t>(k)] = message;
        QVERIFY(versions.arrive(k).ok());
        QVERIFY(expected->arrive(k).ok());
        const auto answered = versions.next();
        QVERIFY(answered.ok());
        if (answered->empty())
            continue;
        for (const int each : *answered)
            server.take(each, messages[static_cast<std::size_t>(each)]);
        const Status solved = server.solve();
        QVERIFY2(solved.ok(), solved ? "" : solved.error().text().c_str());
        ++made;
        QCOMPARE(made, static_cast<qsizetype>(expected->version()));
        const float *at = server.answer().data();
        Parameters parameters = exampleParameters();
        const auto take = [&at](auto &matrix) {
            for (Eigen::Index r = 0; r < matrix.rows(); ++r)
                for (Eigen::Index c = 0; c < matrix.cols(); ++c)
                    matrix(r, c) = static_cast<double>(*at++);
        };
        take(parameters.u);
        take(parameters.w);
        take(parameters.b);
        take(parameters.v);
        take(parameters.c);
        const double objective = gradientsOf(parameters, exampleSamples(), 0.05).objective;
        if (made <= wanted.size())
            QVERIFY2(std::fabs(objective - wanted[made - 1]) < 2e-6, qPrintable(QString::number(objective, 'g', 10)));
        const double specified = gradientsOf(expected->parameters(), exampleSamples(), 0.05).objective;
        QVERIFY2(std::fabs(objective - specified) < 2e-6, qPrintable(QString::number(objective - specified)));
        for (const int each : *answered) {
            Variables &given = workers[static_cast<std::size_t>(each)];
            given["u"] = arrayOf(parameters.u);
            given["w"] = arrayOf(parameters.w);
            given["b"] = lineOf(parameters.b);
            given["v"] = arrayOf(parameters.v);
            given["c"] = lineOf(parameters.c);
        }
    }
    QCOMPARE(made, qsizetype{barrier == 2 ? 3 : 6});
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
}

QTEST_GUILESS_MAIN(TestAdmmGraphs)
#include "tst_admm_graphs.moc"
