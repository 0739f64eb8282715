// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/layers.h"
#include "engine/graph/zoo/zoo.h"
#include "tests/layer_table.h"

#include <QTest>

using namespace planloom;
using namespace planloom::graph;

namespace {

QStringList names(const LayerView &view)
{
    QStringList list;
    for (const Layer &layer : view.layers)
        list << QString::fromStdString(layer.name);
    return list;
}

QStringList cut(const Graph &graph, const LayerView &view, std::size_t k)
{
    QStringList list;
    for (const TensorId id : view.cuts[k])
        list << QString::fromStdString(graph.tensor(id).name);
    return list;
}

/// Layers tile the operators, and what crosses a cut is what later layers read of earlier ones, batch first.
void verifyView(const Graph &graph, const LayerView &view)
{
    QCOMPARE(view.cuts.size(), view.layers.size());
    QVERIFY(view.cuts[0].empty());
    QCOMPARE(view.layers.front().first, OpId(0));
    QCOMPARE(view.layers.back().last.index(), graph.ops().size());
    for (std::size_t k = 0; k < view.size(); ++k) {
        QVERIFY(view.layers[k].first < view.layers[k].last);
        if (k > 0)
            QCOMPARE(view.layers[k].first, view.layers[k - 1].last);
        for (OpId op = view.layers[k].first; op < view.layers[k].last; op = OpId(op.value + 1))
            QCOMPARE(view.layerOf(op), k);
        std::vector<TensorId> expected;
        for (const Tensor &tensor : graph.tensors()) {
            const auto readers = graph.consumers(tensor.id);
            const bool crosses = tensor.role == TensorRole::Activation && tensor.producer < view.layers[k].first
                && !readers.empty() && readers.back() >= view.layers[k].first;
            if (crosses)
                expected.push_back(tensor.id);
        }
        std::vector<TensorId> have = view.cuts[k];
        std::sort(have.begin(), have.end());
        QCOMPARE(have, expected);
    }
}

TransformerConfig tiny(std::int64_t layers)
{
    TransformerConfig config;
    config.layers = layers;
    config.heads = 2;
    config.hidden = 16;
    config.feedForward = 32;
    config.vocabulary = 50;
    config.context = 8;
    return config;
}

/// A chain of operators on (N, 4), each `scope:type`, MatMul with its own weight.
Result<Graph> chain(const QString &text)
{
    GraphBuilder b("chain");
    TensorId x = b.input("x", DType::F32, Shape::batched({4}));
    int number = 0;
    for (const QString &item : text.split(' ')) {
        const std::string scope = item.section(':', 0, 0).toStdString();
        const std::string type = item.section(':', 1).toStdString();
        const std::string name = "op" + std::to_string(number++);
        std::vector<TensorId> inputs{x};
        if (type == "MatMul")
            inputs.push_back(b.parameter(name + ".w", Shape::of({4, 4}), {}));
        x = b.activation(name);
        b.addOp(type, name, scope, inputs, {x}, {});
    }
    b.output(x);
    return std::move(b).build();
}

} // namespace

class TestLayers : public QObject {
    Q_OBJECT

private slots:
    void gptLayers();
    void bertLayers();
    void vggLayersAreThePublishedOnes();
    void resnetLayers();
    void perceptron();
    void grouping_data();
    void grouping();
    void skipConnectionsCross();
    void cutsKeepTheBatchLeading();
    void profiledLayersStandAlone();
    void absurdScopesAreBearable();
};

void TestLayers::gptLayers()
{
    const Result<Graph> graph = gpt(tiny(3));
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), (QStringList{"embedding", "h/0", "h/1", "h/2", "head"}));
    QCOMPARE(cut(*graph, view, 1), QStringList{"embedding/embeddings"});
    QCOMPARE(cut(*graph, view, 4),
             QStringList{"h/2/mlp/residual"}); // labels and the tied table are held by the stages that need them
    QCOMPARE(view.cutBytes(*graph, 2, 3), Bytes(3 * 8 * 16 * 4));
}

void TestLayers::bertLayers()
{
    const Result<Graph> graph = bert(tiny(2));
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), (QStringList{"embeddings", "encoder/layer/0", "encoder/layer/1", "cls"}));
}

void TestLayers::vggLayersAreThePublishedOnes()
{
    // papers: DAPPLE's profile of VGG-19, 25 layers
    const QStringList published{"Conv2d_1_1",  "Conv2d_1_2", "MaxPool2d_1", "Conv2d_2_1", "Conv2d_2_2",
                                "MaxPool2d_2", "Conv2d_3_1", "Conv2d_3_2",  "Conv2d_3_3", "Conv2d_3_4",
                                "MaxPool2d_3", "Conv2d_4_1", "Conv2d_4_2",  "Conv2d_4_3", "Conv2d_4_4",
                                "MaxPool2d_4", "Conv2d_5_1", "Conv2d_5_2",  "Conv2d_5_3", "Conv2d_5_4",
                                "MaxPool2d_5", "FC1",        "FC2",         "Prediction", "Loss"};
    const Result<Graph> graph = vgg19();
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), published);
    for (std::size_t k = 1; k < view.size(); ++k)
        QCOMPARE(view.cuts[k].size(), std::size_t{1});
    QCOMPARE(view.cutBytes(*graph, 1, 32).value(), std::int64_t{32} * 64 * 224 * 224 * 4);

    QStringList rows;
    for (const testing::LayerRow &row : testing::layerTable("vgg-19-pbs-32"))
        rows << QString::fromStdString(row.name);
    rows.removeFirst(); // "Input"
    QCOMPARE(names(view), rows);
}

void TestLayers::resnetLayers()
{
    const Result<Graph> graph = resnet50();
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(view.size(), std::size_t{18});
    QCOMPARE(names(view).first(), QString("stem"));
    QCOMPARE(names(view).last(), QString("head"));
    QCOMPARE(names(view).mid(1, 4), (QStringList{"layer1/0", "layer1/1", "layer1/2", "layer2/0"}));
    for (std::size_t k = 1; k < view.size(); ++k)
        QCOMPARE(view.cuts[k].size(), std::size_t{1});
}

void TestLayers::perceptron()
{
    const Result<Graph> graph = mlp("mlp", {64, 32, 32, 10});
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), (QStringList{"layers/0", "layers/1", "layers/2"}));
}

void TestLayers::grouping_data()
{
    QTest::addColumn<QString>("ops");
    QTest::addColumn<QStringList>("layers");
    QTest::newRow("no scopes: small ones join the product before them")
        << ":Neg :MatMul :Relu :Abs :MatMul :MatMul :Relu" << QStringList{"op0", "op4", "op5"};
    QTest::newRow("torchvision's features: activations join")
        << "f/f.0:MatMul f/f.1:Relu f/f.2:MatMul f/f.3:Relu c/c.0:MatMul" << QStringList{"f/f.0", "f/f.2", "c/c.0"};
    QTest::newRow("outermost repeated block")
        << "m/layers/0/a/0:MatMul m/layers/0/a/1:MatMul m/layers/1/a/0:MatMul m/layers/1/a/1:MatMul"
        << QStringList{"m/layers/0", "m/layers/1"};
    QTest::newRow("a lone number is no series")
        << "m/0/layers/0:MatMul m/0/layers/0:Relu m/0/layers/1:MatMul" << QStringList{"m/0/layers/0", "m/0/layers/1"};
    QTest::newRow("around blocks") << "stem:MatMul pre:MatMul h/0:MatMul h/1:MatMul norm:Relu fc:MatMul fc:Neg"
                                   << QStringList{"op0", "h/0", "h/1", "op4"};
    QTest::newRow("small ones between blocks") << "h/0:MatMul x:Neg h/1:MatMul x:Neg" << QStringList{"h/0", "h/1"};
    QTest::newRow("scopeless within a block") << "h/0:MatMul :Neg h/0:Relu h/1:MatMul" << QStringList{"h/0", "h/1"};
    QTest::newRow("one wrapping scope is looked into")
        << "net/a:MatMul net/a:Relu net/b:MatMul net/c/d:MatMul net/c/e:MatMul net/f:MatMul"
        << QStringList{"net/a", "net/b", "net/c", "net/f"};
    QTest::newRow("names are unique") << "a:MatMul b:MatMul a:MatMul b:MatMul" << QStringList{"a", "b", "a#2", "b#2"};
    QTest::newRow("one operator") << ":Relu" << QStringList{"op0"};
}

void TestLayers::grouping()
{
    QFETCH(QString, ops);
    QFETCH(QStringList, layers);
    const Result<Graph> graph = chain(ops);
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), layers);
}

void TestLayers::skipConnectionsCross()
{
    GraphBuilder b("skips");
    const TensorId x = b.input("x", DType::F32, Shape::batched({4}));
    const auto product = [&](const std::string &name, TensorId from) {
        b.pushScope(name);
        const TensorId y = b.add("MatMul", {from, b.parameter(name + ".w", Shape::of({4, 4}), {})}, {}, "y");
        b.popScope();
        return y;
    };
    const TensorId a = product("a", x);
    const TensorId c = product("c", product("b", a));
    b.pushScope("d");
    b.output(b.add("MatMul", {b.add("Add", {a, c}, {}, "sum"), b.parameter("d.w", Shape::of({4, 4}), {})}, {}, "y"));
    b.popScope();
    const Result<Graph> graph = std::move(b).build();
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), (QStringList{"a", "b", "c", "d"}));
    QCOMPARE(cut(*graph, view, 2), (QStringList{"a/y", "b/y"}));
    QCOMPARE(cut(*graph, view, 3), (QStringList{"a/y", "c/y"}));
}

void TestLayers::cutsKeepTheBatchLeading()
{
    // "bias" is the same for all samples and is made in h/0, so nothing may be cut between h/0 and the last reader h/1
    GraphBuilder b("table");
    const TensorId x = b.input("x", DType::F32, Shape::batched({4}));
    const TensorId w = b.parameter("w", Shape::of({4, 4}), {});
    const TensorId bias = b.activation("bias");
    TensorId y = x;
    b.addOp("ReduceSum", "bias", "h/0", {w}, {bias},
            {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}});
    for (int i = 0; i < 3; ++i) {
        const std::string scope = "h/" + std::to_string(i);
        const TensorId product = b.activation(scope + "/product");
        b.addOp("MatMul", scope + "/product", scope, {y, w}, {product}, {});
        y = product;
        if (i > 1)
            continue;
        y = b.activation(scope + "/sum");
        b.addOp("Add", scope + "/sum", scope, {product, bias}, {y}, {});
    }
    b.output(y);
    const Result<Graph> graph = std::move(b).build();
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), (QStringList{"h/0", "h/2"}));
    for (const auto &crossing : view.cuts)
        for (const TensorId id : crossing)
            QVERIFY(graph->tensor(id).shape.batchLeading());
}

void TestLayers::profiledLayersStandAlone()
{
    GraphBuilder b("profile");
    TensorId x = b.input("input", DType::F32, Shape::batched({1}));
    for (const char *name : {"conv", "relu", "pool"}) {
        const TensorId y = b.activation(name, DType::F32, Shape::batched({5}), true);
        b.addOp("ProfiledLayer", name, "", {x}, {y}, {});
        x = y;
    }
    b.output(x);
    const Result<Graph> graph = std::move(b).build();
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(names(view), (QStringList{"conv", "relu", "pool"}));
    QCOMPARE(view.cutBytes(*graph, 1, 2), Bytes(40));
}

void TestLayers::absurdScopesAreBearable()
{
    // a million components in all: kept as series they would be gigabytes
    QStringList ops;
    QString scope = "a";
    while (scope.size() < 4000)
        scope += "/0";
    for (int i = 0; i < 500; ++i)
        ops << scope + ":MatMul";
    const Result<Graph> graph = chain(ops.join(' '));
    QVERIFY(graph.ok());
    const LayerView view = layersOf(*graph);
    verifyView(*graph, view);
    QCOMPARE(view.size(), std::size_t{1});
}

QTEST_GUILESS_MAIN(TestLayers)
#include "tst_layers.moc"
