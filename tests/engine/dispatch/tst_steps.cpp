// SPDX-License-Identifier: Apache-2.0
// Programs that span steps: tasks that do not run in every one, and communication that stays open from one to a later
// one. The expected times are worked out in comments, or by a recurrence that knows nothing of tasks.
#include "engine/dispatch/dispatcher.h"
#include "engine/simulate/clock.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <cmath>
#include <map>
#include <random>
#include <set>

using namespace planloom;
using dispatch::Dispatcher;
using dispatch::Steps;
using program::Cadence;
using program::Lane;
using testing::HandMade;

namespace {

/// Local steps with a delayed average (resources/docs: DaSGD): each step computes for `step` seconds; every `rounds`
/// steps an average of `average` seconds begins, and is waited for `delay` steps later.
struct Delayed {
    double step = 10;
    double average = 25;
    std::int32_t rounds = 4;
    std::int32_t delay = 2;

    /// The tasks of every rank: step, snapshot, average, merge.
    struct OfRank {
        TaskId step, snapshot, average, merge;
    };

    [[nodiscard]] program::Program made(std::size_t ranks, std::vector<OfRank> *tasks = nullptr) const
    {
        HandMade hand(ranks);
        std::vector<TaskId> averages;
        const std::int32_t last = rounds - 1;
        for (std::size_t r = 0; r < ranks; ++r) {
            const auto rank = static_cast<std::int32_t>(r);
            OfRank t;
            t.step = hand.add(rank, Lane::Compute, program::Compute{}, step, 0);
            t.merge = hand.add(rank, Lane::Compute, program::Update{}, 0);
            t.snapshot = hand.add(rank, Lane::Compute, program::Update{}, 0);
            t.average = hand.add(rank, Lane::Collective, program::Exchange{}, average);
            hand.next(t.step);
            if (delay > 0)
                hand.next(t.merge);
            hand.next(t.snapshot);
            if (delay == 0)
                hand.next(t.merge);
            hand.after(t.average, t.snapshot);
            hand.after(t.merge, t.average, delay);
            hand.runs(t.snapshot, {rounds, last, 0, Cadence::kEndless, false});
            hand.runs(t.average, {rounds, last, 0, Cadence::kEndless, delay > 0});
            hand.runs(t.merge, {rounds, (last + delay) % rounds, last + delay, Cadence::kEndless, false});
            averages.push_back(t.average);
            if (tasks != nullptr)
                tasks->push_back(t);
        }
        hand.group(averages);
        hand.repeats(rounds, delay, (last + delay + rounds) / rounds * rounds);
        return hand.made();
    }
};

constexpr int kSlowSteps = 8000; ///< of a run with slow ones among them

double secondsOf(const program::Program &program)
{
    const auto seconds = simulate::CostClock(program).run(nullptr);
    if (!seconds)
        qFatal("%s", seconds.error().text().c_str());
    return *seconds;
}

/// "3:10..20" per start, in time order.
class Starts final : public simulate::Listener {
public:
    void inStep(std::int64_t step) override { m_step = step; }
    void started(TaskId task, double seconds) override { m_open[task.value] = {m_step, seconds}; }
    void ended(TaskId task, double seconds) override
    {
        const auto [step, start] = m_open.at(task.value);
        of[task.value] << QString("%1:%2..%3").arg(step).arg(start).arg(seconds);
    }
    std::map<std::int32_t, QStringList> of;

private:
    std::int64_t m_step = -1;
    std::map<std::int32_t, std::pair<std::int64_t, double>> m_open;
};

/// Runs what is ready until nothing is, each task taking no time; the starts as "step/task".
QStringList runAll(Dispatcher &dispatcher)
{
    QStringList started;
    std::vector<Dispatcher::Unit> running;
    for (bool moved = true; moved;) {
        moved = false;
        while (const auto unit = dispatcher.next(0)) {
            running.push_back(*unit);
            for (const TaskId task : dispatcher.members(*unit))
                started << QString("%1/%2").arg(dispatcher.stepOf(*unit)).arg(task.value);
        }
        if (!running.empty()) {
            dispatcher.ended(running.front(), 0);
            running.erase(running.begin());
            moved = true;
        }
    }
    return started;
}

} // namespace

class TestSteps : public QObject {
    Q_OBJECT

private slots:
    /// Seconds of a round for (step, average, local steps, delay); the table of the method's authors' formula
    /// step + max(0, average - delay * step) / local steps, with delay 0: step + average / local steps.
    void rounds_data()
    {
        QTest::addColumn<double>("average");
        QTest::addColumn<int>("rounds");
        QTest::addColumn<int>("delay");
        QTest::addColumn<double>("seconds");
        const double table[][5] = {{65, 55, 45, 40, 40}, {95, 85, 75, 65, 55}};
        for (int d = 0; d <= 4; ++d) {
            QTest::addRow("25, 4, %d", d) << 25.0 << 4 << d << table[0][d];
            QTest::addRow("55, 4, %d", d) << 55.0 << 4 << d << table[1][d];
        }
        QTest::newRow("25, 1, 1") << 25.0 << 1 << 1 << 25.0;
        QTest::newRow("55, 8, 5") << 55.0 << 8 << 5 << 85.0;
        QTest::newRow("55, 8, 6") << 55.0 << 8 << 6 << 80.0;
    }
    void rounds()
    {
        QFETCH(double, average);
        QFETCH(int, rounds);
        QFETCH(int, delay);
        QFETCH(double, seconds);
        for (const std::size_t ranks : {1, 2, 5})
            QCOMPARE(secondsOf(Delayed{10, average, rounds, delay}.made(ranks)), seconds);
    }

    /// Of an average, with rounds of 4 steps of 10 s: 0, 0.4, 0.8, then all.
    void hiddenShares()
    {
        const double shares[] = {0, .4, .8, 1, 1};
        for (int d = 0; d <= 4; ++d) {
            const double hidden = 1 - (secondsOf(Delayed{10, 25, 4, d}.made(2)) - 40) / 25;
            QVERIFY2(std::abs(hidden - shares[d]) < 1e-12, qPrintable(QString::number(hidden)));
        }
    }

    /// The least delay with which rounds take as long as their steps, for averages over rings of 16 ranks.
    void leastDelays_data()
    {
        QTest::addColumn<double>("bytes");
        QTest::addColumn<double>("gigabits");
        QTest::addColumn<double>("average");    // milliseconds
        QTest::addColumn<QList<int>>("delays"); // of steps of 30, 60 and 120 ms
        QTest::newRow("ResNet-50, 10 Gb/s") << 102'228'128.0 << 10.0 << 153.492 << QList<int>{6, 3, 2};
        QTest::newRow("ResNet-50, 25 Gb/s") << 102'228'128.0 << 25.0 << 61.487 << QList<int>{3, 2, 1};
        QTest::newRow("VGG-19, 10 Gb/s") << 574'668'960.0 << 10.0 << 862.153 << QList<int>{29, 15, 8};
        QTest::newRow("VGG-19, 100 Gb/s") << 574'668'960.0 << 100.0 << 86.350 << QList<int>{3, 2, 1};
    }
    void leastDelays()
    {
        QFETCH(double, bytes);
        QFETCH(double, gigabits);
        QFETCH(double, average);
        QFETCH(QList<int>, delays);
        const double milliseconds = 2 * 15 * (5e-6 + bytes / (16 * gigabits * 1e9 / 8)) * 1e3;
        QVERIFY2(std::abs(milliseconds - average) < 5e-4, qPrintable(QString::number(milliseconds, 'f', 3)));
        for (int i = 0; i < 3; ++i) {
            const double step = 30 << i;
            constexpr std::int32_t kRounds = 32;
            std::int32_t delay = 0;
            while (delay < kRounds
                   && secondsOf(Delayed{step, milliseconds, kRounds, delay}.made(1)) > kRounds * step * (1 + 1e-9))
                ++delay;
            QCOMPARE(delay, delays[i]);
        }
    }

    /// Eight ranks of which each step takes 3 instead of 1 with a probability of 5 %, averages of 0.5: seconds of a
    /// step within 3 % of those that another program's random numbers gave.
    void slowStepsAreEvenedOut_data()
    {
        QTest::addColumn<int>("localSteps");
        QTest::addColumn<int>("delay");
        QTest::addColumn<double>("average");
        QTest::addColumn<double>("seconds");
        QTest::newRow("synchronous") << 1 << 0 << 0.5 << 2.187;
        QTest::newRow("local") << 4 << 0 << 0.5 << 1.605;
        QTest::newRow("delay 1") << 4 << 1 << 0.5 << 1.367;
        QTest::newRow("delay 2") << 4 << 2 << 0.5 << 1.246;
        QTest::newRow("delay 4") << 4 << 4 << 0.5 << 1.174;
        QTest::newRow("no exchange") << kSlowSteps + 1 << 0 << 0.5 << 1.113; // the run ends before a round does
    }
    void slowStepsAreEvenedOut()
    {
        QFETCH(int, localSteps);
        QFETCH(int, delay);
        QFETCH(double, average);
        QFETCH(double, seconds);
        std::vector<Delayed::OfRank> tasks;
        program::Program program = Delayed{1, average, localSteps, delay}.made(8, &tasks);
        if (localSteps > kSlowSteps)
            program.openSteps = kSlowSteps; // ranks run ahead as far as they come
        std::set<TaskId> steps;
        for (const Delayed::OfRank &t : tasks)
            steps.insert(t.step);
        Dispatcher dispatcher(program, **dispatch::findLanePolicy(""), Steps::Many);
        std::mt19937 random(11);
        std::set<std::pair<double, Dispatcher::Unit>> running; // by their end
        double now = 0;
        const auto start = [&] {
            while (const auto unit = dispatcher.next(now)) {
                const TaskId task = dispatcher.members(*unit).front();
                const bool slow = steps.contains(task) && random() % 20 == 0;
                running.emplace(now + (slow ? 3 : program.task(task).duration.value()), *unit);
            }
        };
        dispatcher.begin(0, 0, kSlowSteps);
        for (start(); !running.empty(); start()) {
            now = running.begin()->first;
            while (!running.empty() && running.begin()->first == now) {
                const Dispatcher::Unit unit = running.begin()->second;
                running.erase(running.begin());
                dispatcher.ended(unit, now);
            }
        }
        QVERIFY(dispatcher.done());
        const double each = now / kSlowSteps;
        QVERIFY2(std::abs(each / seconds - 1) < 0.03, qPrintable(QString::number(each)));
    }

    /// On a lane with an order what stays open starts behind tasks of the next step; if that is not entered any more,
    /// it waits for these no longer.
    void ordersReachIntoTheNextStep()
    {
        HandMade hand(1);
        const TaskId step = hand.add(0, Lane::Compute, program::Compute{}, 4, 0);
        const TaskId rows = hand.add(0, Lane::Collective, program::Exchange{}, 1);
        const TaskId sum = hand.add(0, Lane::Collective, program::Exchange{}, 3);
        hand.next(step);
        hand.after(sum, step);
        hand.runs(sum, {1, 0, 0, Cadence::kEndless, true});
        hand.after(step, sum, 2);
        hand.repeats(1, 2);
        program::Program program = hand.made();
        program.lanePolicy = "priority"; // rows of the next step before sums of this one
        program.tasks[rows.index()].priority = 1;
        program.tasks[sum.index()].priority = 2;
        auto orders = simulate::laneOrders(program, RankId(0));
        QVERIFY(orders.ok());
        constexpr auto kCollective = static_cast<std::size_t>(Lane::Collective);
        QCOMPARE((*orders)[kCollective], (std::vector<TaskId>{rows, sum}));
        QCOMPARE(orders->stepsBack[kCollective], (std::vector<std::int32_t>{0, 1}));
        Dispatcher rank(program, **dispatch::findLanePolicy("priority"), RankId(0), *orders, Steps::Many);
        rank.begin(0, 0, 2);
        QCOMPARE(runAll(rank), (QStringList{"0/0", "0/1", "1/0", "1/1", "0/2"})); // not 1/2: rows of step 2 come first
        QVERIFY(!rank.done());
        rank.close();
        QCOMPARE(runAll(rank), QStringList{"1/2"});
        QVERIFY(rank.done());
        rank.begin(0, 5, 6); // and from another step on
        QCOMPARE(runAll(rank), (QStringList{"5/0", "5/1"}));
        rank.close();
        QCOMPARE(runAll(rank), QStringList{"5/2"});
        QVERIFY(rank.done());
    }

    /// One period is heard of, from its first start on, with what it leaves open up to its end, and what begins of the
    /// next one meanwhile.
    void listenersHearOneSteadyPeriod()
    {
        std::vector<Delayed::OfRank> tasks;
        const program::Program program = Delayed{10, 55, 4, 2}.made(2, &tasks);
        Starts starts;
        QCOMPARE(*simulate::CostClock(program).run(&starts), 75.0);
        for (const Delayed::OfRank &t : tasks) {
            // The average of the round before was begun 35 s before the third step could merge it: two steps of 10 s
            // were computed meanwhile, and 35 s are waited for.
            QCOMPARE(starts.of[t.step.value],
                     (QStringList{"0:0..10", "1:10..20", "2:55..65", "3:65..75", "4:75..85", "5:85..95"}));
            QCOMPARE(starts.of[t.merge.value], QStringList{"1:55..55"});
            QCOMPARE(starts.of[t.snapshot.value], QStringList{"3:75..75"});
            QCOMPARE(starts.of[t.average.value], QStringList{"3:75..130"});
        }
    }

    /// In steps from 0, local steps 4, delay 2: averages begin in steps 3, 7, 11, merges end steps 5, 9, 13. Of 40
    /// steps 10 averages and 9 merges: the tenth average is the drain, which ends with the run.
    void tasksRunInTheirSteps()
    {
        const program::Program program = Delayed{1, 1, 4, 2}.made(1);
        Dispatcher dispatcher(program, **dispatch::findLanePolicy(""), Steps::Many);
        dispatcher.begin(0, 0, 40);
        const QStringList started = runAll(dispatcher);
        QVERIFY(dispatcher.done());
        QCOMPARE(dispatcher.stepsPassed(), 40);
        std::map<QString, QStringList> steps; // by task
        for (const QString &start : started)
            steps[start.section('/', 1)] << start.section('/', 0, 0);
        QCOMPARE(steps["0"].size(), 40);
        QCOMPARE(steps["1"], (QStringList{"5", "9", "13", "17", "21", "25", "29", "33", "37"}));
        QCOMPARE(steps["2"], (QStringList{"3", "7", "11", "15", "19", "23", "27", "31", "35", "39"}));
        QCOMPARE(steps["3"], steps["2"]);
        QCOMPARE(steps["3"].size(), 10);
        QCOMPARE(steps["1"].size(), 9);
        QCOMPARE(started.indexOf("39/3"), started.size() - 1); // behind all merges, and done() waits for it
    }

    /// One rank on its own goes from step to step as it is admitted, and waits for what must not stay open longer.
    void aRankEntersStepsAsTheyAreAdmitted()
    {
        const program::Program program = Delayed{1, 1, 2, 1}.made(2);
        dispatch::LaneOrders orders;
        for (const TaskId task : program.ranks[0].computeOrder())
            orders[0].push_back(task);
        orders[static_cast<std::size_t>(Lane::Collective)] = {TaskId(3)};
        Dispatcher dispatcher(program, **dispatch::findLanePolicy(""), RankId(0), orders, Steps::Many);
        const auto take = [&](double now) {
            QStringList names;
            std::vector<Dispatcher::Unit> units;
            while (const auto unit = dispatcher.next(now)) {
                names << QString("%1/%2").arg(dispatcher.stepOf(*unit)).arg(dispatcher.members(*unit).front().value);
                units.push_back(*unit);
            }
            return std::pair(names, units);
        };
        dispatcher.begin(0, 0, 1);
        auto [names, units] = take(0);
        QCOMPARE(names, QStringList{"0/0"});
        dispatcher.ended(units[0], 1);
        QCOMPARE(take(1).first, QStringList()); // step 1 is not admitted
        QVERIFY(dispatcher.done());
        dispatcher.admit(2, 1);
        QVERIFY(!dispatcher.done());
        std::tie(names, units) = take(1);
        QCOMPARE(names, QStringList{"1/0"});
        dispatcher.ended(units[0], 2);
        std::tie(names, units) = take(2);
        QCOMPARE(names, QStringList{"1/2"}); // no merge in step 1: it is the first round
        dispatcher.ended(units[0], 2);
        std::tie(names, units) = take(2);
        QCOMPARE(names, QStringList{"1/3"});
        const Dispatcher::Unit average = units[0];
        QCOMPARE(dispatcher.stepsPassed(), 2);
        QVERIFY(!dispatcher.done()); // the average is open
        dispatcher.admit(4, 2);
        std::tie(names, units) = take(2);
        QCOMPARE(names, QStringList{"2/0"});
        dispatcher.ended(units[0], 3);
        QCOMPARE(take(3).first, QStringList()); // the merge of step 2 waits for the average
        QCOMPARE(dispatcher.stepsPassed(), 2);
        dispatcher.ended(average, 4);
        std::tie(names, units) = take(4);
        QCOMPARE(names, QStringList{"2/1"});
        QVERIFY(dispatcher.allEnded(2));
    }

    /// Against a recurrence: replicas with steps of different lengths, any local steps and delay. A round's average
    /// starts when the slowest has its snapshot and no earlier average is under way.
    void randomRoundsAgainstARecurrence()
    {
        std::mt19937 random(7);
        for (int trial = 0; trial < 300; ++trial) {
            const auto pick = [&](int least, int most) {
                return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
            };
            Delayed how;
            how.rounds = pick(1, 6);
            how.delay = pick(0, how.rounds);
            how.average = pick(0, 60);
            const auto ranks = static_cast<std::size_t>(pick(1, 4));
            std::vector<Delayed::OfRank> tasks;
            program::Program program = how.made(ranks, &tasks);
            std::vector<double> step;
            for (const Delayed::OfRank &t : tasks) {
                step.push_back(pick(1, 12));
                program.tasks[t.step.index()].duration = Seconds(step.back());
            }
            constexpr int kRounds = 60;
            std::vector<double> now(ranks, 0), averageEnds;
            double before = 0;
            for (int k = 0; k < kRounds * how.rounds; ++k) {
                const bool merges = how.delay > 0 && (k + 1 - how.delay) > 0 && (k + 1 - how.delay) % how.rounds == 0;
                for (std::size_t r = 0; r < ranks; ++r) {
                    now[r] += step[r];
                    if (merges)
                        now[r] = std::max(now[r],
                                          averageEnds[static_cast<std::size_t>((k + 1 - how.delay) / how.rounds) - 1]);
                }
                if ((k + 1) % how.rounds != 0)
                    continue;
                const double last = averageEnds.empty() ? 0 : averageEnds.back();
                averageEnds.push_back(std::max(*std::max_element(now.begin(), now.end()), last) + how.average);
                if (how.delay == 0)
                    now.assign(ranks, averageEnds.back());
                if (k + 1 == (kRounds - 1) * how.rounds)
                    before = *std::max_element(now.begin(), now.end());
            }
            const double period = *std::max_element(now.begin(), now.end()) - before;
            const double found = secondsOf(program);
            QVERIFY2(qAbs(found - period) < 1e-9 * period,
                     qPrintable(QString("trial %1: %2, expected %3").arg(trial).arg(found).arg(period)));
        }
    }

    /// A lane that has an order passes by tasks that do not run, and their dependents do not wait for them.
    void lanesPassByWhatDoesNotRun()
    {
        HandMade hand(1);
        const TaskId a = hand.add(0, Lane::Compute, program::Compute{}, 1, 0);
        const TaskId slow = hand.add(0, Lane::Send, program::Transfer{}, 100, 0);
        const TaskId sometimes = hand.add(0, Lane::Compute, program::Compute{}, 5, 1);
        const TaskId c = hand.add(0, Lane::Compute, program::Compute{}, 2, 2);
        for (const TaskId task : {a, sometimes, c})
            hand.next(task);
        hand.after(sometimes, slow); // 100 s, only in steps in which both run
        hand.after(c, sometimes);
        hand.runs(sometimes, {3, 1, 0, Cadence::kEndless, false});
        hand.runs(slow, {3, 1, 0, Cadence::kEndless, false});
        hand.repeats(3, 0);
        const program::Program program = hand.made();
        // Steps of 1 + 2, of 100 + 5 + 2 (the slow one starts with the step), of 1 + 2.
        QCOMPARE(secondsOf(program), 3.0 + 107.0 + 3.0);
        // Once through, all run.
        QCOMPARE(*simulate::CostClock(program).runOnce(nullptr), 107.0);
    }

    void anOrderThatCannotRunIsNamed()
    {
        HandMade hand(1);
        const TaskId a = hand.add(0, Lane::Compute, program::Compute{}, 1, 0);
        const TaskId b = hand.add(0, Lane::Compute, program::Compute{}, 1, 1);
        hand.next(a);
        hand.next(b);
        hand.after(a, b);
        hand.runs(b, {2, 1, 0, Cadence::kEndless, false});
        hand.repeats(2, 0);
        const program::Program program = hand.made();
        const auto seconds = simulate::CostClock(program).run(nullptr);
        QVERIFY(!seconds);
        QVERIFY2(seconds.error().text().find("s0.F.m0") != std::string::npos, seconds.error().text().c_str());
    }
};

QTEST_GUILESS_MAIN(TestSteps)
#include "tst_steps.moc"
