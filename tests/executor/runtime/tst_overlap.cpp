// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/simulate/simulate.h"
#include "executor/runtime/tiny_training.h"

#include <QTest>

#include <algorithm>
#include <map>
#include <set>

using namespace planloom;
using namespace planloom::test;

namespace {

/// Starts and ends of the tasks of one step, by id.
using Times = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;

Times timesOf(const program::Program &program, const std::vector<trace::Record> &records, std::int32_t step,
              std::int32_t rank)
{
    Times times;
    for (const trace::Record &record : records)
        if (record.step == step && record.rank == rank)
            times[program::idOf(program.task(TaskId(record.task)))] = {record.start, record.start + record.duration};
    return times;
}

/// True if one of the all-reduces of stage @p stage began before its last backward pass had ended.
bool overlaps(const Times &times, int stage)
{
    const std::string prefix = "s" + std::to_string(stage) + ".";
    std::int64_t firstExchange = std::numeric_limits<std::int64_t>::max();
    std::int64_t lastBackward = 0;
    for (const auto &[id, time] : times) {
        if (id.starts_with(prefix + "AR.b"))
            firstExchange = std::min(firstExchange, time.first);
        if (id.starts_with(prefix + "B.m") || id.starts_with(prefix + "W.m"))
            lastBackward = std::max(lastBackward, time.second);
    }
    return firstExchange < lastBackward;
}

} // namespace

/// Gradients of replicas are summed in buckets while the last backward pass still runs.
class TestOverlap : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        for (const bool tied : {false, true}) {
            m_subjects[tied] = tinySubject(tinyConfig(4, 2, tied), cpus(8));
            QVERIFY(m_subjects[tied].graph && m_subjects[tied].cluster);
        }
    }

    void bucketsLeaveEarly_data()
    {
        QTest::addColumn<Layout>("layout");
        QTest::addColumn<bool>("tied");
        const StageLayout one;
        const StageLayout two{{0.5, 0.5}};
        const StageLayout again{{0.5, 0.5}, plan::Recompute::Full};
        using plan::ScheduleKind;
        QTest::newRow("two replicas") << Layout{{two}, 8, 1, ScheduleKind::OneF1B, {}} << false;
        QTest::newRow("two replicas, three micro-batches") << Layout{{two}, 9, 3, ScheduleKind::OneF1B, {}} << true;
        QTest::newRow("unequal shares") << Layout{{StageLayout{{0.25, 0.75}}}, 8, 2, ScheduleKind::OneF1B, {}} << false;
        QTest::newRow("pipeline of replicas, tied") << Layout{{two, two}, 8, 4, ScheduleKind::OneF1B, {}} << true;
        QTest::newRow("pipeline, recompute") << Layout{{again, again}, 8, 2, ScheduleKind::GPipe, {}} << false;
        QTest::newRow("replicas and one") << Layout{{two, one}, 8, 2, ScheduleKind::OneF1B, {}} << false;
        QTest::newRow("zero bubble") << Layout{{two, two}, 8, 4, ScheduleKind::ZeroBubbleH1, {}} << false;
        QTest::newRow("interleaved") << Layout{{two, two, two, two}, 8, 4, ScheduleKind::Interleaved1F1B, {0, 1, 0, 1}}
                                     << true;
    }
    void bucketsLeaveEarly()
    {
        QFETCH(Layout, layout);
        QFETCH(bool, tied);
        const plan::Subject &subject = m_subjects[tied];
        plan::Plan plan = planOf(subject, layout);
        const Outcome whole = run(plan, subject, 0, !layout.places.empty());
        plan.bucketBytes = 1;
        const Outcome cut = run(plan, subject, 1, !layout.places.empty());
        // Two addends have one sum: the bits are the same.
        QVERIFY2(whole.problem.empty() && cut.problem.empty(), (whole.problem + cut.problem).c_str());
        QCOMPARE(cut.losses.size(), std::size_t(5));
        QCOMPARE(cut.losses, whole.losses);
    }

    void smallModelsHaveOneBucket()
    {
        const plan::Plan plan = planOf(m_subjects[false], {{StageLayout{{0.5, 0.5}}}});
        const auto program = compile::compilePlan(plan, m_subjects[false]);
        QVERIFY(program.ok());
        QCOMPARE(program->buckets.size(), std::size_t(1));
    }

    /// Parameters of different exchange groups share no bucket; the losses are the same to the bit.
    void exchangeGroupsShareNoBucket()
    {
        const plan::Subject &subject = m_subjects[false];
        plan::Plan plan = planOf(subject, {{StageLayout{{0.5, 0.5}}}});
        const Outcome whole = trainOn(m_text.path(), subject, plan);
        plan.exchange.groups = {{"*.mlp.*", plan::ExchangePolicy::AllReduce},
                                {"rank<2", plan::ExchangePolicy::AllReduce}};
        const Outcome cut =
            trainOn(m_text.path(), subject, plan, {}, 0, [&](const program::Program &program, Outcome &outcome) {
                std::map<std::string, std::size_t> groups;
                for (const graph::Tensor &tensor : subject.graph->tensors())
                    groups[tensor.name] = plan.exchange.groupOf(tensor.name, tensor.shape.dims().size());
                std::set<std::size_t> seen;
                for (const program::Bucket &bucket : program.buckets)
                    for (const program::Bucket::Entry &entry : bucket.entries)
                        if (seen.insert(groups[entry.parameter]);
                            groups[entry.parameter] != groups[bucket.entries.front().parameter])
                            outcome.problem = entry.parameter + " shares a bucket with another group";
                if (program.buckets.size() != 3 || seen != std::set<std::size_t>{0, 1, 2})
                    outcome.problem += "there are not three buckets, one for each group";
            });
        QVERIFY2(whole.problem.empty() && cut.problem.empty(), (whole.problem + cut.problem).c_str());
        QCOMPARE(cut.losses, whole.losses);
    }

private:
    /// Trains it; the bucket size is 0 (one bucket, nothing overlaps) or so small that every stage has several.
    Outcome run(plan::Plan plan, const plan::Subject &subject, std::int64_t bucketBytes, bool shared)
    {
        plan.bucketBytes = bucketBytes;
        return trainOn(m_text.path(), subject, plan, {}, 0, [&](const program::Program &program, Outcome &outcome) {
            checkOverlap(program, plan, *subject.cluster, shared, outcome);
        });
    }

    static void checkOverlap(const program::Program &program, const plan::Plan &plan, const cluster::Cluster &cluster,
                             bool shared, Outcome &outcome)
    {
        const auto simulation = simulate::simulate(program, cluster);
        if (!simulation) {
            outcome.problem = simulation.error().text();
            return;
        }
        // An exchange waits for the slowest replica, so that a fast one may be done with its pass before it begins: one
        // that overlaps is enough.
        std::map<std::int32_t, std::pair<bool, bool>> overlapping; // by stage: simulated, executed
        for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
            for (const BodyId b : program.ranks[rank].bodies) {
                const StageId stage = program.body(b).stage;
                if (plan.stages[stage.index()].devices.size() < 2)
                    continue;
                const auto number = static_cast<std::int32_t>(rank);
                auto &[simulated, executed] = overlapping[stage.value];
                simulated = overlaps(timesOf(program, simulation->trace.records, 0, number), stage.value) || simulated;
                executed = overlaps(timesOf(program, outcome.records[rank], 2, number), stage.value) || executed;
            }
        }
        // Where stages share devices the exchange of one may fill the lane until the other's last pass has ended.
        int simulated = 0;
        int executed = 0;
        for (const auto &[stage, found] : overlapping) {
            simulated += found.first ? 1 : 0;
            executed += found.second ? 1 : 0;
        }
        const int all = static_cast<int>(overlapping.size());
        const int least = plan.bucketBytes == 0 ? 0 : shared ? 1 : all;
        const int most = plan.bucketBytes == 0 ? 0 : all;
        if (simulated < least || executed < least || simulated > most || executed > most)
            outcome.problem += "of " + std::to_string(all) + " stages " + std::to_string(simulated)
                + " overlap when simulated, " + std::to_string(executed) + " when executed";
    }

    TextFile m_text{{"a ", "stage ", "of ", "micro ", "batches ", "the ", "plan ", "weaves "}};
    plan::Subject m_subjects[2];
};

QTEST_GUILESS_MAIN(TestOverlap)
#include "tst_overlap.moc"
