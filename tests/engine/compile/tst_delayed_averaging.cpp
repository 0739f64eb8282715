// SPDX-License-Identifier: Apache-2.0
// Local steps with delayed averaging (DaSGD) from plan to predicted time: which tasks a Program has, in which steps
// they run, what memory they take, and how long a step is.
#include "engine/compile/compile.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/plan_json.h"
#include "engine/simulate/simulate.h"
#include "engine/trace/rounds.h"

#include <QTest>

#include <set>

using namespace planloom;
using plan::DelayedAveraging;
using plan::Merge;

namespace {

/// A tiny GPT on @p devices machines of one device, or @p perNode, joined by @p bandwidth bytes a second.
plan::Subject subject(int devices, double bandwidth = 1e9, bool tied = false, int perNode = 1)
{
    graph::TransformerConfig config;
    config.layers = 2;
    config.heads = 2;
    config.hidden = 64;
    config.feedForward = 128;
    config.vocabulary = 256;
    config.context = 16;
    config.tiedEmbeddings = tied;
    auto graph = std::make_shared<const graph::Graph>(*graph::gpt(config));
    cluster::RegularCluster spec;
    spec.name = "test";
    spec.nodes = devices;
    spec.perNode = perNode;
    spec.type = *cluster::knownDeviceType("A100-80GB");
    spec.intraBandwidth = 1e11;
    spec.interPointToPoint = bandwidth;
    spec.interCollective = bandwidth;
    auto cluster = std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
    return plan::makeSubject(graph, cluster, nullptr, "test");
}

/// @p stages stages of @p replicas devices each.
plan::Plan averaged(const plan::Subject &subject, std::size_t stages, int replicas, DelayedAveraging averaging)
{
    plan::Plan plan;
    plan.globalBatch = 16;
    plan.microBatches = 2;
    plan.bucketBytes = 0;
    plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging;
    plan.exchange.averaging = averaging;
    int device = 0;
    const std::size_t layers = subject.layers().size();
    for (std::size_t s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.name = "s" + std::to_string(s);
        stage.firstLayer = s * layers / stages;
        stage.lastLayer = (s + 1) * layers / stages;
        for (int r = 0; r < replicas; ++r)
            stage.devices.emplace_back(device++);
        plan.stages.push_back(stage);
    }
    return plan;
}

program::Program compiled(const plan::Plan &plan, const plan::Subject &subject, bool fold = false)
{
    auto program = compile::compilePlan(plan, subject, {.bodies = false, .fold = fold});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    return *std::move(program);
}

/// The steps of @p most in which the task of @p rank called @p id runs.
std::vector<std::int64_t> stepsOf(const program::Program &program, std::int32_t rank, const std::string &id,
                                  std::int64_t most)
{
    std::vector<std::int64_t> steps;
    for (const program::Task &task : program.tasks)
        for (std::int64_t step = 0; task.rank.value == rank && idOf(task) == id && step < most; ++step)
            if (program.runsIn(task, step))
                steps.push_back(step);
    return steps;
}

double secondsOf(const program::Program &program, const std::string &id)
{
    for (const program::Task &task : program.tasks)
        if (task.rank.value == 0 && idOf(task) == id)
            return task.duration.value();
    return -1;
}

double iteration(const program::Program &program)
{
    const auto seconds = simulate::iterationSeconds(program);
    if (!seconds)
        qFatal("%s", seconds.error().text().c_str());
    return *seconds;
}

using Steps = std::vector<std::int64_t>;

} // namespace

class TestDelayedAveraging : public QObject {
    Q_OBJECT

private slots:
    // A snapshot every 4 steps, merged 2 steps later; of 40 steps the last average is not merged. No gradient is
    // exchanged.
    void everyRoundHasOneAverage()
    {
        const plan::Subject about = subject(2);
        const program::Program program = compiled(averaged(about, 1, 2, {4, 2, 0.25, Merge::Corrected, 0}), about);
        const Steps ends{3, 7, 11, 15, 19, 23, 27, 31, 35, 39};
        for (const std::int32_t rank : {0, 1}) {
            QCOMPARE(stepsOf(program, rank, "s0.SN.b0", 40), ends);
            QCOMPARE(stepsOf(program, rank, "s0.AR.b0", 40), ends);
            QCOMPARE(stepsOf(program, rank, "s0.M.b0", 40), (Steps{5, 9, 13, 17, 21, 25, 29, 33, 37}));
        }
        std::set<std::string> collectives;
        for (const program::Task &task : program.tasks)
            if (task.lane == program::Lane::Collective)
                collectives.insert(idOf(task));
        QCOMPARE(collectives, std::set<std::string>{"s0.AR.b0"});
        QCOMPARE(program.periodSteps, 4);
        QCOMPARE(program.openSteps, 4); // as many as are agreed on together
    }

    void warmupSumsGradientsAndRoundsBeginBehindIt()
    {
        const plan::Subject about = subject(2);
        const program::Program program = compiled(averaged(about, 1, 2, {4, 1, 0.25, Merge::Convex, 6}), about);
        QCOMPARE(stepsOf(program, 0, "s0.GR.b0", 20), (Steps{0, 1, 2, 3, 4, 5}));
        QCOMPARE(stepsOf(program, 0, "s0.SN.b0", 20), (Steps{9, 13, 17}));
        QCOMPARE(stepsOf(program, 0, "s0.M.b0", 20), (Steps{10, 14, 18}));
        QVERIFY(program.steadyFrom >= 7);
        QCOMPARE(program.steadyFrom % program.periodSteps, 0);
    }

    // The average is one of the whole bucket; what it overwrites, and for the corrected merge what it began with, are
    // held beside the parameters.
    void memoryHasRoomForSnapshots()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = averaged(about, 1, 2, {4, 2, 0.25, Merge::Corrected, 0});
        const program::Program corrected = compiled(plan, about);
        plan.exchange.averaging.merge = Merge::Convex;
        const program::Program convex = compiled(plan, about);
        plan.exchange = {};
        const program::Program summed = compiled(plan, about);
        QCOMPARE(summed.buckets.size(), std::size_t{1});
        const std::int64_t bytes = (summed.buckets[0].bytes() + 63) / 64 * 64;
        QCOMPARE(convex.ranks[1].persistentBytes - summed.ranks[1].persistentBytes, bytes);
        QCOMPARE(corrected.ranks[1].persistentBytes - summed.ranks[1].persistentBytes, 2 * bytes);
        QCOMPARE(corrected.ranks[1].arenaBytes - summed.ranks[1].arenaBytes, 2 * bytes);
        QVERIFY(convex.buckets[0].averages[0] > 0 && convex.buckets[0].snapshots[0] == -1);
        QVERIFY(corrected.buckets[0].snapshots[1] > 0);
    }

    void timesByHand_data()
    {
        QTest::addColumn<double>("bandwidth");
        QTest::addColumn<int>("localSteps");
        QTest::addColumn<int>("delay");
        for (const double bandwidth : {1e8, 1e9, 1e10, 1e12})
            for (const int steps : {1, 2, 4, 8})
                for (int delay = 0; delay <= std::min(steps, 5); ++delay)
                    QTest::addRow("%g B/s, %d steps, delay %d", bandwidth, steps, delay) << bandwidth << steps << delay;
    }
    // A round is its local steps, the snapshot, the merge, and of the average what the steps of the delay leave over.
    void timesByHand()
    {
        QFETCH(double, bandwidth);
        QFETCH(int, localSteps);
        QFETCH(int, delay);
        const plan::Subject about = subject(4, bandwidth);
        const plan::Plan plan = averaged(about, 1, 4, {localSteps, delay, 0.25, Merge::Corrected, 0});
        const program::Program program = compiled(plan, about);
        const double step = secondsOf(program, "s0.F.m0") + secondsOf(program, "s0.B.m0")
            + secondsOf(program, "s0.F.m1") + secondsOf(program, "s0.B.m1") + secondsOf(program, "s0.O");
        const double average = secondsOf(program, "s0.AR.b0");
        const double round = localSteps * step + secondsOf(program, "s0.SN.b0") + secondsOf(program, "s0.M.b0")
            + std::max(0.0, average - delay * step);
        QVERIFY(step > 0 && average > 0);
        QVERIFY2(std::abs(iteration(program) * localSteps / round - 1) < 1e-9,
                 qPrintable(QString("%1 %2").arg(iteration(program) * localSteps).arg(round)));
        QCOMPARE(iteration(compiled(plan, about, true)), iteration(program)); // folded
        QVERIFY(program.lowerBound.value() <= iteration(program) * (1 + 1e-12));
    }

    /// Gradients are summed on each of two machines in every step behind the warm-up; averages go over all.
    void sumsInsideMachines()
    {
        const plan::Subject about = subject(2, 1e9, false, 2);
        plan::Plan plan = averaged(about, 1, 4, {4, 2, 0.25, Merge::Corrected, 6});
        plan.exchange.averaging.inside = plan::Inside::Machine;
        const program::Program program = compiled(plan, about);
        QCOMPARE(stepsOf(program, 3, "s0.GR.b0", 12), (Steps{0, 1, 2, 3, 4, 5}));
        QCOMPARE(stepsOf(program, 3, "s0.GI.b0", 9), (Steps{6, 7, 8}));
        QCOMPARE(stepsOf(program, 3, "s0.AR.b0", 16), (Steps{10, 14})); // behind the sums of the snapshot's step
        QCOMPARE(stepsOf(program, 3, "s0.M.b0", 16), (Steps{11, 15}));
        for (const program::Task &task : program.tasks)
            if (const auto *exchange = task.as<program::Exchange>(); exchange != nullptr && exchange->inside) {
                const std::vector<RankId> &ranks = program.team(exchange->team).ranks;
                const std::int32_t first = task.rank.value / 2 * 2;
                QCOMPARE(ranks, (std::vector{RankId(first), RankId(first + 1)}));
                QCOMPARE(program.membersOf(task.group).size(), std::size_t{2});
            }
        plan.exchange.averaging.warmupSteps = 0;
        const program::Program steady = compiled(plan, about);
        QCOMPARE(iteration(compiled(plan, about, true)), iteration(steady)); // folded
        // An average that is over before the passes are: the sums wait for nothing.
        const double step = secondsOf(steady, "s0.F.m0") + secondsOf(steady, "s0.B.m0") + secondsOf(steady, "s0.F.m1")
            + secondsOf(steady, "s0.B.m1");
        const plan::Subject fast = subject(2, secondsOf(steady, "s0.AR.b0") / step * 4e9, false, 2);
        const program::Program hidden = compiled(plan, fast);
        QVERIFY(secondsOf(hidden, "s0.AR.b0") < step);
        const double round = 4 * (step + secondsOf(hidden, "s0.GI.b0") + secondsOf(hidden, "s0.O"))
            + secondsOf(hidden, "s0.SN.b0") + secondsOf(hidden, "s0.M.b0");
        QVERIFY2(std::abs(iteration(hidden) * 4 / round - 1) < 1e-9,
                 qPrintable(QString("%1 %2").arg(iteration(hidden) * 4).arg(round)));
        // The plan's text and file have the setting; on one machine each, and on the same one, there is none.
        const plan::Exchange read = *plan::exchangeFromText(plan::textOf(plan.exchange));
        QVERIFY(read.policy == plan.exchange.policy && read.averaging == plan.exchange.averaging);
        const auto file = plan::documentFromJson(plan::toJson({plan, about}));
        QVERIFY(file && file->plan.exchange.averaging == plan.exchange.averaging);
        const auto refused = compile::compilePlan(plan, subject(4), {.bodies = false});
        QVERIFY(!refused && refused.error().message.find("no two replicas lie on the same") != std::string::npos);
        const program::Program together = compiled(plan, subject(1, 1e9, false, 4));
        plan.exchange = {};
        const program::Program summed = compiled(plan, subject(1, 1e9, false, 4));
        QCOMPARE(together.tasks.size(), summed.tasks.size());
        QCOMPARE(iteration(together), iteration(summed));
        QCOMPARE(together.ranks[0].arenaBytes, summed.ranks[0].arenaBytes);
    }

    void pipelinesAverageStageByStage()
    {
        const plan::Subject about = subject(4, 1e8);
        const plan::Plan plan = averaged(about, 2, 2, {4, 4, 0.25, Merge::Corrected, 0});
        const program::Program program = compiled(plan, about);
        QCOMPARE(program.buckets.size(), std::size_t{2});
        QCOMPARE(stepsOf(program, 2, "s1.M.b1", 12), (Steps{7, 11}));
        plan::Plan local = plan;
        local.exchange.averaging.delay = 0;
        plan::Plan summed = plan;
        summed.exchange = {};
        QVERIFY(iteration(program) < iteration(compiled(local, about)));
        QVERIFY(iteration(compiled(local, about)) < iteration(compiled(summed, about)));
        const auto simulation = simulate::simulatePlan(plan, about);
        QVERIFY(simulation.ok());
        // The trace is one period: every pass four times, every average once. Of the next one it has what lies beside
        // the end.
        std::map<std::string, int> times;
        for (const trace::Record &record : simulation->trace.records)
            if (record.step < 4)
                ++times[simulation->trace.tasks[static_cast<std::size_t>(record.task)].id];
        QCOMPARE(times["s0.F.m0"], 2 * 4);
        QCOMPARE(times["s1.AR.b1"], 2);
        QCOMPARE(times["s1.SN.b1"], 2);
    }

    // The steady state: beside an average that is hidden lies the next round's compute.
    void theTraceIsSteady()
    {
        const plan::Subject about = subject(2);
        const plan::Plan plan = averaged(about, 1, 2, {4, 4, 0.25, Merge::Corrected, 0});
        const auto simulation = simulate::simulatePlan(plan, about);
        QVERIFY(simulation.ok());
        const trace::Trace &trace = simulation->trace;
        QVERIFY((trace.rounds == trace::Rounds{4, 0, true}));
        const auto round = trace::lastWholeRound(trace.rounds, trace::stepWindows(trace));
        QVERIFY(round && round->first == 0);
        QVERIFY(std::abs(round->secondsPerStep() / simulation->report.iterationSeconds - 1) < 1e-6);
        std::int64_t averageEnds = 0;
        std::int64_t computes = 0;
        for (const trace::Record &record : trace.records) {
            const trace::TaskInfo &task = trace.tasks[static_cast<std::size_t>(record.task)];
            if (task.id == "s0.AR.b0" && record.step == 3)
                averageEnds = std::max(averageEnds, record.start + record.duration);
            if (record.rank == 0 && trace.lanes[static_cast<std::size_t>(record.lane)].work == trace::Work::Compute)
                computes += record.duration;
        }
        QVERIFY(averageEnds > round->window.end);
        // Rank 0 computes from the beginning of the round to the end of the average, but for a task that is cut off.
        double longest = 0;
        for (const char *id : {"s0.F.m0", "s0.B.m0", "s0.O"})
            longest = std::max(longest, secondsOf(compiled(plan, about), id));
        QVERIFY(static_cast<double>(computes) * 1e-9 >= static_cast<double>(averageEnds) * 1e-9 - longest);
        QVERIFY(simulation->report.bubbleFraction < 1e-6);
        QVERIFY(simulation->report.devices[0].commFraction <= 1);
    }

    void refusals_data()
    {
        QTest::addColumn<int>("stages");
        QTest::addColumn<QString>("change");
        QTest::addColumn<QString>("message");
        QTest::newRow("one replica") << 1 << "alone"
                                     << "averages over replicas, and stage 0 has one";
        QTest::newRow("unequal replicas") << 2 << "unequal"
                                          << "stage 1 has 1 with shares 1, stage 0 has 2 with 0.5, 0.5";
        QTest::newRow("ZeRO") << 1 << "zero"
                              << "stage 0 has ZeRO 1";
        QTest::newRow("clipping") << 1 << "clip"
                                  << "set clip_norm to 0";
        QTest::newRow("norms") << 1 << "lamb"
                               << "update rule lamb takes norms over all ranks";
        QTest::newRow("delay") << 1 << "delay"
                               << "give a delay from 0 to local_steps";
        QTest::newRow("weight") << 1 << "weight"
                                << "give a local_weight from 0 to below 1";
        QTest::newRow("steps") << 1 << "steps"
                               << "give local_steps from 1";
        QTest::newRow("tied over stages") << 2 << "tied"
                                          << "exchange dasgd needs both uses in one stage";
    }
    void refusals()
    {
        QFETCH(int, stages);
        QFETCH(QString, change);
        QFETCH(QString, message);
        const plan::Subject about = subject(4, 1e9, change == "tied");
        plan::Plan plan = averaged(about, static_cast<std::size_t>(stages), 2, {4, 2, 0.25, Merge::Corrected, 0});
        if (change == "alone")
            plan.stages[0].devices.resize(1);
        if (change == "unequal")
            plan.stages[1].devices.resize(1);
        if (change == "zero")
            plan.stages[0].zero = 1;
        if (change == "clip")
            plan.optimizer.clipNorm = 1;
        if (change == "lamb")
            plan.optimizer.rule = *update::ConfiguredRule::named("lamb");
        if (change == "delay")
            plan.exchange.averaging.delay = 5;
        if (change == "weight")
            plan.exchange.averaging.localWeight = 1;
        if (change == "steps")
            plan.exchange.averaging.localSteps = 0;
        const auto program = compile::compilePlan(plan, about, {.bodies = false});
        QVERIFY(!program);
        QVERIFY2(program.error().message.find(message.toStdString()) != std::string::npos,
                 program.error().message.c_str());
    }

    void equalSharesMayBeSpelledOut()
    {
        const plan::Subject about = subject(4);
        plan::Plan plan = averaged(about, 2, 2, {4, 2, 0.25, Merge::Corrected, 0});
        plan.stages[1].replicaShares = {0.5, 0.5};
        QVERIFY(compile::compilePlan(plan, about, {.bodies = false}).ok());
        plan.stages[1].replicaShares = {0.75, 0.25};
        const auto refused = compile::compilePlan(plan, about, {.bodies = false});
        QVERIFY(!refused && refused.error().message.find("stage 1 has 2 with shares 0.75, 0.25") != std::string::npos);
    }

    void planFilesKeepEverySetting()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = averaged(about, 1, 2, {6, 3, 0.5, Merge::Convex, 7});
        plan.exchange.groups.push_back({"rank<2", plan::ExchangePolicy::AllReduce});
        const auto read = plan::documentFromJson(plan::toJson({plan, about}));
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QCOMPARE(read->plan.exchange.policy, plan.exchange.policy);
        QVERIFY(read->plan.exchange.averaging == plan.exchange.averaging);
        QVERIFY(read->plan.exchange.groups == plan.exchange.groups);
    }

    // Groups: what is averaged and what is summed in every step stand in buckets of their own.
    void groupsKeepTheirPolicy()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = averaged(about, 1, 2, {4, 2, 0.25, Merge::Corrected, 0});
        plan.exchange.groups.push_back({"rank<2", plan::ExchangePolicy::AllReduce});
        const program::Program program = compiled(plan, about);
        QCOMPARE(program.buckets.size(), std::size_t{2});
        QVERIFY(program.buckets[0].policy != program.buckets[1].policy);
        for (std::size_t b = 0; b < 2; ++b) {
            const bool averages = program.buckets[b].isAveraged();
            const std::string id = "s0.AR.b" + std::to_string(b);
            QCOMPARE(stepsOf(program, 0, id, 8), averages ? (Steps{3, 7}) : (Steps{0, 1, 2, 3, 4, 5, 6, 7}));
        }
    }

    void textsGoBothWays()
    {
        plan::Exchange exchange;
        QCOMPARE(textOf(exchange), std::string("all-reduce"));
        exchange.policy = plan::ExchangePolicy::DelayedAveraging;
        exchange.averaging = {6, 3, 0.5, Merge::Convex, 7};
        const auto read = plan::exchangeFromText(textOf(exchange));
        QVERIFY(read.ok());
        QVERIFY(read->policy == exchange.policy && read->averaging == exchange.averaging);
        for (const auto &[text, message] :
             {std::pair{"gossip", "\"gossip\" is not known; there is all-reduce, embrace, dasgd"},
              {"dasgd,tau=4", "no setting \"tau\"; it has local_steps"},
              {"dasgd,delay=soon", "delay is \"soon\"; give a whole number"},
              {"dasgd,delay=1,delay=2", "delay is given twice"},
              {"dasgd,delay", "write KEY=VALUE"},
              {"dasgd,merge=mean", "\"mean\" is not known; there is convex, corrected"},
              {"dasgd,inside=rack", "inside a \"rack\"; there is replica, machine"},
              {"all-reduce,delay=1", "has no setting \"delay=1\"; leave it out"},
              {"dasgd,local_steps=2,delay=3", "give a delay from 0 to local_steps"}}) {
            const auto refused = plan::exchangeFromText(text);
            QVERIFY(!refused);
            QVERIFY2(refused.error().message.find(message) != std::string::npos, refused.error().message.c_str());
        }
    }
};

QTEST_GUILESS_MAIN(TestDelayedAveraging)
#include "tst_delayed_averaging.moc"
