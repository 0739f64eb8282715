// SPDX-License-Identifier: Apache-2.0
// The SPP planner on whole problems: what it promises of its plans, its options, and the message where nothing fits.
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <algorithm>

using namespace planloom;
using namespace planloom::testing;

class TestSpp : public QObject {
    Q_OBJECT

private slots:
    void plansOfPublishedModels_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("cluster");
        QTest::addColumn<int>("batch");
        for (const char *cluster : {"dapple-a", "dapple-b", "dapple-c"}) {
            QTest::addRow("vgg-19 %s", cluster) << "vgg-19-layers" << cluster << 2048;
            QTest::addRow("gnmt-16 %s", cluster) << "gnmt-16" << cluster << 1024;
        }
    }

    void plansOfPublishedModels()
    {
        QFETCH(QString, model);
        QFETCH(QString, cluster);
        QFETCH(int, batch);
        const planners::Problem problem = zooProblem(model.toStdString(), cluster.toStdString(), batch);
        const planners::PlanReport report = planned(problem, "spp");
        QVERIFY(plan::validate(report.plan, problem.subject).ok());
        QVERIFY(report.predicted.fits);
        QVERIFY(report.complete);
        QVERIFY(report.plan.estimate.at("load_seconds") <= report.plan.estimate.at("iteration_seconds") * (1 + 1e-9));
        QVERIFY(report.plan.estimate.at("iteration_seconds") <= report.plan.estimate.at("bound_seconds") * (1 + 1e-9));
        const std::vector<int> depths = plan::warmupDepths(report.plan);
        QVERIFY(std::is_sorted(depths.rbegin(), depths.rend()));
        for (const planners::Candidate &other : report.alternatives)
            QVERIFY(other.simulatedSeconds >= report.predicted.iterationSeconds);
        // Every device works: windows cover the line.
        std::size_t devices = 0;
        for (const plan::Stage &stage : report.plan.stages)
            devices += stage.devices.size();
        QCOMPARE(devices, problem.subject.cluster->devices().size());
    }

    void orderMattersWhereLinksDiffer()
    {
        const planners::Problem problem = zooProblem("gnmt-16", "dapple-a", 1024);
        QVERIFY(planned(problem, "spp").predicted.iterationSeconds
                <= planned(problem, "spp", {{"order", "ids"}}).predicted.iterationSeconds * 1.05);
    }

    void givenStagesAndDepth()
    {
        const planners::Problem problem = zooProblem("gnmt-16", "dapple-a", 1024);
        const planners::PlanReport report =
            planned(problem, "spp", {{"stages", "4"}, {"micro_batches", "16"}, {"max_in_flight", "3"}});
        QCOMPARE(report.plan.stages.size(), std::size_t{4});
        QCOMPARE(report.plan.microBatches, std::int64_t{16});
        const std::vector<int> depths = plan::warmupDepths(report.plan);
        QVERIFY(*std::max_element(depths.begin(), depths.end()) <= 3);
    }

    void largeClustersAreCutIntoRuns()
    {
        const planners::Problem problem = zooProblem("gnmt-16", "dapple-a", 1024);
        const planners::PlanReport report = planned(problem, "spp", {{"windows", "4"}});
        for (const plan::Stage &stage : report.plan.stages)
            QCOMPARE(stage.devices.size() % 4, std::size_t{0});
    }

    void refusals_data()
    {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::addColumn<QString>("says");
        QTest::addRow("stages") << "stages"
                                << "17"
                                << "give at most 16";
        QTest::addRow("micro-batches") << "micro_batches"
                                       << "4096"
                                       << "more than the batch of 1024";
        QTest::addRow("tie") << "tie"
                             << "sideways"
                             << "tie";
    }

    void refusals()
    {
        QFETCH(QString, key);
        QFETCH(QString, value);
        QFETCH(QString, says);
        const planners::Problem problem = zooProblem("gnmt-16", "dapple-a", 1024);
        NoProgress progress;
        const auto report =
            must(planners::findPlanner("spp"))->plan(problem, {{key.toStdString(), value.toStdString()}}, progress);
        QVERIFY(!report);
        QVERIFY2(QString::fromStdString(report.error().text()).contains(says), report.error().text().c_str());
    }

    void nothingFits()
    {
        const planners::Problem problem =
            problemOf(must(import::zooProfile("amoebanet-36")), smallCluster(1, 2, 1), 16);
        NoProgress progress;
        const auto report = must(planners::findPlanner("spp"))->plan(problem, {}, progress);
        QVERIFY(!report);
        QCOMPARE(report.error().code, ErrorCode::Infeasible);
        QVERIFY2(QString::fromStdString(report.error().text()).contains("short"), report.error().text().c_str());
    }
};

QTEST_GUILESS_MAIN(TestSpp)
#include "tst_spp.moc"
