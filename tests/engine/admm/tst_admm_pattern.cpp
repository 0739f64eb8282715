// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/pattern.h"

#include <QTest>

#include <functional>

using namespace planloom;
using namespace planloom::graph;

namespace {

/// What a test changes of the model that fits.
struct Change {
    const char *layer = "RNN";
    std::int64_t gates = 1;
    Attributes ofLayer = {};
    Attributes ofProduct = {};
    bool lastStepOfAll = false;              ///< by Slice of Y instead of Y_h
    std::int64_t from = -1, until = 1 << 30; ///< of the Slice
    bool initial = false;
    bool scaledInput = false;
    bool twoProducts = false;
    const char *loss = "SoftmaxCrossEntropyLoss";
};

/// 8 rows of 8 pixels, 5 hidden units, 10 classes.
Result<Graph> modelOf(const Change &change)
{
    GraphBuilder b("digits");
    const Initializer init{Initializer::Kind::Normal, 0, 1, {}, {}, 0};
    TensorId x = b.input("x", DType::F32, Shape({{1, true}, {64, false}}));
    const TensorId labels = b.input("labels", DType::I64, Shape({{1, true}}));
    if (change.scaledInput)
        x = b.add("Mul", {x, b.parameter("scale", Shape::of({64}), init)}, {}, "scaling");
    x = b.add("Reshape", {x}, {{"shape", std::vector<std::int64_t>{1, 8, 8}}, {"batch_axis", std::int64_t{0}}}, "rows");
    const auto directions = std::int64_t{change.ofLayer.contains("direction") ? 2 : 1};
    std::vector<TensorId> inputs{x, b.parameter("U", Shape::of({directions, 5 * change.gates, 8}), init),
                                 b.parameter("W", Shape::of({directions, 5 * change.gates, 5}), init),
                                 b.parameter("B", Shape::of({directions, 10 * change.gates}), init)};
    if (change.initial) {
        inputs.push_back({});
        inputs.push_back(b.input("h0", DType::F32, Shape({{1, true}, {1, false}, {5, false}})));
    }
    Attributes attributes = change.ofLayer;
    attributes["hidden_size"] = std::int64_t{5};
    attributes["layout"] = std::int64_t{1};
    const auto outputs = b.addMany(change.layer, inputs, 2, attributes, "layer");
    TensorId h = outputs[1];
    if (change.lastStepOfAll)
        h = b.add("Slice", {outputs[0]},
                  {{"starts", std::vector{change.from}},
                   {"ends", std::vector{change.until}},
                   {"axes", std::vector<std::int64_t>{1}},
                   {"steps", std::vector<std::int64_t>{1}}},
                  "last");
    h = b.add("Reshape", {h},
              {{"shape", std::vector<std::int64_t>{1, 5 * directions}}, {"batch_axis", std::int64_t{0}}}, "state");
    Attributes product = change.ofProduct;
    product["transB"] = std::int64_t{1};
    if (change.twoProducts)
        h = b.add("Gemm", {h, b.parameter("middle", Shape::of({5, 5}), init)}, {}, "middle_product");
    TensorId logits =
        b.add("Gemm",
              {h, b.parameter("V", Shape::of({10, 5 * directions}), init), b.parameter("c", Shape::of({10}), init)},
              product, "output");
    const bool classes = std::string_view(change.loss) == "SoftmaxCrossEntropyLoss";
    const TensorId target = classes ? labels : b.input("target", DType::F32, Shape({{1, true}, {10, false}}));
    const TensorId loss = b.add(change.loss, {logits, target}, {}, "loss");
    b.output(loss);
    b.loss(loss);
    return std::move(b).build();
}

QString refusal(const Change &change)
{
    const auto graph = modelOf(change);
    if (!graph)
        return "no model: " + QString::fromStdString(graph.error().text());
    const auto pattern = admm::findPattern(*graph);
    return pattern ? QString() : QString::fromStdString(pattern.error().text());
}

} // namespace

class TestAdmmPattern : public QObject {
    Q_OBJECT

private slots:
    void isFound();
    void isFoundBehindASlice();
    void refusalsNameTheOperator();
};

void TestAdmmPattern::isFound()
{
    const auto graph = modelOf({});
    QVERIFY2(graph.ok(), graph ? "" : graph.error().text().c_str());
    const auto pattern = admm::findPattern(*graph);
    QVERIFY2(pattern.ok(), pattern ? "" : pattern.error().text().c_str());
    QCOMPARE(pattern->inputs, 8);
    QCOMPARE(pattern->hidden, 5);
    QCOMPARE(pattern->classes, 10);
    QCOMPARE(pattern->steps, 8);
    QVERIFY(pattern->batchFirst && !pattern->transposed);
    QCOMPARE(graph->tensor(pattern->u).name, std::string("U"));
    QCOMPARE(graph->tensor(pattern->c).name, std::string("c"));
    QCOMPARE(graph->op(pattern->recurrent).name, std::string("layer"));
}

void TestAdmmPattern::isFoundBehindASlice()
{
    QCOMPARE(refusal({.lastStepOfAll = true}), QString());
    QCOMPARE(refusal({.lastStepOfAll = true, .from = 7}), QString());
}

void TestAdmmPattern::refusalsNameTheOperator()
{
    const auto verify = [](const Change &change, const char *expected) {
        const QString text = refusal(change);
        QVERIFY2(text.contains(expected), qPrintable(text));
    };
    verify({.layer = "LSTM", .gates = 4}, "operator 'layer' (LSTM) does not fit");
    verify({.layer = "GRU", .gates = 3}, "operator 'layer' (GRU) does not fit");
    verify({.ofLayer = {{"direction", std::string("bidirectional")}}}, "one direction is expected");
    verify({.ofLayer = {{"activations", std::string("Relu")}}}, "the activation Tanh is expected, not Relu");
    verify({.initial = true}, "leave out initial_h");
    verify({.ofProduct = {{"alpha", 2.0}}}, "operator 'output' (Gemm)");
    verify({.lastStepOfAll = true, .from = -2, .until = -1}, "operator 'last' (Slice)");
    verify({.scaledInput = true}, "operator 'scaling' (Mul)");
    verify({.twoProducts = true}, "operator 'middle_product' (Gemm)");
    verify({.loss = "MeanSquaredErrorLoss"}, "operator 'loss' (MeanSquaredErrorLoss)");
}

QTEST_GUILESS_MAIN(TestAdmmPattern)
#include "tst_admm_pattern.moc"
