// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/patterns.h"

#include "engine/graph/gradients/differentiate.h"
#include "engine/import/import.h"

#include <QTest>

#include <cstring>

using namespace planloom;
using graph::DType;
using graph::GraphBuilder;
using graph::Shape;

namespace {

int countOf(const graph::Graph &graph, const std::string &type)
{
    int count = 0;
    for (const graph::Op &op : graph.ops())
        count += op.type == type ? 1 : 0;
    return count;
}

/// GELU by erf, the pieces multiplied in one of several orders.
struct GeluGraph {
    GraphBuilder builder{"gelu"};
    TensorId x = builder.input("x", DType::F32, Shape::of({4, 8}));

    TensorId number(float value)
    {
        std::vector<std::byte> bytes(sizeof value);
        std::memcpy(bytes.data(), &value, sizeof value);
        return builder.constant("c" + std::to_string(m_numbers++), DType::F32, Shape(), std::move(bytes));
    }
    TensorId gate(float divisor = 1.4142135F, float one = 1)
    {
        return builder.add("Add", {builder.add("Erf", {builder.add("Div", {x, number(divisor)})}), number(one)});
    }
    TensorId mul(TensorId a, TensorId b) { return builder.add("Mul", {a, b}); }

private:
    int m_numbers = 0;
};

TensorId writeGelu(GeluGraph &g, int order)
{
    switch (order) {
    case 0: return g.mul(g.mul(g.x, g.gate()), g.number(0.5F));
    case 1: return g.mul(g.mul(g.x, g.number(0.5F)), g.gate());
    case 2: return g.mul(g.number(0.5F), g.mul(g.gate(), g.x));
    case 3: return g.mul(g.x, g.mul(g.number(0.5F), g.gate()));
    case 4: return g.builder.add("Div", {g.mul(g.gate(), g.x), g.number(2)});
    case 5: return g.mul(g.mul(g.x, g.gate(1.4242F)), g.number(0.5F)); // 0.7 % off
    case 6: return g.mul(g.mul(g.x, g.gate(1.4142135F, 1.01F)), g.number(0.5F));
    case 7: return g.mul(g.mul(g.x, g.gate()), g.number(0.4F));
    default: break;
    }
    const TensorId gate = g.gate(); // read from outside, too
    g.builder.output(g.builder.add("Neg", {gate}));
    return g.mul(g.mul(g.x, gate), g.number(0.5F));
}

} // namespace

class TestPatterns : public QObject {
    Q_OBJECT

private slots:
    void exportedModels_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<int>("layerNorms");
        QTest::addColumn<int>("rmsNorms");
        QTest::addColumn<int>("gelus");
        QTest::addColumn<int>("silus");
        QTest::addColumn<int>("attentions");
        QTest::newRow("gpt of two layers, batch left open") << "gpt.onnx" << 5 << 0 << 2 << 0 << 2;
        QTest::newRow("gpt of two layers, batch baked in") << "gpt-fixed.onnx" << 5 << 0 << 2 << 0 << 2;
        QTest::newRow("gpt whose LayerNormalization is an operator") << "gpt-weights.onnx" << 5 << 0 << 2 << 0 << 2;
        QTest::newRow("transformer encoder with relu") << "encoder.onnx" << 4 << 0 << 0 << 0 << 2;
        QTest::newRow("gated layer, GELU by tanh and by erf") << "gated.onnx" << 2 << 1 << 2 << 1 << 0;
    }
    void exportedModels()
    {
        QFETCH(QString, file);
        QFETCH(int, layerNorms);
        QFETCH(int, rmsNorms);
        QFETCH(int, gelus);
        QFETCH(int, silus);
        QFETCH(int, attentions);
        const auto model = import::loadModel((QString(PLANLOOM_SOURCE_DIR "/tests/golden/onnx/") + file).toStdString());
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        const graph::Graph &graph = *model->graph;
        QCOMPARE(countOf(graph, "LayerNormalization"), layerNorms);
        QCOMPARE(countOf(graph, "RMSNormalization"), rmsNorms);
        QCOMPARE(countOf(graph, "Gelu"), gelus);
        QCOMPARE(countOf(graph, "Silu"), silus);
        QCOMPARE(countOf(graph, "Attention"), attentions);
        if (attentions > 0)
            QCOMPARE(countOf(graph, "Softmax") + countOf(graph, "Where") + countOf(graph, "Split"), 0);
        for (const char *type : {"ReduceMean", "Pow", "Sqrt", "Reciprocal", "Sub", "Erf", "Tanh", "Sigmoid"})
            QVERIFY2(countOf(graph, type) == 0, type);
        const auto training =
            graph::differentiate(graph, OpId(0), OpId(static_cast<std::int64_t>(graph.ops().size())), {}, {});
        QVERIFY2(training.ok(), training ? "" : training.error().text().c_str());
    }

    void bothGelusKeepTheirFormula()
    {
        const auto model = import::loadModel(PLANLOOM_SOURCE_DIR "/tests/golden/onnx/gated.onnx");
        QVERIFY(model.ok());
        QStringList formulas;
        for (const graph::Op &op : model->graph->ops())
            if (op.type == "Gelu")
                formulas << QString::fromStdString(op.text("approximate"));
        QCOMPARE(formulas, (QStringList{"tanh", "none"}));
        QVERIFY(model->graph->find("rms.weight").valid());
        QVERIFY(model->graph->find("ln_1.bias").valid());
    }

    void gelus_data()
    {
        QTest::addColumn<int>("order");
        QTest::addColumn<bool>("taken");
        QTest::newRow("x (1 + erf), then 0.5") << 0 << true;
        QTest::newRow("0.5 x first") << 1 << true;
        QTest::newRow("0.5 in front") << 2 << true;
        QTest::newRow("0.5 (1 + erf) first") << 3 << true;
        QTest::newRow("halved by a division") << 4 << true;
        QTest::newRow("another slope") << 5 << false;
        QTest::newRow("another summand") << 6 << false;
        QTest::newRow("another factor") << 7 << false;
        QTest::newRow("a part is read from outside") << 8 << false;
    }
    void gelus()
    {
        QFETCH(int, order);
        QFETCH(bool, taken);
        GeluGraph g;
        const TensorId y = writeGelu(g, order);
        g.builder.rename(y, "y");
        g.builder.output(y);
        const auto before = std::move(g.builder).build();
        QVERIFY2(before.ok(), before ? "" : before.error().text().c_str());
        const graph::Graph after = import::fusePatterns(*before);
        QCOMPARE(countOf(after, "Gelu"), taken ? 1 : 0);
        QCOMPARE(after.ops().size(), taken ? std::size_t(1) : before->ops().size());
        QVERIFY(after.find("y").valid());
    }

    void separateProjections_data()
    {
        QTest::addColumn<double>("scale");
        QTest::addColumn<bool>("taken");
        QTest::newRow("1 / sqrt(4)") << 0.5 << true;
        QTest::newRow("another scale") << 0.25 << false;
    }
    void separateProjections()
    {
        QFETCH(double, scale);
        QFETCH(bool, taken);
        GeluGraph g;
        GraphBuilder &b = g.builder;
        std::vector<TensorId> heads;
        for (const std::string name : {"q", "k", "v"}) {
            const TensorId x = b.input(name, DType::F32, Shape::of({2, 6, 8}));
            const TensorId split = b.add("Reshape", {x}, {{"shape", std::vector<std::int64_t>{2, 6, 2, 4}}});
            heads.push_back(
                b.add("Transpose", {split},
                      {{"perm", std::vector<std::int64_t>{0, 2, name == "k" ? 3 : 1, name == "k" ? 1 : 3}}}));
        }
        const TensorId scores = b.add("MatMul", {g.mul(heads[0], g.number(static_cast<float>(scale))), heads[1]});
        const TensorId mixed = b.add("MatMul", {b.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), heads[2]});
        const TensorId turned = b.add("Transpose", {mixed}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
        b.output(b.add("Reshape", {turned}, {{"shape", std::vector<std::int64_t>{2, 6, 8}}}));
        const auto before = std::move(b).build();
        QVERIFY2(before.ok(), before ? "" : before.error().text().c_str());
        const graph::Graph after = import::fusePatterns(*before);
        QCOMPARE(countOf(after, "Attention"), taken ? 1 : 0);
        QCOMPARE(after.ops().size(), taken ? std::size_t(2) : before->ops().size());
        QCOMPARE(countOf(after, "Concat"), taken ? 1 : 0);
    }

    void aSecondReaderOfTheGateStopsSilu()
    {
        GraphBuilder builder("silu");
        const TensorId x = builder.input("x", DType::F32, Shape::of({4, 8}));
        const TensorId gate = builder.add("Sigmoid", {x});
        builder.output(builder.add("Mul", {x, gate}));
        builder.output(gate);
        const auto graph = std::move(builder).build();
        QVERIFY(graph.ok());
        QCOMPARE(countOf(import::fusePatterns(*graph), "Silu"), 0);
    }
};

QTEST_GUILESS_MAIN(TestPatterns)
#include "tst_patterns.moc"
