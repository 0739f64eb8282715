// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"
#include "engine/sharding/megatron.h"
#include "engine/sharding/region.h"
#include "engine/sharding/shard.h"

#include <QTest>

using namespace planloom;
using namespace planloom::sharding;
using graph::Dim;
using graph::DType;
using graph::Shape;

namespace {

NdSbp sbp(const std::string &text) { return *fromText(text); }

/// x (N, 6, 8) -> MatMul with w (8, 12) -> Relu -> loss over its mean.
graph::Graph small()
{
    graph::GraphBuilder builder("small");
    const TensorId x = builder.input("x", DType::F32, Shape({Dim{1, true}, Dim{6, false}, Dim{8, false}}));
    const TensorId w = builder.parameter("w", Shape::of({8, 12}), {});
    const TensorId y = builder.add("Relu", {builder.add("MatMul", {x, w}, {}, "product")}, {}, "y");
    const TensorId rows =
        builder.add("Reshape", {y}, {{"shape", std::vector<std::int64_t>{6, 12}}, {"batch_axis", std::int64_t{0}}},
                    "rows");
    const TensorId labels = builder.input("labels", DType::I64, Shape({Dim{6, true}}));
    const TensorId loss = builder.add("SoftmaxCrossEntropyLoss", {rows, labels}, {}, "loss");
    builder.output(loss);
    builder.loss(loss);
    return *std::move(builder).build();
}

graph::TrainingGraph training(const graph::Graph &graph, std::int64_t first, std::int64_t last,
                              const std::vector<TensorId> &in, const std::vector<TensorId> &out)
{
    auto part = graph::differentiate(graph, OpId(first), OpId(last), in, out);
    if (!part)
        qFatal("%s", part.error().text().c_str());
    return std::move(*part);
}

graph::TrainingGraph whole(const graph::Graph &graph)
{
    return training(graph, 0, static_cast<std::int64_t>(graph.ops().size()), {}, {graph.loss()});
}

Request request(const graph::TrainingGraph &logical, Mesh mesh, std::map<std::string, NdSbp> pins)
{
    return {std::move(mesh), std::move(pins), std::vector<NdSbp>(logical.inputs.size(), NdSbp(mesh.sizes.size())),
            std::vector<NdSbp>(logical.outputs.size())};
}

int count(const Sharded &sharded, const char *type)
{
    int found = 0;
    for (const graph::Op &op : sharded.local.graph.ops())
        found += op.type == type ? 1 : 0;
    return found;
}

} // namespace

class TestShard : public QObject {
    Q_OBJECT

private slots:
    void regions_data()
    {
        QTest::addColumn<QString>("layout");
        QTest::addColumn<QString>("mesh");
        QTest::addColumn<int>("device");
        QTest::addColumn<QString>("text");
        QTest::newRow("whole") << "B,P"
                               << "2,2" << 3 << "0-8 0-12";
        QTest::newRow("rows") << "S(0)"
                              << "4" << 2 << "4-6 0-12";
        QTest::newRow("both axes") << "S(0),S(1)"
                                   << "2,3" << 5 << "4-8 8-12";
        QTest::newRow("twice") << "S(1),S(1)"
                               << "2,2" << 2 << "0-8 6-9";
        QTest::newRow("segments") << "S(1:6+4+2)"
                                  << "2" << 1 << "0-8 3-6,8-10,11-12";
        QTest::newRow("segments of segments") << "S(1:8+4),S(1:4+2)"
                                              << "2,2" << 1 << "0-8 2-4,9-10";
        QTest::newRow("segments that touch") << "S(1:8+4),B"
                                             << "1,2" << 0 << "0-8 0-12";
        QTest::newRow("plain after segments") << "S(1:8+4),S(1)"
                                              << "2,2" << 0 << "0-8 0-3";
        QTest::newRow("plain across segments") << "S(1:8+4),S(1)"
                                               << "2,2" << 1 << "0-8 3-4,8-10";
    }

    void regions()
    {
        QFETCH(QString, layout);
        QFETCH(QString, mesh);
        QFETCH(int, device);
        QFETCH(QString, text);
        Mesh devices{{}};
        for (const QString &size : mesh.split(','))
            devices.sizes.push_back(size.toInt());
        QStringList axes;
        const Region region = regionOf({8, 12}, sbp(layout.toStdString()), devices, device);
        for (const auto &axis : region) {
            QStringList intervals;
            for (const Interval &one : axis)
                intervals << QString("%1-%2").arg(one.begin).arg(one.end);
            axes << intervals.join(',');
        }
        QCOMPARE(axes.join(' '), text);
    }

    void dataParallelLeavesTheGraphAlone()
    {
        const auto graph = small();
        const auto logical = whole(graph);
        const auto sharded = shard(logical, request(logical, {{4}}, {}));
        QVERIFY(sharded.ok());
        QCOMPARE(sharded->local.graph.ops().size(), logical.graph.ops().size());
        QCOMPARE(sharded->parameters[0].reduceOver, std::vector<int>{0});
        QCOMPARE(toText(sharded->chosen.at("x")), std::string("S(0)"));
        const auto alone = shard(logical, request(logical, {{1}}, {}));
        QVERIFY(alone->parameters[0].reduceOver.empty());
    }

    void columnsOfAWeight()
    {
        const auto graph = small();
        const auto logical = whole(graph);
        const auto sharded = shard(logical, request(logical, {{1, 2}}, {{"w", sbp("B,S(1)")}}));
        QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
        QCOMPARE(toText(sharded->chosen.at("product")), std::string("S(0),S(2)"));
        QCOMPARE(toText(sharded->chosen.at("rows")), std::string("S(0),S(1)"));
        QCOMPARE(sharded->local.graph.tensor(sharded->local.parameters[0]).shape, Shape::of({8, 6}));
        QCOMPARE(sharded->local.graph.tensor(sharded->local.gradients[0]).shape, Shape::of({8, 6}));
        QCOMPARE(sharded->parameters[0].logical, Shape::of({8, 12}));
        QVERIFY(sharded->parameters[0].reduceOver.empty());
        QCOMPARE(count(*sharded, "LossStatistics"), 1); // the classes are split: only statistics travel
        QCOMPARE(count(*sharded, "AllGather"), 1);
        QCOMPARE(count(*sharded, "AllReduce"), 0);
    }

    void tokensOfAnInput()
    {
        const auto graph = small();
        const auto logical = whole(graph);
        const auto sharded = shard(logical, request(logical, {{2, 3}}, {{"x", sbp("S(0),S(1)")}}));
        QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
        QCOMPARE(toText(sharded->chosen.at("product")), std::string("S(0),S(1)"));
        QCOMPARE(sharded->parameters[0].reduceOver,
                 (std::vector<int>{0, 1})); // the gradient stays a partial sum; buckets add it up
        QCOMPARE(count(*sharded, "AllReduce"), 0);
        QCOMPARE(count(*sharded, "ReduceScatter"), 0);
    }

    void longestPatternCounts()
    {
        const auto graph = small();
        const auto logical = whole(graph);
        const auto sharded =
            shard(logical,
                  request(logical, {{1, 2}}, {{"*", sbp("B,B")}, {"*w", sbp("B,S(0)")}, {"?", sbp("B,S(1)")}}));
        QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
        QCOMPARE(toText(sharded->parameters[0].sbp), std::string("B,S(0)"));
    }

    /// A part between two cuts: what comes in and leaves has the layout that is asked for, and so have the gradients.
    void partsHaveTheLayoutsAskedFor()
    {
        const auto graph = small();
        const auto logical = training(graph, 1, 2, {graph.find("product")}, {graph.find("y")});
        Request wanted = request(logical, {{1, 2}}, {});
        wanted.inputs[0] = sbp("S(0),S(2)");
        wanted.outputs[0] = sbp("S(0),S(1)");
        const auto sharded = shard(logical, wanted);
        QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
        const auto shape = [&](TensorId id) { return sharded->local.graph.tensor(id).shape.text(); };
        QCOMPARE(shape(sharded->local.inputs[0]), std::string("[N, 6, 6]"));
        QCOMPARE(shape(sharded->local.outputs[0]), std::string("[N, 3, 12]"));
        QCOMPARE(shape(sharded->local.outputGradients[0]), std::string("[N, 3, 12]"));
        QCOMPARE(shape(sharded->local.inputGradients[0]), std::string("[N, 6, 6]"));
        QCOMPARE(count(*sharded, "AllToAll"), 2);
        wanted.outputs[0] = {};
        const auto falls = shard(logical, wanted);
        QCOMPARE(toText(falls->outputs[0]), std::string("S(0),S(2)"));
        QCOMPARE(count(*falls, "AllToAll"), 0);
    }

    void errors_data()
    {
        QTest::addColumn<QString>("tensor");
        QTest::addColumn<QString>("pin");
        QTest::addColumn<QString>("mesh");
        QTest::addColumn<QString>("part");
        QTest::newRow("does not divide") << "w"
                                         << "B,S(1)"
                                         << "1,5"
                                         << "tensor 'w' of shape [8, 12], axis 1: a size of 12 does not divide by 5";
        QTest::newRow("no axis") << "w"
                                 << "B,S(2)"
                                 << "1,2"
                                 << "tensor 'w' of shape [8, 12] has no axis 2";
        QTest::newRow("segments") << "w"
                                  << "B,S(1:4+4)"
                                  << "1,2"
                                  << "the segments do not add up to 12";
        QTest::newRow("parameter P") << "w"
                                     << "B,P"
                                     << "1,2"
                                     << "cannot be P";
        QTest::newRow("data dimension") << "w"
                                        << "S(0),B"
                                        << "2,2"
                                        << "dimension 0";
        QTest::newRow("too few") << "w"
                                 << "B"
                                 << "1,2"
                                 << "the mesh has 2 dimensions";
        QTest::newRow("integers") << "labels"
                                  << "S(0),P"
                                  << "1,2"
                                  << "cannot be a partial sum";
        QTest::newRow("empty line") << "w"
                                    << "B,B"
                                    << "1,0"
                                    << "at least one device";
    }

    void errors()
    {
        QFETCH(QString, tensor);
        QFETCH(QString, pin);
        QFETCH(QString, mesh);
        QFETCH(QString, part);
        const auto graph = small();
        const auto logical = whole(graph);
        Mesh devices{{}};
        for (const QString &size : mesh.split(','))
            devices.sizes.push_back(size.toInt());
        const auto sharded =
            shard(logical, request(logical, devices, {{tensor.toStdString(), sbp(pin.toStdString())}}));
        QVERIFY(!sharded.ok());
        QVERIFY2(QString::fromStdString(sharded.error().message).contains(part), sharded.error().message.c_str());
    }

    /// No signature of a normalisation has a split scale.
    void namesThePinThatIsNotPossible()
    {
        graph::GraphBuilder builder("norm");
        const TensorId x = builder.input("x", DType::F32, Shape::batched({8}));
        const TensorId scale = builder.parameter("scale", Shape::of({8}), {});
        builder.output(builder.add("RMSNormalization", {x, scale}, {}, "norm"));
        const auto graph = std::move(builder).build();
        QVERIFY(graph.ok());
        const auto logical = training(*graph, 0, 1, {}, {graph->outputs()[0]});
        const auto sharded = shard(logical, request(logical, {{1, 2}}, {{"scale", sbp("B,S(0)")}}));
        QVERIFY(!sharded.ok());
        QVERIFY2(sharded.error().message.find("'scale' to S(0)") != std::string::npos, sharded.error().message.c_str());
    }

    void megatronPinsOfGpt()
    {
        graph::TransformerConfig config;
        config.layers = 1;
        config.heads = 4;
        config.hidden = 32;
        config.feedForward = 64;
        config.vocabulary = 48;
        config.context = 8;
        const auto graph = graph::gpt(config);
        QVERIFY(graph.ok());
        const auto pins = megatronPins(*graph, {{1, 2, 2}}, {false, true});
        const std::map<std::string, std::string> expected{
            {"embedding/wte", "S(0),B,B"},
            {"h/0/attn/c_proj", "S(0),B,B"},
            {"h/0/mlp/c_proj", "S(0),B,B"},
            {"transformer.h.0.attn.c_attn.bias", "B,S(0:32+32+32),S(0:16+16+16)"},
            {"transformer.h.0.attn.c_attn.weight", "B,S(1:32+32+32),S(1:16+16+16)"},
            {"transformer.h.0.attn.c_proj.weight", "B,S(0),S(0)"},
            {"transformer.h.0.mlp.c_fc.bias", "B,S(0),S(0)"},
            {"transformer.h.0.mlp.c_fc.weight", "B,S(1),S(1)"},
            {"transformer.h.0.mlp.c_proj.weight", "B,S(0),S(0)"},
            {"transformer.wte.weight", "B,S(0),S(0)"},
        };
        std::map<std::string, std::string> got;
        for (const auto &[name, pin] : pins)
            got[name] = toText(pin);
        for (const auto &[name, pin] : expected)
            QCOMPARE(got[name], pin);
        QCOMPARE(got.size(), expected.size());
        QVERIFY(megatronPins(*graph, {{4}}).empty());
        const auto tokens = megatronPins(*graph, {{1, 2}}, {true, false});
        QCOMPARE(toText(tokens.at("embedding/embeddings")), std::string("S(0),S(1)"));
        QCOMPARE(toText(tokens.at("h/0/mlp/residual")), std::string("S(0),S(1)"));
        const auto heads = megatronPins(*graph, {{1, 3}}); // neither heads nor widths divide by three
        QVERIFY(heads.empty());
    }
};

QTEST_GUILESS_MAIN(TestShard)
#include "tst_shard.moc"
