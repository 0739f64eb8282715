// SPDX-License-Identifier: Apache-2.0
// Devices that share processor cores: what planners expect of them, and what `auto` proves, by the simulator's rule.
#include "planners/auto/cuts.h"
#include "planners/auto/enumerate.h"
#include "planners/auto/space.h"
#include "planners/interface/shared_cores.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using namespace planloom::planners;
using testing::must;

namespace {

cluster::Cluster processors(int devices, int cores)
{
    cluster::ClusterBuilder builder("processors");
    const std::size_t type = builder.type(*cluster::knownDeviceType("CPU"));
    const NodeId node = builder.node("n0", cores);
    const std::size_t memory = builder.vertex({cluster::Vertex::Kind::Switch, "memory", {}, node});
    for (int i = 0; i < devices; ++i)
        builder.link({cluster::Link::Kind::Memory, builder.vertexOf(builder.device(node, type)), memory, 8e9, 4e9,
                      Seconds(1e-6), true});
    return must(std::move(builder).build());
}

Problem problemOn(int devices, int cores, unsigned seed = 7)
{
    std::mt19937 random(seed);
    return testing::problemOf(testing::randomModel(random, 6, 0.5), processors(devices, cores), 32);
}

} // namespace

class TestSharedCores : public QObject {
    Q_OBJECT

private slots:
    /// Four devices on two cores, dealt out in turn: 0 and 2 on one, 1 and 3 on the other.
    void workIsAddedUpByCore()
    {
        const cluster::Cluster cluster = processors(4, 2);
        const SharedCores cores(cluster);
        QVERIFY(cores.any());
        QCOMPARE(cores.all(), 2.0);
        const DeviceId devices[] = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
        const std::span<const DeviceId> all(devices);
        QCOMPARE(cores.crowds({all}), (std::vector<double>{2}));
        QCOMPARE(cores.crowds({all.first(3), all.last(1)}), (std::vector<double>{2, 1}));
        QCOMPARE(cores.busiest({all}, std::vector<double>{3}), 6.0);
        QCOMPARE(cores.busiest({all.first(1), all.subspan(1, 1), all.subspan(2, 1), all.last(1)},
                               std::vector<double>{1, 2, 4, 8}),
                 10.0);
        QCOMPARE(cores.busiest({all.first(2)}, std::vector<double>{3}), 0.0); // a core each
        const cluster::Cluster own = processors(4, 4);
        QVERIFY(!SharedCores(own).any());
        QCOMPARE(SharedCores(own).all(), 4.0);
    }

    void estimatesShareCores_data()
    {
        QTest::addColumn<QString>("planner");
        for (const char *planner : {"data-parallel", "gpipe", "dapple", "spp", "pipedream", "whale", "manual"})
            QTest::newRow(planner) << QString(planner);
    }

    /// A planner's own estimate is at least the work of the busiest core, and no promise of a core for each device.
    void estimatesShareCores()
    {
        QFETCH(QString, planner);
        const Problem problem = problemOn(4, 2);
        const PlanReport report = testing::planned(problem, planner.toStdString());
        const double expected = report.plan.estimate.at("iteration_seconds");
        QVERIFY(expected >= sharedCoreSeconds(report.plan, problem.subject) * (1 - 1e-9));
        QVERIFY2(expected > 0.8 * report.predicted.iterationSeconds,
                 qPrintable(QString("%1 instead of %2").arg(expected).arg(report.predicted.iterationSeconds)));
    }

    /// Where devices have cores of their own nothing changes.
    void coresOfTheirOwnCostNothing()
    {
        const Problem with = problemOn(4, 4);
        const Problem without = problemOn(4, 0);
        for (const char *planner : {"data-parallel", "dapple", "spp"})
            QCOMPARE(testing::planned(with, planner).plan.estimate, testing::planned(without, planner).plan.estimate);
    }

    void boundsShareCores_data()
    {
        QTest::addColumn<unsigned>("seed");
        QTest::addColumn<int>("cores");
        for (unsigned seed = 1; seed <= 3; ++seed)
            for (const int cores : {1, 2, 3})
                QTest::addRow("seed %u, %d cores", seed, cores) << seed << cores;
    }

    /// Of every sketch of five layers: the bound holds, estimates are close, and the bound of all is near the best.
    void boundsShareCores()
    {
        using namespace automatic;
        QFETCH(unsigned, seed);
        QFETCH(int, cores);
        std::mt19937 random(seed);
        const Problem problem = testing::problemOf(testing::randomModel(random, 4, 0.5), processors(4, cores), 12);
        compile::StageCache stages;
        StageCosts costs(problem, 0, stages);
        const std::vector<DeviceLine> lines = deviceLines(*problem.subject.cluster, 16);
        Scorer scorer(problem, costs, lines);
        const NoProgress progress;
        double best = kNever;
        double least = kNever;
        double off = 0;
        double count = 0;
        bool good = true;
        for (const std::int64_t microBatches : microBatchCounts(problem)) {
            const Shape shape{0, {1, false}, microBatches, plan::ScheduleKind::OneF1B, 0};
            const StageTable table(scorer, shape, 0, everyLayer(costs.layers()), progress);
            const double bound = leastSeconds(scorer, table, shape, 0, progress).inOrder;
            least = std::min(least, bound);
            everySketch(shape, lines[0], costs.layers(), costs.recomputations(), [&](const Sketch &sketch) {
                const plan::Plan plan = planOf(sketch, scorer, {});
                const Score score = scorer.score(sketch);
                if (score.seconds == kNever || !plan::validate(plan, problem.subject))
                    return true;
                const double seconds =
                    must(simulate::simulatePlan(plan, problem.subject, {false, false})).report.iterationSeconds;
                best = std::min(best, seconds);
                off += std::abs(score.seconds / seconds - 1);
                ++count;
                good = good && std::max(score.bound, bound) <= seconds * (1 + 1e-9);
                if (!good)
                    qWarning("bound %g (of all: %g) above %g with %zu stages, %lld micro-batches", score.bound, bound,
                             seconds, sketch.parts.size(), static_cast<long long>(microBatches));
                return good;
            });
        }
        QVERIFY(good);
        QVERIFY2(best < 1.2 * least, qPrintable(QString("best %1, bound %2").arg(best).arg(least)));
        QVERIFY2(off / count < 0.15, qPrintable(QString("off by %1 on average").arg(off / count)));
    }
};

QTEST_GUILESS_MAIN(TestSharedCores)
#include "tst_shared_cores.moc"
