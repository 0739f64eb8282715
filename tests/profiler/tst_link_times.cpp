// SPDX-License-Identifier: Apache-2.0
// Links between machines: what ranks measure, what that says of a link, and a cluster with these figures.
#include "profiler/link_times.h"

#include "engine/cluster/pairs.h"
#include "executor/comm/local_group.h"

#include <QTest>

#include <thread>

using namespace planloom;
using namespace planloom::profiler;

class TestLinkTimes : public QObject {
    Q_OBJECT

private Q_SLOTS:
    /// 64 bytes in 20 us, a million in 1.02 ms: a gigabyte a second.
    void figuresByHand()
    {
        const std::vector<cost::CurvePoint> points{{64, Seconds(20e-6)}, {1e6, Seconds(1.02e-3)}};
        const MeasuredLink link = ofMessages(points);
        QVERIFY(near(link.bandwidth, 1e9));
        QCOMPARE(link.latency.value(), 20e-6);
        QVERIFY(near(ofAllReduces(points, 4).bandwidth, 1.5e9)); // 6/4 of the bytes over each link
        QVERIFY(near(ofMessages(std::span(points).last(1)).bandwidth, 1e6 / 1.02e-3));
        QCOMPARE(ofMessages({}).bandwidth, 0.0);
    }

    void ranksMeasureEveryPair()
    {
        constexpr int kRanks = 4;
        const std::vector<int> nodes{0, 0, 2, 3};
        comm::LocalGroup group(kRanks);
        std::vector<LinkTimes> times(kRanks);
        std::vector<std::string> problems(kRanks);
        {
            std::vector<std::jthread> threads;
            for (int rank = 0; rank < kRanks; ++rank) {
                threads.emplace_back([&, rank] {
                    const auto end = group.end(rank);
                    auto own = measureLinks(*end, nodes, {.mostBytes = 4096, .secondsPerPoint = 1e-4});
                    if (own)
                        times[static_cast<std::size_t>(rank)] = *std::move(own);
                    else
                        problems[static_cast<std::size_t>(rank)] = own.error().text();
                });
            }
        }
        for (const std::string &problem : problems)
            QCOMPARE(problem, std::string());
        QVERIFY(times[1].pairs.empty() && times[3].rings.empty());
        std::vector<std::pair<int, int>> pairs;
        for (const PairTimes &pair : times[0].pairs) {
            pairs.emplace_back(pair.a, pair.b);
            QCOMPARE(pair.messages.size(), std::size_t{4}); // 64, 256, 1024, 4096
        }
        QCOMPARE(pairs, (std::vector<std::pair<int, int>>{{0, 0}, {0, 2}, {0, 3}, {2, 3}}));
        QCOMPARE(times[0].rings.size(), std::size_t{2});
        QCOMPARE(times[0].rings[0].nodes, (std::vector<int>{0}));
        QCOMPARE(times[0].rings[1].nodes, (std::vector<int>{0, 2, 3}));
        QCOMPARE(times[0].rings[1].members, 3);
        const auto back = linksFromText(linksText(times[0]), 4);
        QVERIFY2(back, back ? "" : back.error().text().c_str());
        QCOMPARE(linksText(*back), linksText(times[0]));
        QVERIFY(!linksFromText(linksText(times[0]), 3)); // there is no such machine
        comm::LocalGroup one(1);
        QCOMPARE(measureLinks(*one.end(0), nodes).error().code, ErrorCode::BadInput);
    }

    void damagedTextIsRefused_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::newRow("no JSON") << QByteArray("{");
        QTest::newRow("another schema") << QByteArray(R"({"schema":"x","pairs":[],"rings":[]})");
        for (const char *points : {R"([{"bytes":0,"seconds":1}])", R"([{"bytes":1,"seconds":-1}])", R"([{"bytes":1}])"})
            QTest::newRow(points) << QByteArray(
                                         "{\"schema\":\"planloom.links/1\",\"pairs\":[{\"a\":0,\"b\":0,\"points\":")
                    + points + "}],\"rings\":[]}";
    }

    void damagedTextIsRefused()
    {
        QFETCH(QByteArray, text);
        QVERIFY(!linksFromText(text.toStdString(), 2));
    }

    /// The ways inside and between machines get the figures that were measured; a machine's port has the most that it
    /// reached, so that its slower pairs are limited by the others' ports.
    void clusterGetsThem()
    {
        const auto nominal = cluster::regular(
            {"c", 3, 2, *cluster::knownDeviceType("CPU"), 5e9, Seconds(5e-6), 1e9, 2e9, Seconds(20e-6)});
        QVERIFY(nominal);
        const auto message = [](double rate, double latency) {
            return std::vector<cost::CurvePoint>{{64, Seconds(latency)}, {1e6, Seconds(latency + 1e6 / rate)}};
        };
        const LinkTimes times{{{0, 0, message(3e9, 4e-6)},
                               {0, 1, message(1e8, 50e-6)},
                               {0, 2, message(1e7, 50e-6)},
                               {1, 2, message(1e7, 50e-6)}},
                              {{{0}, 2, message(2e9, 1e-5)}, {{0, 1, 2}, 3, message(3e7, 1e-4)}}};
        const auto measured = withMeasuredLinks(*nominal, times);
        QVERIFY2(measured, measured ? "" : measured.error().text().c_str());
        const auto pairs = cluster::pairFigures(*measured);
        QCOMPARE(pairs.size(), std::size_t{6});
        QVERIFY(near(pairs[0].pointToPoint, 3e9) && near(pairs[0].collective, 2e9));
        QVERIFY(near(pairs[0].latency.value(), 4e-6));
        QVERIFY(near(pairs[1].pointToPoint, 5e9)); // machine 1 was not measured inside
        QCOMPARE(pairs[3].name, std::string("n0 - n1"));
        QVERIFY(near(pairs[3].pointToPoint, 1e8) && near(pairs[3].collective, 4e7)); // 2(3-1)/3 of 3e7
        QVERIFY(near(pairs[4].pointToPoint, 1e7) && near(pairs[5].pointToPoint, 1e7));
        for (int pair = 3; pair < 6; ++pair)
            QVERIFY(std::abs(pairs[static_cast<std::size_t>(pair)].latency.value() - 50e-6) < 2e-6);
        QCOMPARE(measured->nodes().size(), nominal->nodes().size());
        QCOMPARE(measured->links().size(), nominal->links().size());
    }

private:
    static bool near(double a, double b) { return std::abs(a / b - 1) < 1e-9; }
};

QTEST_GUILESS_MAIN(TestLinkTimes)
#include "tst_link_times.moc"
