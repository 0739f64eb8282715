// SPDX-License-Identifier: Apache-2.0
// Planner manual with schedule=dualpipe-v.
#include "engine/simulate/simulate.h"
#include "planner_helpers.h"

#include <QTest>

using namespace planloom;
using namespace planloom::testing;

class TestDualPipe : public QObject {
    Q_OBJECT

    static planners::Problem problem(const char *model = "zoo:gpt2", std::int64_t batch = 64)
    {
        planners::Problem made = problemOf(must(import::loadModel(model)), must(cluster::preset("h100-8")), batch);
        made.microBatch = 4;
        return made;
    }
    static double idleShare(const planners::Options &options)
    {
        const planners::Problem asked = problem("zoo:gpt2-xl", 32); // of many layers, so that stages are about alike
        const plan::Plan plan = planned(asked, "manual", options).plan;
        return must(simulate::simulatePlan(plan, asked.subject, {false, false})).report.bubbleFraction;
    }

private Q_SLOTS:
    void stagesLieInAV()
    {
        const plan::Plan plan =
            planned(problem(), "manual", {{"pipeline", "4"}, {"data", "1"}, {"schedule", "dualpipe-v"}}).plan;
        QCOMPARE(plan.stages.size(), std::size_t(8));
        for (std::size_t s = 0; s < 4; ++s)
            QCOMPARE(plan.stages[7 - s].devices, plan.stages[s].devices);
        QVERIFY(plan.schedule.kind == plan::ScheduleKind::Custom);
        QCOMPARE(plan.schedule.order.size(), std::size_t(4));
    }

    void bubblesAreSmaller()
    {
        const double whole = idleShare({{"pipeline", "4"}, {"data", "1"}, {"schedule", "1f1b"}});
        const double folded = idleShare({{"pipeline", "4"}, {"data", "1"}, {"schedule", "dualpipe-v"}});
        qInfo() << "bubbles: 1f1b" << whole << "dualpipe-v" << folded;
        QVERIFY(folded < whole);
    }

    void refused_data()
    {
        QTest::addColumn<QByteArray>("interleave");
        QTest::addColumn<QByteArray>("pipeline");
        QTest::addColumn<QString>("says");
        QTest::newRow("three chunks") << QByteArray("3") << QByteArray("2") << "gives each device two stages";
        QTest::newRow("few micro-batches") << QByteArray("1") << QByteArray("4") << "needs at least 8 micro-batches";
        QTest::newRow("few layers") << QByteArray("1") << QByteArray("8") << "more than the 14 layers";
    }
    void refused()
    {
        QFETCH(QByteArray, interleave);
        QFETCH(QByteArray, pipeline);
        QFETCH(QString, says);
        planners::Problem asked = problem();
        asked.globalBatch = 16;
        NoProgress progress;
        const auto report = must(planners::findPlanner("manual"))
                                ->plan(asked,
                                       {{"pipeline", pipeline.toStdString()},
                                        {"data", "1"},
                                        {"interleave", interleave.toStdString()},
                                        {"schedule", "dualpipe-v"}},
                                       progress);
        QVERIFY(!report);
        QVERIFY2(QString::fromStdString(report.error().message).contains(says), report.error().message.c_str());
    }
};

QTEST_GUILESS_MAIN(TestDualPipe)
#include "tst_dual_pipe.moc"
