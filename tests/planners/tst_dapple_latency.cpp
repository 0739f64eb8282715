// SPDX-License-Identifier: Apache-2.0
// The published latency formula, its pivot, warm-up policies, and the planner's own clock against the engine's
// simulator.
#include "engine/simulate/chain_program.h"
#include "engine/simulate/simulate.h"
#include "planners/dapple/latency.h"
#include "planners/dapple/warmup.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

using namespace planloom;
using namespace planloom::planners::dapple;

namespace {

planners::dapple::Chain chainOf(std::vector<double> forward, std::vector<double> backward,
                                std::vector<double> allReduce, std::int64_t microBatches)
{
    planners::dapple::Chain chain;
    chain.forward = std::move(forward);
    chain.backward = std::move(backward);
    chain.allReduce = std::move(allReduce);
    chain.microBatches = microBatches;
    return chain;
}

double simulated(const planners::dapple::Chain &chain)
{
    return testing::must(simulate::iterationSeconds(chainProgram(chain)));
}

/// The pivot rule as the paper writes it, with its sums spelled out.
std::size_t pivotByTheBook(const planners::dapple::Chain &chain)
{
    const auto steady = [&](std::size_t s) {
        return static_cast<double>(chain.microBatches - 1) * (chain.forward[s] + chain.backward[s]);
    };
    std::size_t pivot = chain.forward.size() - 1;
    for (std::size_t s = pivot; s-- > 0;) {
        double between = 0;
        for (std::size_t k = s + 1; k < pivot; ++k)
            between += chain.forward[k] + chain.backward[k];
        if (steady(s) > steady(pivot) + between)
            pivot = s;
    }
    return pivot;
}

/// A chain of 1 to 6 stages with links between, on a grid of quarters: sums are exact, so that the two pivots see the
/// same ties.
planners::dapple::Chain randomChain(std::mt19937 &random)
{
    const auto quarters = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random) / 4.0; };
    planners::dapple::Chain chain;
    const int stages = std::uniform_int_distribution<int>(1, 6)(random);
    for (int s = 0; s < 2 * stages - 1; ++s) {
        chain.forward.push_back(quarters(16));
        chain.backward.push_back(quarters(24));
        chain.allReduce.push_back(s % 2 == 0 ? quarters(12) : 0);
    }
    chain.microBatches = std::uniform_int_distribution<int>(1, 20)(random);
    return chain;
}

std::vector<int> entryDepths(const std::vector<int> &depths)
{
    std::vector<int> entries;
    for (std::size_t i = 0; i < depths.size(); ++i) {
        if (i > 0)
            entries.push_back(linkDepth(depths[i - 1], depths[i]));
        entries.push_back(depths[i]);
    }
    return entries;
}

} // namespace

class TestDappleLatency : public QObject {
    Q_OBJECT

private slots:
    // G6: worked by hand, exact.
    void toyCases_data()
    {
        QTest::addColumn<QList<double>>("forward");
        QTest::addColumn<QList<double>>("backward");
        QTest::addColumn<int>("microBatches");
        QTest::addColumn<QList<double>>("allReduce");
        QTest::addColumn<int>("pivot");
        QTest::addColumn<QList<double>>("phases");
        QTest::addColumn<double>("simulation");
        QTest::addColumn<double>("gpipe");
        QTest::newRow("last is the pivot") << QList<double>{2, .5, 3} << QList<double>{4, .5, 6} << 4
                                           << QList<double>{1, 0, 2} << 2 << QList<double>{5.5, 27, 11.5} << 44. << 44.;
        QTest::newRow("first is the pivot") << QList<double>{3, .5, 2} << QList<double>{6, .5, 4} << 4
                                            << QList<double>{1, 0, 2} << 0 << QList<double>{3, 27, 7} << 38. << 44.;
        QTest::newRow("more micro-batches") << QList<double>{3, .5, 2} << QList<double>{6, .5, 4} << 32
                                            << QList<double>{1, 0, 2} << 0 << QList<double>{3, 279, 7} << 290. << 296.;
        QTest::newRow("the network is the pivot")
            << QList<double>{1, 3, 1} << QList<double>{2, 3, 2} << 8 << QList<double>{0, 0, 0} << 1
            << QList<double>{4, 42, 5} << 51. << 54.;
        QTest::newRow("same bubbles as GPipe") << QList<double>{1, 1, 1} << QList<double>{2, 2, 2} << 7
                                               << QList<double>{0, 0, 0} << 2 << QList<double>{3, 18, 6} << 27. << 27.;
    }

    void toyCases()
    {
        QFETCH(QList<double>, forward);
        QFETCH(QList<double>, backward);
        QFETCH(QList<double>, allReduce);
        QFETCH(int, microBatches);
        QFETCH(int, pivot);
        QFETCH(QList<double>, phases);
        QFETCH(double, simulation);
        QFETCH(double, gpipe);
        planners::dapple::Chain chain = chainOf({forward.begin(), forward.end()}, {backward.begin(), backward.end()},
                                                {allReduce.begin(), allReduce.end()}, microBatches);
        const Latency latency = formulaLatency(chain);
        QCOMPARE(latency.pivot, static_cast<std::size_t>(pivot));
        QCOMPARE(latency.warmup, phases[0]);
        QCOMPARE(latency.steady, phases[1]);
        QCOMPARE(latency.ending, phases[2]);
        ChainClock clock;
        QVERIFY(clock.seconds(chain) == simulation);
        chain.gpipe = true;
        QVERIFY(clock.seconds(chain) == gpipe);
    }

    void pivotIsTheBooks()
    {
        std::mt19937 random(7);
        for (int i = 0; i < 2000; ++i) {
            const planners::dapple::Chain chain = randomChain(random);
            QCOMPARE(pivotOf(chain), pivotByTheBook(chain));
        }
    }

    // The O(stages * micro-batches) recursion is the simulator, to the bit, for every policy, cap and kind of link.
    void clockEqualsTheSimulator()
    {
        std::mt19937 random(11);
        std::uniform_real_distribution<double> noise(0.1, 3);
        ChainClock clock;
        for (int i = 0; i < 400; ++i) {
            planners::dapple::Chain chain = randomChain(random);
            for (double &seconds : chain.forward)
                seconds *= noise(random);
            const std::size_t stages = chain.forward.size() / 2 + 1;
            std::vector<int> most;
            for (std::size_t s = 0; s < stages; ++s)
                most.push_back(std::uniform_int_distribution<int>(1, 9)(random));
            for (const Warmup policy : {Warmup::A, Warmup::B, Warmup::AllForwards}) {
                chain.depth = entryDepths(warmupDepths(policy, most, chain.microBatches));
                for (const bool duplex : {false, true}) {
                    chain.fullDuplex.clear();
                    for (std::size_t s = 0; duplex && s < chain.forward.size(); ++s)
                        chain.fullDuplex.push_back(s % 2 == 1);
                    const double seconds = clock.seconds(chain);
                    QVERIFY(seconds == simulated(chain)); // QCOMPARE would forgive the last bits
                    QVERIFY2(lowerBound(chain) <= seconds * (1 + 1e-12),
                             qPrintable(QString("%1 > %2").arg(lowerBound(chain)).arg(seconds)));
                }
            }
            chain.gpipe = true;
            QVERIFY(clock.seconds(chain) == simulated(chain));
        }
    }

    // G7: full-duplex links, M = 8.
    void policiesAgainstCommunication_data()
    {
        QTest::addColumn<int>("stages");
        QTest::addColumn<double>("a");
        QTest::addColumn<double>("b");
        QTest::addColumn<double>("all");
        QTest::newRow("two stages") << 2 << 39.0 << 30.0 << 33.5;
        QTest::newRow("four stages") << 4 << 57.0 << 42.0 << 45.5;
    }

    void policiesAgainstCommunication()
    {
        QFETCH(int, stages);
        QFETCH(double, a);
        QFETCH(double, b);
        QFETCH(double, all);
        planners::dapple::Chain chain;
        chain.microBatches = 8;
        for (int s = 0; s < 2 * stages - 1; ++s) {
            const bool link = s % 2 == 1;
            chain.forward.push_back(link ? 1.5 : 1);
            chain.backward.push_back(link ? 1.5 : 2);
            chain.fullDuplex.push_back(link);
        }
        const std::vector<int> uncapped(static_cast<std::size_t>(stages), 100);
        ChainClock clock;
        const auto seconds = [&](Warmup policy) {
            chain.depth = entryDepths(warmupDepths(policy, uncapped, chain.microBatches));
            return clock.seconds(chain);
        };
        QCOMPARE(seconds(Warmup::A), a);
        QCOMPARE(seconds(Warmup::B), b);
        QCOMPARE(seconds(Warmup::AllForwards), all);
    }

    void warmupDepthsFollowThePaper()
    {
        QCOMPARE(warmupDepths(Warmup::A, {9, 9, 9, 9}, 16), (std::vector<int>{4, 3, 2, 1}));
        QCOMPARE(warmupDepths(Warmup::B, {9, 9, 9, 9}, 16), (std::vector<int>{7, 5, 3, 1}));
        QCOMPARE(warmupDepths(Warmup::B, {9, 9, 9, 9}, 4), (std::vector<int>{4, 4, 3, 1}));
        QCOMPARE(warmupDepths(Warmup::AllForwards, {9, 9}, 6), (std::vector<int>{6, 6}));
        // A stage never warms up deeper than the one before it, which memory may cap.
        QCOMPARE(warmupDepths(Warmup::B, {2, 9, 9, 9}, 16), (std::vector<int>{2, 2, 2, 1}));
        // Nor far deeper than the one after it.
        QCOMPARE(warmupDepths(Warmup::B, {9, 9, 1, 9}, 16), (std::vector<int>{5, 3, 1, 1}));
    }

    // Policy B is policy A over the list with the network stages.
    void policyBCountsNetworkStages()
    {
        for (std::size_t stages = 1; stages <= 6; ++stages) {
            const std::vector<int> depths = entryDepths(warmupDepths(Warmup::B, std::vector<int>(stages, 1000), 1000));
            for (std::size_t x = 0; x < depths.size(); ++x)
                QCOMPARE(depths[x], static_cast<int>(2 * stages - 1 - x));
        }
    }

    // G8: twice the cut of a device's micro-batch over the network rate, against the mean stage.
    void communicationRatios_data()
    {
        QTest::addColumn<int>("stages");
        QTest::addColumn<double>("megabytes");
        QTest::addColumn<double>("gigabytesPerSecond");
        QTest::addColumn<double>("stageMs");
        QTest::addColumn<double>("ratio");
        QTest::newRow("BERT-48 A") << 2 << 4.325 << 0.8 << 171.8 << 0.063;
        QTest::newRow("BERT-48 B straight") << 16 << 4.325 << 0.8 << 21.48 << 0.503;
        QTest::newRow("BERT-48 C straight") << 16 << 4.325 << 0.32 << 21.48 << 1.258;
        QTest::newRow("XLNet-36 A") << 2 << 2.0 << 0.8 << 150.4 << 0.033;
        QTest::newRow("XLNet-36 C straight") << 16 << 2.0 << 0.32 << 18.8 << 0.665;
    }

    void communicationRatios()
    {
        QFETCH(int, stages);
        QFETCH(double, megabytes);
        QFETCH(double, gigabytesPerSecond);
        QFETCH(double, stageMs);
        QFETCH(double, ratio);
        planners::dapple::Chain chain;
        chain.microBatches = 4;
        for (int s = 0; s < 2 * stages - 1; ++s) {
            const bool link = s % 2 == 1;
            chain.forward.push_back(link ? megabytes / gigabytesPerSecond : stageMs / 3);
            chain.backward.push_back(link ? megabytes / gigabytesPerSecond : 2 * stageMs / 3);
        }
        QVERIFY2(std::abs(communicationRatio(chain) - ratio) < 0.001,
                 qPrintable(QString::number(communicationRatio(chain))));
        QCOMPARE(communicationRatio(chainOf({1}, {2}, {0}, 4)), 0.0);
    }

    void shippedEstimatorByHand()
    {
        // Two stages of 12 and 8 s, 4 micro-batches, one cut of 1 s, 20 s in all: block 3; 3*3 + 20/4 + 1/4 + max(4 -
        // 0, 1 - 3).
        const ShippedInput input{4, 1, 20, {12, 8}, {1}, {4, 1}};
        QCOMPARE(shippedSeconds(input), 9 + 5 + 0.25 + 4.0);
        ShippedInput none = input;
        none.microBatches = 0;
        QVERIFY(std::isinf(shippedSeconds(none)));
    }
};

QTEST_GUILESS_MAIN(TestDappleLatency)
#include "tst_dapple_latency.moc"
