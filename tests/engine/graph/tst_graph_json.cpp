// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/graph.h"
#include "engine/graph/zoo/zoo.h"

#include <QTest>

#include <cstring>
#include <limits>

using namespace planloom;
using namespace planloom::graph;

namespace {

QString text(const std::string &s) { return QString::fromStdString(s); }

/// Every kind of role, initializer and attribute.
Result<Graph> everything()
{
    GraphBuilder b("everything");
    const TensorId x = b.input("x", DType::F32, Shape::batched({4}, 3));
    const TensorId p = b.parameter("p", Shape::of({4}), {Initializer::Kind::Uniform, -0.25, 0.25, nullptr, {}, 0});
    const TensorId s = b.state("s", Shape::of({4}), {Initializer::Kind::File, 0, 0, nullptr, "weights/a.bin", 4096});
    Initializer data;
    data.kind = Initializer::Kind::Data;
    data.data = std::make_shared<const std::vector<std::byte>>(16, std::byte{7});
    const TensorId d = b.parameter("d", Shape::of({4}), data);
    const TensorId c = b.constantInts("c", {1, -2, 3});
    const TensorId y = b.activation("y", DType::F16, Shape({{2, false}, {5, true}}), true);
    const double infinity = std::numeric_limits<double>::infinity();
    b.addOp("Mystery", "op", "a/b", {x, p, TensorId{}, s, d, c}, {y},
            {{"i", std::int64_t{-3}},
             {"whole", 2.0},
             {"f", 0.1},
             {"minus", -infinity},
             {"t", std::string("text")},
             {"is", std::vector<std::int64_t>{1, 2}},
             {"none", std::vector<std::int64_t>{}},
             {"fs", std::vector<double>{1, infinity}}});
    b.output(y);
    return std::move(b).build();
}

std::string smallText()
{
    GraphBuilder b("m");
    const TensorId x = b.input("x", DType::F32, Shape::batched({2}));
    b.output(b.add("Relu", {x}, {}, "r"));
    return toJson(*std::move(b).build());
}

} // namespace

class TestGraphJson : public QObject {
    Q_OBJECT

private slots:
    void roundTrip();
    void roundTripOfModels();
    void largeDataStaysOut();
    void hostile_data();
    void hostile();
    void truncations();
};

void TestGraphJson::roundTrip()
{
    const Result<Graph> graph = everything();
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
    const std::string json = toJson(*graph);
    const Result<Graph> back = graphFromJson(json);
    QVERIFY2(back.ok(), back.ok() ? "" : back.error().message.c_str());
    QCOMPARE(text(toJson(*back)), text(json));
    const Op &before = graph->ops()[0];
    const Op &after = back->ops()[0];
    QVERIFY(before.attributes == after.attributes);
    QVERIFY(std::holds_alternative<double>(after.attributes.at("whole")));
    QCOMPARE(after.inputs, before.inputs);
    const Tensor &file = back->tensor(back->find("s"));
    QCOMPARE(text(file.init.file), QString("weights/a.bin"));
    QCOMPARE(file.init.offset, std::int64_t{4096});
    QCOMPARE(back->tensor(back->find("y")).shape, Shape({{2, false}, {5, true}}));
    QVERIFY(*back->tensor(back->find("c")).init.data == *graph->tensor(graph->find("c")).init.data);
}

void TestGraphJson::roundTripOfModels()
{
    TransformerConfig config;
    config.layers = 2;
    config.hidden = 24;
    config.context = 16;
    for (const Result<Graph> &graph :
         {gpt(config), bert(config), llama(config, 4, 10000, 1e-5), mlp("mlp", {8, 16, 4}), resnet50(), vgg19()}) {
        QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
        const std::string json = toJson(*graph);
        const Result<Graph> back = graphFromJson(json);
        QVERIFY2(back.ok(), back.ok() ? "" : back.error().message.c_str());
        QCOMPARE(text(toJson(*back)), text(json));
        QCOMPARE(back->parameterCount(), graph->parameterCount());
    }
}

void TestGraphJson::largeDataStaysOut()
{
    const Result<Graph> graph = everything();
    QVERIFY(graph.ok());
    const Result<Graph> back = graphFromJson(toJson(*graph, 8));
    QVERIFY2(back.ok(), back.ok() ? "" : back.error().message.c_str());
    QCOMPARE(back->tensor(back->find("d")).init.kind, Initializer::Kind::None);
    QCOMPARE(back->tensor(back->find("c")).init.kind, Initializer::Kind::Data); // constants are part of the model
}

void TestGraphJson::hostile_data()
{
    QTest::addColumn<QString>("from"); // replaced in a good file; empty: `to` is the whole file
    QTest::addColumn<QString>("to");
    QTest::addColumn<QString>("message");
    QTest::newRow("not JSON") << ""
                              << "{\"schema\":"
                              << "not valid JSON";
    QTest::newRow("empty") << ""
                           << ""
                           << "not valid JSON";
    QTest::newRow("a list") << ""
                            << "[]"
                            << "an object in braces is needed here";
    QTest::newRow("deep") << "" << QString(300, '[') << "nested deeper";
    QTest::newRow("other schema") << "planloom.graph/1"
                                  << "planloom.graph/9"
                                  << "this version reads planloom.graph/1";
    QTest::newRow("no tensors") << "\"tensors\""
                                << "\"others\""
                                << "field \"tensors\": is missing";
    QTest::newRow("negative size") << "[\"N\",2]"
                                   << "[\"N\",-2]"
                                   << "field \"tensors[0].shape[1]\": must be a whole number from 0";
    QTest::newRow("huge size") << "[\"N\",2]"
                               << "[\"N\",9223372036854775807]"
                               << "field \"tensors[0].shape[1]\": must be a whole number from 0";
    QTest::newRow("beyond 64 bits") << "[\"N\",2]"
                                    << "[\"N\",18446744073709551615]"
                                    << "field \"tensors[0].shape[1]\": must be a whole number from 0";
    QTest::newRow("fraction") << "[\"N\",2]"
                              << "[\"N\",2.5]"
                              << "must be a whole number from 0";
    QTest::newRow("bad dimension") << "[\"N\",2]"
                                   << "[\"N\",\"xN\"]"
                                   << "field \"tensors[0].shape[1]\": is 'xN'";
    QTest::newRow("long dimension") << "[\"N\",2]"
                                    << "[\"N\",\"99999999999999999999999N\"]"
                                    << "tensors[0].shape[1]";
    QTest::newRow("impossible product") << "[\"N\",2]"
                                        << "[1000000000000,1000000000000,1000000000000]"
                                        << "impossible shape";
    QTest::newRow("rank") << "[\"N\",2]"
                          << "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"
                          << "has more than 16 dimensions";
    QTest::newRow("type") << "float32"
                          << "float31"
                          << "field \"tensors[0].type\": is 'float31'";
    QTest::newRow("role") << "\"input\""
                          << "\"output\""
                          << "field \"tensors[0].role\": is 'output'; one of input, parameter";
    QTest::newRow("unknown tensor") << "\"inputs\":[\"x\"]"
                                    << "\"inputs\":[\"z\"]"
                                    << "field \"ops[0].inputs[0]\": names tensor 'z'";
    QTest::newRow("number as name") << "\"inputs\":[\"x\"]"
                                    << "\"inputs\":[7]"
                                    << "field \"ops[0].inputs[0]\": must be text";
    QTest::newRow("null output") << "\"outputs\":[\"r\"]}"
                                 << "\"outputs\":[null]}"
                                 << "writes a tensor that does not exist";
    QTest::newRow("self loop") << "\"inputs\":[\"x\"]"
                               << "\"inputs\":[\"r\"]"
                               << "cycle: 'r' -> 'r'";
    QTest::newRow("loss") << "\"loss\":null"
                          << "\"loss\":\"x\""
                          << "a loss is one number";
    QTest::newRow("wrong shape") << "\"shape\":[\"N\",2],\"role\":\"activation\""
                                 << "\"shape\":[\"N\",3],\"role\":\"activation\""
                                 << "field \"tensors[1].shape\": is [N, 3]";
    QTest::newRow("attribute") << "\"type\":\"Relu\""
                               << "\"attributes\":{\"a\":[1,\"b\"]},\"type\":\"Relu\""
                               << "field \"ops[0].attributes.a[1]\": must be a whole number of 64 bits";
    QTest::newRow("true") << "\"type\":\"Relu\""
                          << "\"attributes\":{\"a\":true},\"type\":\"Relu\""
                          << "field \"ops[0].attributes.a\": must be a whole number of 64 bits";
    QTest::newRow("constant without data") << "\"input\""
                                           << "\"constant\""
                                           << "field \"tensors[0].init\": must give";
}

void TestGraphJson::hostile()
{
    QFETCH(QString, from);
    QFETCH(QString, to);
    QFETCH(QString, message);
    QString document = text(smallText());
    if (!from.isEmpty())
        QVERIFY2(document.contains(from), qPrintable(document));
    document = from.isEmpty() ? to : document.replace(document.indexOf(from), from.size(), to);
    const Result<Graph> graph = graphFromJson(document.toStdString());
    QVERIFY(!graph.ok());
    QCOMPARE(graph.error().code, ErrorCode::BadInput);
    QVERIFY2(text(graph.error().message).contains(message), graph.error().message.c_str());
}

void TestGraphJson::truncations()
{
    const std::string whole = toJson(*everything());
    for (std::size_t length = 0; length < whole.size(); ++length)
        QVERIFY(!graphFromJson(std::string_view(whole).substr(0, length)).ok());
}

QTEST_GUILESS_MAIN(TestGraphJson)
#include "tst_graph_json.moc"
