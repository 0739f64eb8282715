// SPDX-License-Identifier: Apache-2.0
// Mixed precision: what the rewrite makes of whole models, and that they train as in float32.
#include "engine/graph/precision.h"

#include <QTest>

#include "executor/device/graph_runner.h"

using namespace planloom;
using graph::DType;

namespace {

graph::Graph model(const QString &which)
{
    const graph::TransformerConfig config = graphrun::smallConfig();
    auto made = which == "gpt" ? graph::gpt(config) : which == "bert" ? graph::bert(config) : graph::llama(config, 2, 1e4, 1e-5);
    return std::move(*made);
}

} // namespace

class Precision : public QObject {
    Q_OBJECT
private slots:
    void types_data();
    void types();
    void firstGradients_data();
    void firstGradients();
    void lossesOfTwentySteps();
};

void Precision::types_data()
{
    QTest::addColumn<QString>("which");
    for (const char *which : {"gpt", "bert", "llama"})
        QTest::newRow(which) << which;
}

void Precision::types()
{
    QFETCH(QString, which);
    const graph::Graph graph = model(which);
    const graph::TrainingGraph plain = graphrun::wholeOf(graph);
    const auto mixed = graph::toBFloat16(plain);
    QVERIFY2(mixed.ok(), mixed ? "" : mixed.error().text().c_str());
    QCOMPARE(mixed->parameters.size(), plain.parameters.size());
    for (std::size_t p = 0; p < mixed->parameters.size(); ++p) {
        const graph::Tensor &parameter = mixed->graph.tensor(mixed->parameters[p]);
        QCOMPARE(parameter.name, plain.graph.tensor(plain.parameters[p]).name);
        QCOMPARE(parameter.type, parameter.shape.rank() > 1 ? DType::BF16 : DType::F32);
        QCOMPARE(mixed->graph.tensor(mixed->gradients[p]).type, DType::F32);
    }
    QCOMPARE(mixed->graph.tensor(mixed->loss).type, DType::F32);
    std::int64_t plainBytes = 0;
    std::int64_t mixedBytes = 0;
    for (const TensorId id : plain.stash)
        plainBytes += plain.graph.tensor(id).bytes(2).value();
    for (const TensorId id : mixed->stash)
        mixedBytes += mixed->graph.tensor(id).bytes(2).value();
    QVERIFY2(mixedBytes < plainBytes * 6 / 10, qPrintable(QString("%1 of %2").arg(mixedBytes).arg(plainBytes)));
    for (const graph::Op &op : mixed->graph.ops()) { // products read nothing but bfloat16
        if (op.type == "MatMul" || op.type == "MatMulWeightGrad")
            QVERIFY2(mixed->graph.tensor(op.inputs[0]).type == DType::BF16 && mixed->graph.tensor(op.inputs[1]).type == DType::BF16, op.name.c_str());
    }
}

void Precision::firstGradients_data() { types_data(); }

void Precision::firstGradients()
{
    QFETCH(QString, which);
    const graph::Graph graph = model(which);
    const graph::TrainingGraph plain = graphrun::wholeOf(graph);
    const auto mixed = graph::toBFloat16(plain);
    QVERIFY(mixed.ok());
    graphrun::Runner single(plain, 2);
    graphrun::Runner half(*mixed, 2);
    const double expected = single.run();
    QVERIFY(std::abs(half.run() - expected) < 5e-3 * expected);
    const double floor = 0.05 * single.largestGradient();
    for (std::size_t p = 0; p < plain.parameters.size(); ++p) {
        const double difference = graphrun::apart(single.gradient(p), half.gradient(p), floor);
        QVERIFY2(difference < 0.06, qPrintable(QString("%1: %2").arg(plain.graph.tensor(plain.parameters[p]).name.c_str()).arg(difference)));
    }
}

void Precision::lossesOfTwentySteps()
{
    const graph::Graph graph = model("gpt");
    const graph::TrainingGraph plain = graphrun::wholeOf(graph);
    const auto mixed = graph::toBFloat16(plain);
    QVERIFY(mixed.ok());
    graphrun::Runner single(plain, 2);
    graphrun::Runner half(*mixed, 2);
    double first = 0;
    double last = 0;
    for (int step = 0; step < 20; ++step) {
        last = single.run(step);
        first = step == 0 ? last : first;
        const double loss = half.run(step);
        QVERIFY2(std::abs(loss - last) < 2e-2 * last, qPrintable(QString("step %1: %2 against %3").arg(step).arg(loss).arg(last)));
        single.optimize(step);
        half.optimize(step);
    }
    QVERIFY2(last < 0.8 * first, qPrintable(QString("%1 to %2").arg(first).arg(last)));
}

QTEST_GUILESS_MAIN(Precision)
#include "tst_precision.moc"
