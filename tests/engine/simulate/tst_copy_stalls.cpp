// SPDX-License-Identifier: Apache-2.0
// When compute lanes stand still for the copies of memory policies: by hand, and as the rest of what a device does.
#include "engine/simulate/copy_stalls.h"
#include "engine/simulate/simulate.h"
#include "tests/engine/compile/random_plans.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

using namespace planloom;
using program::Lane;
using program::Swap;
using simulate::CopyStall;
using trace::Kind;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

trace::Record record(TaskId task, Lane lane, std::int64_t start, std::int64_t end)
{
    return {start * kSecond,
            (end - start) * kSecond,
            static_cast<std::int32_t>(task.value),
            0,
            0,
            static_cast<std::int32_t>(lane)};
}

plan::Subject smallGpt()
{
    cluster::RegularCluster spec;
    spec.name = "one";
    spec.perNode = 1;
    spec.type = *cluster::knownDeviceType("V100-16GB");
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e10;
    return plan::makeSubject(testing::tinyGpt(true, 3),
                             std::make_shared<const cluster::Cluster>(*cluster::regular(spec)), nullptr, "test");
}

} // namespace

class TestCopyStalls : public QObject {
    Q_OBJECT

private slots:
    /// A: 0 to 2, its copy out until 5; B: 2 to 3, C waits for the copy until 5 and for R, which comes in until 4; D
    /// waits for R alone, until 9; E for nothing.
    void whatIsWaitedFor()
    {
        testing::HandMade hand(1);
        const TaskId a = hand.add(0, Lane::Compute, Kind::Forward, 2);
        const TaskId out = hand.add(0, Lane::CopyOut, Swap{true, 0, 0}, 3);
        const TaskId b = hand.add(0, Lane::Compute, Kind::Forward, 1);
        const TaskId received = hand.add(0, Lane::Receive, Kind::Receive, 4);
        const TaskId c = hand.add(0, Lane::Compute, Kind::Forward, 1);
        const TaskId later = hand.add(0, Lane::Receive, Kind::Receive, 5);
        const TaskId d = hand.add(0, Lane::Compute, Kind::Forward, 1);
        const TaskId e = hand.add(0, Lane::Compute, Kind::Forward, 1);
        hand.after(out, a);
        hand.after(c, out);
        hand.after(c, received);
        hand.after(d, later);
        hand.after(d, out);
        const program::Program program = hand.made();
        const std::vector<trace::Record> records{
            record(a, Lane::Compute, 0, 2),     record(b, Lane::Compute, 2, 3),   record(c, Lane::Compute, 5, 6),
            record(d, Lane::Compute, 9, 10),    record(e, Lane::Compute, 10, 11), record(received, Lane::Receive, 0, 4),
            record(later, Lane::Receive, 4, 9), record(out, Lane::CopyOut, 2, 5)};
        const std::vector<CopyStall> stalls = simulate::copyStalls(program, records);
        QCOMPARE(stalls.size(), std::size_t{1});
        QCOMPARE(stalls[0].begin, 4 * kSecond); // until then it would have waited for what it receives
        QCOMPARE(stalls[0].end, 5 * kSecond);
        QCOMPARE(stalls[0].copy, out);
    }

    /// On one device the compute lane works, or waits for copies.
    void workAndStallsAreTheWhole_data()
    {
        QTest::addColumn<QString>("policy");
        QTest::addColumn<bool>("stalls");
        QTest::newRow("slow link") << "lru,budget=50%,director=swap,bandwidth_out=1e8,bandwidth_in=1e8" << true;
        QTest::newRow("the other way") << "delta,budget=45%,director=swap,bandwidth_out=1e9,bandwidth_in=1e8" << true;
        QTest::newRow("no copies") << "delta,budget=60%,director=recompute" << false;
    }
    void workAndStallsAreTheWhole()
    {
        QFETCH(QString, policy);
        QFETCH(bool, stalls);
        const plan::Subject subject = smallGpt();
        plan::Plan plan = testing::planOf(subject, {{1, 1}}, 12, 3);
        plan.stages[0].memory = *plan::memoryFromText(policy.toStdString());
        const auto program = compile::compilePlan(plan, subject, {.bodies = false});
        QVERIFY2(program, program ? "" : program.error().text().c_str());
        const auto simulation = simulate::simulate(*program, *subject.cluster);
        QVERIFY(simulation);
        std::int64_t work = 0;
        std::int64_t end = 0;
        for (const trace::Record &each : simulation->trace.records) {
            if (each.lane != static_cast<std::int32_t>(Lane::Compute))
                continue;
            work += each.duration;
            end = std::max(end, each.start + each.duration);
        }
        std::int64_t waited = 0;
        for (const CopyStall &stall : simulate::copyStalls(*program, simulation->trace.records)) {
            QVERIFY(stall.end > stall.begin && program->task(stall.copy).as<Swap>() != nullptr);
            waited += stall.end - stall.begin;
        }
        QCOMPARE(waited > 0, stalls);
        QCOMPARE(work + waited, end);
    }
};

QTEST_GUILESS_MAIN(TestCopyStalls)
#include "tst_copy_stalls.moc"
