// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/affinity.h"

#include <QTest>

#include <sched.h>

#include <set>
#include <thread>
#include <vector>

using namespace planloom;

namespace {

struct Pinned {
    int cores = 0;
    std::set<int> processors;
};

std::set<int> allowedHere()
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    std::set<int> processors;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set))
            processors.insert(cpu);
    }
    return processors;
}

/// On a separate thread, the only one that is pinned.
Pinned pinned(int rank, int ranks)
{
    Pinned result;
    std::jthread([&] {
        result.cores = runtime::pinToShare(rank, ranks);
        result.processors = allowedHere();
    }).join();
    return result;
}

} // namespace

class TestAffinity : public QObject {
    Q_OBJECT

private slots:
    void sharesAreDisjointAndCoverEverything();
    void moreRanksThanCoresShareThem();
    void processorsAreNamed();
};

void TestAffinity::sharesAreDisjointAndCoverEverything()
{
    const std::set<int> all = allowedHere();
    const int cores = pinned(0, 1).cores;
    QVERIFY(cores >= 1);
    for (int ranks = 1; ranks <= cores; ++ranks) {
        std::set<int> seen;
        int sum = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            const Pinned share = pinned(rank, ranks);
            QVERIFY(static_cast<int>(share.processors.size()) >= share.cores);
            for (const int processor : share.processors)
                QVERIFY2(seen.insert(processor).second, "two ranks have one processor");
            sum += share.cores;
        }
        QCOMPARE(sum, cores);
        QCOMPARE(seen, all);
    }
}

void TestAffinity::moreRanksThanCoresShareThem()
{
    const int cores = pinned(0, 1).cores;
    for (int rank = 0; rank < 2 * cores; ++rank) {
        const Pinned share = pinned(rank, 2 * cores);
        QCOMPARE(share.cores, 1);
        QCOMPARE(share.processors, pinned(rank % cores, 2 * cores).processors);
    }
}

void TestAffinity::processorsAreNamed()
{
    std::string text;
    std::jthread([&] {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(*allowedHere().begin(), &set);
        sched_setaffinity(0, sizeof set, &set);
        text = runtime::processorsHere();
    }).join();
    QCOMPARE(text, std::to_string(*allowedHere().begin()));
}

QTEST_GUILESS_MAIN(TestAffinity)
#include "tst_affinity.moc"
