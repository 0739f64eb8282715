// SPDX-License-Identifier: Apache-2.0
// Worked examples of pipelines as lists of resources: simulated lengths from papers' formulas, done by hand.
#include "engine/simulate/chain_program.h"
#include "engine/simulate/simulate.h"

#include <QTest>

using namespace planloom;

class TestChain : public QObject {
    Q_OBJECT

    static double length(const planners::dapple::Chain &chain)
    {
        const auto seconds = simulate::iterationSeconds(chainProgram(chain));
        return seconds ? *seconds : -1;
    }

private slots:
    /// DAPPLE toy cases (G6): lists with network stages, warm-up S - s.
    void earlyBackwardAndGpipe_data()
    {
        QTest::addColumn<QList<double>>("forward");
        QTest::addColumn<QList<double>>("backward");
        QTest::addColumn<QList<double>>("allReduce");
        QTest::addColumn<int>("microBatches");
        QTest::addColumn<double>("early");
        QTest::addColumn<double>("gpipe");
        QTest::newRow("last stage is slowest")
            << QList<double>{2, .5, 3} << QList<double>{4, .5, 6} << QList<double>{1, 0, 2} << 4 << 44. << 44.;
        QTest::newRow("first stage is slowest")
            << QList<double>{3, .5, 2} << QList<double>{6, .5, 4} << QList<double>{1, 0, 2} << 4 << 38. << 44.;
        QTest::newRow("many micro-batches")
            << QList<double>{3, .5, 2} << QList<double>{6, .5, 4} << QList<double>{1, 0, 2} << 32 << 290. << 296.;
        QTest::newRow("network is slowest")
            << QList<double>{1, 3, 1} << QList<double>{2, 3, 2} << QList<double>{0, 0, 0} << 8 << 51. << 54.;
        QTest::newRow("even: same bubbles as GPipe")
            << QList<double>{1, 1, 1} << QList<double>{2, 2, 2} << QList<double>{0, 0, 0} << 7 << 27. << 27.;
    }
    void earlyBackwardAndGpipe()
    {
        QFETCH(QList<double>, forward);
        QFETCH(QList<double>, backward);
        QFETCH(QList<double>, allReduce);
        QFETCH(int, microBatches);
        QFETCH(double, early);
        QFETCH(double, gpipe);
        planners::dapple::Chain chain;
        chain.forward.assign(forward.begin(), forward.end());
        chain.backward.assign(backward.begin(), backward.end());
        chain.allReduce.assign(allReduce.begin(), allReduce.end());
        chain.microBatches = microBatches;
        QCOMPARE(length(chain), early);
        chain.gpipe = true;
        QCOMPARE(length(chain), gpipe);
    }

    /// DAPPLE warm-up policies A and B over full-duplex links (G7).
    void warmUpPolicies_data()
    {
        QTest::addColumn<int>("stages");
        QTest::addColumn<double>("a");
        QTest::addColumn<double>("b");
        QTest::addColumn<double>("all");
        QTest::newRow("two stages") << 2 << 39. << 30. << 33.5;
        QTest::newRow("four stages") << 4 << 57. << 42. << 45.5;
    }
    void warmUpPolicies()
    {
        QFETCH(int, stages);
        QFETCH(double, a);
        QFETCH(double, b);
        QFETCH(double, all);
        const auto simulated = [stages](auto depthOf) {
            planners::dapple::Chain chain;
            chain.microBatches = 8;
            for (int x = 0; x < 2 * stages - 1; ++x) {
                const bool network = x % 2 == 1;
                chain.forward.push_back(network ? 1.5 : 1);
                chain.backward.push_back(network ? 1.5 : 2);
                chain.fullDuplex.push_back(network);
                chain.depth.push_back(depthOf(x / 2));
            }
            return length(chain);
        };
        QCOMPARE(simulated([&](int i) { return stages - i; }), a);
        QCOMPARE(simulated([&](int i) { return 2 * (stages - i) - 1; }), b);
        QCOMPARE(simulated([](int) { return 8; }), all);
    }

    void neverBelowTheBound()
    {
        planners::dapple::Chain chain{{1, 2, 3}, {2, 5, 1}, {0, 4, 0}, 9, {}, false, {}};
        const auto program = chainProgram(chain);
        QVERIFY(length(chain) >= program.lowerBound.value());
    }
};

QTEST_GUILESS_MAIN(TestChain)
#include "tst_chain.moc"
