// SPDX-License-Identifier: Apache-2.0
#include "engine/base/backoff.h"

#include <QTest>

#include <atomic>
#include <sched.h>
#include <sys/resource.h>
#include <thread>

using namespace planloom;

namespace {

/// Keeps the calling thread on the first core that it may use.
bool stayOnOneCore()
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &allowed))
            continue;
        CPU_ZERO(&allowed);
        CPU_SET(core, &allowed);
        return sched_setaffinity(0, sizeof allowed, &allowed) == 0;
    }
    return false;
}

struct Switches {
    std::int64_t willing = 0; ///< the thread slept
    std::int64_t pushed = 0;  ///< another one was put in its place
};

Switches switchesOfThread()
{
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    return {used.ru_nvcsw, used.ru_nivcsw};
}

constexpr int kLooks = 3000;

/// Looks in vain, beside others that do the same once all are there.
Switches lookInVain(std::atomic<int> &there, int all)
{
    if (!stayOnOneCore())
        return {};
    ++there;
    while (there < all)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    const Switches before = switchesOfThread();
    Backoff backoff;
    for (int look = 0; look < kLooks; ++look)
        backoff.pause();
    const Switches after = switchesOfThread();
    return {after.willing - before.willing, after.pushed - before.pushed};
}

} // namespace

class TstBackoff : public QObject {
    Q_OBJECT
private slots:
    /// They do not give the core to each other for ever: each switch is followed by a sleep.
    void threadsOfOneCoreSleep()
    {
        std::atomic<int> there = 0;
        Switches of[2];
        {
            const std::jthread first([&] { of[0] = lookInVain(there, 2); });
            const std::jthread second([&] { of[1] = lookInVain(there, 2); });
        }
        // One that is still at it when the other has ended has the core alone; the first to end had not.
        const Switches &most = of[0].willing > of[1].willing ? of[0] : of[1];
        QVERIFY2(most.willing > 100, std::to_string(most.willing).c_str());
        for (const Switches &switches : of)
            QVERIFY2(switches.pushed <= 2 * switches.willing + 100, std::to_string(switches.pushed).c_str());
    }

    /// Whatever pushed it away before it began to look, or before what it looked for came, does not count.
    void beginsAnew()
    {
        Backoff backoff;
        QVERIFY(!backoff.crowded());
        std::atomic<int> there = 0;
        std::atomic<bool> ended = false;
        bool crowded = false;
        bool after = true;
        {
            const std::jthread other([&] {
                lookInVain(there, 2);
                while (!ended) // computes
                    ;
            });
            const std::jthread looks([&] {
                if (!stayOnOneCore())
                    return;
                ++there;
                for (int look = 0; look < 1000000 && !backoff.crowded(); ++look)
                    backoff.pause();
                crowded = backoff.crowded();
                backoff.moved();
                after = backoff.crowded();
                ended = true;
            });
        }
        QVERIFY(crowded);
        QVERIFY(!after);
    }
};

QTEST_GUILESS_MAIN(TstBackoff)
#include "tst_backoff.moc"
