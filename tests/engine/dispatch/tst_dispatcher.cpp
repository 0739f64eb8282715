// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/dispatcher.h"
#include "engine/simulate/clock.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <map>

using namespace planloom;
using dispatch::Dispatcher;
using program::Lane;

namespace {

/// Tasks of rank 0 and 1 with what they wait for.
struct HandMade {
    testing::HandMade hand{2};

    TaskId add(int rank, Lane lane, double seconds, const std::vector<TaskId> &after = {},
               const program::Payload &payload = program::Compute{})
    {
        const TaskId id = hand.add(rank, lane, payload, seconds, m_next++, rank);
        for (const TaskId before : after)
            hand.after(id, before);
        if (lane == Lane::Compute)
            hand.next(id);
        return id;
    }

private:
    std::int32_t m_next = 0;
};

class Starts final : public simulate::Listener {
public:
    void started(TaskId task, double seconds) override { at[task.value] = seconds; }
    void ended(TaskId /*task*/, double /*seconds*/) override {}
    std::map<std::int32_t, double> at;
};

std::vector<int> readyOf(Dispatcher &dispatcher, double now)
{
    std::vector<int> tasks;
    while (const auto unit = dispatcher.next(now))
        for (const TaskId task : dispatcher.members(*unit))
            tasks.push_back(task.value);
    return tasks;
}

program::Payload activations() { return program::Transfer{program::Pass::Forward, true}; }
program::Payload gradients() { return program::Transfer{program::Pass::Backward, true}; }

} // namespace

class TestDispatcher : public QObject {
    Q_OBJECT

private slots:
    void aLaneRunsOneTaskAtATime()
    {
        HandMade made;
        made.add(0, Lane::Send, 1);
        made.add(0, Lane::Send, 1);
        made.add(0, Lane::Receive, 1);
        const program::Program program = made.hand.made();
        Dispatcher dispatcher(program, **dispatch::findLanePolicy(""));
        dispatcher.begin(0);
        QCOMPARE(readyOf(dispatcher, 0), (std::vector<int>{0, 2}));
        dispatcher.ended(2, 1);
        QCOMPARE(readyOf(dispatcher, 1), std::vector<int>{}); // the send lane is still taken
        dispatcher.ended(0, 2);
        QCOMPARE(readyOf(dispatcher, 2), std::vector<int>{1});
        QVERIFY(!dispatcher.done());
        dispatcher.ended(1, 3);
        QVERIFY(dispatcher.done());
    }

    void aPeriodBeginsAfresh()
    {
        HandMade made;
        const TaskId first = made.add(0, Lane::Compute, 1);
        made.add(0, Lane::Send, 1, {first});
        const program::Program program = made.hand.made();
        Dispatcher dispatcher(program, **dispatch::findLanePolicy(""));
        for (int period = 0; period < 3; ++period) {
            dispatcher.begin(period);
            QCOMPARE(readyOf(dispatcher, period), std::vector<int>{0});
            dispatcher.ended(0, period);
            QCOMPARE(readyOf(dispatcher, period), std::vector<int>{1});
            dispatcher.ended(1, period);
            QVERIFY(dispatcher.done());
        }
    }

    void whatReachesBackToAnEarlierPeriodIsMet()
    {
        HandMade made;
        const TaskId last = made.add(0, Lane::Host, 1);
        const TaskId next = made.add(0, Lane::Compute, 1);
        program::Program program = made.hand.made();
        program.dependencies.push_back({last, 1});
        program.tasks[next.index()].dependencies = {0, 1};
        Dispatcher dispatcher(program, **dispatch::findLanePolicy(""));
        dispatcher.begin(0);
        QCOMPARE(readyOf(dispatcher, 0), (std::vector<int>{0, 1}));
    }

    void aGroupStartsWithItsLastMember()
    {
        // Rank 1 computes for 3 s before its end of the transfer: both ends start at 3 s.
        HandMade made;
        const TaskId sent = made.add(0, Lane::Send, 2, {made.add(0, Lane::Compute, 1)});
        const TaskId received = made.add(1, Lane::Receive, 2, {made.add(1, Lane::Compute, 3)});
        made.hand.group({sent, received});
        const program::Program program = made.hand.made();
        Starts starts;
        const auto seconds = simulate::CostClock(program).run(&starts);
        QVERIFY(seconds.ok());
        QCOMPARE(*seconds, 5.0);
        QCOMPARE(starts.at[sent.value], 3.0);
        QCOMPARE(starts.at[received.value], 3.0);
    }

    /// A send lane that is taken until 4 s. Activations are ready at 2 s, gradients at 1 s: first come, first served
    /// takes the gradients (3 s old); urgent-sends the activations (2 s old, twice: 4).
    void policiesChooseWhoGoesFirst_data()
    {
        QTest::addColumn<QString>("policy");
        QTest::addColumn<double>("activationsAt");
        QTest::addColumn<double>("gradientsAt");
        QTest::newRow("none") << QString() << 5.0 << 4.0;
        QTest::newRow("fifo") << QStringLiteral("fifo") << 5.0 << 4.0;
        QTest::newRow("urgent-sends") << QStringLiteral("urgent-sends") << 4.0 << 5.0;
    }
    void policiesChooseWhoGoesFirst()
    {
        QFETCH(QString, policy);
        QFETCH(double, activationsAt);
        QFETCH(double, gradientsAt);
        HandMade made;
        made.add(0, Lane::Send, 4);
        const TaskId one = made.add(0, Lane::Compute, 1);
        const TaskId two = made.add(0, Lane::Compute, 1, {one});
        const TaskId forward = made.add(0, Lane::Send, 1, {two}, activations());
        const TaskId backward = made.add(0, Lane::Send, 1, {one}, gradients());
        program::Program program = made.hand.made();
        program.lanePolicy = policy.toStdString();
        Starts starts;
        QVERIFY(simulate::CostClock(program).run(&starts).ok());
        QCOMPARE(starts.at[forward.value], activationsAt);
        QCOMPARE(starts.at[backward.value], gradientsAt);

        // An executor obeys the order that the cost clock found, whatever becomes ready first there.
        const auto orders = simulate::laneOrders(program, RankId(0));
        QVERIFY(orders.ok());
        Dispatcher rank(program, **dispatch::findLanePolicy(policy.toStdString()), RankId(0), *orders);
        rank.begin(0);
        const TaskId firstOfBoth = activationsAt < gradientsAt ? forward : backward;
        std::vector<int> sends;
        for (double now = 1; !rank.done(); ++now) {
            const std::vector<int> started = readyOf(rank, now);
            for (const int task : started)
                if (program.task(TaskId(task)).lane == Lane::Send)
                    sends.push_back(task);
            QVERIFY(!started.empty());
            for (const int task : started)
                rank.ended(task, now);
        }
        QCOMPARE(sends.size(), std::size_t{3});
        QCOMPARE(sends[1], firstOfBoth.value);
    }

    void anUnknownPolicyIsNamed()
    {
        HandMade made;
        made.add(0, Lane::Compute, 1);
        program::Program program = made.hand.made();
        program.lanePolicy = "lifo";
        const auto seconds = simulate::CostClock(program).run(nullptr);
        QVERIFY(!seconds.ok());
        QVERIFY2(seconds.error().message.find("'lifo'") != std::string::npos
                     && seconds.error().message.find("fifo, urgent-sends") != std::string::npos,
                 seconds.error().message.c_str());
    }

    void tasksThatWaitForEachOtherAreNamed()
    {
        HandMade made;
        const TaskId a = made.add(0, Lane::Send, 1, {TaskId(1)});
        made.add(0, Lane::Receive, 1, {a});
        const program::Program program = made.hand.made();
        const auto seconds = simulate::CostClock(program).run(nullptr);
        QVERIFY(!seconds.ok());
        QVERIFY(seconds.error().message.find("wait for each other") != std::string::npos);
    }
};

QTEST_APPLESS_MAIN(TestDispatcher)
#include "tst_dispatcher.moc"
