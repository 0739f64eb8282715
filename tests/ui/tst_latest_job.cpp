// SPDX-License-Identifier: GPL-3.0-or-later
// Work beside the UI thread of which the last that was asked for counts.
#include "ui/state/latest_job.h"

#include <QTest>

#include <atomic>
#include <chrono>
#include <semaphore>

using namespace planloom;
using namespace planloom::ui;

class TestLatestJob : public QObject {
    Q_OBJECT

    LatestJob m_job{QStringLiteral("work")};
    QStringList m_ended;

    /// Is asked for as @p name; it runs until it is told to go on or is stopped.
    struct Gate {
        std::binary_semaphore begun{0};
        std::binary_semaphore goesOn{0};
        std::atomic<bool> stopped = false;
    };
    void askGated(const QString &name, Gate &gate)
    {
        m_job.ask([this, name, &gate](Progress &progress) -> Job::Completion {
            gate.begun.release();
            gate.goesOn.acquire();
            gate.stopped = progress.stopped();
            return [this, name] { m_ended << name; };
        });
    }
    void askPlain(const QString &name)
    {
        m_job.ask([this, name](Progress &) -> Job::Completion { return [this, name] { m_ended << name; }; });
    }
    [[nodiscard]] bool idle() const
    {
        return QTest::qWaitFor([this] { return !m_job.running(); }, 30'000);
    }

private Q_SLOTS:
    void init() { m_ended.clear(); }
    void cleanup() { QVERIFY(idle()); }

    void runsWhatIsAsked()
    {
        QVERIFY(!m_job.running());
        askPlain(QStringLiteral("a"));
        QVERIFY(m_job.running());
        QVERIFY(m_ended.isEmpty()); // it ends on the UI thread, not inside of ask()
        QVERIFY(idle());
        QCOMPARE(m_ended, QStringList{QStringLiteral("a")});
    }

    /// The one that runs is stopped, those between never begin, and only the last one's result comes.
    void lastCounts()
    {
        Gate first;
        askGated(QStringLiteral("a"), first);
        QVERIFY(first.begun.try_acquire_for(std::chrono::seconds(30)));
        Gate between;
        askGated(QStringLiteral("b"), between);
        askPlain(QStringLiteral("c"));
        QVERIFY(m_job.running());
        first.goesOn.release();
        QVERIFY(idle());
        QVERIFY(first.stopped);
        QVERIFY(!between.begun.try_acquire());
        QCOMPARE(m_ended, QStringList{QStringLiteral("c")});
    }

    void abandoned()
    {
        Gate gate;
        askGated(QStringLiteral("a"), gate);
        QVERIFY(gate.begun.try_acquire_for(std::chrono::seconds(30)));
        askPlain(QStringLiteral("b"));
        m_job.abandon();
        gate.goesOn.release();
        QVERIFY(idle());
        QVERIFY(gate.stopped && m_ended.isEmpty());
        askPlain(QStringLiteral("c")); // goes on as before, and is not stopped
        QVERIFY(idle());
        QCOMPARE(m_ended, QStringList{QStringLiteral("c")});
    }

    /// A result that asks for more work: it runs, until something else is asked for.
    void asksFromAResult()
    {
        Gate second;
        m_job.ask([&](Progress &) -> Job::Completion { return [&] { askGated(QStringLiteral("second"), second); }; });
        QVERIFY(QTest::qWaitFor([&] { return second.begun.try_acquire(); }, 30'000));
        QVERIFY(m_job.running());
        askPlain(QStringLiteral("third"));
        second.goesOn.release();
        QVERIFY(idle());
        QVERIFY(second.stopped);
        QCOMPARE(m_ended, QStringList{QStringLiteral("third")});
    }

    /// Work that found itself stopped may have no result.
    void withoutResult()
    {
        m_job.ask([](Progress &) -> Job::Completion { return {}; });
        QVERIFY(idle());
        QVERIFY(m_ended.isEmpty());
    }

    /// Stopped with its owner: no thread is left, and nothing is called.
    void endsWithItsOwner()
    {
        std::atomic<bool> left = false;
        bool called = false;
        {
            LatestJob job(QStringLiteral("short-lived"));
            std::binary_semaphore begun{0};
            job.ask([&](Progress &progress) -> Job::Completion {
                begun.release();
                while (!progress.stopped())
                    std::this_thread::sleep_for(std::chrono::microseconds(20));
                left = true;
                return [&] { called = true; };
            });
            QVERIFY(begun.try_acquire_for(std::chrono::seconds(30)));
        }
        QVERIFY(left);
        QCoreApplication::processEvents();
        QVERIFY(!called);
    }
};

QTEST_GUILESS_MAIN(TestLatestJob)
#include "tst_latest_job.moc"
