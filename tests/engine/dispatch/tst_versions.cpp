// SPDX-License-Identifier: Apache-2.0
// The policy of a parameter server: partial barrier, bounded delay, and order repeated from a record.
#include "engine/dispatch/versions.h"

#include <QTest>

#include <random>

using namespace planloom;
using dispatch::Arrivals;
using dispatch::Versions;

class TestVersions : public QObject {
    Q_OBJECT

private slots:
    /// Of two workers, with one arrival a version and a delay of 2.
    void agesAreBounded()
    {
        Versions versions(2, 1, 2);
        QVERIFY(versions.arrive(0).ok());
        QVERIFY(versions.next()->empty()); // the other was never heard
        QCOMPARE(versions.waitedFor(), std::vector{1});
        QVERIFY(versions.arrive(1).ok());
        QCOMPARE(*versions.next(), (std::vector{0, 1}));
        for (int version = 2; version <= 3; ++version) {
            QVERIFY(versions.arrive(0).ok());
            QCOMPARE(*versions.next(), std::vector{0});
        }
        QCOMPARE(versions.ages(), (std::vector{0, 2}));
        QVERIFY(versions.arrive(0).ok());
        QVERIFY(versions.next()->empty());
        QCOMPARE(versions.waitedFor(), std::vector{1});
        QVERIFY(!versions.arrive(0).ok());
        QVERIFY(!versions.arrive(2).ok());
        QVERIFY(versions.arrive(1).ok());
        QCOMPARE(*versions.next(), (std::vector{0, 1}));
    }

    void beginsAnew()
    {
        Versions versions(2, 1, 4);
        QVERIFY(versions.arrive(0).ok() && versions.arrive(1).ok());
        QCOMPARE(versions.next()->size(), std::size_t{2});
        versions.beginAnew();
        QVERIFY(versions.arrive(1).ok());
        QVERIFY(versions.next()->empty());
        QVERIFY(versions.arrive(0).ok());
        QCOMPARE(*versions.next(), (std::vector{0, 1}));
    }

    void repeats_data()
    {
        QTest::addColumn<int>("barrier");
        QTest::addColumn<int>("delay");
        for (const auto &[barrier, delay] : {std::pair{1, 1}, {1, 4}, {2, 2}, {3, 3}})
            QTest::addRow("%d, %d", barrier, delay) << barrier << delay;
    }

    /// Whatever order workers arrive in, the versions are made of the recorded ones.
    void repeats()
    {
        QFETCH(int, barrier);
        QFETCH(int, delay);
        constexpr int kWorkers = 4;
        std::mt19937 random(7);
        const auto course = [&](const Arrivals &recorded, std::size_t count) {
            Versions versions(kWorkers, barrier, delay);
            versions.repeat(recorded);
            std::vector<int> computes{0, 1, 2, 3};
            Arrivals made;
            while (made.size() < count) {
                const auto chosen = random() % computes.size();
                if (!versions.arrive(computes[chosen]).ok())
                    return Arrivals();
                computes.erase(computes.begin() + static_cast<std::ptrdiff_t>(chosen));
                for (auto next = versions.next(); next.ok() && !next->empty() && made.size() < count;
                     next = versions.next()) {
                    computes.insert(computes.end(), next->begin(), next->end());
                    made.push_back(*next);
                }
            }
            return made;
        };
        const Arrivals recorded = course({}, 40);
        QCOMPARE(recorded.size(), std::size_t{40});
        QVERIFY(course({}, 40) != recorded);
        const Arrivals again = course(recorded, 60); // and goes on behind them
        QCOMPARE(again.size(), std::size_t{60});
        QVERIFY(std::equal(recorded.begin(), recorded.end(), again.begin()));
    }

    void recordHasToFit()
    {
        Versions versions(2, 2, 2);
        versions.repeat({{0}});
        QVERIFY(versions.arrive(0).ok());
        const auto next = versions.next();
        QVERIFY(!next.ok());
        QVERIFY(next.error().text().find("do not allow") != std::string::npos);
    }

    void fileKeepsAll()
    {
        const Arrivals arrivals{{0, 1, 2}, {1}, {0, 2}};
        const std::string text = dispatch::toCsv(arrivals, 0);
        QCOMPARE(text, std::string("version,workers\n0,0 1 2\n1,1\n2,0 2\n"));
        QCOMPARE(*dispatch::arrivalsFromCsv(text, 0, 3), arrivals);
        QCOMPARE(*dispatch::arrivalsFromCsv(text, 1, 3), (Arrivals{{1}, {0, 2}}));
        QCOMPARE(*dispatch::arrivalsFromCsv(text.substr(0, text.size() - 1), 0, 3), (Arrivals{{0, 1, 2}, {1}}));
        dispatch::Pauses pauses{1};
        const std::string paused = dispatch::toCsv(arrivals, 0, true, pauses);
        QCOMPARE(paused, std::string("version,workers\n0,0 1 2\n1,1,pause\n2,0 2\n"));
        pauses.clear();
        QCOMPARE(*dispatch::arrivalsFromCsv(paused, 0, 3, &pauses), arrivals);
        QCOMPARE(pauses, dispatch::Pauses{1});
        for (const char *wrong : {"workers\n", "version,workers\n0,1,stop\n", "version,workers\n0,pause\n",
                                  "version,workers\n0,3\n", "version,workers\n0,1 0\n", "version,workers\n1,0\n3,0\n",
                                  "version,workers\nx,0\n", "version,workers\n0,\n"})
            QVERIFY2(!dispatch::arrivalsFromCsv(wrong, 0, 3).ok(), wrong);
    }
};

QTEST_GUILESS_MAIN(TestVersions)
#include "tst_versions.moc"
