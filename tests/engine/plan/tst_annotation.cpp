// SPDX-License-Identifier: Apache-2.0
// Annotations of scopes, and a plan's explanation: text, files, and refusals.
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/plan.h"

#include <QTest>

#include <nlohmann/json.hpp>

using namespace planloom;
using namespace planloom::plan;

namespace {

const Subject &subject()
{
    static const Subject kSubject = [] {
        graph::TransformerConfig config;
        config.name = "tiny";
        config.layers = 6;
        config.heads = 2;
        config.hidden = 16;
        config.feedForward = 32;
        config.vocabulary = 64;
        config.context = 8;
        return makeSubject(std::make_shared<const graph::Graph>(*graph::gpt(config)),
                           std::make_shared<const cluster::Cluster>(*cluster::preset("dapple-a")), nullptr, "zoo:tiny");
    }();
    return kSubject;
}

Plan planWith(std::vector<Annotation> annotations)
{
    Plan plan;
    plan.modelName = "tiny";
    plan.clusterName = "dapple-a";
    plan.globalBatch = 8;
    Stage stage;
    stage.lastLayer = subject().layers().size();
    stage.devices = {DeviceId(0)};
    plan.stages = {stage};
    plan.annotations = std::move(annotations);
    return plan;
}

Why someReasons()
{
    Why why;
    StageWhy stage;
    stage.device = "n0:g0";
    stage.forwardSeconds = 0.25;
    stage.backwardSeconds = 0.5;
    stage.idleSeconds = 0.125;
    stage.parameterBytes = 1000;
    stage.capacityBytes = 16000;
    stage.limit = "compute";
    stage.detail = "most of the time is spent computing";
    why.stages = {stage};
    why.limit = "link";
    why.detail = "the network";
    why.runnerUp = RunnerUp{"8:8 (3:5)", 1.5, {"stage 0: layers 0..4 -> 0..3"}};
    return why;
}

} // namespace

class TestAnnotation : public QObject {
    Q_OBJECT

private slots:
    void text_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<bool>("good");
        for (const char *text : {"h/3=split:4", "h/0..h/5=replicate:2", "*=replicate", "a=b=split", "head=split:65536"})
            QTest::newRow(text) << text << true;
        for (const char *text : {"", "h/3", "=split:4", "h/3=", "h/3=split:", "h/3=split:0", "h/3=split:-2",
                                 "h/3=split:4x", "h/3=shard:4", "h/3=split:65537", "h/3=split:4:2"})
            QTest::newRow(text) << text << false;
    }

    void text()
    {
        QFETCH(QString, text);
        QFETCH(bool, good);
        const auto read = annotationFromText(text.toStdString());
        QCOMPARE(read.ok(), good);
        if (good)
            QCOMPARE(QString::fromStdString(toText(*read)), text);
        else
            QVERIFY2(read.error().message.find("SCOPE=split:4") != std::string::npos, read.error().message.c_str());
    }

    void scopes_data()
    {
        QTest::addColumn<QString>("scope");
        QTest::addColumn<int>("first");
        QTest::addColumn<int>("count");
        QTest::newRow("a block") << "h/3" << 4 << 1;
        QTest::newRow("all blocks") << "h" << 1 << 6;
        QTest::newRow("some blocks") << "h/1..h/4" << 2 << 4;
        QTest::newRow("the front") << "embedding" << 0 << 1;
        QTest::newRow("the front and a block") << "embedding..h/0" << 0 << 2;
    }

    void scopes()
    {
        QFETCH(QString, scope);
        QFETCH(int, first);
        QFETCH(int, count);
        const auto range = layersOfScope(scope.toStdString(), *subject().graph, subject().layers());
        QVERIFY2(range.ok(), range ? "" : range.error().message.c_str());
        QCOMPARE(range->first, static_cast<std::size_t>(first));
        QCOMPARE(range->last - range->first, static_cast<std::size_t>(count));
    }

    void everyScopeThatIsOfferedResolves()
    {
        const std::vector<std::string> scopes = annotatableScopes(*subject().graph, subject().layers());
        QVERIFY(std::find(scopes.begin(), scopes.end(), "h") != scopes.end());
        QVERIFY(scopes.size() > subject().layers().size());
        for (const std::string &scope : scopes)
            QVERIFY2(layersOfScope(scope, *subject().graph, subject().layers()).ok(), scope.c_str());
    }

    void refused_data()
    {
        QTest::addColumn<QStringList>("annotations");
        QTest::addColumn<QString>("says");
        QTest::newRow("unknown") << QStringList{"h/33=split:4"} << "no scope \"h/33\"; near it are h/3";
        QTest::newRow("a part of a layer") << QStringList{"h/3/mlp=split:4"} << "a part of layer 4 (h/3)";
        QTest::newRow("nested") << QStringList{"h=replicate:2", "h/3=split:4"} << "annotations do not nest";
        QTest::newRow("overlapping") << QStringList{"h/0..h/3=replicate:2", "h/3..h/5=split:4"}
                                     << "annotations do not nest, but layer 4 (h/3)";
        QTest::newRow("twice") << QStringList{"h/3=replicate:2", "h/3=split:4"} << "annotated twice";
        QTest::newRow("backwards") << QStringList{"h/3..h/1=replicate:2"} << "ends before it begins";
        QTest::newRow("two for the rest") << QStringList{"*=replicate:2", "*=split:2"} << "two strategies";
    }

    void refused()
    {
        QFETCH(QStringList, annotations);
        QFETCH(QString, says);
        std::vector<Annotation> list;
        for (const QString &text : annotations)
            list.push_back(*annotationFromText(text.toStdString()));
        const Status valid = validate(planWith(list), subject());
        QVERIFY(!valid);
        QVERIFY2(QString::fromStdString(valid.error().message).contains(says), valid.error().message.c_str());
    }

    void theFileKeepsThem()
    {
        Plan plan = planWith({{"h/0..h/2", Annotation::Kind::Replicate, 2},
                              {"h/3", Annotation::Kind::Split, 4},
                              {"*", Annotation::Kind::Replicate, 0}});
        plan.why = someReasons();
        const auto read = documentFromJson(toJson({plan, subject()}));
        QVERIFY2(read.ok(), read ? "" : read.error().message.c_str());
        QVERIFY(read->plan.annotations == plan.annotations);
        QVERIFY(read->plan.why == plan.why);
        QVERIFY(difference(plan, read->plan).empty());
        Plan other = plan;
        other.annotations.pop_back();
        QCOMPARE(
            difference(plan, other),
            std::vector<std::string>{
                "annotations h/0..h/2=replicate:2, h/3=split:4, *=replicate -> h/0..h/2=replicate:2, h/3=split:4"});
    }

    void wrongFields_data()
    {
        QTest::addColumn<QString>("from");
        QTest::addColumn<QString>("to");
        QTest::addColumn<QString>("says");
        QTest::newRow("strategy") << "\"strategy\":\"split\""
                                  << "\"strategy\":\"shred\""
                                  << "field \"annotations[0].strategy\": \"shred\" is not known";
        QTest::newRow("devices") << "\"devices\":4"
                                 << "\"devices\":0"
                                 << "field \"annotations[0].devices\"";
        QTest::newRow("scope") << "\"scope\":\"h/3\",\"strategy\""
                               << "\"scope\":\"h/9\",\"strategy\""
                               << "no scope \"h/9\"";
        QTest::newRow("reasons") << "\"forward_seconds\":0.25"
                                 << "\"forward_seconds\":\"soon\""
                                 << "field \"why\"";
        QTest::newRow("memory") << "\"parameter_bytes\":1000"
                                << "\"parameter_bytes\":-1"
                                << "field \"why\"";
    }

    void wrongFields()
    {
        QFETCH(QString, from);
        QFETCH(QString, to);
        QFETCH(QString, says);
        Plan plan = planWith({{"h/3", Annotation::Kind::Split, 4}});
        plan.why = someReasons();
        QString text = QString::fromStdString(toJson({plan, subject()}));
        QVERIFY(text.contains(from));
        text.replace(from, to);
        const auto read = documentFromJson(text.toStdString());
        QVERIFY(!read);
        QVERIFY2(QString::fromStdString(read.error().message).contains(says), read.error().message.c_str());
    }
};

QTEST_GUILESS_MAIN(TestAnnotation)
#include "tst_annotation.moc"
