// SPDX-License-Identifier: Apache-2.0
// Versions of a parameter server on the cost clock, worked by hand.
#include "engine/program/server_rows.h"
#include "engine/simulate/simulate.h"
#include "engine/simulate/versions.h"

#include <QTest>

#include <algorithm>
#include <cmath>

using namespace planloom;

namespace {

/// A rank for each of @p seconds, which it computes in an iteration, and @p talks between two of them.
program::Program programOf(const std::vector<double> &seconds, int barrier, int delay, double talks = 0,
                           double solves = 0)
{
    program::Program program;
    program.server = program::ParameterServer{barrier, delay, 0, 0, solves};
    for (std::size_t r = 0; r < seconds.size(); ++r) {
        program.ranks.emplace_back();
        program::Task computes;
        computes.rank = RankId(static_cast<std::int64_t>(r));
        computes.duration = Seconds(seconds[r]);
        computes.payload = program::Compute{};
        program.tasks.push_back(computes);
        program::Task sends = computes;
        sends.lane = program::Lane::Collective;
        sends.duration = Seconds(talks);
        program::Boxing boxing;
        boxing.served = true;
        sends.payload = boxing;
        program.tasks.push_back(sends);
    }
    return program;
}

} // namespace

class TestVersionTimes : public QObject {
    Q_OBJECT

private slots:
    void perVersion_data()
    {
        QTest::addColumn<QList<double>>("seconds");
        QTest::addColumn<int>("barrier");
        QTest::addColumn<int>("delay");
        QTest::addColumn<double>("talks");
        QTest::addColumn<double>("solves");
        QTest::addColumn<double>("expected");
        const QList<double> slow{1, 1, 1, 3};
        QTest::newRow("all wait for the slow one") << slow << 4 << 4 << 0.0 << 0.0 << 3.0;
        QTest::newRow("one is enough") << slow << 1 << 4 << 0.0 << 0.0 << 1.0;
        QTest::newRow("one version late") << slow << 1 << 1 << 0.0 << 0.0 << 1.5; // two in three seconds
        QTest::newRow("messages") << slow << 4 << 4 << 0.25 << 0.0 << 3.25;
        QTest::newRow("the server solves") << slow << 4 << 4 << 0.0 << 0.5 << 3.5;
        QTest::newRow("two alike") << QList<double>{2, 2} << 1 << 2 << 0.0 << 0.0 << 2.0;
    }

    void perVersion()
    {
        QFETCH(QList<double>, seconds);
        QFETCH(int, barrier);
        QFETCH(int, delay);
        QFETCH(double, talks);
        QFETCH(double, solves);
        QFETCH(double, expected);
        const program::Program program = programOf({seconds.begin(), seconds.end()}, barrier, delay, talks, solves);
        const auto times = simulate::versions(program, 61);
        QVERIFY(times.ok());
        QVERIFY2(std::fabs(times->perVersion() - expected) < 1e-9, qPrintable(QString::number(times->perVersion())));
        QVERIFY(std::fabs(*simulate::iterationSeconds(program) - expected) < 0.02 * expected); // cuts a period
    }

    /// Two ranks of one core compute at half of its speed while both do.
    void sharedCores()
    {
        program::Program program = programOf({1, 3}, 2, 2);
        program.ranks[0].core = program.ranks[1].core = 0;
        QVERIFY(std::fabs(simulate::versions(program, 21)->perVersion() - 4) < 1e-9);
        program.server->barrier = 1;
        const auto times = simulate::versions(program, 6);
        QCOMPARE(times->arrivals[0], (std::vector{0, 1})); // at 4
        QCOMPARE(times->arrivals[1], std::vector{0});      // at 6, then 8
        QVERIFY(std::fabs(times->seconds[1] - 6) < 1e-9);
    }

    /// The server takes its time from a rank that computes on the core.
    void serverSharesACore()
    {
        program::Program program = programOf({1, 3}, 1, 4, 0, 0.5);
        program.ranks[0].core = program.ranks[1].core = 0;
        auto times = simulate::versions(program, 2);
        QVERIFY(std::fabs(times->seconds[0] - 4.5) < 1e-9); // both, then the server alone
        QVERIFY(std::fabs(times->seconds[1] - 7.5) < 1e-9); // two seconds beside the other, one of solving beside it
        program.ranks[1].core = 1;
        times = simulate::versions(program, 4);
        QCOMPARE(times->arrivals, (dispatch::Arrivals{{0, 1}, {0}, {0}, {1}}));
        const std::vector<double> expected{3.5, 5, 6.5, 7}; // on the core of the one that waits
        for (std::size_t version = 0; version < expected.size(); ++version)
            QVERIFY(std::fabs(times->seconds[version] - expected[version]) < 1e-9);
    }

    /// What the ranks and the server do, with the versions of which it is.
    void records()
    {
        const program::Program program = programOf({1, 3}, 1, 4, 0, 0.5);
        const auto times = simulate::versions(program, 2);
        const program::ServerRows rows(program);
        const auto find = [&](std::int32_t rank, std::int32_t task, std::int32_t step) {
            const auto found = std::ranges::find_if(times->records, [&](const trace::Record &record) {
                return record.rank == rank && record.task == task && record.step == step;
            });
            return found == times->records.end() ? QList<std::int64_t>() : QList{found->start, found->duration};
        };
        constexpr std::int64_t kSecond = 1'000'000'000;
        QCOMPARE(rows.rank, 2);
        QCOMPARE(find(2, rows.solves, 0), (QList{3 * kSecond, kSecond / 2}));
        QCOMPARE(find(2, rows.messageOf(0), 0), (QList{kSecond, kSecond * 5 / 2})); // until the other has come, too
        QCOMPARE(find(2, rows.messageOf(1), 0), (QList{3 * kSecond, kSecond / 2}));
        QCOMPARE(find(0, 0, 0), (QList<std::int64_t>{0, kSecond}));
        QCOMPARE(find(0, 1, 0), (QList{kSecond, kSecond * 5 / 2})); // as long as it waits
        QCOMPARE(find(0, 0, 1), (QList{kSecond * 7 / 2, kSecond}));
        QCOMPARE(find(2, rows.messageOf(0), 1), (QList{kSecond * 9 / 2, kSecond / 2}));
    }

    void arrivalsAreThoseOfThePolicy()
    {
        const auto times = simulate::versions(programOf({1, 1, 1, 3}, 1, 4), 7);
        const std::vector<int> fast{0, 1, 2};
        const std::vector<int> all{0, 1, 2, 3};
        QCOMPARE(times->arrivals, (dispatch::Arrivals{all, fast, fast, all, fast, fast, all}));
        QVERIFY(std::fabs(times->seconds.back() - 9) < 1e-9);
    }

    void needsAServer()
    {
        program::Program program = programOf({1}, 1, 1);
        program.server.reset();
        QVERIFY(!simulate::versions(program, 1).ok());
    }
};

QTEST_GUILESS_MAIN(TestVersionTimes)
#include "tst_version_times.moc"
