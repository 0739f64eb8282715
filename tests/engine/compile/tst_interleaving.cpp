// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/simulate/simulate.h"

#include <QTest>

#include <algorithm>
#include <map>
#include <set>

using namespace planloom;

namespace {

constexpr std::int64_t kMicroBatches = 16;
constexpr std::size_t kPlaces = 4;

/// Four devices between which nothing takes long.
std::shared_ptr<const cluster::Cluster> fastCluster()
{
    cluster::RegularCluster spec;
    spec.name = "fast";
    spec.perNode = static_cast<int>(kPlaces);
    spec.type.name = "device";
    spec.type.peakFlops = {{"float32", 1e12}};
    spec.type.memory = Bytes(std::int64_t{64} << 30);
    spec.type.memoryBandwidth = 1e15;
    spec.intraBandwidth = 1e15;
    spec.interPointToPoint = 1e15;
    spec.interCollective = 1e15;
    spec.intraLatency = Seconds(1e-12);
    spec.interLatency = Seconds(1e-12);
    auto cluster = cluster::regular(spec);
    return cluster ? std::make_shared<const cluster::Cluster>(std::move(*cluster)) : nullptr;
}

/// Equal layers, so that equal cuts make equal stages.
plan::Subject subject()
{
    auto graph = graph::mlp("equal", std::vector<std::int64_t>(33, 512));
    return graph ? plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), fastCluster(), nullptr,
                                     "zoo:equal")
                 : plan::Subject{};
}

/// @p chunks stages on each of the places, in turn.
plan::Plan planOf(const plan::Subject &subject, plan::ScheduleKind kind, std::size_t chunks)
{
    plan::Plan plan;
    plan.modelName = subject.graph->name();
    plan.clusterName = subject.cluster->name();
    plan.globalBatch = kMicroBatches * 64;
    plan.microBatches = kMicroBatches;
    plan.schedule.kind = kind;
    const std::size_t stages = kPlaces * chunks;
    for (std::size_t s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.firstLayer = subject.layers().size() * s / stages;
        stage.lastLayer = subject.layers().size() * (s + 1) / stages;
        stage.devices = {DeviceId(static_cast<std::int64_t>(s % kPlaces))};
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

std::int64_t largestArena(const program::Program &program)
{
    std::int64_t most = 0;
    for (const program::Rank &rank : program.ranks)
        most = std::max(most, rank.arenaBytes - rank.persistentBytes);
    return most;
}

std::string planError(const plan::Plan &plan, const plan::Subject &subject)
{
    const Status status = plan::validate(plan, subject);
    return status ? std::string() : status.error().message;
}

} // namespace

/// Stages that share devices, and backward passes that are cut, on the cost clock.
class TestInterleaving : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_subject = subject();
        QVERIFY(m_subject.graph != nullptr);
    }

    void bubblesShrinkAsPublished()
    {
        const auto bubble = [this](plan::ScheduleKind kind, std::size_t chunks) {
            const auto simulation = simulate::simulatePlan(planOf(m_subject, kind, chunks), m_subject);
            return simulation ? simulation->report.bubbleFraction : -1.0;
        };
        const double m = kMicroBatches;
        const double whole = bubble(plan::ScheduleKind::OneF1B, 1);
        const double twice = bubble(plan::ScheduleKind::Interleaved1F1B, 2);
        const double four = bubble(plan::ScheduleKind::Interleaved1F1B, 4);
        const double cut = bubble(plan::ScheduleKind::ZeroBubbleH1, 1);
        // Idle time over all time: (S - 1) / v of (m + (S - 1) / v). The loss and the optimizer are a little on top.
        const auto expected = [m](double chunks) { return 3 / chunks / (m + 3 / chunks); };
        QVERIFY2(std::abs(whole - expected(1)) < 0.02, qPrintable(QString::number(whole)));
        QVERIFY2(std::abs(twice - expected(2)) < 0.02, qPrintable(QString::number(twice)));
        QVERIFY2(std::abs(four - expected(4)) < 0.02, qPrintable(QString::number(four)));
        // A third of 1F1B's where the three passes take equally long, and less than that of two stages a place.
        QVERIFY2(cut > 0 && cut < twice && std::abs(cut - 1 / (m + 1)) < 0.02, qPrintable(QString::number(cut)));
    }

    /// Of a transformer, as both papers do.
    void memoryIsAsPublished()
    {
        graph::TransformerConfig config;
        config.name = "blocks";
        config.layers = 16;
        config.heads = 4;
        config.hidden = 64;
        config.feedForward = 256;
        config.vocabulary = 64;
        config.context = 128;
        auto graph = graph::gpt(config);
        QVERIFY(graph.ok());
        const plan::Subject blocks = plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)),
                                                       fastCluster(), nullptr, "zoo:blocks");
        const auto bytes = [&](plan::ScheduleKind kind, std::size_t chunks) {
            plan::Plan plan = planOf(blocks, kind, chunks);
            plan.globalBatch = kMicroBatches;
            // As many blocks each; the embedding lies in front of them and the head behind.
            const std::size_t each = 16 / plan.stages.size();
            for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s)
                plan.stages[s].lastLayer = plan.stages[s + 1].firstLayer = 1 + each * (s + 1);
            const auto program = compile::compilePlan(plan, blocks, {.bodies = false});
            return program ? static_cast<double>(largestArena(*program)) : -1.0;
        };
        const double whole = bytes(plan::ScheduleKind::OneF1B, 1);
        QVERIFY(whole > 0);
        // Activations grow by (S - 1) / (v S), 3/8, beside what is in flight between more stages.
        const double twice = bytes(plan::ScheduleKind::Interleaved1F1B, 2) / whole;
        QVERIFY2(twice > 1.1 && twice < 1.6, qPrintable(QString::number(twice)));
        // As many micro-batches are in flight, and of each W needs about as much as B frees: one more, while B runs.
        const double cut = bytes(plan::ScheduleKind::ZeroBubbleH1, 1) / whole;
        QVERIFY2(cut > 0.9 && cut < 1.25, qPrintable(QString::number(cut)));
    }

    void memoryIsTheSameWithoutBodies()
    {
        for (const auto &[kind, chunks] : {std::pair(plan::ScheduleKind::Interleaved1F1B, std::size_t{2}),
                                           std::pair(plan::ScheduleKind::ZeroBubbleH1, std::size_t{1})}) {
            const plan::Plan plan = planOf(m_subject, kind, chunks);
            const auto with = compile::compilePlan(plan, m_subject);
            const auto without = compile::compilePlan(plan, m_subject, {.bodies = false});
            QVERIFY(with && without);
            for (std::size_t r = 0; r < with->ranks.size(); ++r)
                QCOMPARE(with->ranks[r].arenaBytes, without->ranks[r].arenaBytes);
        }
    }

    /// The curve never leaves the arena, and ends with what stays.
    void memoryCurvesStayInTheArena()
    {
        plan::Plan there = planOf(m_subject, plan::ScheduleKind::GPipe, 2);
        std::swap(there.stages[4].devices,
                  there.stages[7].devices); // places 0 1 2 3 3 1 2 0: some hand over on one device
        std::swap(there.stages[5].devices, there.stages[6].devices);
        for (const plan::Plan &plan : {planOf(m_subject, plan::ScheduleKind::Interleaved1F1B, 2),
                                       planOf(m_subject, plan::ScheduleKind::ZeroBubbleH1, 1), there}) {
            const auto program = compile::compilePlan(plan, m_subject, {.bodies = false});
            QVERIFY2(program.ok(), program ? "" : program.error().message.c_str());
            const auto simulation = simulate::simulate(*program, *m_subject.cluster);
            QVERIFY(simulation.ok());
            for (std::size_t r = 0; r < program->ranks.size(); ++r) {
                const auto &curve = simulation->memory[r];
                for (const simulate::MemoryPoint &point : curve)
                    QVERIFY(point.total() <= program->ranks[r].arenaBytes);
                QCOMPARE(curve.back().total(), program->ranks[r].persistentBytes);
            }
        }
    }

    void oneRankForEachPlace()
    {
        const auto program = compile::compilePlan(planOf(m_subject, plan::ScheduleKind::Interleaved1F1B, 2), m_subject);
        QVERIFY(program.ok());
        QCOMPARE(program->ranks.size(), kPlaces);
        QCOMPARE(program->bodies.size(), 2 * kPlaces);
        std::set<std::string> ids;
        for (const TaskId task : program->ranks[0].tasks)
            QVERIFY(ids.insert(program::idOf(program->task(task))).second);
        for (const char *id : {"s0.F.m0", "s4.F.m0", "s4.RF.m0", "s0.SF.m15", "s0.O", "s4.O"})
            QVERIFY2(ids.contains(id), id);
        // Pools follow each other without gaps; stages share the workspace, and slots for what they keep.
        for (const program::Rank &rank : program->ranks) {
            std::map<std::int64_t, std::int64_t> pools;
            for (const BodyId b : rank.bodies)
                for (const program::Pool &pool : program->body(b).pools)
                    if (pool.bytes() > 0)
                        pools[pool.begin] = std::max(pools[pool.begin], pool.bytes());
            std::int64_t end = 0;
            for (const auto &[begin, bytes] : pools) {
                QCOMPARE(begin, end);
                end += bytes;
            }
            QCOMPARE(end, rank.arenaBytes);
            const auto frames = [&](std::size_t body) {
                return program->body(rank.bodies[body]).pools[static_cast<std::size_t>(program::Area::Frame)];
            };
            QCOMPARE(frames(0).begin, frames(1).begin);
        }
        QCOMPARE(plan::warmupDepths(planOf(m_subject, plan::ScheduleKind::Interleaved1F1B, 2)),
                 (std::vector<int>{11, 9, 7, 5, 11, 9, 7, 5}));
        // As many as there are forwards before the first backward.
        QCOMPARE(program->bodies[0].pools[static_cast<std::size_t>(program::Area::Frame)].count, 11);
        // One compute order over both stages.
        QCOMPARE(program::idOf(program->task(program->ranks[0].computeOrder()[3])), std::string("s0.F.m3"));
        QCOMPARE(program::idOf(program->task(program->ranks[0].computeOrder()[4])), std::string("s4.F.m0"));
    }

    void whatDoesNotFitIsNamed_data()
    {
        QTest::addColumn<QString>("change");
        QTest::addColumn<QString>("error");
        QTest::newRow("in part") << "partial"
                                 << "do not list the same devices in the same order";
        QTest::newRow("mesh") << "mesh"
                              << "give both the same mesh";
        QTest::newRow("kind") << "1f1b"
                              << "schedule 1f1b has no order for";
        QTest::newRow("zero bubble") << "zb-h1"
                                     << "schedule zb-h1 has no order for";
        QTest::newRow("out of turn") << "turn"
                                     << "must lie on the devices of stage 0";
        QTest::newRow("uneven") << "uneven"
                                << "goes round the 4 groups of devices with 7 stages";
        QTest::newRow("warm-up") << "warmup"
                                 << "leave warmup out";
    }
    void whatDoesNotFitIsNamed()
    {
        QFETCH(QString, change);
        QFETCH(QString, error);
        plan::Plan plan = planOf(m_subject, plan::ScheduleKind::Interleaved1F1B, 2);
        if (change == "partial") {
            plan.stages[0].devices = {DeviceId(0), DeviceId(1)};
        } else if (change == "mesh") {
            for (plan::Stage &stage : plan.stages)
                stage.devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
            plan.stages[3].mesh = {2, 2};
        } else if (change == "turn") {
            std::swap(plan.stages[4].devices, plan.stages[5].devices);
        } else if (change == "uneven") {
            plan.stages[6].lastLayer = plan.stages[7].lastLayer;
            plan.stages.pop_back();
        } else if (change == "warmup") {
            plan.schedule.warmup.assign(plan.stages.size(), 1);
        } else {
            plan.schedule.kind = *plan::scheduleFromName(change.toStdString());
        }
        const std::string found = planError(plan, m_subject);
        QVERIFY2(QString::fromStdString(found).contains(error), found.c_str());
    }

private:
    plan::Subject m_subject;
};

QTEST_GUILESS_MAIN(TestInterleaving)
#include "tst_interleaving.moc"
