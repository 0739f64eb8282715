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
    void curvesTravelAsText();
};

void TestTransport::measuresEveryMesh()
{
    constexpr int kRanks = 3;
    comm::LocalGroup group(kRanks);
    std::vector<Curves> curves(kRanks);
    std::vector<std::string> problems(kRanks);
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < kRanks; ++rank) {
            threads.emplace_back([&, rank] {
                const auto end = group.end(rank);
                auto measured = measureTransport(*end, {4096, 1e-4});
                if (measured)
                    curves[static_cast<std::size_t>(rank)] = std::move(*measured);
                else
                    problems[static_cast<std::size_t>(rank)] = measured.error().text();
            });
        }
    }
    for (const std::string &problem : problems)
        QCOMPARE(problem, std::string());
    QVERIFY(curves[1].empty() && curves[2].empty());
    for (const char *name : {"all-reduce/2", "all-reduce/3", "reduce-scatter/2", "all-gather/3", "all-to-all/2",
                             "broadcast/3", "message"}) {
        QVERIFY2(curves[0].contains(name), name);
        const auto &points = curves[0].at(name);
        QCOMPARE(points[0].bytes, 64.0);
        QCOMPARE(points[1].bytes, 256.0);
        for (const cost::CurvePoint &point : points)
            QVERIFY(point.seconds.value() > 0);
    }
    QCOMPARE(curves[0].size(), std::size_t{11}); // five collectives over 2 and 3 ranks, and messages
}

void TestTransport::curvesTravelAsText()
{
    const Curves curves{{"message", {{64, Seconds(1e-6)}, {512, Seconds(2e-6)}}}};
    const auto back = curvesFromText(curvesText(curves));
    QVERIFY(back.ok());
    QCOMPARE(back->at("message")[1].seconds.value(), 2e-6);
    QVERIFY(!curvesFromText("{").ok());
}

QTEST_GUILESS_MAIN(TestTransport)
#include "tst_transport.moc"
