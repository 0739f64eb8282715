// SPDX-License-Identifier: Apache-2.0
// Which delay of averages suits the times of a step and of an average: DaSGD's worked figures.
#include "planners/common/averaging_delay.h"

#include <QTest>

#include <cmath>

using namespace planloom;

class TestAveragingDelay : public QObject {
    Q_OBJECT

private slots:
    void bestDelays_data()
    {
        QTest::addColumn<int>("localSteps"); // at most
        QTest::addColumn<bool>("corrected");
        QTest::addColumn<int>("delay");
        QTest::addColumn<double>("seconds");
        QTest::newRow("up to 4 steps") << 4 << false << 0 << 16.25;
        QTest::newRow("up to 8 steps") << 8 << false << 2 << 13.0769;
        QTest::newRow("up to 16 steps") << 16 << false << 2 << 11.3793;
        QTest::newRow("corrected") << 4 << true << 3 << 10.0;
    }
    /// Steps of 10 s and averages of 25 s, a local weight of a quarter: what is found, and that no other delay or
    /// shorter round is better.
    void bestDelays()
    {
        QFETCH(int, localSteps);
        QFETCH(bool, corrected);
        QFETCH(int, delay);
        QFETCH(double, seconds);
        constexpr double kStep = 10, kExchange = 25;
        plan::DelayedAveraging asked{localSteps, 1, 0.25, corrected ? plan::Merge::Corrected : plan::Merge::Convex, 0};
        const plan::DelayedAveraging found = planners::withBestDelay(asked, kStep, kExchange);
        QCOMPARE(found.localSteps, localSteps);
        QCOMPARE(found.delay, delay);
        const double least = planners::secondsPerEffectiveStep(found, kStep, kExchange);
        QVERIFY2(std::abs(least - seconds) <= 5e-5, qPrintable(QString::number(least, 'g', 9)));
        for (asked.localSteps = 1; asked.localSteps <= localSteps; ++asked.localSteps)
            for (asked.delay = 0; asked.delay <= asked.localSteps; ++asked.delay)
                QVERIFY(planners::secondsPerEffectiveStep(asked, kStep, kExchange) >= least * (1 - 1e-12));
    }

    /// Rounds of corrected merges become as long as the average; those of convex ones stay, and wait.
    void longAverages()
    {
        const plan::DelayedAveraging corrected =
            planners::withBestDelay({4, 0, 0.25, plan::Merge::Corrected, 0}, 10, 55);
        QCOMPARE(corrected.delay, 6);
        QCOMPARE(corrected.localSteps, 6);
        const plan::DelayedAveraging convex = planners::withBestDelay({4, 4, 0.25, plan::Merge::Convex, 0}, 10, 55);
        QCOMPARE(convex.delay, 0);
        QCOMPARE(convex.localSteps, 4);
        // All is thrown away by a delay of a whole round without a local weight.
        QVERIFY(std::isinf(planners::secondsPerEffectiveStep({4, 4, 0, plan::Merge::Convex, 0}, 10, 55)));
    }
};

QTEST_GUILESS_MAIN(TestAveragingDelay)
#include "tst_averaging_delay.moc"
