// SPDX-License-Identifier: Apache-2.0
// Balance inside a task graph: the worked examples of Whale's brief, and small instances against all ways to share out.
#include "planners/whale/balance.h"

#include <QTest>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

using namespace planloom::planners::whale;

namespace {

using Units = std::vector<std::int64_t>;

std::vector<Worker> workersOf(const QList<double> &speeds, const QList<double> &memories)
{
    std::vector<Worker> workers;
    for (qsizetype i = 0; i < speeds.size(); ++i)
        workers.push_back({speeds[i], memories[i]});
    return workers;
}

/// Calls f with every way to give @p units to @p workers, one each at least.
void eachSharing(std::size_t workers, std::int64_t units, Units &head, const std::function<void(const Units &)> &f)
{
    if (head.size() + 1 == workers) {
        head.push_back(units);
        f(head);
        head.pop_back();
        return;
    }
    const auto behind = static_cast<std::int64_t>(workers - head.size() - 1);
    for (std::int64_t own = 1; own + behind <= units; ++own) {
        head.push_back(own);
        eachSharing(workers, units - own, head, f);
        head.pop_back();
    }
}

bool fits(const std::vector<Worker> &workers, const LoadMemory &memory, const Units &units)
{
    for (std::size_t i = 0; i < workers.size(); ++i)
        if (memory.of(units[i]) > workers[i].memory)
            return false;
    return true;
}

/// Equation 1: how far shares are from those in proportion to speed, in units.
double imbalance(const std::vector<Worker> &workers, const Units &units)
{
    double speed = 0;
    for (const Worker &worker : workers)
        speed += worker.speed;
    const auto all = static_cast<double>(std::accumulate(units.begin(), units.end(), std::int64_t{0}));
    double sum = 0;
    for (std::size_t i = 0; i < workers.size(); ++i)
        sum += std::abs(static_cast<double>(units[i]) - all * workers[i].speed / speed);
    return sum;
}

struct Least {
    double imbalance = std::numeric_limits<double>::infinity();
    double seconds = std::numeric_limits<double>::infinity();
};

Least leastOf(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units)
{
    Least least;
    Units head;
    eachSharing(workers.size(), units, head, [&](const Units &each) {
        if (!fits(workers, memory, each))
            return;
        least.imbalance = std::min(least.imbalance, imbalance(workers, each));
        least.seconds = std::min(least.seconds, slowest(workers, each));
    });
    return least;
}

} // namespace

class TestWhaleBalance : public QObject {
    Q_OBJECT

private slots:
    // Memory of the whole load in GB, as the paper counts it: in proportion to the share.
    void workedExamples_data()
    {
        QTest::addColumn<QList<double>>("speeds");
        QTest::addColumn<QList<double>>("memories");
        QTest::addColumn<double>("loadMemory");
        QTest::addColumn<int>("units");
        QTest::addColumn<QList<int>>("expected");
        QTest::addColumn<double>("balanced");
        QTest::addColumn<double>("even");
        QTest::newRow("Fig. 4: V100 and T4 share 6 as 4 and 2")
            << QList<double>{15.7, 8.1} << QList<double>{16, 16} << 6.0 << 6 << QList<int>{4, 2} << 4 / 15.7 << 3 / 8.1;
        QTest::newRow("V100 and P100 share 64")
            << QList<double>{15.7, 9.3} << QList<double>{32, 16} << 30.0 << 64 << QList<int>{40, 24} << 2.581 << 3.441;
        QTest::newRow("memory moves four") << QList<double>{15.7, 15.7, 9.3, 9.3} << QList<double>{16, 32, 16, 16}
                                           << 64.0 << 64 << QList<int>{16, 24, 12, 12} << 1.529 << 1.720;
        QTest::newRow("eight and eight share 256")
            << QList<double>{15.7, 15.7, 15.7, 15.7, 15.7, 15.7, 15.7, 15.7, 9.3, 9.3, 9.3, 9.3, 9.3, 9.3, 9.3, 9.3}
            << QList<double>(16, 64.0) << 64.0 << 256 << (QList<int>(8, 20) + QList<int>(8, 12)) << 1.2903 << 1.7204;
    }

    void workedExamples()
    {
        QFETCH(QList<double>, speeds);
        QFETCH(QList<double>, memories);
        QFETCH(double, loadMemory);
        QFETCH(int, units);
        QFETCH(QList<int>, expected);
        QFETCH(double, balanced);
        QFETCH(double, even);
        const std::vector<Worker> workers = workersOf(speeds, memories);
        const LoadMemory memory{0, loadMemory / units};
        const Balance balance = balanceByAlgorithm1(workers, memory, units);
        QVERIFY(balance.fits);
        QCOMPARE(balance.units, Units(expected.begin(), expected.end()));
        QVERIFY2(std::abs(slowest(workers, balance.units) - balanced) < 1e-3,
                 qPrintable(QString::number(slowest(workers, balance.units))));
        QVERIFY(std::abs(slowest(workers, evenShares(workers, memory, units).units) - even) < 1e-3);
    }

    void memoryUseOfTheSecondExample()
    {
        const std::vector<Worker> workers{{15.7, 32}, {9.3, 16}};
        const LoadMemory memory{0, 30.0 / 64};
        const Balance balance = balanceByAlgorithm1(workers, memory, 64);
        QVERIFY(balance.shifts.empty());
        QVERIFY(std::abs(memory.of(balance.units[0]) / 32 - 0.586) < 1e-3);
        QVERIFY(std::abs(memory.of(balance.units[1]) / 16 - 0.703) < 1e-3);
    }

    void theShiftOfTheFourthExample()
    {
        const Balance balance = balanceByAlgorithm1({{15.7, 16}, {15.7, 32}, {9.3, 16}, {9.3, 16}}, {0, 1}, 64);
        QCOMPARE(balance.shifts.size(), std::size_t(1));
        QCOMPARE(balance.shifts[0].peak, std::size_t(0));
        QCOMPARE(balance.shifts[0].valley, std::size_t(1));
        QCOMPARE(balance.shifts[0].moved, std::int64_t(4));
        QVERIFY(balance.shifts[0].fits);
    }

    // Against even shares nothing beats mean over minimum speed.
    void theBound_data()
    {
        QTest::addColumn<double>("slow");
        QTest::addColumn<double>("bound");
        QTest::newRow("P100 on PCIe") << 9.3 << 1.344;
        QTest::newRow("P100 on NVLink") << 10.6 << 1.241;
    }

    void theBound()
    {
        QFETCH(double, slow);
        QFETCH(double, bound);
        const std::vector<Worker> workers{{15.7, 1e9}, {slow, 1e9}};
        const std::int64_t units = 1'000'000;
        const double gain = slowest(workers, evenShares(workers, {0, 1}, units).units)
            / slowest(workers, balanceByAlgorithm1(workers, {0, 1}, units).units);
        QVERIFY(std::abs(gain - bound) < 1e-3);
    }

    // Speeds whose shares are whole samples: Algorithm 1 reaches the least imbalance that memory allows, and fails only
    // if nothing fits.
    void algorithm1IsTheBest()
    {
        std::mt19937 random(7);
        std::uniform_int_distribution<int> share(1, 5);
        std::uniform_int_distribution<int> room(0, 8);
        int feasible = 0;
        for (int round = 0; round < 400; ++round) {
            std::vector<Worker> workers(2 + static_cast<std::size_t>(round) % 3);
            std::int64_t units = 0;
            for (Worker &worker : workers) {
                worker.speed = share(random);
                worker.memory = 2 + room(random);
                units += static_cast<std::int64_t>(worker.speed);
            }
            const LoadMemory memory{2, 1};
            const Balance balance = balanceByAlgorithm1(workers, memory, units);
            QCOMPARE(std::accumulate(balance.units.begin(), balance.units.end(), std::int64_t{0}), units);
            const Least least = leastOf(workers, memory, units);
            QCOMPARE(balance.fits, std::isfinite(least.imbalance));
            if (!balance.fits)
                continue;
            ++feasible;
            QVERIFY(fits(workers, memory, balance.units));
            QVERIFY2(std::abs(imbalance(workers, balance.units) - least.imbalance) < 1e-9,
                     qPrintable(QString("round %1: %2, best %3")
                                    .arg(round)
                                    .arg(imbalance(workers, balance.units))
                                    .arg(least.imbalance)));
        }
        QVERIFY(feasible > 50);
    }

    void balanceByTimeIsTheBest()
    {
        std::mt19937 random(8);
        std::uniform_real_distribution<double> speed(1, 5);
        std::uniform_int_distribution<int> room(1, 9);
        int feasible = 0;
        for (int round = 0; round < 400; ++round) {
            std::vector<Worker> workers(2 + static_cast<std::size_t>(round) % 3);
            for (Worker &worker : workers)
                worker = {speed(random), 1.0 + room(random)};
            const std::int64_t units = static_cast<std::int64_t>(workers.size()) + round % 9;
            const LoadMemory memory{1, 1};
            const Balance balance = balanceByTime(workers, memory, units);
            QCOMPARE(std::accumulate(balance.units.begin(), balance.units.end(), std::int64_t{0}), units);
            const Least least = leastOf(workers, memory, units);
            QCOMPARE(balance.fits, std::isfinite(least.seconds));
            if (!balance.fits)
                continue;
            ++feasible;
            QVERIFY(std::abs(slowest(workers, balance.units) - least.seconds) < 1e-9);
            // Rounding may cost Algorithm 1 a sample, but never memory.
            const Balance other = balanceByAlgorithm1(workers, memory, units);
            QVERIFY(other.fits && fits(workers, memory, other.units));
            QVERIFY(slowest(workers, other.units) >= least.seconds - 1e-9);
        }
        QVERIFY(feasible > 50);
    }

    void nobodyIsLeftWithout()
    {
        const Balance balance = balanceByAlgorithm1({{1000, 64}, {1, 64}, {1, 64}}, {0, 1}, 8);
        QCOMPARE(balance.units, (Units{6, 1, 1}));
        QVERIFY(balance.fits);
    }

    void tooLittleMemoryIsSaid()
    {
        QVERIFY(!balanceByAlgorithm1({{2, 3}, {1, 3}}, {0, 1}, 7).fits);
        QVERIFY(!balanceByAlgorithm1({{2, 30}, {1, 3}}, {4, 1}, 7).fits); // the second holds not even the fixed part
        QVERIFY(!balanceByTime({{2, 3}, {1, 3}}, {0, 1}, 7).fits);
        QVERIFY(!evenShares({{2, 30}, {1, 3}}, {0, 1}, 8).fits);
    }
};

QTEST_GUILESS_MAIN(TestWhaleBalance)
#include "tst_whale_balance.moc"
