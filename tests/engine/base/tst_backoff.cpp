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

constexpr int kMostLooks = 200'000;

/// Looks in vain until it has slept @p sleeps times.
Switches lookInVain(Backoff &backoff, std::int64_t sleeps)
{
    const Switches before = switchesOfThread();
    Switches since;
    for (int look = 0; look < kMostLooks && since.willing < sleeps; ++look) {
        backoff.pause();
        const Switches now = switchesOfThread();
        since = {now.willing - before.willing, now.pushed - before.pushed};
    }
    return since;
}

/// Whether a yield on this machine can be seen as one: not in every sandbox.
bool countsYields()
{
    std::atomic<bool> ended = false;
    std::int64_t pushed = 0;
    const std::jthread other([&] {
        while (stayOnOneCore() && !ended)
            sched_yield();
    });
    std::jthread([&] {
        const std::int64_t before = switchesOfThread().pushed;
        for (int i = 0; stayOnOneCore() && i < 10000; ++i)
            sched_yield();
        pushed = switchesOfThread().pushed - before;
    }).join();
    ended = true;
    return pushed > 0;
}

} // namespace

class TstBackoff : public QObject {
    Q_OBJECT
private slots:
    void initTestCase()
    {
        if (!countsYields())
            QSKIP("threads cannot be kept on one core here, or their switches are not counted");
    }

    /// They do not give the core to each other for ever: each switch is followed by a sleep.
    void threadsOfOneCoreSleep()
    {
        constexpr std::int64_t kSleeps = 100;
        std::atomic<int> at = 0;
        Switches of[2];
        const auto look = [&](Switches &switches) {
            stayOnOneCore();
            Backoff backoff;
            switches = lookInVain(backoff, kSleeps);
            for (++at; at < 2;) // so that the other one is not alone
                backoff.pause();
        };
        {
            const std::jthread first([&] { look(of[0]); });
            const std::jthread second([&] { look(of[1]); });
        }
        for (const Switches &switches : of) {
            QCOMPARE(switches.willing, kSleeps);
            QVERIFY2(switches.pushed <= 2 * kSleeps + 100, std::to_string(switches.pushed).c_str());
        }
    }

    /// On a core that ranks share each look is followed by a sleep, and no turn is given away by a yield.
    void onASharedCoreEveryLookIsFollowedByASleep()
    {
        std::jthread([] {
            Backoff::setCoreIsShared(true);
            Backoff backoff;
            const Switches before = switchesOfThread();
            constexpr int kLooks = 200;
            for (int look = 0; look < kLooks; ++look)
                backoff.pause();
            QCOMPARE(switchesOfThread().willing - before.willing, kLooks);
        }).join();
        QVERIFY(!Backoff::coreIsShared()); // that of this thread
    }

    /// One that has its core alone does not sleep before it looks again.
    void aloneItLooksAtOnce()
    {
        Backoff backoff;
        const Switches before = switchesOfThread();
        constexpr int kLooks = 10000;
        for (int look = 0; look < kLooks; ++look)
            backoff.pause();
        const Switches after = switchesOfThread();
        QVERIFY2(after.willing - before.willing <= kLooks / 2, std::to_string(after.willing - before.willing).c_str());
    }

    /// Whatever pushed it away before it began to look, or before what it looked for came, does not count. What else
    /// the machine does may push it away while it looks: one look of many that is not is enough.
    void beginsAnew()
    {
        std::atomic<bool> ended = false;
        bool crowded = false;
        bool begun = true;
        bool again = true;
        {
            std::jthread other([&] {
                while (stayOnOneCore() && !ended) // computes
                    ;
            });
            const std::jthread looks([&] {
                stayOnOneCore();
                Backoff backoff;
                for (int look = 0; look < kMostLooks && !crowded; ++look) {
                    backoff.pause();
                    crowded = backoff.crowded();
                }
                backoff.moved();
                begun = backoff.crowded();
                for (const std::int64_t before = switchesOfThread().pushed; switchesOfThread().pushed == before;)
                    ; // computes, too
                ended = true;
                other.join();
                for (int turn = 0; turn < 1000 && again; ++turn) {
                    backoff.pause();
                    again = backoff.crowded();
                    backoff.moved();
                }
            });
        }
        QVERIFY(crowded);
        QVERIFY(!begun);
        QVERIFY(!again);
    }
};

QTEST_GUILESS_MAIN(TstBackoff)
#include "tst_backoff.moc"
