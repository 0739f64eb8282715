// SPDX-License-Identifier: Apache-2.0
// Sums of gradients that may end in the next step (plan::Exchange::acrossSteps), from plan to the order of lanes: which
// tasks a Program has, how long steps take against a recurrence worked out here, which plans are refused.
#include "engine/compile/compile.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/plan_json.h"
#include "engine/simulate/clock.h"
#include "engine/simulate/simulate.h"

#include <QRegularExpression>
#include <QTest>

#include <functional>
#include <map>
#include <set>

using namespace planloom;
using program::Lane;

namespace {

constexpr int kReplicas = 4;

/// A small GPT on machines of one device.
plan::Subject subject(double bandwidth)
{
    graph::TransformerConfig config;
    config.name = "tiny";
    config.layers = 3;
    config.heads = 2;
    config.hidden = 64;
    config.feedForward = 256;
    config.vocabulary = 256;
    config.context = 32;
    config.tiedEmbeddings = false;
    cluster::RegularCluster spec;
    spec.name = "test";
    spec.nodes = kReplicas;
    spec.type = *cluster::knownDeviceType("V100");
    spec.intraBandwidth = 1e11;
    spec.interPointToPoint = spec.interCollective = bandwidth;
    spec.interLatency = Seconds(1e-6);
    return plan::makeSubject(std::make_shared<const graph::Graph>(*graph::gpt(config)),
                             std::make_shared<const cluster::Cluster>(*cluster::regular(spec)), nullptr, "test");
}

plan::Plan planOf(const plan::Subject &subject, bool acrossSteps)
{
    plan::Plan plan;
    plan.globalBatch = 4 * kReplicas;
    plan.microBatches = 2;
    plan.exchange.acrossSteps = acrossSteps;
    plan.bucketBytes = 60'000;
    plan::Stage stage;
    stage.name = "s0";
    stage.lastLayer = subject.layers().size();
    for (int r = 0; r < kReplicas; ++r)
        stage.devices.emplace_back(r);
    plan.stages.push_back(stage);
    return plan;
}

/// The sum goes first that the next step needs first: those of the first layers are ready last.
plan::Plan prioritised(plan::Plan plan)
{
    plan.schedule.lanePolicy = "priority";
    return plan;
}

program::Program compiled(const plan::Plan &plan, const plan::Subject &subject, bool bodies = false)
{
    auto program = compile::compilePlan(plan, subject, {.bodies = bodies, .fold = !bodies});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    return *std::move(program);
}

QStringList idsOn(const program::Program &program, const std::vector<TaskId> &tasks)
{
    QStringList ids;
    for (const TaskId task : tasks)
        ids << QString::fromStdString(idOf(program.task(task)));
    return ids;
}

double secondsOf(const program::Program &program)
{
    const auto seconds = simulate::iterationSeconds(program);
    if (!seconds)
        qFatal("%s", seconds.error().text().c_str());
    return *seconds;
}

/// The starts of the collective and the compute lane of one rank, step after step, with one duration a task: first come
/// first served.
double periodOf(const program::Program &program)
{
    const program::Rank &rank = program.ranks.front();
    std::map<TaskId, double> sumEnds; // of the step before
    double computes = 0, before = 0, laneFree = 0;
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) {
        before = computes;
        std::map<TaskId, double> ends;
        for (const TaskId id : rank.computeOrder()) {
            for (const program::Dependency &on : program.dependenciesOf(program.task(id)))
                if (on.stepsBack == 1 && sumEnds.contains(on.task))
                    computes = std::max(computes, sumEnds.at(on.task));
            computes += program.task(id).duration.value();
            ends[id] = computes;
        }
        std::vector<std::pair<double, TaskId>> sums; // ready when
        for (const TaskId id : rank.tasks) {
            if (program.task(id).lane != Lane::Collective)
                continue;
            double ready = 0;
            for (const program::Dependency &on : program.dependenciesOf(program.task(id)))
                ready = std::max(ready, ends.at(on.task));
            sums.emplace_back(ready, id);
        }
        std::sort(sums.begin(), sums.end());
        for (const auto &[ready, id] : sums)
            sumEnds[id] = laneFree = std::max(ready, laneFree) + program.task(id).duration.value();
    }
    return computes - before;
}

} // namespace

class TestLateSums : public QObject {
    Q_OBJECT

private slots:
    void plansSayIt()
    {
        const plan::Subject about = subject(1e9);
        const plan::Plan plan = planOf(about, true);
        QCOMPARE(plan::textOf(plan.exchange), std::string("all-reduce,across_steps=true"));
        const auto again = plan::documentFromJson(plan::toJson({plan, about}));
        QVERIFY2(again.ok(), again ? "" : again.error().text().c_str());
        QVERIFY(again->plan.exchange.acrossSteps);
        QVERIFY(plan::exchangeFromText("embrace,across_steps=true,scheduling=horizontal")->acrossSteps);
        QVERIFY(!plan::exchangeFromText("all-reduce,across_steps=false")->acrossSteps);
        const auto bad = plan::exchangeFromText("all-reduce,across_steps=2");
        QVERIFY(!bad && bad.error().message.find("give true, false or auto") != std::string::npos);
        QVERIFY(!plan::exchangeFromText("all-reduce,delay=2"));
    }

    void refusals()
    {
        const plan::Subject about = subject(1e9);
        const auto refused = [&](const char *reason, const std::function<void(plan::Plan &)> &change) {
            plan::Plan plan = planOf(about, true);
            change(plan);
            const Status valid = plan::validate(plan, about);
            QVERIFY2(!valid && valid.error().text().find(reason) != std::string::npos,
                     valid ? reason : valid.error().text().c_str());
        };
        refused("ZeRO 1", [](plan::Plan &plan) { plan.stages[0].zero = 1; });
        refused("clip_norm", [](plan::Plan &plan) { plan.optimizer.clipNorm = 1; });
        refused("no stage has replicas", [](plan::Plan &plan) { plan.stages[0].devices.resize(1); });
        refused("update rule lamb",
                [](plan::Plan &plan) { plan.optimizer.rule = *update::ConfiguredRule::named("lamb"); });
        refused("averages parameters",
                [](plan::Plan &plan) { plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging; });
    }

    /// Each bucket's update stands in front of the run that reads it first; no run does before.
    void updatesStandInFrontOfTheirReaders()
    {
        const plan::Subject about = subject(1e9);
        const program::Program program = compiled(planOf(about, true), about, true);
        QVERIFY(program.buckets.size() > 4);
        const program::Rank &rank = program.ranks[1];
        const QStringList order = idsOn(program, rank.computeOrder());
        QCOMPARE(order.filter(QRegularExpression("^s0\\.O")).size(), qsizetype(program.buckets.size()));
        QVERIFY(!order.contains("s0.O"));
        const graph::TrainingGraph &training = program.body(rank.bodies.front()).training;
        std::set<std::string> updated;
        for (const TaskId id : rank.computeOrder()) {
            const program::Task &task = program.task(id);
            if (const auto *update = task.as<program::Update>()) {
                QVERIFY(update->bucket.valid());
                for (const program::Bucket::Entry &entry : program.bucket(update->bucket).entries)
                    updated.insert(entry.parameter);
                const auto before = program.dependenciesOf(task);
                QCOMPARE(before.size(), std::size_t{1});
                QCOMPARE(before[0].stepsBack, 1);
                QCOMPARE(idOf(program.task(before[0].task)), "s0.AR.b" + std::to_string(update->bucket.value));
                QVERIFY(program.staysOpen(program.task(before[0].task)));
            }
            if (const auto *run = task.as<program::Compute>())
                for (std::int32_t op = run->firstOp; op < run->lastOp; ++op)
                    for (const TensorId input : training.graph.ops()[static_cast<std::size_t>(op)].inputs)
                        if (training.graph.tensor(input).role == graph::TensorRole::Parameter)
                            QVERIFY2(updated.contains(training.graph.tensor(input).name),
                                     training.graph.tensor(input).name.c_str());
        }
        // Micro-batches behind the first one are not cut.
        QCOMPARE(order.filter(QRegularExpression("^s0\\.F\\.m1")).size(), qsizetype{1});
        QVERIFY(order.filter(QRegularExpression("^s0\\.F\\.m0")).size() > 2);
    }

    void stepsTakeAsLongAsWorkedOutByHand_data()
    {
        QTest::addColumn<double>("bandwidth");
        for (const double bandwidth : {1e7, 1e8, 1e9, 1e10})
            QTest::addRow("%g bytes/s", bandwidth) << bandwidth;
    }
    void stepsTakeAsLongAsWorkedOutByHand()
    {
        QFETCH(double, bandwidth);
        const plan::Subject about = subject(bandwidth);
        const program::Program across = compiled(planOf(about, true), about);
        const double seconds = secondsOf(across);
        const double expected = periodOf(across);
        QVERIFY2(std::abs(seconds / expected - 1) < 1e-9, qPrintable(QString("%1 %2").arg(seconds).arg(expected)));
        // Nothing is lost against sums that end in their step, but for tasks of their own.
        QVERIFY(seconds < 1.001 * secondsOf(compiled(planOf(about, false), about)) + 1e-4);
        QCOMPARE(secondsOf(compiled(planOf(about, true), about, true)), seconds);
    }

    /// Where the network is the bottleneck, sums fill the collective lane all the time.
    void slowNetworksNeverRest()
    {
        const plan::Subject about = subject(2e7);
        const program::Program program = compiled(prioritised(planOf(about, true)), about);
        double sums = 0;
        for (const TaskId id : program.ranks[0].tasks)
            sums += program.task(id).lane == Lane::Collective ? program.task(id).duration.value() : 0;
        const double seconds = secondsOf(program);
        QVERIFY2(seconds < 1.02 * sums, qPrintable(QString("%1 %2").arg(seconds).arg(sums)));
        // Where a step computes as long as it sums, it gains most.
        const plan::Subject even = subject(2e9);
        QVERIFY(secondsOf(compiled(prioritised(planOf(even, false)), even))
                > 1.05 * secondsOf(compiled(prioritised(planOf(even, true)), even)));
    }

    /// All ranks start sums in one order, in which those of the step before stand among this one's.
    void ordersReachOverTheStep()
    {
        const plan::Subject about = subject(2e7);
        const program::Program program = compiled(prioritised(planOf(about, true)), about, true);
        constexpr auto kCollective = static_cast<std::size_t>(Lane::Collective);
        QStringList first;
        for (std::int64_t rank = 0; rank < kReplicas; ++rank) {
            const auto orders = simulate::laneOrders(program, RankId(rank));
            QVERIFY(orders.ok());
            QStringList order;
            for (std::size_t i = 0; i < (*orders)[kCollective].size(); ++i)
                order << QString("%1 %2")
                             .arg(orders->stepsBack[kCollective][i])
                             .arg(idOf(program.task((*orders)[kCollective][i])).c_str());
            QCOMPARE(order.size(), qsizetype(program.buckets.size()));
            QVERIFY(!order.filter(QRegularExpression("^1 ")).isEmpty());
            if (rank == 0)
                first = order;
            QCOMPARE(order, first);
        }
    }
};

QTEST_GUILESS_MAIN(TestLateSums)
#include "tst_late_sums.moc"
