// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cluster.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/plan.h"
#include "engine/plan/stage_settings.h"

#include <QTest>

using namespace planloom;

/// Memory policies as text, in plan files and in what plans are compared by.
class TestMemorySettings : public QObject {
    Q_OBJECT

private slots:
    void textAndBack_data();
    void textAndBack();
    void refused_data();
    void refused();
    void inPlanFiles();
};

void TestMemorySettings::textAndBack_data()
{
    QTest::addColumn<QString>("given");
    QTest::addColumn<QString>("whole"); // what it begins with
    QTest::newRow("none") << "none"
                          << "none";
    QTest::newRow("defaults") << "delta"
                              << "delta,budget=60%,director=rule,trigger=before,copies=overlapping,prefetch=5";
    QTest::newRow("bytes") << "dtr,budget=1000000,trigger=after"
                           << "dtr,budget=1000000,director=rule,trigger=after";
    QTest::newRow("share") << "lru,budget=33.3%,director=swap"
                           << "lru,budget=33.3%,director=swap";
    QTest::newRow("all")
        << "random,seed=7,copies=synchronous,bandwidth_in=1e9,host_tier=/tmp,small_share=0.5,latency=0,"
           "clock=measured,parameters=host"
        << "random,budget=60%,director=rule,trigger=before,copies=synchronous";
}

void TestMemorySettings::textAndBack()
{
    QFETCH(QString, given);
    QFETCH(QString, whole);
    const auto memory = plan::memoryFromText(given.toStdString());
    QVERIFY(memory);
    const std::string text = plan::textOf(*memory);
    QVERIFY2(text.starts_with(whole.toStdString()), text.c_str());
    for (const char *later : {"clock=", "parameters="}) // others as plans before it
        QCOMPARE(text.find(later) != std::string::npos, given.contains(later));
    const auto again = plan::memoryFromText(text);
    QVERIFY(again);
    QVERIFY(*again == *memory);
}

void TestMemorySettings::refused_data()
{
    QTest::addColumn<QString>("given");
    QTest::addColumn<QString>("wanted");
    QTest::newRow("policy") << "dalta"
                            << "there is none, delta, dtr";
    QTest::newRow("empty") << ""
                           << "is not known";
    QTest::newRow("setting") << "delta,budgets=1"
                             << "has no setting \"budgets\"; it has budget, director";
    QTest::newRow("of none") << "none,budget=1"
                             << "none has no setting";
    QTest::newRow("no value") << "delta,budget"
                              << "write KEY=VALUE";
    QTest::newRow("twice") << "delta,seed=1,seed=1"
                           << "given twice";
    QTest::newRow("budget") << "delta,budget=-5"
                            << "give bytes, or a part";
    QTest::newRow("share") << "delta,budget=101%"
                           << "at most 100%";
    QTest::newRow("not a number") << "delta,threshold=nan"
                                  << "threshold is nan";
    QTest::newRow("negative") << "delta,latency=-1"
                              << "latency is -1; give a number of 0 or more";
    QTest::newRow("word") << "delta,director=both"
                          << "give rule, chain, swap, recompute";
    QTest::newRow("clock") << "delta,clock=wall"
                           << "give logical, measured";
    QTest::newRow("arena of a course") << "delta,trigger=after,clock=measured"
                                       << "give trigger=before, or clock=logical";
}

void TestMemorySettings::refused()
{
    QFETCH(QString, given);
    QFETCH(QString, wanted);
    const auto memory = plan::memoryFromText(given.toStdString());
    QVERIFY(!memory);
    QVERIFY2(memory.error().message.find(wanted.toStdString()) != std::string::npos, memory.error().message.c_str());
}

void TestMemorySettings::inPlanFiles()
{
    auto graph = graph::mlp("mlp", {16, 32, 8});
    auto cluster = cluster::preset("h100-8");
    QVERIFY(graph && cluster);
    const plan::Subject subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)),
                          std::make_shared<const cluster::Cluster>(*std::move(cluster)), nullptr, "zoo:mlp");
    plan::Plan plan;
    plan.modelName = subject.graph->name();
    plan.clusterName = subject.cluster->name();
    plan.globalBatch = 4;
    plan::Stage stage;
    stage.lastLayer = subject.layers().size();
    stage.devices = {DeviceId(0)};
    plan.stages.push_back(stage);
    const plan::Plan without = plan;
    plan.stages[0].memory = *plan::memoryFromText("delta,budget=45%,director=chain,prefetch=2");
    const std::string text = plan::toJson({plan, subject});
    const auto read = plan::documentFromJson(text);
    QVERIFY2(read, read ? "" : read.error().text().c_str());
    QVERIFY(read->plan.stages[0].memory == plan.stages[0].memory);
    plan::Plan hosted = plan;
    hosted.stages[0].memory.hostParameters = true;
    const std::string hostedText = plan::toJson({hosted, subject});
    QVERIFY(hostedText.find("\"parameters\":\"host\"") != std::string::npos);
    QVERIFY(text.find("\"parameters\":\"") == std::string::npos); // as plans before it
    const auto hostedRead = plan::documentFromJson(hostedText);
    QVERIFY2(hostedRead, hostedRead ? "" : hostedRead.error().text().c_str());
    QVERIFY(hostedRead->plan.stages[0].memory == hosted.stages[0].memory);
    QVERIFY(text.find("\"policy\":\"delta\"") != std::string::npos);
    QVERIFY(plan::toJson({without, subject}).find("policy") == std::string::npos);
    QVERIFY(plan::textOf(plan::settingsOf(plan.stages[0])) != plan::textOf(plan::settingsOf(without.stages[0])));
    const auto changes = plan::difference(without, plan);
    QCOMPARE(changes.size(), std::size_t{1});
    QVERIFY(changes[0].find("none -> delta,budget=45%") != std::string::npos);
    std::string wrong = text;
    wrong.replace(wrong.find("\"chain\""), 7, "\"chart\"");
    const auto refused = plan::documentFromJson(wrong);
    QVERIFY(!refused);
    QVERIFY2(refused.error().text().find("director") != std::string::npos, refused.error().text().c_str());
}

QTEST_GUILESS_MAIN(TestMemorySettings)
#include "tst_memory_settings.moc"
