// SPDX-License-Identifier: Apache-2.0
// The cost clock on Programs of a few tasks, made by hand; the comments work the expected times out.
#include "engine/cluster/cluster.h"
#include "engine/compile/bounds.h"
#include "engine/compile/compile.h"
#include "engine/import/model/profile_graph.h"
#include "engine/simulate/clock.h"
#include "engine/simulate/simulate.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <set>

using namespace planloom;
using program::Lane;
using testing::HandMade;
using trace::Kind;

namespace {

/// "2..5": start and end of each task, by its number.
class Times final : public simulate::Listener {
public:
    explicit Times(std::size_t tasks) : m_start(tasks, -1), m_end(tasks, -1) {}
    void started(TaskId task, double seconds) override { m_start[task.index()] = seconds; }
    void ended(TaskId task, double seconds) override { m_end[task.index()] = seconds; }
    [[nodiscard]] QString of(TaskId task) const
    {
        return QString("%1..%2").arg(m_start[task.index()]).arg(m_end[task.index()]);
    }

    [[nodiscard]] double endOf(TaskId task) const { return m_end[task.index()]; }

private:
    std::vector<double> m_start;
    std::vector<double> m_end;
};

Times timesOf(const program::Program &program)
{
    Times times(program.tasks.size());
    const auto seconds = simulate::CostClock(program).run(&times);
    if (!seconds)
        qFatal("%s", seconds.error().text().c_str());
    return times;
}

/// @p devices in one node, 1 GB/s without latency between any two.
cluster::Cluster node(int devices, bool fullDuplex, bool twoLevel = false)
{
    cluster::RegularCluster spec;
    spec.name = "node";
    spec.perNode = devices;
    spec.type.name = "device";
    spec.type.peakFlops = {{"float32", 1e12}};
    spec.type.memory = Bytes(1 << 30);
    spec.type.memoryBandwidth = 1e12;
    spec.intraBandwidth = 1e9;
    spec.interPointToPoint = 1e9;
    spec.interCollective = 1e9;
    spec.intraLatency = Seconds(0);
    spec.fullDuplex = fullDuplex;
    spec.twoLevelRules = twoLevel;
    auto cluster = cluster::regular(spec);
    if (!cluster)
        qFatal("%s", cluster.error().text().c_str());
    return *std::move(cluster);
}

} // namespace

class TestClock : public QObject {
    Q_OBJECT

private slots:
    /// One lane runs one task at a time. Of two that are ready together the one that its rank lists first goes first.
    void oneTaskALane()
    {
        HandMade hand(1);
        const TaskId a = hand.add(0, Lane::Send, Kind::Send, 2);
        const TaskId b = hand.add(0, Lane::Send, Kind::Send, 3);
        const TaskId other = hand.add(0, Lane::Receive, Kind::Receive, 4);
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(a), "0..2");
        QCOMPARE(times.of(b), "2..5");
        QCOMPARE(times.of(other), "0..4"); // another lane does not wait
    }

    /// Of two ranks on one core each computes at half speed until the first ends: 2 of b's 3 seconds are left then.
    /// What they send is not slowed down, nor is a rank beside them.
    void ranksShareACore()
    {
        HandMade hand(3);
        const TaskId a = hand.add(0, Lane::Compute, Kind::Forward, 1);
        const TaskId b = hand.add(1, Lane::Compute, Kind::Forward, 3);
        const TaskId sent = hand.add(1, Lane::Send, Kind::Send, 1);
        const TaskId beside = hand.add(2, Lane::Compute, Kind::Forward, 3);
        const TaskId late = hand.add(0, Lane::Compute, Kind::Backward, 1);
        const TaskId wait = hand.add(0, Lane::Send, Kind::Send, 3);
        hand.next(a);
        hand.next(late);
        hand.after(late, wait);
        program::Program program = hand.made();
        program.ranks[0].core = program.ranks[1].core = 0;
        const Times times = timesOf(program);
        QCOMPARE(times.of(a), "0..2");
        QCOMPARE(times.of(sent), "0..1");
        QCOMPARE(times.of(beside), "0..3");
        QCOMPARE(times.of(late), "3..5"); // beside b, which has 1 second left at 3, as late has
        QCOMPARE(times.of(b), "0..5");
    }

    /// A collective that needs a part of the core is given it, up to an even share: two ranks that compute beside it
    /// have what it leaves. In all the core works for as long as all of them need it.
    void collectivesTakeTimeOfACore()
    {
        struct Expected {
            std::int64_t bytes; // a rank sends in the collective of 4 seconds, at a second of the core each
            double computing;
            const char *collective;
            const char *computed;
            double weight = 1;
            double delay = 0;
        };
        // Needs of 1/4 leave 1/4 to each that computes, and needs of 1/2 are more than an even share: the collective
        // goes on at half its speed until nothing computes any more.
        // Needs that are together longer than the collective are so only while something computes: a quarter of its
        // speed for 4 seconds leaves 3. A weight of 3 leaves 1/8 to each that computes, and 3/8 to each need of the
        // collective, of which 1 of 4 seconds is left after 8. With a delay of 4 seconds it goes on at half its speed
        // while its members compute.
        for (const auto &[bytes, computing, collective, computed, weight, delay] : {Expected{1, 6, "0..4", "0..14"},
                                                                                    {2, 1, "0..6", "0..4"},
                                                                                    {4, 1, "0..7", "0..4"},
                                                                                    {0, 1, "0..4", "0..2"},
                                                                                    {4, 0, "0..4", "0..0"},
                                                                                    {4, 1, "0..9", "0..8", 3},
                                                                                    {1, 6, "0..4", "0..14", 3},
                                                                                    {1, 1, "0..6", "0..4", 1, 4}}) {
            HandMade hand(3);
            std::vector<TaskId> members, passes;
            for (int rank = 0; rank < 3; ++rank) {
                program::Exchange sum;
                sum.bytes = bytes;
                members.push_back(hand.add(rank, Lane::Collective, sum, 4));
                passes.push_back(hand.add(rank, Lane::Compute, Kind::Forward, computing));
                hand.next(passes.back());
            }
            hand.group(members);
            program::Program program = hand.made();
            program.ranks[0].core = program.ranks[1].core = 0; // the third has one for itself
            program.communicationOnCores = {1, weight, Seconds(delay)};
            const Times times = timesOf(program);
            const double end = std::max(times.endOf(members.front()), times.endOf(passes.front()));
            QVERIFY(compile::lowerBound(program).value() <= end);
            QCOMPARE(times.of(members.front()), QString(collective));
            QCOMPARE(times.of(passes[0]), QString(computed));
            QCOMPARE(times.of(passes[1]), QString(computed));
            QCOMPARE(times.of(passes[2]), QString("0..%1").arg(computing));
        }
    }

    /// Two collectives need 1/4 and 3/4 of a core, and something computes for 0.75 seconds beside them: the smaller
    /// need is met, the others get 3/8 each. From 2 on the larger one goes on at its own speed with 3 seconds left,
    /// until at 4 a third needs 1/2: it leaves the larger one 1/2 for its last second, 1.5 seconds then.
    void collectivesShareACore()
    {
        HandMade hand(4);
        const TaskId computes = hand.add(0, Lane::Compute, Kind::Forward, 0.75);
        hand.next(computes);
        const auto collective = [&](std::int32_t here, std::int32_t there, std::int64_t bytes, double seconds) {
            program::Exchange sum;
            sum.bytes = bytes;
            const TaskId member = hand.add(here, Lane::Collective, sum, seconds);
            hand.group({member, hand.add(there, Lane::Collective, sum, seconds)});
            return member;
        };
        const TaskId small = collective(0, 2, 1, 4);
        const TaskId large = collective(1, 3, 3, 4);
        const TaskId third = collective(0, 2, 1, 2);
        hand.after(third, small);
        program::Program program = hand.made();
        program.ranks[0].core = program.ranks[1].core = 0;
        program.communicationOnCores.secondsPerByte = 1;
        const Times times = timesOf(program);
        QCOMPARE(times.of(computes), "0..2");
        QCOMPARE(times.of(small), "0..4");
        QCOMPARE(times.of(large), "0..5.5");
        QCOMPARE(times.of(third), "4..6");
        QVERIFY(compile::lowerBound(program).value() <= 6);
    }

    /// Members of one collective need 1/4 of one core and 3/4 of another; beside each a rank computes. The second core
    /// has 1/2 for it, so that it takes 1.5 times as long until that one ends at 3; the first core's quarter stays its
    /// own.
    void theScarcestCoreDecides()
    {
        HandMade hand(4);
        std::vector<TaskId> members;
        for (const std::int32_t rank : {0, 1}) {
            program::Exchange sum;
            sum.bytes = rank == 0 ? 1 : 3;
            members.push_back(hand.add(rank, Lane::Collective, sum, 4));
        }
        hand.group(members);
        const TaskId first = hand.add(2, Lane::Compute, Kind::Forward, 3);
        const TaskId second = hand.add(3, Lane::Compute, Kind::Forward, 1.5);
        hand.next(first);
        hand.next(second);
        program::Program program = hand.made();
        for (std::size_t rank = 0; rank < 4; ++rank)
            program.ranks[rank].core = static_cast<std::int32_t>(rank % 2);
        program.communicationOnCores.secondsPerByte = 1;
        const Times times = timesOf(program);
        QCOMPARE(times.of(first), "0..4");
        QCOMPARE(times.of(second), "0..3");
        QCOMPARE(times.of(members[0]), "0..5");
        QCOMPARE(times.of(members[1]), "0..5");
    }

    /// The longer waiting task goes first, wherever its rank lists it.
    void firstReadyFirst()
    {
        HandMade hand(1);
        const TaskId long1 = hand.add(0, Lane::Compute, Kind::Forward, 1, 0);
        const TaskId long2 = hand.add(0, Lane::Compute, Kind::Forward, 1, 1);
        const TaskId busy = hand.add(0, Lane::Send, Kind::Send, 4);
        const TaskId readyAt2 = hand.add(0, Lane::Send, Kind::Send, 1, 1);
        const TaskId readyAt1 = hand.add(0, Lane::Send, Kind::Send, 1, 0);
        hand.next(long1);
        hand.next(long2);
        hand.after(readyAt2, long2);
        hand.after(readyAt1, long1);
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(busy), "0..4");
        QCOMPARE(times.of(readyAt1), "4..5");
        QCOMPARE(times.of(readyAt2), "5..6");
    }

    /// Of what becomes ready at the same moment the earlier stage goes first, whatever the rank lists first.
    void tiesGoToTheEarlierStage()
    {
        HandMade hand(1);
        const TaskId second = hand.add(0, Lane::Send, Kind::Send, 1, 0, 1);
        const TaskId first = hand.add(0, Lane::Send, Kind::Send, 1, 0, 0);
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(first), "0..1");
        QCOMPARE(times.of(second), "1..2");
    }

    /// Two tasks of different lanes end at 2. Tasks made ready by either compete as if
    /// they had become ready in one event: the one listed first goes first, though its cause ended second.
    void whatEndsTogetherEndsBeforeAnythingStarts()
    {
        HandMade hand(1);
        const TaskId left = hand.add(0, Lane::Receive, Kind::Receive, 2, 0);
        const TaskId right = hand.add(0, Lane::Collective, Kind::AllReduce, 2, 0);
        const TaskId listedFirst = hand.add(0, Lane::Send, Kind::Send, 1, 1);
        const TaskId listedSecond = hand.add(0, Lane::Send, Kind::Send, 1, 0);
        hand.after(listedSecond, left);
        hand.after(listedFirst, right);
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(listedFirst), "2..3");
        QCOMPARE(times.of(listedSecond), "3..4");
    }

    /// The compute lane keeps the rank's order: m1 is ready at 0, but the order says m0 first, which waits until 3.
    void computeKeepsItsOrder()
    {
        HandMade hand(1);
        const TaskId m1 = hand.add(0, Lane::Compute, Kind::Forward, 1, 1);
        const TaskId m0 = hand.add(0, Lane::Compute, Kind::Forward, 1, 0);
        const TaskId input = hand.add(0, Lane::Receive, Kind::Receive, 3, 0);
        hand.next(m0);
        hand.next(m1);
        hand.after(m0, input);
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(m0), "3..4");
        QCOMPARE(times.of(m1), "4..5");
    }

    /// A group starts when its last member is ready: rank 0's part at 1, rank 1's at 3. It takes as long as its longest
    /// member says.
    void groupWaitsForTheLastMember()
    {
        HandMade hand(2);
        const TaskId early = hand.add(0, Lane::Compute, Kind::Backward, 1, 0);
        const TaskId late = hand.add(1, Lane::Compute, Kind::Backward, 3, 0);
        const TaskId here = hand.add(0, Lane::Collective, Kind::AllReduce, 2);
        const TaskId there = hand.add(1, Lane::Collective, Kind::AllReduce, 4);
        const TaskId next = hand.add(0, Lane::Compute, Kind::Optimizer, 1);
        hand.next(early);
        hand.next(next);
        hand.next(late);
        hand.after(here, early);
        hand.after(there, late);
        hand.after(next, here);
        hand.group({here, there});
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(here), "3..7");
        QCOMPARE(times.of(there), "3..7");
        QCOMPARE(times.of(next), "7..8");
    }

    /// A group starts when all its lanes are free at one moment, and reserves none of them while it waits. Ready at 0,
    /// it finds rank 1's lane busy until 5. Rank 0's lane is free, so what becomes ready there at 1 takes it until 11.
    void groupReservesNoLane()
    {
        HandMade hand(2);
        const TaskId there = hand.add(1, Lane::Collective, Kind::AllReduce, 5, 0);
        const TaskId compute = hand.add(0, Lane::Compute, Kind::Forward, 1, 0);
        const TaskId groupHere = hand.add(0, Lane::Collective, Kind::AllReduce, 2);
        const TaskId groupThere = hand.add(1, Lane::Collective, Kind::AllReduce, 2);
        const TaskId between = hand.add(0, Lane::Collective, Kind::AllReduce, 10, 1);
        hand.next(compute);
        hand.after(between, compute);
        hand.group({groupHere, groupThere});
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(there), "0..5");
        QCOMPARE(times.of(between), "1..11");
        QCOMPARE(times.of(groupHere), "11..13");
        QCOMPARE(times.of(groupThere), "11..13");
    }

    /// Two transfers that share a receiver: 0 -> 2 is listed by the lower rank, but at the same place in its rank as
    /// 1 -> 2 in its own; then the earlier group goes first. The other one starts when the receiver's lane is free.
    void groupsShareALane()
    {
        HandMade hand(3);
        const TaskId send0 = hand.add(0, Lane::Send, Kind::Send, 2, 0);
        const TaskId send1 = hand.add(1, Lane::Send, Kind::Send, 3, 0);
        const TaskId receive0 = hand.add(2, Lane::Receive, Kind::Receive, 2, 0, 1);
        const TaskId receive1 = hand.add(2, Lane::Receive, Kind::Receive, 3, 0, 1);
        hand.group({send0, receive0});
        hand.group({send1, receive1});
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(send0), "0..2");
        QCOMPARE(times.of(receive1), "2..5");
        QCOMPARE(times.of(send1), "2..5");
    }

    /// A task of no time ends at the moment that it starts, and what waits for it starts then, too.
    void noTime()
    {
        HandMade hand(1);
        const TaskId first = hand.add(0, Lane::Compute, Kind::Forward, 2, 0);
        const TaskId nothing = hand.add(0, Lane::Send, Kind::Send, 0, 0);
        const TaskId last = hand.add(0, Lane::Collective, Kind::AllReduce, 1, 0);
        hand.next(first);
        hand.after(nothing, first);
        hand.after(last, nothing);
        const Times times = timesOf(hand.made());
        QCOMPARE(times.of(nothing), "2..2");
        QCOMPARE(times.of(last), "2..3");
    }

    void waitingForEver()
    {
        HandMade hand(1);
        const TaskId a = hand.add(0, Lane::Send, Kind::Send, 1, 3);
        const TaskId b = hand.add(0, Lane::Receive, Kind::Receive, 1, 4);
        hand.after(a, b);
        hand.after(b, a);
        const auto seconds = simulate::iterationSeconds(hand.made());
        QVERIFY(!seconds);
        QCOMPARE(seconds.error().code, ErrorCode::BadInput);
        const QString message = QString::fromStdString(seconds.error().message);
        QVERIFY2(message.contains("s0.SF.m3") && message.contains("s0.RF.m4"), qPrintable(message));
    }

    /// Rank 0: compute 0..4 and 8..10; sends 4..6, a collective 5..8 (after 1 s on the host at 4): any communication
    /// 4..8. Rank 1: only the other end of the transfer, 4..6, and of the collective. Of 10 s rank 0 computes 0.6 and
    /// communicates 0.4 (the second 5..6 counts once; the host lane counts as neither), rank 1 computes 0; so the
    /// bubble is 1 - (0.6 + 0) / 2 = 0.7.
    /// A report below its own bound is a defect, whatever made it so.
    void boundsAreChecked()
    {
        simulate::Report report;
        report.iterationSeconds = report.lowerBoundSeconds = 2;
        QVERIFY(simulate::boundDefect(report).empty());
        report.lowerBoundSeconds = 2.001;
        QVERIFY(simulate::boundDefect(report).find("2.001 s") != std::string::npos);
    }

    void sharesOfTheIteration()
    {
        HandMade hand(2);
        const TaskId forward = hand.add(0, Lane::Compute, Kind::Forward, 4, 0);
        const TaskId send = hand.add(0, Lane::Send, Kind::Send, 2, 0);
        const TaskId host = hand.add(0, Lane::Host, Kind::Load, 1, 0);
        const TaskId reduce = hand.add(0, Lane::Collective, Kind::AllReduce, 3);
        const TaskId update = hand.add(0, Lane::Compute, Kind::Optimizer, 2);
        const TaskId receive = hand.add(1, Lane::Receive, Kind::Receive, 2, 0);
        const TaskId other = hand.add(1, Lane::Collective, Kind::AllReduce, 3);
        hand.next(forward);
        hand.next(update);
        hand.after(send, forward);
        hand.after(host, forward);
        hand.after(reduce, host);
        hand.after(update, reduce);
        hand.group({send, receive});
        hand.group({reduce, other});
        program::Program program = hand.made();
        program.globalBatch = 5;
        program.lowerBound = Seconds(6);
        program.oneDevice = Seconds(20);
        const auto simulation = simulate::simulate(program, node(2, true));
        QVERIFY(simulation);
        const simulate::Report &report = simulation->report;
        QCOMPARE(report.iterationSeconds, 10.);
        QCOMPARE(report.samplesPerSecond, 0.5);
        QCOMPARE(report.lowerBoundSeconds, 6.);
        QCOMPARE(report.speedupOverOneDevice, 2.);
        QCOMPARE(report.devices[0].busyFraction, 0.6);
        QCOMPARE(report.devices[0].commFraction, 0.4);
        QCOMPARE(report.devices[1].busyFraction, 0.);
        QCOMPARE(report.devices[1].commFraction, 0.4);
        QCOMPARE(report.bubbleFraction, 0.7);
        QCOMPARE(simulation->trace.records.size(), std::size_t(7));
    }

    /// Three stages of 1 s forward and 2 s backward, 0.5 GB over links of 1 GB/s between them (0.5 s a transfer of an
    /// activation or of its gradient), 2 micro-batches. Which lane a transfer takes at each end follows from what the
    /// cluster's links can do at the same time.
    void lanesOfTransfers_data()
    {
        QTest::addColumn<bool>("fullDuplex");
        QTest::addColumn<bool>("twoLevel");
        QTest::addColumn<QString>("lanes"); // of the middle stage: RF, SF, RB, SB
        QTest::newRow("full duplex") << true << false << "receive send receive send";
        QTest::newRow("half duplex") << false << false << "send send send send";
        QTest::newRow("half duplex, two-level rules") << false << true << "receive send send receive";
    }
    void lanesOfTransfers()
    {
        QFETCH(bool, fullDuplex);
        QFETCH(bool, twoLevel);
        QFETCH(QString, lanes);
        std::vector<import::ProfileLayerSpec> layers;
        for (std::size_t i = 0; i < 3; ++i)
            layers.push_back({"layer_" + std::to_string(i), 1000, 2000, 0.5e9, 4,
                              i > 0 ? std::vector<std::size_t>{i - 1} : std::vector<std::size_t>{}});
        const auto model = import::profileModel("three", 1, layers);
        QVERIFY(model);
        const plan::Subject about =
            plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(node(3, fullDuplex, twoLevel)),
                              model->profile, "three");
        plan::Plan plan;
        plan.globalBatch = 2;
        plan.microBatches = 2;
        for (std::size_t s = 0; s < 3; ++s) {
            plan::Stage &stage = plan.stages.emplace_back();
            stage.firstLayer = s;
            stage.lastLayer = s + 1;
            stage.devices = {DeviceId(static_cast<std::int64_t>(s))};
        }
        const auto program = compile::compilePlan(plan, about, {.bodies = false});
        QVERIFY2(program.ok(), program.ok() ? "" : program.error().text().c_str());
        std::map<std::string, std::set<std::string>> used;
        for (const program::Task &task : program->tasks) {
            const std::string id = program::idOf(task);
            const bool transfer = task.kind() == Kind::Send || task.kind() == Kind::Receive;
            if (transfer)
                QCOMPARE(task.duration.value(), 0.5);
            if (transfer && task.stage == StageId(1))
                used[id.substr(3, 2)].insert(task.lane == Lane::Send          ? "send"
                                                 : task.lane == Lane::Receive ? "receive"
                                                                              : "other");
        }
        QString found;
        for (const char *way : {"RF", "SF", "RB", "SB"})
            for (const std::string &lane : used[way])
                found += (found.isEmpty() ? "" : " ") + QString::fromStdString(lane);
        QCOMPARE(found, lanes);
    }

    /// A stage that receives an activation while it sends a gradient: 2 s each, both ready at 0. Full duplex, the lanes
    /// differ and the stage's backward starts at 2; half duplex, they take turns on one lane.
    void halfDuplexTakesTurns()
    {
        for (const bool fullDuplex : {true, false}) {
            HandMade hand(1);
            const TaskId gradient = hand.add(0, Lane::Send, Kind::Send, 2, 0);
            const TaskId activation = hand.add(0, fullDuplex ? Lane::Receive : Lane::Send, Kind::Receive, 2, 1);
            const TaskId forward = hand.add(0, Lane::Compute, Kind::Forward, 1, 1);
            hand.next(forward);
            hand.after(forward, activation);
            const Times times = timesOf(hand.made());
            QCOMPARE(times.of(gradient), "0..2");
            QCOMPARE(times.of(activation), fullDuplex ? "0..2" : "2..4");
            QCOMPARE(times.of(forward), fullDuplex ? "2..3" : "4..5");
        }
    }
};

QTEST_GUILESS_MAIN(TestClock)
#include "tst_clock.moc"
