// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/compile/gradient_accumulation.h"
#include "engine/simulate/chain_program.h"
#include "engine/simulate/simulate.h"
#include "tests/pass_steps.h"

#include <QTest>
#include <map>
#include <set>

using namespace planloom;
using program::Area;

namespace {

/// Four layers of a tiny GPT on @p devices equal devices that share one switch.
plan::Subject subject(int devices, bool tied = false)
{
    graph::TransformerConfig config;
    config.layers = 2;
    config.heads = 2;
    config.hidden = 16;
    config.feedForward = 32;
    config.vocabulary = 32;
    config.context = 8;
    config.tiedEmbeddings = tied;
    auto graph = std::make_shared<const graph::Graph>(*graph::gpt(config));
    cluster::RegularCluster spec;
    spec.name = "test";
    spec.perNode = devices;
    spec.type = *cluster::knownDeviceType("A100-80GB");
    spec.intraBandwidth = 1e11;
    spec.interPointToPoint = 1e10;
    spec.interCollective = 1e10;
    auto cluster = std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
    return plan::makeSubject(graph, cluster, nullptr, "test");
}

/// Stages of equal numbers of layers, @p replicas[s] devices each.
plan::Plan pipeline(const plan::Subject &subject, const std::vector<int> &replicas, std::int64_t batch,
                    std::int64_t microBatches)
{
    plan::Plan plan;
    plan.globalBatch = batch;
    plan.microBatches = microBatches;
    int device = 0;
    const std::size_t layers = subject.layers().size();
    for (std::size_t s = 0; s < replicas.size(); ++s) {
        plan::Stage stage;
        stage.name = "s" + std::to_string(s);
        stage.firstLayer = s * layers / replicas.size();
        stage.lastLayer = (s + 1) * layers / replicas.size();
        for (int r = 0; r < replicas[s]; ++r)
            stage.devices.emplace_back(device++);
        plan.stages.push_back(stage);
    }
    return plan;
}

program::Program compiled(const plan::Plan &plan, const plan::Subject &subject, bool bodies = true)
{
    auto program = compile::compilePlan(plan, subject, {.bodies = bodies});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    return *std::move(program);
}

} // namespace

class TestCompile : public QObject {
    Q_OBJECT

private slots:
    void layouts_data()
    {
        QTest::addColumn<QList<int>>("replicas");
        QTest::addColumn<QString>("schedule");
        QTest::addColumn<QString>("recompute");
        QTest::addColumn<bool>("tied");
        for (const QString schedule : {"gpipe", "1f1b", "dapple-a", "dapple-b"})
            for (const QString recompute : {"none", "selective", "layers", "full"})
                for (const bool tied : {false, true})
                    for (const QList<int> &replicas : {QList<int>{1}, QList<int>{2}, QList<int>{1, 1}, QList<int>{2, 2},
                                                       QList<int>{3, 1}, QList<int>{1, 2, 1}})
                        QTest::addRow("%d stages, %d first, %s, recompute %s%s", int(replicas.size()), replicas[0],
                                      qPrintable(schedule), qPrintable(recompute), tied ? ", tied" : "")
                            << replicas << schedule << recompute << tied;
    }
    void layouts()
    {
        QFETCH(QList<int>, replicas);
        QFETCH(QString, schedule);
        QFETCH(QString, recompute);
        QFETCH(bool, tied);
        const plan::Subject about = subject(4, tied);
        plan::Plan plan = pipeline(about, {replicas.begin(), replicas.end()}, 24, 6);
        plan.schedule.kind = *plan::scheduleFromName(schedule.toStdString());
        for (plan::Stage &stage : plan.stages)
            stage.recompute = *plan::recomputeFromName(recompute.toStdString());
        const program::Program program = compiled(plan, about);
        checkIds(program);
        checkPlaces(program);
        checkMessages(program);
        checkBuckets(program);
        checkMemory(plan, about, program);
    }

    void gpipeHoldsAllAndRecomputeHoldsLess()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = pipeline(about, {1, 1}, 32, 8);
        const auto first = [&](plan::ScheduleKind kind, plan::Recompute recompute) {
            plan.schedule.kind = kind;
            plan.stages[0].recompute = recompute;
            return compiled(plan, about, false).ranks[0].arenaBytes;
        };
        using enum plan::Recompute;
        using enum plan::ScheduleKind;
        const auto early = first(OneF1B, None);
        QVERIFY(first(GPipe, None) > early);
        QVERIFY(first(GPipe, Full) < first(GPipe, None));
        QVERIFY(first(OneF1B, Full) <= early);
        QVERIFY(first(GPipe, Selective) < first(GPipe, None));
        QVERIFY(first(GPipe, Layers) < first(GPipe, Selective));
        QVERIFY(first(OneF1B, Layers) < early);
    }

    void selectiveWithoutAttentionIsNone()
    {
        const plan::Subject other = subject(1);
        const plan::Subject about =
            plan::makeSubject(std::make_shared<const graph::Graph>(*graph::mlp("mlp", {16, 32, 32, 4})), other.cluster,
                              nullptr, "test");
        plan::Plan plan = pipeline(about, {1}, 8, 2);
        const program::Program none = compiled(plan, about, false);
        plan.stages[0].recompute = plan::Recompute::Selective;
        const program::Program selective = compiled(plan, about, false);
        QCOMPARE(selective.ranks[0].arenaBytes, none.ranks[0].arenaBytes);
        QCOMPARE(selective.tasks.size(), none.tasks.size());
        for (std::size_t t = 0; t < none.tasks.size(); ++t)
            QCOMPARE(selective.tasks[t].duration.value(), none.tasks[t].duration.value());
    }

    /// Two machines of two devices with one port each: the replicas of both shards exchange their gradients through it
    /// at the same time.
    void groupsOfReplicasShareAPort()
    {
        cluster::RegularCluster spec{
            "ports",       2,    2,    *cluster::knownDeviceType("A100-80GB"), 1e11, Seconds(1e-6), 1e9, 1e9,
            Seconds(1e-5), true, false};
        const plan::Subject model = subject(4);
        const plan::Subject about =
            plan::makeSubject(model.graph, std::make_shared<const cluster::Cluster>(*cluster::regular(spec)), nullptr,
                              "test");
        plan::Plan plan = pipeline(about, {4}, 8, 1);
        plan.stages[0].mesh = {2, 2};
        plan.stages[0].replicaShares.clear();
        const program::Program program = compiled(plan, about, false);
        int exchanges = 0;
        for (const program::Task &task : program.tasks) {
            const auto *exchange = task.as<program::Exchange>();
            if (exchange == nullptr || exchange->collective != cost::Collective::AllReduce)
                continue;
            ++exchanges;
            const auto bytes = static_cast<double>(program.bucket(exchange->bucket).bytes());
            const std::vector<DeviceId> alone{DeviceId(0), DeviceId(2)};
            const std::vector<std::vector<DeviceId>> both{alone, {DeviceId(1), DeviceId(3)}};
            QCOMPARE(task.duration.value(),
                     about.costs->collectiveAtOnce(cost::Collective::AllReduce, both, bytes).value());
            QVERIFY(task.duration > about.costs->allReduce(alone, bytes));
        }
        QCOMPARE(exchanges, 4);
    }

    void tiedTableIsReducedOverBothStages()
    {
        const plan::Subject about = subject(2, true);
        const program::Program program = compiled(pipeline(about, {1, 1}, 8, 2), about);
        int shared = 0;
        for (const program::Bucket &bucket : program.buckets) {
            if (program.team(bucket.team).ranks.size() < 2)
                continue;
            ++shared;
            QCOMPARE(bucket.entries.size(), std::size_t(1));
            QCOMPARE(bucket.bytes(), std::int64_t(32 * 16 * 4));
        }
        QCOMPARE(shared, 1);
    }

    void customOrderThatCannotRunIsNamed()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = pipeline(about, {1, 1}, 4, 2);
        plan.schedule.kind = plan::ScheduleKind::Custom;
        const auto deviceName = [&](int d) { return about.cluster->device(DeviceId(d)).name; };
        plan.schedule.order[deviceName(0)] = test::passSteps({"s0.F.m0", "s0.B.m0", "s0.F.m1", "s0.B.m1"});
        plan.schedule.order[deviceName(1)] = test::passSteps({"s1.F.m0", "s1.B.m0", "s1.F.m1", "s1.B.m1"});
        QVERIFY(compile::compilePlan(plan, about).ok());
        // Stage 1 wants micro-batch 1 first, which stage 0 sends only after micro-batch 0 has come back.
        plan.schedule.order[deviceName(1)] = test::passSteps({"s1.F.m1", "s1.B.m1", "s1.F.m0", "s1.B.m0"});
        const auto broken = compile::compilePlan(plan, about);
        QVERIFY(!broken.ok());
        QVERIFY2(QString::fromStdString(broken.error().message).contains("->"), broken.error().message.c_str());
    }

    void largestSizeOfTheContract()
    {
        // 64 stages x 512 micro-batches: runs to the end and stays above its bound.
        planners::dapple::Chain chain;
        chain.forward.assign(64, 1);
        chain.backward.assign(64, 2);
        chain.microBatches = 512;
        const auto program = chainProgram(chain);
        const auto seconds = simulate::iterationSeconds(program);
        QVERIFY(seconds.ok());
        QCOMPARE(*seconds, (512 + 63) * 3.0);
        QVERIFY(*seconds >= program.lowerBound.value());
    }

    /// A tied table's gradient is the sum of two products that both go straight; biases are made and then added.
    void accumulatedGradients()
    {
        for (const bool tied : {false, true}) {
            const plan::Subject whole = subject(1, tied);
            const auto training =
                graph::differentiate(*whole.graph, OpId(0), OpId(static_cast<std::int64_t>(whole.graph->ops().size())),
                                     {}, {});
            QVERIFY(training.ok());
            const compile::AccumulatedGradients found = compile::accumulatedGradients(*training);
            int idle = 0;
            for (const graph::Op &op : training->graph.ops()) {
                const bool adds = op.type == "MatMulWeightGrad" || op.type == "GatherGrad";
                const compile::Route route = found.routes[op.id.index()];
                idle += route == compile::Route::Idle ? 1 : 0;
                QCOMPARE(route == compile::Route::Accumulated, adds);
                QCOMPARE(found.unplaced[op.outputs[0].index()], route != compile::Route::Made);
                if (adds)
                    QVERIFY(std::count(training->gradients.begin(), training->gradients.end(),
                                       found.gradients[op.id.index()])
                            == 1);
            }
            QCOMPARE(idle, tied ? 1 : 0);
        }
    }

private:
    static void checkIds(const program::Program &program)
    {
        for (std::size_t r = 0; r < program.ranks.size(); ++r) {
            std::set<std::string> ids;
            for (const TaskId task : program.ranks[r].tasks) {
                QCOMPARE(program.task(task).rank.index(), r);
                QVERIFY2(ids.insert(program::idOf(program.task(task))).second,
                         program::idOf(program.task(task)).c_str());
            }
        }
    }

    /// Every tensor that an operator touches has a place inside its slot, but gradients that go directly into
    /// accumulators, and no two tensors alive at once overlap in the workspace.
    static void checkPlaces(const program::Program &program)
    {
        for (const program::Body &body : program.bodies) {
            const auto &graph = body.training.graph;
            const std::vector<bool> unplaced = compile::accumulatedGradients(body.training).unplaced;
            for (const graph::Op &op : graph.ops()) {
                const bool forward = op.id.index() < body.training.forwardOps;
                for (const auto *list : {&op.inputs, &op.outputs})
                    for (const TensorId id : *list) {
                        if (!id.valid())
                            continue;
                        if (unplaced[id.index()]) {
                            QCOMPARE(body.backwardPlaces[id.index()].offset, std::int64_t(-1));
                            continue;
                        }
                        checkPlace(body, graph.tensor(id),
                                   (forward ? body.forwardPlaces : body.backwardPlaces)[id.index()]);
                    }
            }
        }
        for (const program::Rank &rank : program.ranks)
            checkArena(program, rank);
    }
    /// The pools of a rank follow each other without gaps; only what its stages share overlaps: workspace, and frames.
    static void checkArena(const program::Program &program, const program::Rank &rank)
    {
        std::map<std::int64_t, std::int64_t> ends;
        std::int64_t bytes = 0;
        for (const BodyId b : rank.bodies) {
            const program::Body &body = program.body(b);
            for (std::size_t a = 0; a < body.pools.size(); ++a) {
                const program::Pool &pool = body.pools[a];
                if (pool.bytes() == 0)
                    continue;
                const auto [entry, isNew] = ends.try_emplace(pool.begin, pool.begin + pool.bytes());
                const auto area = static_cast<program::Area>(a);
                QVERIFY(isNew || area == program::Area::Workspace || area == program::Area::Frame);
                entry->second = std::max(entry->second, pool.begin + pool.bytes());
            }
        }
        for (const auto &[begin, end] : ends) {
            QCOMPARE(begin, bytes);
            bytes = end;
        }
        QCOMPARE(bytes, rank.arenaBytes);
    }
    static void checkPlace(const program::Body &body, const graph::Tensor &tensor, const program::Placement &place)
    {
        QVERIFY2(place.offset >= 0, tensor.name.c_str());
        QCOMPARE(place.offset % 64, 0);
        const program::Pool &pool = body.pools[static_cast<std::size_t>(place.area)];
        QVERIFY2(place.offset + tensor.bytes(body.maxSamples).value() <= pool.slotBytes, tensor.name.c_str());
    }

    /// What a sender sends to a peer is what that peer expects from it, and each slice is covered once.
    static void checkMessages(const program::Program &program)
    {
        for (const program::Body &body : program.bodies)
            for (std::size_t m = 0; m < body.outgoing.size(); ++m) {
                std::int64_t covered = 0;
                for (const program::Message &message : body.outgoing[m]) {
                    covered += message.samples.size;
                    const program::Body &peer = program.bodies[message.peer.index()];
                    const bool expected = std::any_of(peer.incoming[m].begin(), peer.incoming[m].end(),
                                                      [&](const program::Message &back) {
                                                          return back.peer == body.rank
                                                              && back.samples.begin == message.samples.begin
                                                              && back.samples.size == message.samples.size;
                                                      });
                    QVERIFY(expected);
                }
                if (!body.outgoing[m].empty())
                    QCOMPARE(covered, body.slices[m].size);
            }
    }

    /// Accumulators of a bucket lie at the same distances on every rank that holds it.
    static void checkBuckets(const program::Program &program)
    {
        for (const program::Bucket &bucket : program.buckets) {
            const std::vector<RankId> &ranks = program.team(bucket.team).ranks;
            for (std::size_t i = 0; i < ranks.size(); ++i) {
                std::map<std::string, const program::PersistentTensor *> held;
                for (const program::PersistentTensor &one : program.bodies[ranks[i].index()].persistent)
                    held[one.name] = &one;
                std::int64_t end = 0;
                for (const program::Bucket::Entry &entry : bucket.entries) {
                    QVERIFY(entry.at >= end);
                    QCOMPARE(held.at(entry.parameter)->gradient, bucket.gradients[i] + 4 * entry.at);
                    QCOMPARE(held.at(entry.parameter)->count, entry.elements);
                    end = entry.at + entry.elements;
                }
                QVERIFY(end <= bucket.elements);
            }
        }
    }

    /// The simulator needs no bodies and says the same of memory; what is alive never exceeds the arena.
    static void checkMemory(const plan::Plan &plan, const plan::Subject &about, const program::Program &program)
    {
        const auto simulation = simulate::simulatePlan(plan, about);
        QVERIFY2(simulation.ok(), simulation ? "" : simulation.error().text().c_str());
        QCOMPARE(simulation->trace.records.size(), program.tasks.size());
        trace::Trace sorted = simulation->trace;
        sorted.sort();
        for (std::size_t i = 0; i < sorted.records.size(); ++i)
            QCOMPARE(sorted.records[i].task, simulation->trace.records[i].task);
        QVERIFY(simulation->report.iterationSeconds >= simulation->report.lowerBoundSeconds * (1 - 1e-12));
        for (std::size_t r = 0; r < program.ranks.size(); ++r) {
            QCOMPARE(simulation->report.devices[r].peakBytes, program.ranks[r].arenaBytes);
            for (const simulate::MemoryPoint &point : simulation->memory[r]) {
                QVERIFY(point.total() <= program.ranks[r].arenaBytes);
                QVERIFY(point.activations >= 0 && point.gradients >= 0 && point.workspace >= 0);
            }
            QCOMPARE(simulation->memory[r].back().total(), program.ranks[r].persistentBytes);
        }
    }
};

QTEST_GUILESS_MAIN(TestCompile)
#include "tst_compile.moc"
