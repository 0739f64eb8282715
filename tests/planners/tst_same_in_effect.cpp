// SPDX-License-Identifier: Apache-2.0
#include "planners/common/alternatives.h"

#include <QTest>

using namespace planloom;
using planners::Candidate;

namespace {

Candidate candidate(double seconds, std::int64_t peak = 0)
{
    Candidate made;
    made.plan.globalBatch = 8;
    made.plan.stages.resize(1);
    made.plan.stages.front().name = "stage0";
    made.plan.stages.front().lastLayer = 4;
    made.plan.stages.front().devices = {DeviceId(0), DeviceId(1)};
    made.simulatedSeconds = seconds;
    made.peakBytes = peak;
    return made;
}

} // namespace

class TestSameInEffect : public QObject {
    Q_OBJECT

private slots:
    void what_data()
    {
        QTest::addColumn<QString>("change");
        QTest::addColumn<bool>("same");
        QTest::newRow("nothing") << QString() << true;
        QTest::newRow("names") << "names" << true;
        QTest::newRow("planner") << "planner" << true;
        QTest::newRow("bucket") << "bucket" << true;
        QTest::newRow("rounding") << "rounding" << true;
        QTest::newRow("bucket and seconds") << "slower" << false;
        QTest::newRow("bucket and peak") << "larger" << false;
        QTest::newRow("unknown peak") << "unknown" << true;
        QTest::newRow("layers") << "layers" << false;
        QTest::newRow("recompute") << "recompute" << false;
        QTest::newRow("micro-batches") << "micro-batches" << false;
    }

    void what()
    {
        QFETCH(QString, change);
        QFETCH(bool, same);
        const Candidate a = candidate(0.161, 1000000);
        Candidate b = a;
        if (change == "names")
            b.plan.stages.front().name = "all";
        if (change == "planner")
            b.plan.planner.name = "another";
        if (change == "bucket" || change == "slower" || change == "larger")
            b.plan.bucketBytes = 20 << 20;
        if (change == "rounding")
            b.simulatedSeconds *= 1 + planners::kSameFigures / 2;
        if (change == "slower")
            b.simulatedSeconds *= 1 + planners::kSameFigures * 2;
        if (change == "larger")
            b.peakBytes += 2000;
        if (change == "unknown")
            b.peakBytes = 0;
        if (change == "layers")
            b.plan.stages.front().lastLayer = 5;
        if (change == "recompute")
            b.plan.stages.front().recompute = plan::Recompute::Full;
        if (change == "micro-batches")
            b.plan.microBatches = 2;
        QCOMPARE(planners::sameInEffect(a, b), same);
        QCOMPARE(planners::sameInEffect(b, a), same);
        QCOMPARE(planners::distinct(a, {b}).size(), std::size_t(same ? 0 : 1));
        QCOMPARE(planners::runnerUpAmong(a, {b}).has_value(), !same);
    }

    /// Runners-up and plans of less memory, in one list.
    void offeredPlansAreSortedAndOnce()
    {
        planners::PlanReport report;
        report.plan = candidate(0.1).plan;
        report.predicted.iterationSeconds = 0.1;
        report.predicted.devices.resize(1);
        report.predicted.devices.front().peakBytes = 4000;
        Candidate slower = candidate(0.3, 4000), smaller = candidate(0.2, 1000);
        slower.plan.microBatches = 2;
        smaller.plan.microBatches = 4;
        report.alternatives = {slower};
        report.pareto = {candidate(0.1, 4000), smaller, slower}; // the plan itself is the first of its front
        const auto offered = planners::offeredBeside(report);
        QCOMPARE(offered.size(), std::size_t(2));
        QCOMPARE(offered[0].peakBytes, std::int64_t(1000));
        QCOMPARE(offered[1].peakBytes, std::int64_t(4000));
    }

    /// Of three that differ in buckets alone one is left, and in words it says so.
    void equalOnesAreOne()
    {
        Candidate chosen = candidate(0.1);
        chosen.plan.microBatches = 2;
        std::vector<Candidate> found;
        for (const std::int64_t bytes : {20, 25, 30}) {
            found.push_back(candidate(0.161));
            found.back().plan.bucketBytes = bytes << 20;
        }
        const auto left = planners::distinct(chosen, found);
        QCOMPARE(left.size(), std::size_t(1));
        QCOMPARE(left.front().plan.bucketBytes, std::int64_t(20 << 20));
        const auto differences = planners::differencesOf(found[1].plan, found[0].plan);
        QCOMPARE(differences.size(), std::size_t(1));
        QCOMPARE(differences.front().c_str(), "gradient buckets 25.00 MiB -> 20.00 MiB");
    }
};

QTEST_APPLESS_MAIN(TestSameInEffect)
#include "tst_same_in_effect.moc"
