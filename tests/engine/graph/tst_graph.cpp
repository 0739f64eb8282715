// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/graph.h"

#include <QTest>

#include <cstring>

using namespace planloom;
using namespace planloom::graph;

namespace {

Initializer zeros() { return {Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0}; }

QString text(const std::string &s) { return QString::fromStdString(s); }

/// x (N, 8) -> Gemm -> Relu -> loss, with the pieces that tests change.
GraphBuilder smallModel()
{
    GraphBuilder b("small");
    const TensorId x = b.input("x", DType::F32, Shape::batched({8}));
    const TensorId labels = b.input("labels", DType::I64, Shape::batched({}));
    b.pushScope("body");
    const TensorId w = b.parameter("w", Shape::of({8, 4}), {Initializer::Kind::Normal, 0, 0.5, nullptr, {}, 0});
    const TensorId bias = b.parameter("b", Shape::of({4}), zeros());
    const TensorId y = b.add("Relu", {b.add("Gemm", {x, w, bias}, {{"alpha", 1.0}}, "gemm")}, {}, "relu");
    b.popScope();
    const TensorId loss = b.add("SoftmaxCrossEntropyLoss", {y, labels}, {}, "loss");
    b.output(loss);
    b.loss(loss);
    return b;
}

QString failure(Result<Graph> graph) { return graph ? QString() : text(graph.error().text()); }

} // namespace

class TestGraph : public QObject {
    Q_OBJECT

private slots:
    void shapes();
    void elementsDoNotOverflow();
    void typesByName();
    void buildsAndSorts();
    void scopes();
    void appendsStatistics();
    void refuses_data();
    void refuses();
    void cycleIsNamed();
    void keepsUnknownTypes();
};

void TestGraph::shapes()
{
    const Shape tokens = Shape::batched({128, 768}, 4);
    QCOMPARE(text(tokens.text()), QString("[4N, 128, 768]"));
    QCOMPARE(text(Shape::batched({}).text()), QString("[N]"));
    QCOMPARE(text(Shape().text()), QString("[]"));
    QCOMPARE(tokens.elements(2), std::int64_t{8} * 128 * 768);
    QCOMPARE(tokens.at(3), (std::vector<std::int64_t>{12, 128, 768}));
    QVERIFY(tokens.batchLeading());
    QVERIFY(!Shape({{3, false}, {1, true}}).batchLeading());
    QVERIFY(!Shape({{1, true}, {1, true}}).batchLeading());
    QVERIFY(Shape({{3, false}, {1, true}}).batched());
    QVERIFY(!Shape::of({3, 4}).batched());
    QCOMPARE(Shape().elements(7), std::int64_t{1});
}

void TestGraph::elementsDoNotOverflow()
{
    const std::int64_t huge = std::int64_t{1} << 40;
    const std::int64_t count = Shape::of({huge, huge, huge}).elements(1);
    QVERIFY(count > huge);
    QVERIFY(count * sizeOf(DType::F64) > 0);
}

void TestGraph::typesByName()
{
    for (const DType type :
         {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I64, DType::I32, DType::I8, DType::U8, DType::Bool}) {
        DType back{};
        QVERIFY(fromName(name(type), back));
        QCOMPARE(back, type);
    }
    DType none{};
    QVERIFY(!fromName("complex64", none));
    QCOMPARE(sizeOf(DType::BF16), std::int64_t{2});
}

void TestGraph::buildsAndSorts()
{
    // relu is added before the operator that makes its input
    GraphBuilder b("sorted");
    const TensorId x = b.input("x", DType::F32, Shape::batched({3}));
    const TensorId middle = b.activation("middle");
    const TensorId out = b.activation("out");
    const TensorId side = b.activation("side");
    b.addOp("Relu", "second", "", {middle}, {out}, {});
    b.addOp("Neg", "first", "", {x}, {middle}, {});
    b.addOp("Abs", "third", "", {x}, {side}, {});
    b.output(out);
    const Result<Graph> graph = std::move(b).build();
    QVERIFY2(graph.ok(), qPrintable(failure(graph)));
    QCOMPARE(text(graph->ops()[0].name), QString("first"));
    QCOMPARE(text(graph->ops()[1].name), QString("second"));
    QCOMPARE(text(graph->ops()[2].name), QString("third"));
    for (const Op &op : graph->ops())
        for (const TensorId output : op.outputs)
            QCOMPARE(graph->tensor(output).producer, op.id);
    QCOMPARE(graph->tensor(graph->find("out")).shape, Shape::batched({3}));
    QVERIFY(!graph->find("missing").valid());
    QCOMPARE(graph->consumers(x).size(), std::size_t{2});
    QCOMPARE(graph->consumers(x)[0], OpId(0));
}

void TestGraph::scopes()
{
    const Result<Graph> graph = smallModel().build();
    QVERIFY2(graph.ok(), qPrintable(failure(graph)));
    QCOMPARE(text(graph->ops()[0].name), QString("body/gemm"));
    QCOMPARE(text(graph->ops()[1].scope), QString("body"));
    QCOMPARE(text(graph->ops()[2].scope), QString());
    QCOMPARE(graph->parameterCount(), std::int64_t{36});
    QCOMPARE(graph->parameterBytes(), Bytes(144));
    QCOMPARE(graph->withRole(TensorRole::Input).size(), std::size_t{2});
    QCOMPARE(text(graph->tensor(graph->loss()).name), QString("loss"));
}

void TestGraph::appendsStatistics()
{
    GraphBuilder b("norm");
    const TensorId x = b.input("x", DType::F32, Shape::batched({5, 6}));
    b.output(b.add("LayerNormalization", {x, b.parameter("g", Shape::of({6}), zeros())}, {}, "norm"));
    const Result<Graph> graph = std::move(b).build();
    QVERIFY2(graph.ok(), qPrintable(failure(graph)));
    QCOMPARE(graph->ops()[0].outputs.size(), std::size_t{3});
    QCOMPARE(graph->tensor(graph->find("norm:1")).shape, Shape::batched({5, 1}));
    QCOMPARE(graph->tensor(graph->find("norm:2")).producer, OpId(0));
}

void TestGraph::refuses_data()
{
    QTest::addColumn<QString>("what");
    QTest::addColumn<QString>("message");
    QTest::newRow("empty") << "empty"
                           << "no operators";
    QTest::newRow("duplicate tensor") << "tensor"
                                      << "two tensors are called 'x'";
    QTest::newRow("duplicate operator") << "operator"
                                        << "two operators are called 'body/relu'";
    QTest::newRow("no producer") << "producer"
                                 << "no operator produces tensor 'lost'";
    QTest::newRow("two producers") << "twice"
                                   << "two producers, 'a' and 'b'";
    QTest::newRow("misfit") << "misfit"
                            << "operator 'product' (MatMul) does not fit its inputs [N, 8], [7, 4]: inner sizes";
    QTest::newRow("too many inputs") << "inputs"
                                     << "has 3 inputs; it takes 1 to 1";
    QTest::newRow("missing input") << "missing"
                                   << "lacks input 1";
    QTest::newRow("constant size") << "constant"
                                   << "holds 3 bytes of data where its shape [2] of float32 needs 8";
    QTest::newRow("loss shape") << "loss"
                                << "a loss is one number";
    QTest::newRow("batched parameter") << "batched"
                                       << "depends on the batch";
    QTest::newRow("written input") << "written"
                                   << "which is not an activation";
}

void TestGraph::refuses()
{
    QFETCH(QString, what);
    QFETCH(QString, message);
    GraphBuilder b = what == "empty" ? GraphBuilder("none") : smallModel();
    const TensorId x(0);
    if (what == "tensor")
        b.input("x", DType::F32, Shape::batched({1}));
    if (what == "operator")
        b.addOp("Relu", "body/relu", "", {x}, {b.activation("other")}, {});
    if (what == "producer")
        b.add("Relu", {b.activation("lost")});
    if (what == "twice") {
        const TensorId shared = b.activation("shared");
        b.addOp("Relu", "a", "", {x}, {shared}, {});
        b.addOp("Relu", "b", "", {x}, {shared}, {});
    }
    if (what == "misfit")
        b.add("MatMul", {x, b.parameter("v", Shape::of({7, 4}), zeros())}, {}, "product");
    if (what == "inputs")
        b.add("Relu", {x, x, x});
    if (what == "missing")
        b.add("MatMul", {x, TensorId{}});
    if (what == "constant")
        b.constant("c", DType::F32, Shape::of({2}), std::vector<std::byte>(3));
    if (what == "loss")
        b.loss(x);
    if (what == "batched")
        b.parameter("p", Shape::batched({2}), zeros());
    if (what == "written")
        b.addOp("Relu", "bad", "", {x}, {x}, {});
    const Result<Graph> graph = std::move(b).build();
    QVERIFY(!graph.ok());
    QCOMPARE(graph.error().code, ErrorCode::BadInput);
    QVERIFY2(failure(graph).contains(message), qPrintable(failure(graph)));
}

void TestGraph::cycleIsNamed()
{
    GraphBuilder b("loop");
    const TensorId x = b.input("x", DType::F32, Shape::batched({2}));
    const TensorId p = b.activation("p");
    const TensorId q = b.activation("q");
    const TensorId after = b.activation("after");
    b.addOp("Add", "one", "", {x, q}, {p}, {});
    b.addOp("Relu", "two", "", {p}, {q}, {});
    b.addOp("Relu", "outside", "", {q}, {after}, {});
    const QString error = failure(std::move(b).build());
    QVERIFY2(error.contains("'one' -> 'two' -> 'one'") || error.contains("'two' -> 'one' -> 'two'"), qPrintable(error));
    QVERIFY2(!error.contains("outside"), qPrintable(error));
}

void TestGraph::keepsUnknownTypes()
{
    GraphBuilder b("odd");
    const TensorId x = b.input("x", DType::F32, Shape::batched({2}));
    const TensorId declared = b.activation("declared", DType::F16, Shape::batched({5}), true);
    const TensorId unknown = b.activation("unknown");
    b.addOp("FancyOp", "fancy", "", {x}, {declared}, {});
    b.addOp("Relu", "known", "", {declared}, {b.activation("relu")}, {});
    b.addOp("FancyOp", "fancier", "", {x}, {unknown}, {});
    b.addOp("MatMul", "after", "", {unknown, x}, {b.activation("product", DType::F32, Shape::of({9}), true)}, {});
    const Result<Graph> graph = std::move(b).build();
    QVERIFY2(graph.ok(), qPrintable(failure(graph)));
    QCOMPARE(graph->tensor(graph->find("relu")).shape, Shape::batched({5}));
    QCOMPARE(graph->tensor(graph->find("relu")).type, DType::F16);
    QCOMPARE(graph->tensor(graph->find("product")).shape,
             Shape::of({9})); // cannot be inferred, so what was declared stays
}

QTEST_GUILESS_MAIN(TestGraph)
#include "tst_graph.moc"
