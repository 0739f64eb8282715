// SPDX-License-Identifier: Apache-2.0
// The critical path against all paths of small random programs, and on examples whose times the comments work out.
#include "engine/cluster/cluster.h"
#include "engine/simulate/critical_path.h"
#include "engine/simulate/simulate.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>

using namespace planloom;
using program::Lane;
using simulate::CriticalPath;
using testing::HandMade;
using trace::Kind;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

cluster::Cluster node(int devices)
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
    auto cluster = cluster::regular(spec);
    if (!cluster)
        qFatal("%s", cluster.error().text().c_str());
    return *std::move(cluster);
}

simulate::Simulation simulated(const program::Program &program)
{
    auto simulation = simulate::simulate(program, node(4), {.memory = false});
    if (!simulation)
        qFatal("%s", simulation.error().text().c_str());
    return *std::move(simulation);
}

CriticalPath pathOf(const simulate::Simulation &simulation, const simulate::PathOfSteps &steps = {})
{
    auto path = simulate::criticalPath(simulation.trace, simulation.causes, simulation.trace.records, steps);
    if (!path)
        qFatal("%s", path.error().text().c_str());
    return *std::move(path);
}

/// A few ranks; each task depends on some before it. Compute lanes have an order, others take what is ready. Some tasks
/// of two ranks start together.
program::Program randomProgram(std::mt19937 &random)
{
    const auto pick = [&random](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    const int ranks = pick(1, 3);
    HandMade hand(static_cast<std::size_t>(ranks));
    std::vector<std::vector<TaskId>> ofRank(static_cast<std::size_t>(ranks));
    const auto add = [&](int rank, Lane lane, Kind kind, double seconds) {
        auto &own = ofRank[static_cast<std::size_t>(rank)];
        const TaskId task = hand.add(rank, lane, kind, seconds, static_cast<std::int32_t>(own.size()));
        for (const TaskId before : own)
            if (pick(0, 3) == 0)
                hand.after(task, before);
        if (lane == Lane::Compute)
            hand.next(task);
        return task;
    };
    const int tasks = pick(1, 12);
    for (int t = 0; t < tasks; ++t) {
        const int rank = pick(0, ranks - 1);
        const double seconds = pick(0, 4);
        if (ranks > 1 && pick(0, 2) == 0) {
            const int other = (rank + 1) % ranks;
            const TaskId sent = add(rank, Lane::Send, Kind::Send, seconds);
            const TaskId received = add(other, Lane::Receive, Kind::Receive, seconds);
            hand.group({sent, received});
            ofRank[static_cast<std::size_t>(rank)].push_back(sent);
            ofRank[static_cast<std::size_t>(other)].push_back(received);
        } else {
            const bool computes = pick(0, 2) > 0;
            ofRank[static_cast<std::size_t>(rank)].push_back(
                computes ? add(rank, Lane::Compute, pick(0, 1) == 0 ? Kind::Forward : Kind::Backward, seconds)
                         : add(rank, Lane::Collective, Kind::AllReduce, seconds));
        }
    }
    return hand.made();
}

/// What may determine a start in a trace of one step: dependencies and the task before on the lane, of all that start
/// together.
class Before {
public:
    Before(const program::Program &program, const simulate::Simulation &simulation)
        : m_program(program),
          m_records(simulation.trace.records),
          m_recordOf(program.tasks.size())
    {
        for (std::size_t r = 0; r < m_records.size(); ++r)
            m_recordOf[static_cast<std::size_t>(m_records[r].task)] = r;
    }

    [[nodiscard]] std::vector<std::size_t> of(std::size_t record) const
    {
        std::vector<std::size_t> before;
        const program::Task &own = m_program.tasks[static_cast<std::size_t>(m_records[record].task)];
        std::vector<TaskId> unit{TaskId(m_records[record].task)};
        if (own.group.valid())
            unit.assign(m_program.membersOf(own.group).begin(), m_program.membersOf(own.group).end());
        for (const TaskId member : unit) {
            for (const program::Dependency &dependency : m_program.dependenciesOf(m_program.task(member)))
                before.push_back(m_recordOf[dependency.task.index()]);
            const std::size_t at = m_recordOf[member.index()];
            if (at > 0 && m_records[at - 1].rank == m_records[at].rank && m_records[at - 1].lane == m_records[at].lane)
                before.push_back(at - 1);
        }
        return before;
    }
    /// The longest of all ways that end with @p record, nanoseconds. Walks every one of them.
    [[nodiscard]] std::int64_t longest(std::size_t record) const
    {
        std::int64_t most = 0;
        for (const std::size_t each : of(record))
            most = std::max(most, longest(each));
        return most + m_records[record].duration;
    }

private:
    const program::Program &m_program;
    const std::vector<trace::Record> &m_records;
    std::vector<std::size_t> m_recordOf;
};

std::int64_t sumOf(const CriticalPath &path, const simulate::Simulation &simulation)
{
    std::int64_t sum = path.waits();
    for (const CriticalPath::Sum &each : path.sums(simulation.trace, simulation.trace.records))
        sum += each.nanoseconds;
    return sum;
}

} // namespace

class TestCriticalPath : public QObject {
    Q_OBJECT

private Q_SLOTS:
    /// It is as long as the longest of all chains of tasks, each of which waits for the one before.
    void isTheLongestWay()
    {
        std::mt19937 random(7);
        std::map<CriticalPath::Reason, int> reasons;
        for (int round = 0; round < 400; ++round) {
            const program::Program program = randomProgram(random);
            const simulate::Simulation simulation = simulated(program);
            const auto &records = simulation.trace.records;
            const Before before(program, simulation);
            std::int64_t longest = 0;
            for (std::size_t r = 0; r < records.size(); ++r)
                longest = std::max(longest, before.longest(r));
            const CriticalPath path = pathOf(simulation);
            QCOMPARE(path.window.end - path.window.begin, longest);
            QCOMPARE(path.waits(), 0);
            QCOMPARE(sumOf(path, simulation), longest);
            for (std::size_t i = 0; i < path.pieces.size(); ++i) {
                const CriticalPath::Piece &piece = path.pieces[i];
                QCOMPARE(piece.begin, records[piece.record].start);
                QCOMPARE(piece.end, records[piece.record].start + records[piece.record].duration);
                QCOMPARE(piece.begin, i == 0 ? path.window.begin : path.pieces[i - 1].end);
                ++reasons[piece.reason];
                if (i > 0) {
                    const auto causes = before.of(piece.record);
                    QVERIFY(std::ranges::count(causes, path.pieces[i - 1].record) > 0);
                }
            }
        }
        QVERIFY(reasons[CriticalPath::Reason::Dependency] > 100 && reasons[CriticalPath::Reason::Lane] > 100);
    }

    void effectsAreTheCausesTurnedRound()
    {
        std::mt19937 random(3);
        for (int round = 0; round < 50; ++round) {
            const program::Program program = randomProgram(random);
            const simulate::Causes causes(program);
            QCOMPARE(causes.tasks(), program.tasks.size());
            std::size_t edges = 0;
            for (std::int32_t task = 0; task < static_cast<std::int32_t>(program.tasks.size()); ++task) {
                const auto effects = causes.effectsOf(std::array{task});
                for (const auto &effect : effects) {
                    QCOMPARE(effect.cause, task);
                    const auto back = causes.of(effect.task);
                    QVERIFY(std::ranges::count(back, simulate::Causes::Link{task, 0}) > 0);
                }
                edges += effects.size();
                const program::Task &own = program.tasks[static_cast<std::size_t>(task)];
                QCOMPARE(causes.members(own.group.value).size(),
                         own.group.valid() ? program.membersOf(own.group).size() : 0);
            }
            QCOMPARE(edges, program.dependencies.size());
        }
    }

    /// Forward 3, its send 2 beside the receive of rank 1, which then computes 4: 3 + 2 + 4. What rank 1 computes first
    /// is over after 1.
    void goesOverTransfers()
    {
        HandMade hand(2);
        const TaskId forward = hand.add(0, Lane::Compute, Kind::Forward, 3, 0);
        const TaskId send = hand.add(0, Lane::Send, Kind::Send, 2, 0);
        const TaskId first = hand.add(1, Lane::Compute, Kind::Forward, 1, 1, 1);
        const TaskId receive = hand.add(1, Lane::Receive, Kind::Receive, 2, 0, 1);
        const TaskId second = hand.add(1, Lane::Compute, Kind::Forward, 4, 0, 1);
        hand.next(forward);
        hand.next(first);
        hand.next(second);
        hand.after(send, forward);
        hand.after(second, receive);
        hand.group({send, receive});
        const simulate::Simulation simulation = simulated(hand.made());
        const CriticalPath path = pathOf(simulation);
        std::vector<std::int32_t> tasks;
        for (const auto &piece : path.pieces)
            tasks.push_back(simulation.trace.records[piece.record].task);
        QCOMPARE(tasks, (std::vector{forward.value, receive.value, second.value}));
        const auto sums = path.sums(simulation.trace, simulation.trace.records);
        QCOMPARE(sums.size(), std::size_t(2));
        QVERIFY(sums[0].kind == Kind::Forward && sums[0].nanoseconds == 7 * kSecond && sums[0].count == 2);
        QVERIFY(sums[1].kind == Kind::Receive && sums[1].nanoseconds == 2 * kSecond && sums[1].count == 1);
    }

    /// As measured: rank 1 is at its receive from 1 on, the send begins at 3.5 only, half a second after what it waits
    /// for; the transfer itself is [3.5, 5.5], and what follows begins 1 later.
    void waitsOfAMeasuredTrace()
    {
        HandMade hand(2);
        const TaskId forward = hand.add(0, Lane::Compute, Kind::Forward, 3, 0);
        const TaskId send = hand.add(0, Lane::Send, Kind::Send, 2, 0);
        const TaskId receive = hand.add(1, Lane::Receive, Kind::Receive, 2, 0, 1);
        const TaskId last = hand.add(1, Lane::Compute, Kind::Forward, 4, 0, 1);
        hand.next(forward);
        hand.next(last);
        hand.after(send, forward);
        hand.after(last, receive);
        hand.group({send, receive});
        simulate::Simulation simulation = simulated(hand.made());
        auto &records = simulation.trace.records;
        for (trace::Record &record : records) {
            if (record.task == send.value)
                record.start = 7 * kSecond / 2;
            if (record.task == receive.value) {
                record.start = kSecond;
                record.duration = 9 * kSecond / 2;
            }
            if (record.task == last.value)
                record.start = 13 * kSecond / 2;
        }
        const CriticalPath path = pathOf(simulation);
        QCOMPARE(path.pieces.size(), std::size_t(3));
        QCOMPARE(path.pieces[1].begin, 7 * kSecond / 2);
        QCOMPARE(path.pieces[1].end, 11 * kSecond / 2);
        QCOMPARE(path.pieces[1].wait, kSecond / 2);
        QCOMPARE(path.pieces[2].wait, kSecond);
        QCOMPARE(path.waits(), 3 * kSecond / 2);
        QCOMPARE(sumOf(path, simulation), 21 * kSecond / 2);

        // Rank 0 begins the next step at 7, while rank 1 is still in this one.
        trace::Record next = records.front();
        next.step = 1;
        next.start = 7 * kSecond;
        records.insert(records.begin() + 1, next);
        QCOMPARE(pathOf(simulation).window.end, 21 * kSecond / 2);
        const CriticalPath shorter = pathOf(simulation, {0, 1, true, false});
        QCOMPARE(shorter.window.end, 7 * kSecond);
        QCOMPARE(shorter.pieces.size(), std::size_t(1)); // its lane's predecessor, which ended at 3
        QCOMPARE(shorter.waitAtEnd, 4 * kSecond);
        QCOMPARE(sumOf(shorter, simulation), 7 * kSecond);
    }

    /// A step computes 2; what it sends takes 5, stays open, and is waited for two steps later: the lane of the
    /// collectives is never idle, a step takes 5.
    void whatStaysOpenDeterminesAPeriod()
    {
        HandMade hand(1);
        const TaskId compute = hand.add(0, Lane::Compute, Kind::Forward, 2, 0);
        const TaskId reduce = hand.add(0, Lane::Collective, Kind::AllReduce, 5);
        hand.next(compute);
        hand.after(reduce, compute);
        hand.after(compute, reduce, 2);
        hand.runs(reduce, {1, 0, 0, program::Cadence::kEndless, true});
        hand.repeats(1, 2);
        const simulate::Simulation simulation = simulated(hand.made());
        QCOMPARE(simulation.report.iterationSeconds, 5.);
        const CriticalPath path = pathOf(simulation, {0, 1, true, true});
        QCOMPARE(path.window.end - path.window.begin, 5 * kSecond);
        QCOMPARE(sumOf(path, simulation), 5 * kSecond);
        QCOMPARE(path.waits(), 0);
        const auto sums = path.sums(simulation.trace, simulation.trace.records);
        QVERIFY(sums[0].kind == Kind::AllReduce);
        QVERIFY(std::ranges::any_of(path.pieces, &CriticalPath::Piece::earlier));
    }

    /// Two tasks a link of the chain, each on another lane.
    void aLongPathIsWhole()
    {
        constexpr int kLinks = 50'000;
        HandMade hand(1);
        TaskId before;
        for (int link = 0; link < kLinks; ++link) {
            const TaskId compute = hand.add(0, Lane::Compute, Kind::Forward, 1e-6, link);
            const TaskId send = hand.add(0, Lane::Send, Kind::Send, 1e-6, link);
            hand.next(compute);
            if (link > 0)
                hand.after(compute, before);
            hand.after(send, compute);
            before = send;
        }
        const simulate::Simulation simulation = simulated(hand.made());
        const CriticalPath path = pathOf(simulation);
        QCOMPARE(path.pieces.size(), std::size_t(2 * kLinks));
        QCOMPARE(sumOf(path, simulation), path.window.end - path.window.begin);
    }

    void withoutCausesOrRecords()
    {
        HandMade hand(1);
        hand.next(hand.add(0, Lane::Compute, Kind::Forward, 1));
        const simulate::Simulation simulation = simulated(hand.made());
        const auto &records = simulation.trace.records;
        const auto unknown = simulate::criticalPath(simulation.trace, {}, records, {});
        QVERIFY(!unknown && unknown.error().code == ErrorCode::NotFound);
        const auto other = simulate::criticalPath(simulation.trace, simulation.causes, records, {5, 1});
        QVERIFY(!other && other.error().text().find("step 5") != std::string::npos);
    }
};

QTEST_APPLESS_MAIN(TestCriticalPath)
#include "tst_critical_path.moc"
