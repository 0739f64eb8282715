// SPDX-License-Identifier: Apache-2.0
#include "profiler/transport.h"

#include "executor/comm/local_group.h"

#include <QTest>

#include <thread>

using namespace planloom;
using namespace planloom::profiler;

class TestTransport : public QObject {
    Q_OBJECT

private slots:
    void measuresEveryMesh();
    void figuresTravelAsText();
};

void TestTransport::measuresEveryMesh()
{
    constexpr int kRanks = 3;
    comm::LocalGroup group(kRanks);
    std::vector<TransportFigures> figures(kRanks);
    std::vector<std::string> problems(kRanks);
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < kRanks; ++rank) {
            threads.emplace_back([&, rank] {
                const auto end = group.end(rank);
                auto measured = measureTransport(*end, {4096, 1e-4});
                if (measured)
                    figures[static_cast<std::size_t>(rank)] = std::move(*measured);
                else
                    problems[static_cast<std::size_t>(rank)] = measured.error().text();
            });
        }
    }
    for (const std::string &problem : problems)
        QCOMPARE(problem, std::string());
    QVERIFY(figures[1].curves.empty() && figures[2].curves.empty());
    const Curves &curves = figures[0].curves;
    for (const char *name : {"all-reduce/2", "all-reduce/3", "reduce-scatter/2", "all-gather/3", "all-to-all/2",
                             "broadcast/3", "message"}) {
        QVERIFY2(curves.contains(name), name);
        const auto &points = curves.at(name);
        QCOMPARE(points[0].bytes, 64.0);
        QCOMPARE(points[1].bytes, 256.0);
        for (const cost::CurvePoint &point : points)
            QVERIFY(point.seconds.value() > 0);
    }
    QCOMPARE(curves.size(), std::size_t{11}); // five collectives over 2 and 3 ranks, and messages
}

void TestTransport::figuresTravelAsText()
{
    const Curves curves{{"message", {{64, Seconds(1e-6)}, {512, Seconds(2e-6)}}}};
    for (const double perByte : {0.0, 3e-9}) {
        const auto back = transportFromText(transportText({curves, perByte}));
        QVERIFY(back.ok());
        QCOMPARE(back->curves.at("message")[1].seconds.value(), 2e-6);
        QCOMPARE(back->coreSecondsPerByte, perByte);
    }
    QVERIFY(!transportFromText("{").ok());
}

QTEST_GUILESS_MAIN(TestTransport)
#include "tst_transport.moc"
