// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/shape.h"
#include "engine/compile/compile.h"
#include "engine/compile/stage_alike.h"
#include "engine/simulate/simulate.h"
#include "tests/engine/compile/random_plans.h"

#include <QTest>
#include <algorithm>
#include <map>
#include <set>

using namespace planloom;
using testing::ClusterShape;
using testing::Draw;
using testing::equalNodes;
using testing::planOf;
using testing::StageShape;
using testing::subjectOf;
using testing::tinyGpt;

namespace {

program::Program compiled(const plan::Plan &plan, const plan::Subject &subject, bool fold)
{
    auto program = compile::compilePlan(plan, subject, {.bodies = false, .fold = fold});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    return *std::move(program);
}

std::size_t ranksLeft(const plan::Plan &plan, const plan::Subject &subject)
{
    return compiled(plan, subject, true).ranks.size();
}

/// Simulates both ways and compares every figure for equality to the bit.
void checkSame(const plan::Plan &plan, const plan::Subject &subject)
{
    const auto whole = compile::compilePlan(plan, subject, {.bodies = false});
    const auto folded = compile::compilePlan(plan, subject, {.bodies = false, .fold = true});
    QCOMPARE(folded.ok(), whole.ok());
    if (!whole)
        return;
    QCOMPARE(folded->places.size(), whole->ranks.size());
    const auto expected = simulate::simulate(*whole, *subject.cluster, {false, false});
    const auto found = simulate::simulate(*folded, *subject.cluster, {false, false});
    QVERIFY2(expected.ok(), expected.ok() ? "" : expected.error().text().c_str());
    QVERIFY2(found.ok(), found.ok() ? "" : found.error().text().c_str());
    QCOMPARE(simulate::toJson(found->report).c_str(), simulate::toJson(expected->report).c_str());
    QVERIFY(found->report.iterationSeconds == expected->report.iterationSeconds);
    QVERIFY(found->report.bubbleFraction == expected->report.bubbleFraction);
    std::int64_t stoodFor = 0;
    for (const program::Rank &rank : folded->ranks)
        stoodFor += rank.standsFor;
    QCOMPARE(stoodFor, static_cast<std::int64_t>(whole->ranks.size()));
}

} // namespace

class TestFold : public QObject {
    Q_OBJECT

private slots:
    void alikeIsAlike()
    {
        // 32 replicas, one rank; slices of 3 and 2 samples, two.
        const plan::Subject about = subjectOf(tinyGpt(false), equalNodes(4, 8, true));
        QCOMPARE(ranksLeft(planOf(about, {{32, 1}}, 64, 1), about), std::size_t(1));
        QCOMPARE(ranksLeft(planOf(about, {{32, 1}}, 80, 1), about), std::size_t(2));
        // Two stages of 4 replicas of 4 shards each.
        QCOMPARE(ranksLeft(planOf(about, {{4, 4}, {4, 4}}, 32, 8), about), std::size_t(2));
        // Stages of different numbers of replicas.
        QCOMPARE(ranksLeft(planOf(about, {{8, 1}, {16, 1}, {8, 1}}, 32, 2), about), std::size_t(3));
    }

    void unlikeStaysApart()
    {
        ClusterShape shape = equalNodes(4, 4);
        const plan::Subject even = subjectOf(tinyGpt(false), shape);
        plan::Plan plan = planOf(even, {{16, 1}}, 64, 1);
        QCOMPARE(ranksLeft(plan, even), std::size_t(1));
        shape.types[3] = 1;
        QCOMPARE(ranksLeft(plan, subjectOf(tinyGpt(false), shape)), std::size_t(2));
        // Replicas of 2 devices in nodes of 3 lie inside one or across two, and their first devices do not lie as their
        // second ones.
        const plan::Subject threes = subjectOf(tinyGpt(false), equalNodes(4, 3));
        QCOMPARE(ranksLeft(planOf(threes, {{6, 2}}, 24, 1), threes), std::size_t(4));
        plan.stages[0].replicaShares.assign(16, 1.0 / 20);
        for (std::size_t r = 12; r < 16; ++r)
            plan.stages[0].replicaShares[r] = 2.0 / 20;
        plan.globalBatch = 20;
        QCOMPARE(ranksLeft(plan, even), std::size_t(2));
    }

    void equalShapesCostTheSame()
    {
        Draw draw(5);
        int alike = 0;
        for (int round = 0; round < 40; ++round) {
            const plan::Subject about = subjectOf(tinyGpt(false), draw.cluster());
            const auto count = static_cast<int>(about.cluster->devices().size());
            cluster::Shapes shapes(*about.cluster);
            std::map<std::int32_t, std::pair<double, double>> known;
            for (int i = 0; i < 60; ++i) {
                std::vector<DeviceId> devices;
                for (const auto &device : about.cluster->devices())
                    devices.push_back(device.id);
                for (int d = count; d > 1; --d)
                    std::swap(devices[static_cast<std::size_t>(d) - 1],
                              devices[static_cast<std::size_t>(draw.from(0, d - 1))]);
                devices.resize(static_cast<std::size_t>(draw.from(1, std::min(count, 4))));
                if (draw.chance(0.5))
                    std::sort(devices.begin(), devices.end());
                const std::span<const DeviceId> all(devices);
                const std::pair<double, double> times(
                    about.costs->collective(cost::Collective::AllGather, all, 1e6).value(),
                    about.costs->transfer(all.first(1), all.subspan(1), 3e5).value());
                const auto [entry, isNew] = known.try_emplace(shapes.of(devices), times);
                QVERIFY(entry->second == times);
                alike += isNew ? 0 : 1;
            }
        }
        QVERIFY(alike > 500);
    }

    void randomPlans_data()
    {
        QTest::addColumn<unsigned>("seed");
        for (unsigned seed = 0; seed < 60; ++seed)
            QTest::addRow("%u", seed) << seed;
    }
    void randomPlans()
    {
        QFETCH(unsigned, seed);
        const auto [plan, about] = testing::randomCase(seed);
        checkSame(plan, about);
    }

    void repeatedStagesAreMadeOnce_data()
    {
        QTest::addColumn<int>("tensor");
        QTest::addColumn<int>("zero");
        QTest::addColumn<int>("recompute");
        QTest::addColumn<bool>("split");
        for (const int tensor : {1, 2})
            for (const int zero : {0, 1, 2, 3})
                QTest::addRow("tensor %d, zero %d", tensor, zero) << tensor << zero << 0 << false;
        for (const int recompute : {1, 2, 3})
            QTest::addRow("recompute %d", recompute) << 2 << 0 << recompute << false;
        QTest::addRow("zero bubble") << 2 << 0 << 0 << true;
    }
    void repeatedStagesAreMadeOnce()
    {
        QFETCH(int, tensor);
        QFETCH(int, zero);
        QFETCH(int, recompute);
        QFETCH(bool, split);
        // With bodies every stage is made for itself: times and bytes must be the same.
        const plan::Subject about = subjectOf(tinyGpt(true, 12), equalNodes(7, 4));
        const auto layers = about.layers().size();
        plan::Plan plan = planOf(about, std::vector<StageShape>(layers / 2, {2, tensor}), 16, 4);
        for (plan::Stage &stage : plan.stages) {
            stage.zero = zero;
            stage.recompute = static_cast<plan::Recompute>(recompute);
        }
        if (split)
            plan.schedule.kind = plan::ScheduleKind::ZeroBubbleH1;
        const auto made = compile::compilePlan(plan, about);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        const program::Program copied = compiled(plan, about, false);
        QCOMPARE(copied.tasks.size(), made->tasks.size());
        for (std::size_t t = 0; t < copied.tasks.size(); ++t) {
            QVERIFY(copied.tasks[t].duration == made->tasks[t].duration);
            QCOMPARE(copied.tasks[t].bytes(), made->tasks[t].bytes());
        }
        for (std::size_t r = 0; r < copied.ranks.size(); ++r)
            QCOMPARE(copied.ranks[r].arenaBytes, made->ranks[r].arenaBytes);
        QCOMPARE(copied.buckets.size(), made->buckets.size());
        for (std::size_t b = 0; b < copied.buckets.size(); ++b)
            QCOMPARE(copied.buckets[b].entries.front().parameter, made->buckets[b].entries.front().parameter);
        checkSame(plan, about);
        const auto names = compile::renaming(plan, about, StageId(1), StageId(2));
        QVERIFY(names.has_value());
        QVERIFY(!compile::renaming(plan, about, StageId(0), StageId(1)).has_value());
        plan.stages[2].zero = zero == 0 ? 1 : 0;
        QVERIFY(!compile::renaming(plan, about, StageId(1), StageId(2)).has_value());
    }

    void repeatedStagesOnUnlikeDevices_data()
    {
        QTest::addColumn<std::vector<int>>("types");
        QTest::addRow("two models") << std::vector<int>{0, 0, 1, 0, 1, 1, 0};
        QTest::addRow("one without a model") << std::vector<int>{0, 0, 2, 1, 2, 1, 0};
        QTest::addRow("the first without a model") << std::vector<int>{2, 2, 2, 0, 2, 1, 0};
    }
    void repeatedStagesOnUnlikeDevices()
    {
        // Stages of the same operators, each on a machine of its own: those of other devices take other times.
        QFETCH(std::vector<int>, types);
        ClusterShape shape = equalNodes(7, 4);
        shape.types = types;
        const plan::Subject about = subjectOf(tinyGpt(true, 12), shape);
        const plan::Plan plan = planOf(about, std::vector<StageShape>(about.layers().size() / 2, {2, 2}), 16, 4);
        const auto made = compile::compilePlan(plan, about);
        QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
        const program::Program copied = compiled(plan, about, false);
        QCOMPARE(copied.tasks.size(), made->tasks.size());
        std::map<int, std::set<double>> forward; ///< by type
        for (std::size_t t = 0; t < copied.tasks.size(); ++t) {
            const program::Task &task = copied.tasks[t];
            QVERIFY(task.duration == made->tasks[t].duration);
            const auto *run = task.as<program::Compute>();
            if (run != nullptr && run->pass == program::Pass::Forward && task.stage.value > 0
                && task.stage.index() + 1 < plan.stages.size() && run->firstOp == 0)
                forward[types[task.stage.index()]].insert(task.duration.value());
        }
        double previous = 0;
        for (const auto &[type, times] : forward) {
            QVERIFY(*times.rbegin() < *times.begin() * (1 + 1e-9)); // layers' times are differences of sums
            QVERIFY(!times.contains(previous));
            previous = *times.begin();
        }
        checkSame(plan, about);
    }

    void cutsTakeWhatTheirLinksTake()
    {
        // Replicas of 3 lie inside of a machine of 4, or across two: cuts that do not lie alike take different times.
        const plan::Subject about = subjectOf(tinyGpt(false, 12), equalNodes(5, 4));
        const plan::Plan plan = planOf(about, std::vector<StageShape>(6, {3, 1}), 18, 2);
        const program::Program program = compiled(plan, about, false);
        std::set<double> different;
        for (const program::Task &task : program.tasks) {
            const auto *transfer = task.as<program::Transfer>();
            if (transfer == nullptr || !transfer->sends)
                continue;
            const std::size_t here = task.stage.index();
            const std::size_t to = transfer->pass == program::Pass::Forward ? here + 1 : here - 1;
            const std::size_t cut = plan.stages[std::max(here, to)].firstLayer;
            const auto bytes = static_cast<double>(about.layers().cutBytes(*about.graph, cut, 1).value()) * 9;
            QVERIFY(task.duration == about.costs->transfer(plan.stages[here].devices, plan.stages[to].devices, bytes));
            different.insert(task.duration.value());
        }
        QVERIFY(different.size() > 1);
    }

    void simulatePlanFoldsUnlessRanksAreAskedFor()
    {
        const plan::Subject about = subjectOf(tinyGpt(true), equalNodes(2, 4));
        const plan::Plan plan = planOf(about, {{4, 1}, {4, 1}}, 16, 4);
        const auto folded = simulate::simulatePlan(plan, about, {false, false});
        const auto whole = simulate::simulatePlan(plan, about);
        QVERIFY(folded.ok() && whole.ok());
        QCOMPARE(whole->trace.ranks.size(), std::size_t(8));
        QCOMPARE(simulate::toJson(folded->report).c_str(), simulate::toJson(whole->report).c_str());
        QVERIFY(!compile::compilePlan(plan, about, {.bodies = true, .fold = true}).ok());
    }
};

QTEST_GUILESS_MAIN(TestFold)
#include "tst_fold.moc"
