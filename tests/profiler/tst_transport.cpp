// SPDX-License-Identifier: Apache-2.0
#include "profiler/transport.h"

#include "engine/simulate/clock.h"
#include "executor/comm/local_group.h"
#include "executor/runtime/affinity.h"
#include "profiler/shared_core_work.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <algorithm>
#include <thread>

using namespace planloom;
using namespace planloom::profiler;

class TestTransport : public QObject {
    Q_OBJECT

private slots:
    void measuresEveryMesh_data();
    void measuresEveryMesh();
    void longRoundsEndACurve();
    void figuresTravelAsText();
    void workCoversTheCollective();
    void coreTimeOfACollective();
    void theClockGivesBackWhatWasMeasured();
};

namespace {

constexpr int kRanks = 3;

/// What each of three ranks gets; @p problem: what went wrong.
std::vector<TransportFigures> measured(const TransportOptions &options, std::string &problem)
{
    comm::LocalGroup group(kRanks);
    std::vector<TransportFigures> figures(kRanks);
    std::vector<std::string> problems(kRanks);
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < kRanks; ++rank) {
            threads.emplace_back([&, rank] {
                runtime::pinToShare(rank, kRanks);
                const auto end = group.end(rank);
                auto own = measureTransport(*end, options);
                if (own)
                    figures[static_cast<std::size_t>(rank)] = std::move(*own);
                else
                    problems[static_cast<std::size_t>(rank)] = own.error().text();
            });
        }
    }
    for (const std::string &each : problems)
        problem += each;
    return figures;
}

} // namespace

void TestTransport::measuresEveryMesh_data()
{
    QTest::addColumn<int>("cores");
    QTest::newRow("a core each") << 0;
    QTest::newRow("shared cores") << 2;
}

void TestTransport::measuresEveryMesh()
{
    QFETCH(int, cores);
    std::string problem;
    const std::vector<TransportFigures> figures =
        measured({.mostBytes = 4096, .secondsPerPoint = 1e-4, .cores = cores}, problem);
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

/// On a network that is slow for every size the first one stands for all.
void TestTransport::longRoundsEndACurve()
{
    std::string problem;
    const std::vector<TransportFigures> figures =
        measured({.mostBytes = 4096, .secondsPerPoint = 1, .longRound = 0}, problem);
    QCOMPARE(problem, std::string());
    QCOMPARE(figures[0].curves.size(), std::size_t{11});
    for (const auto &[name, points] : figures[0].curves)
        QVERIFY2(points.size() == 1 && points[0].bytes == 64, name.c_str());
}

void TestTransport::figuresTravelAsText()
{
    const Curves curves{{"message", {{64, Seconds(1e-6)}, {512, Seconds(2e-6)}}}};
    for (const double perByte : {0.0, 3e-9}) {
        const auto back = transportFromText(transportText({curves, {perByte, 3, Seconds(7e-3)}}));
        QVERIFY(back.ok());
        QCOMPARE(back->curves.at("message")[1].seconds.value(), 2e-6);
        QCOMPARE(back->onCores.secondsPerByte, perByte);
        QCOMPARE(back->onCores.weight, perByte > 0 ? 3.0 : 1.0); // no time of a core: nothing to weigh
        QCOMPARE(back->onCores.delay.value(), perByte > 0 ? 7e-3 : 0.0);
    }
    QVERIFY(!transportFromText("{").ok());
}

/// 64 pieces of a second in all, of which a rank computes half: it shares its core with another.
void TestTransport::workCoversTheCollective()
{
    const WorkTimes few{1, 0.5, 0};
    QVERIFY(!SharedCoreWork({1, 0.8, 0}, 64, 2).sharesCore());
    QVERIFY(SharedCoreWork(few, 64, 2).sharesCore());
    QCOMPARE(SharedCoreWork(few, 64, 0.1).pieces(), 64);
    SharedCoreWork work(few, 64, 2);
    QCOMPARE(work.pieces(), 192); // one and a half times the collective's 2 seconds
    work.add({0.03, 0.015, 0}, {0.5, 0.015, 0});
    QVERIFY(work.coreSecondsPerByte(1) > 0);
    work.add({0.03, 0.015, 0}, {0.5, 0.015, 0.001}); // it went on behind the work
    QCOMPARE(work.pieces(), 384);
    QCOMPARE(work.coreSecondsPerByte(1), 0.0);
    for (int round = 0; round < 11; ++round) {
        QVERIFY(work.wantsMore());
        work.add({0.03, 0.015, 0}, {0.05, 0.015, 0});
    }
    QVERIFY(!work.wantsMore());
    QCOMPARE(work.pieces(), 384);
    SharedCoreWork slow(few, 64, 0.1);
    slow.add({8, 4, 0}, {8, 4, 0});
    QVERIFY(slow.wantsMore());
    slow.add({2, 1, 0}, {2, 1, 0});
    QVERIFY(!slow.wantsMore()); // 20 seconds
}

void TestTransport::coreTimeOfACollective()
{
    SharedCoreWork work({1, 0.5, 0}, 64, 0.1);
    work.add({2, 1, 0}, {3, 1, 0}); // a second longer on a core that two share: half of it for each
    QCOMPARE(work.coreSecondsPerByte(100), 0.005);
    QCOMPARE(work.coreSecondsPerByte(0), 0.0);
    work.add({2, 1, 0}, {2.4, 1, 0});
    work.add({2, 0.5, 0}, {5.2, 0.5, 0});          // one of four
    QCOMPARE(work.coreSecondsPerByte(100), 0.005); // the median of 0.5, 0.2 and 0.8
    QCOMPARE(work.weight(), 1.0);
    SharedCoreWork more({1, 0.5, 0}, 64, 0.1);
    more.add({2, 1, 0}, {3, 1, 0, 1.25}); // 1 of the 1.25 seconds that it lasted: four parts of five
    QVERIFY(std::abs(more.weight() - 4) < 1e-12);
    SharedCoreWork less({1, 0.5, 0}, 64, 0.1);
    less.add({2, 1, 0}, {3, 1, 0, 4}); // it needed no more than a quarter
    QCOMPARE(less.weight(), 1.0);
    SharedCoreWork none({1, 0.5, 0}, 64, 0.1);
    none.add({2, 1, 0}, {1.9, 1, 0}); // noise
    QCOMPARE(none.coreSecondsPerByte(100), 0.0);
    SharedCoreWork most({1, 0.5, 0}, 1 << 14, 0.1);
    most.add({1, 0.5, 0}, {1.75, 0.5, 0.25}); // no more pieces: what it waited is no time of the core
    QCOMPARE(most.pieces(), 1 << 14);
    QCOMPARE(most.coreSecondsPerByte(100), 0.0025);
}

/// When tasks have ended.
class EndOf final : public simulate::Listener {
public:
    explicit EndOf(std::vector<TaskId> tasks) : m_tasks(std::move(tasks)) {}
    void started(TaskId, double) override {}
    void ended(TaskId task, double now) override
    {
        if (std::find(m_tasks.begin(), m_tasks.end(), task) != m_tasks.end())
            seconds = std::max(seconds, now);
    }
    double seconds = 0;

private:
    std::vector<TaskId> m_tasks;
};

/// Work beside an all-reduce on the cost clock takes what the measurement's arithmetic makes the same figure of.
void TestTransport::theClockGivesBackWhatWasMeasured()
{
    constexpr std::int64_t kBytes = 1000;
    constexpr double kPerByte = 6e-4; // more than the core has left
    constexpr double kWeight = 3;
    for (const int ranks : {2, 3, 4}) {
        double ended = 0;
        const auto secondsOf = [&](bool communicates) {
            testing::HandMade hand(static_cast<std::size_t>(ranks));
            std::vector<TaskId> members;
            for (int rank = 0; rank < ranks; ++rank) {
                program::Exchange sum;
                sum.bytes = kBytes;
                if (communicates)
                    members.push_back(hand.add(rank, program::Lane::Collective, sum, 1));
                hand.next(hand.add(rank, program::Lane::Compute, trace::Kind::Forward, 3));
            }
            if (communicates)
                hand.group(members);
            program::Program program = hand.made();
            for (program::Rank &rank : program.ranks)
                rank.core = 0;
            program.communicationOnCores = {kPerByte, kWeight, Seconds(0)};
            EndOf end(members);
            const auto seconds = simulate::CostClock(program).run(&end);
            ended = end.seconds;
            return seconds ? *seconds : 0;
        };
        const double without = secondsOf(false);
        SharedCoreWork work({without, 3, 0}, 64, 1);
        QVERIFY(work.sharesCore());
        const double with = secondsOf(true);
        work.add({without, 3, 0}, {with, 3, 0, ended});
        QVERIFY(std::abs(work.weight() / kWeight - 1) < 1e-12);
        QVERIFY(std::abs(work.coreSecondsPerByte(kBytes) / kPerByte - 1) < 1e-12);
    }
}

QTEST_GUILESS_MAIN(TestTransport)
#include "tst_transport.moc"
