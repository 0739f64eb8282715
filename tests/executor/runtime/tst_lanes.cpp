// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/simulate/clock.h"
#include "engine/simulate/simulate.h"
#include "executor/runtime/timed_communicator.h"
#include "executor/runtime/tiny_training.h"

#include <QTest>

#include <algorithm>
#include <limits>
#include <map>

using namespace planloom;
using namespace planloom::test;

namespace {

constexpr int kStages = 4;
constexpr std::int64_t kMicroBatches = 8;

/// CPU devices whose links are slow, and shared by both directions unless @p fullDuplex.
std::shared_ptr<const cluster::Cluster> slowLinks(bool fullDuplex)
{
    cluster::RegularCluster spec;
    spec.name = "slow";
    spec.perNode = kStages;
    spec.type.name = "CPU";
    spec.type.peakFlops = {{"float32", 1e11}};
    spec.type.memory = Bytes(std::int64_t{8} << 30);
    spec.type.memoryBandwidth = 2e10;
    spec.intraBandwidth = 1e7;
    spec.interPointToPoint = 1e7;
    spec.interCollective = 1e7;
    spec.fullDuplex = fullDuplex;
    auto made = cluster::regular(spec);
    return made ? std::make_shared<const cluster::Cluster>(*std::move(made)) : nullptr;
}

using Lane = std::pair<std::int32_t, std::int32_t>; ///< step, lane

std::map<Lane, std::vector<trace::Record>> byLane(std::vector<trace::Record> records)
{
    std::stable_sort(records.begin(), records.end(),
                     [](const trace::Record &a, const trace::Record &b) { return a.start < b.start; });
    std::map<Lane, std::vector<trace::Record>> lanes;
    for (const trace::Record &record : records)
        lanes[{record.step, record.lane}].push_back(record);
    return lanes;
}

/// The mistake in one rank's records; empty: none.
std::string problemOf(const program::Program &program, RankId rank, const std::vector<trace::Record> &records)
{
    const auto orders = simulate::laneOrders(program, rank);
    if (!orders)
        return orders.error().text();
    std::map<std::pair<std::int32_t, std::int32_t>, const trace::Record *> done; // by step and task
    for (const trace::Record &record : records)
        done[{record.step, record.task}] = &record;
    for (const trace::Record &record : records)
        for (const program::Dependency &before : program.dependenciesOf(program.task(TaskId(record.task))))
            if (const trace::Record *other = done.at({record.step, before.task.value});
                record.start < other->start + other->duration)
                return program::idOf(program.task(TaskId(record.task))) + " starts before its dependency has ended";
    for (const auto &[lane, sorted] : byLane(records)) {
        const auto &order = (*orders)[static_cast<std::size_t>(lane.second)];
        if (order.size() != sorted.size())
            return "a lane ran " + std::to_string(sorted.size()) + " tasks of " + std::to_string(order.size());
        for (std::size_t i = 0; i < sorted.size(); ++i) {
            if (i > 0 && sorted[i].start < sorted[i - 1].start + sorted[i - 1].duration)
                return "lane " + std::to_string(lane.second) + " runs two tasks at once";
            if (sorted[i].task != order[i].value)
                return "lane " + std::to_string(lane.second) + " leaves the order of the cost clock";
        }
    }
    return {};
}

/// The mismatch of a rank's records of communication and its communicator's calls; empty: none.
/// Times of records count from an origin that the ranks agree on. Some origin must put every start between the return
/// of the communicator's call before and the task's own call, and every end between the test() that found it done and
/// the communicator's next call.
std::string problemOf(const std::vector<trace::Record> &records, std::vector<TimedCommunicator::Call> calls)
{
    std::vector<trace::Record> communication;
    for (const trace::Record &record : records)
        if (record.lane != static_cast<std::int32_t>(program::Lane::Compute))
            communication.push_back(record);
    std::stable_sort(communication.begin(), communication.end(),
                     [](const trace::Record &a, const trace::Record &b) { return a.start < b.start; });
    if (calls.size() < communication.size())
        return std::to_string(communication.size()) + " tasks made " + std::to_string(calls.size()) + " calls";
    calls.erase(calls.begin(),
                calls.end() - static_cast<std::ptrdiff_t>(communication.size())); // before the first step
    std::int64_t earliest = std::numeric_limits<std::int64_t>::min();             // of the origin
    std::int64_t latest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].done < 0)
            return "call " + std::to_string(i) + " was never seen done";
        const std::int64_t start = communication[i].start;
        const std::int64_t end = start + communication[i].duration;
        earliest = std::max({earliest, calls[i].before - start, calls[i].done - end});
        latest = std::min({latest, calls[i].begin - start, calls[i].after - end});
    }
    return earliest <= latest
        ? ""
        : "a record's times are " + std::to_string(earliest - latest) + " ns off those of its call";
}

} // namespace

/// The executor's lanes: one task at a time, in the order that the cost clock found, with the starts as they were.
class TestLanes : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { QVERIFY(!m_text.path().empty()); }

    void lanesObeyTheCostClock_data()
    {
        QTest::addColumn<bool>("fullDuplex");
        QTest::addColumn<QString>("policy");
        for (const bool fullDuplex : {true, false})
            for (const char *policy : {"", "urgent-sends"})
                QTest::addRow("%s, %s", fullDuplex ? "full duplex" : "half duplex", *policy ? policy : "fifo")
                    << fullDuplex << QString(policy);
    }
    void lanesObeyTheCostClock()
    {
        QFETCH(bool, fullDuplex);
        QFETCH(QString, policy);
        const plan::Subject subject = tinySubject(tinyConfig(4, 2), slowLinks(fullDuplex));
        QVERIFY(subject.graph && subject.cluster);
        const Outcome outcome =
            trainOn(m_text.path(), subject, planOf(subject, policy), {.steps = 3}, 0,
                    [](const program::Program &program, Outcome &made) {
                        for (std::size_t r = 0; r < program.ranks.size(); ++r)
                            if (made.problem.empty())
                                made.problem =
                                    problemOf(program, RankId(static_cast<std::int64_t>(r)), made.records[r]);
                    });
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        QCOMPARE(outcome.losses.size(), std::size_t{3});
    }

    void startsAreThoseOfTheCommunicator_data() { lanesObeyTheCostClock_data(); }
    void startsAreThoseOfTheCommunicator()
    {
        QFETCH(bool, fullDuplex);
        QFETCH(QString, policy);
        const plan::Subject subject = tinySubject(tinyConfig(4, 2), slowLinks(fullDuplex));
        std::vector<std::vector<TimedCommunicator::Call>> calls(kStages);
        Training how{.steps = 3};
        how.around = [&](std::size_t rank, comm::Communicator &inner) {
            return std::make_unique<TimedCommunicator>(inner, calls[rank]);
        };
        const Outcome outcome = trainOn(m_text.path(), subject, planOf(subject, policy), how);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        for (std::size_t rank = 0; rank < kStages; ++rank) {
            QVERIFY(!calls[rank].empty());
            const std::string problem = problemOf(outcome.records[rank], calls[rank]);
            QVERIFY2(problem.empty(), (std::to_string(rank) + ": " + problem).c_str());
        }
        // The check finds starts and ends that were moved, either way.
        constexpr std::int64_t kSecond = 1'000'000'000;
        const std::pair<std::int64_t, std::int64_t> moves[] = {
            {kSecond, kSecond}, {-kSecond, -kSecond}, {-kSecond, 0}, {0, kSecond}};
        for (const auto &[start, end] : moves) {
            std::vector<trace::Record> moved = outcome.records[1];
            const auto found = std::find_if(moved.begin(), moved.end(), [](const trace::Record &record) {
                return record.lane != static_cast<std::int32_t>(program::Lane::Compute);
            });
            QVERIFY(found != moved.end());
            found->start += start;
            found->duration += end - start;
            QVERIFY(!problemOf(moved, calls[1]).empty());
        }
    }

    void aPolicyReordersTransfersInBothClocks()
    {
        // On links that both directions share, transfers wait for each other and the policy has a choice.
        const plan::Subject subject = tinySubject(tinyConfig(4, 2), slowLinks(false));
        const auto fifo = compile::compilePlan(planOf(subject, ""), subject);
        const auto urgent = compile::compilePlan(planOf(subject, "urgent-sends"), subject);
        QVERIFY(fifo.ok() && urgent.ok());
        bool differ = false;
        for (int rank = 0; rank < kStages; ++rank) {
            const auto a = simulate::laneOrders(*fifo, RankId(rank));
            const auto b = simulate::laneOrders(*urgent, RankId(rank));
            QVERIFY(a.ok() && b.ok());
            differ = differ || *a != *b;
        }
        QVERIFY(differ); // and lanesObeyTheCostClock shows that the executor follows
    }

    void policiesLeaveLossesAlone()
    {
        const plan::Subject subject = tinySubject(tinyConfig(4, 2), slowLinks(false));
        const Outcome fifo = trainOn(m_text.path(), subject, planOf(subject, ""), {.steps = 3});
        const Outcome urgent = trainOn(m_text.path(), subject, planOf(subject, "urgent-sends"), {.steps = 3});
        QVERIFY2(fifo.problem.empty() && urgent.problem.empty(), (fifo.problem + urgent.problem).c_str());
        QVERIFY(fifo.losses == urgent.losses);
    }

private:
    static plan::Plan planOf(const plan::Subject &subject, const QString &policy)
    {
        Layout layout;
        layout.stages.assign(kStages, {});
        layout.globalBatch = 2 * kMicroBatches;
        layout.microBatches = kMicroBatches;
        plan::Plan plan = test::planOf(subject, layout);
        plan.schedule.lanePolicy = policy.toStdString();
        return plan;
    }

    TextFile m_text{{"to be or ", "not to be ", "that is "}};
};

QTEST_APPLESS_MAIN(TestLanes)
#include "tst_lanes.moc"
