// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/fingerprint.h"
#include "engine/plan/plan.h"
#include "engine/plan/validate.h"
#include "tests/pass_steps.h"

#include <QTemporaryDir>
#include <QTest>

#include <functional>
#include <nlohmann/json.hpp>

using namespace planloom;
using namespace planloom::plan;

namespace {

std::shared_ptr<const graph::Graph> chain(int layers)
{
    graph::GraphBuilder builder("chain");
    TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({8}));
    for (int i = 0; i < layers; ++i) {
        builder.pushScope("h");
        builder.pushScope(std::to_string(i));
        const TensorId w = builder.parameter("w" + std::to_string(i), graph::Shape::of({8, 8}),
                                             {graph::Initializer::Kind::Normal, 0, 0.02, nullptr, {}, 0});
        x = builder.add("Gemm", {x, w});
        builder.popScope();
        builder.popScope();
    }
    builder.output(x);
    return std::make_shared<const graph::Graph>(*std::move(builder).build());
}

const Subject &subject()
{
    static const Subject kSubject =
        makeSubject(chain(6), std::make_shared<const cluster::Cluster>(*cluster::preset("dapple-a")), nullptr,
                    "chain.json");
    return kSubject;
}

std::vector<DeviceId> devices(int first, int last)
{
    std::vector<DeviceId> made;
    for (int id = first; id < last; ++id)
        made.emplace_back(id);
    return made;
}

Stage stage(const char *name, std::size_t first, std::size_t last, std::vector<DeviceId> on)
{
    Stage made;
    made.name = name;
    made.firstLayer = first;
    made.lastLayer = last;
    made.devices = std::move(on);
    return made;
}

/// Two stages of eight replicas, 32 samples in 4 micro-batches.
Plan good()
{
    Plan plan;
    plan.modelName = "chain";
    plan.modelSource = "chain.json";
    plan.clusterName = "dapple-a";
    plan.globalBatch = 32;
    plan.microBatches = 4;
    plan.stages = {stage("front", 0, 3, devices(0, 8)), stage("back", 3, 6, devices(8, 16))};
    return plan;
}

/// One stage on one device and two micro-batches, ordered by hand.
Plan custom(std::vector<std::string> order)
{
    Plan plan = good();
    plan.microBatches = 2;
    plan.stages = {stage("all", 0, 6, devices(0, 1))};
    plan.schedule.kind = ScheduleKind::Custom;
    plan.schedule.order["n0:g0"] = test::passSteps(order);
    return plan;
}

using Change = std::function<void(Plan &)>;

} // namespace

class PlanTest : public QObject {
    Q_OBJECT

    static void refuses(const Plan &plan, const QString &says)
    {
        const Status status = validate(plan, subject());
        QVERIFY2(!status.ok(), "accepted");
        QVERIFY2(QString::fromStdString(status.error().message).contains(says), status.error().message.c_str());
    }

private slots:
    void scheduleNamesGoBothWays()
    {
        for (const std::string &text : scheduleNames())
            QCOMPARE(std::string(name(*scheduleFromName(text))), text);
        QVERIFY(!scheduleFromName("zigzag"));
    }

    void microBatchesCoverTheBatch_data()
    {
        QTest::addColumn<int>("batch");
        QTest::addColumn<int>("count");
        QTest::newRow("even") << 32 << 4;
        QTest::newRow("uneven") << 10 << 4;
        QTest::newRow("singles") << 7 << 7;
        QTest::newRow("one") << 9 << 1;
    }
    void microBatchesCoverTheBatch()
    {
        QFETCH(int, batch);
        QFETCH(int, count);
        Plan plan = good();
        plan.globalBatch = batch;
        plan.microBatches = count;
        std::int64_t end = 0;
        for (int m = 0; m < count; ++m) {
            const SampleRange range = microBatchRange(plan, m);
            QCOMPARE(range.begin, end);
            QVERIFY(range.size == batch / count || (range.size == batch / count + 1 && m < batch % count));
            end += range.size;
        }
        QCOMPARE(end, batch);
    }

    void replicasCoverTheMicroBatch_data()
    {
        QTest::addColumn<std::vector<double>>("shares");
        QTest::addColumn<int>("samples");
        QTest::addColumn<std::vector<int>>("sizes");
        QTest::newRow("equal") << std::vector<double>{} << 10 << std::vector<int>{4, 3, 3};
        QTest::newRow("by share") << std::vector<double>{0.5, 0.3, 0.2} << 10 << std::vector<int>{5, 3, 2};
        QTest::newRow("largest remainder") << std::vector<double>{0.5, 0.25, 0.25} << 9 << std::vector<int>{5, 2, 2};
        QTest::newRow("ties go first") << std::vector<double>{0.25, 0.5, 0.25} << 2 << std::vector<int>{1, 1, 0};
        QTest::newRow("thirds") << std::vector<double>{1.0 / 3, 1.0 / 3, 1.0 / 3} << 9 << std::vector<int>{3, 3, 3};
        QTest::newRow("decimal shares") << std::vector<double>{0.29, 0.70, 0.01} << 100 << std::vector<int>{29, 70, 1};
    }
    void replicasCoverTheMicroBatch()
    {
        QFETCH(std::vector<double>, shares);
        QFETCH(int, samples);
        QFETCH(std::vector<int>, sizes);
        Stage made = stage("s", 0, 1, devices(0, 3));
        made.replicaShares = shares;
        std::int64_t end = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const SampleRange range = replicaRange(made, i, samples);
            QCOMPARE(range.begin, end);
            QCOMPARE(range.size, static_cast<std::int64_t>(sizes[i]));
            end += range.size;
        }
        QCOMPARE(end, samples);
    }

    void warmupFollowsTheKind_data()
    {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<int>("microBatches");
        QTest::addColumn<std::vector<int>>("given");
        QTest::addColumn<std::vector<int>>("depths");
        using Ints = std::vector<int>;
        QTest::newRow("gpipe") << "gpipe" << 8 << Ints{} << Ints{8, 8, 8, 8};
        QTest::newRow("1f1b") << "1f1b" << 8 << Ints{} << Ints{4, 3, 2, 1};
        QTest::newRow("policy A") << "dapple-a" << 8 << Ints{} << Ints{4, 3, 2, 1};
        QTest::newRow("policy A, D = 3") << "dapple-a" << 8 << Ints{3, 3, 3, 3} << Ints{3, 3, 2, 1};
        QTest::newRow("policy B") << "dapple-b" << 8 << Ints{} << Ints{7, 5, 3, 1};
        QTest::newRow("policy B, D = 4") << "dapple-b" << 8 << Ints{4, 4, 4, 4} << Ints{4, 4, 3, 1};
        QTest::newRow("no more than micro-batches") << "dapple-b" << 2 << Ints{} << Ints{2, 2, 2, 1};
        QTest::newRow("as given") << "custom" << 8 << Ints{5, 1, 2, 1} << Ints{5, 1, 2, 1};
    }
    void warmupFollowsTheKind()
    {
        QFETCH(QString, kind);
        QFETCH(int, microBatches);
        QFETCH(std::vector<int>, given);
        Plan plan = good();
        plan.microBatches = microBatches;
        plan.stages = {stage("a", 0, 1, devices(0, 1)), stage("b", 1, 2, devices(1, 2)),
                       stage("c", 2, 3, devices(2, 3)), stage("d", 3, 6, devices(3, 4))};
        plan.schedule.kind = *scheduleFromName(kind.toStdString());
        plan.schedule.warmup = given;
        QTEST(warmupDepths(plan), "depths");
    }

    void customWarmupIsCountedFromTheOrder()
    {
        const Plan plan = custom({"s0.F.m0", "s0.F.m1", "s0.B.m0", "s0.B.m1"});
        QVERIFY(validate(plan, subject()).ok());
        QCOMPARE(warmupDepths(plan), std::vector<int>{2});
        QCOMPARE(warmupDepths(custom({"s0.F.m0", "s0.B.m0", "s0.F.m1", "s0.B.m1"})), std::vector<int>{1});
    }

    void notations()
    {
        Plan plan = good();
        QCOMPARE(notation(plan), std::string("8:8 (3:3)"));
        plan.stages = {stage("a", 0, 2, devices(0, 1)), stage("b", 2, 6, devices(1, 2))};
        QCOMPARE(notation(plan), std::string("straight"));
        plan.stages = {stage("a", 0, 6, devices(0, 16))};
        QCOMPARE(notation(plan), std::string("DP"));
        QCOMPARE(replicaText(plan.stages[0]), std::string("16"));
        plan.stages[0].mesh = {4, 4};
        QCOMPARE(notation(plan), std::string("DP 4 x TP 4"));
        QCOMPARE(replicaText(plan.stages[0]), std::string("4x4"));
        plan.stages[0].mesh = {1, 16};
        QCOMPARE(notation(plan), std::string("TP"));
        plan = good();
        plan.stages[1].mesh = {2, 4};
        QCOMPARE(notation(plan), std::string("8:2x4 (3:3)"));
        plan.stages = {stage("a", 0, 6, devices(3, 4))};
        QCOMPARE(notation(plan), std::string("one device"));
    }

    void goodPlanIsAccepted()
    {
        const Status status = validate(good(), subject());
        QVERIFY2(status.ok(), status ? "" : status.error().message.c_str());
    }

    void badPlansSayWhy_data()
    {
        QTest::addColumn<Change>("change");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *tag, const char *says, Change change) {
            QTest::newRow(tag) << std::move(change) << QString(says);
        };
        row("no stages", "the plan has no stages", [](Plan &p) { p.stages.clear(); });
        row("gap", "layer 3 (h/3) is in no stage; end stage 0 (\"front\") at 4 or begin stage 1 (\"back\") at 3",
            [](Plan &p) { p.stages[1].firstLayer = 4; });
        row("overlap",
            "layer 2 (h/2) is in stage 0 (\"front\") and again in stage 1 (\"back\"); begin stage 1 (\"back\") at "
            "layer 3",
            [](Plan &p) { p.stages[1].firstLayer = 2; });
        row("beginning", "layers 0..2 (h/0 to h/1) are in no stage; stage 0 (\"front\") must begin at layer 0",
            [](Plan &p) { p.stages[0].firstLayer = 2; });
        row("end", "layer 5 (h/5) is in no stage; end stage 1 (\"back\") at layer 6",
            [](Plan &p) { p.stages[1].lastLayer = 5; });
        row("too far", "ends at layer 9, but the model has only 6 layers", [](Plan &p) { p.stages[1].lastLayer = 9; });
        row("empty stage",
            "stage 0 (\"front\") needs at least one layer; give it one of a neighbour's or remove the stage",
            [](Plan &p) { p.stages[0].lastLayer = 0; });
        row("the name by default", "stage 1 needs at least one layer", [](Plan &p) {
            p.stages[1].name = "stage1";
            p.stages[1].lastLayer = p.stages[1].firstLayer;
        });
        row("no device", "stage 1 (\"back\") has no devices", [](Plan &p) { p.stages[1].devices.clear(); });
        row("unknown device", "device 99 does not exist; cluster dapple-a has 16 devices, n0:g0 to n1:g7",
            [](Plan &p) { p.stages[1].devices[0] = DeviceId(99); });
        row("invalid device", "device -1 does not exist", [](Plan &p) { p.stages[1].devices[0] = DeviceId(); });
        row("device twice", "lists device n1:g0 twice", [](Plan &p) { p.stages[1].devices[1] = DeviceId(8); });
        row("device in two stages", "device n0:g0 is in stage 0 (\"front\") and in stage 1 (\"back\")",
            [](Plan &p) { p.stages[1].devices[0] = DeviceId(0); });
        row("no micro-batch", "0 micro-batches; at least 1", [](Plan &p) { p.microBatches = 0; });
        row("too many micro-batches", "33 micro-batches are more than the 32 samples",
            [](Plan &p) { p.microBatches = 33; });
        row("no batch", "global batch is 0", [](Plan &p) { p.globalBatch = 0; });
        row("endless", "more than the 10000000", [](Plan &p) { p.globalBatch = p.microBatches = 900'000'000; });
        row("idle replica",
            "8 replicas but micro-batches of 4 samples: the one on n0:g4 would have none; use at most 4 replicas or at "
            "most 4 micro-batches",
            [](Plan &p) { p.microBatches = 8; });
        row("starved by share", "replica 0 on n0:g0 gets no sample of a micro-batch of 8", [](Plan &p) {
            p.stages[0].devices = devices(0, 2);
            p.stages[0].replicaShares = {0.01, 0.99};
        });
        row("shares sum", "sum to 0.9", [](Plan &p) { p.stages[0].replicaShares = std::vector<double>(8, 0.1125); });
        row("shares count", "2 replica shares for 8 replicas", [](Plan &p) { p.stages[0].replicaShares = {0.5, 0.5}; });
        row("negative share", "replica share of -",
            [](Plan &p) { p.stages[0].replicaShares = {-1, 1, 1, 0, 0, 0, 0, 0}; });
        row("mesh", "mesh 3 x 3 has 9 places for 8 devices", [](Plan &p) { p.stages[0].mesh = {3, 3}; });
        row("sharding of nothing", "tensor \"nothing\"", [](Plan &p) { p.stages[0].shardings["nothing"] = "B"; });
        row("sharding of nothing's gradient", "tensor \"nothing/GemmGrad:0\"",
            [](Plan &p) { p.stages[0].shardings["grad/nothing/GemmGrad:0"] = "B"; });
        row("sharding text", "is not a sharding", [](Plan &p) { p.stages[0].shardings["x"] = "Q"; });
        row("sharding parts", "has 2 parts for a mesh of 1", [](Plan &p) { p.stages[0].shardings["x"] = "S(0),B"; });
        row("sharding pattern", "which no tensor of model chain matches",
            [](Plan &p) { p.stages[0].shardings["v*"] = "B"; });
        row("sharded over replicas", "sharding \"S(0)\" of parameter \"w0\" must begin with B",
            [](Plan &p) { p.stages[0].shardings["w0"] = "S(0)"; });
        row("mesh dimensions", "has 9 dimensions; at most 8",
            [](Plan &p) { p.stages[0].mesh = {8, 1, 1, 1, 1, 1, 1, 1, 1}; });
        row("mesh of nothing", "a dimension of the device mesh is 0", [](Plan &p) { p.stages[0].mesh = {0, 8}; });
        row("idle replica of a mesh", "4 replicas but micro-batches of 2 samples: the one on n0:g4 would have none",
            [](Plan &p) {
                p.microBatches = 16;
                p.stages[0].mesh = {4, 2};
                p.stages[1].mesh = {1, 8};
            });
        row("shares of a mesh", "8 replica shares for 2 replicas", [](Plan &p) {
            p.stages[0].mesh = {2, 4};
            p.stages[0].replicaShares = std::vector<double>(8, 0.125);
        });
        row("ZeRO", "there is no ZeRO level 4", [](Plan &p) { p.stages[0].zero = 4; });
        row("registers", "has -1 registers", [](Plan &p) { p.stages[1].registers = -1; });
        row("clip", "clipped to a norm of -1", [](Plan &p) { p.optimizer.clipNorm = -1; });
        row("rate kind", "learning-rate schedule is of an unknown kind",
            [](Plan &p) { p.optimizer.schedule.kind = static_cast<LearningRateSchedule::Kind>(9); });
        row("rate warm-up", "has -1 warm-up steps", [](Plan &p) { p.optimizer.schedule.warmupSteps = -1; });
        row("rate end", "ends at step 10, within its 10 warm-up steps", [](Plan &p) {
            p.optimizer.schedule.warmupSteps = 10;
            p.optimizer.schedule.totalSteps = 10;
        });
        row("rate minimum", "falls to 1.5 times itself", [](Plan &p) { p.optimizer.schedule.minimum = 1.5; });
        row("group of nothing", "\"b*\" matches no parameter of model chain", [](Plan &p) {
            p.optimizer.groups = {{"b*", 0, 1}};
        });
        row("group by rank", "\"rank<2\" matches no parameter", [](Plan &p) {
            p.optimizer.groups = {{"rank<2", 0, 1}};
        });
        row("group's decay", "a weight decay of -1", [](Plan &p) { p.optimizer.groups = {{"*", -1, 1}}; });
        row("warm-up count", "1 warm-up depths for 2 stages", [](Plan &p) { p.schedule.warmup = {1}; });
        row("warm-up zero", "the warm-up of stage 1 (\"back\") is 0", [](Plan &p) { p.schedule.warmup = {1, 0}; });
        row("order without custom", "but is of kind 1f1b",
            [](Plan &p) { p.schedule.order["n0:g0"] = test::passSteps({"s0.F.m0"}); });
        row("kind", "unknown kind", [](Plan &p) { p.schedule.kind = static_cast<ScheduleKind>(77); });
        row("exchange", "\"unknown\" is not known; there is all-reduce",
            [](Plan &p) { p.exchange.policy = static_cast<ExchangePolicy>(9); });
        row("exchange group", "exchange group \"b*\" matches no parameter", [](Plan &p) {
            p.exchange.groups = {{"b*", ExchangePolicy::AllReduce}};
        });
        row("learning rate", "learning rate is -1", [](Plan &p) { p.optimizer.learningRate = -1; });
        row("epsilon", "epsilon is 0; adamw takes one above 0 to below",
            [](Plan &p) { QVERIFY(p.optimizer.rule.set("epsilon", 0)); });
        row("momentum", "momentum is 1; sgd takes one from 0 to below 1", [](Plan &p) {
            p.optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", 1}});
        });
    }
    void badPlansSayWhy()
    {
        QFETCH(Change, change);
        QFETCH(QString, says);
        Plan plan = good();
        change(plan);
        refuses(plan, says);
    }

    void badOrdersSayWhy_data()
    {
        QTest::addColumn<std::vector<std::string>>("order");
        QTest::addColumn<QString>("says");
        using Order = std::vector<std::string>;
        QTest::newRow("misses") << Order{"s0.F.m0", "s0.B.m0", "s0.F.m1"} << "misses 1 of 4 passes, such as s0.B.m1";
        QTest::newRow("twice") << Order{"s0.F.m0", "s0.F.m0", "s0.B.m0", "s0.B.m1"} << "has s0.F.m0 twice";
        QTest::newRow("backward first") << Order{"s0.B.m0", "s0.F.m0", "s0.F.m1", "s0.B.m1"}
                                        << "s0.B.m0 before its forward";
        QTest::newRow("another stage's") << Order{
            "s1.F.m0"} << "the order of device n0:g0 has s1.F.m0, which is none of its passes s0.F.m0 to s0.B.m1";
    }
    void badOrdersSayWhy()
    {
        QFETCH(std::vector<std::string>, order);
        QFETCH(QString, says);
        refuses(custom(order), says);
    }

    void differencesAreNamed()
    {
        const Plan a = good();
        QVERIFY(difference(a, a).empty());
        Plan b = a;
        b.microBatches = 2;
        b.stages[0].lastLayer = 2;
        b.stages[1].firstLayer = 2;
        b.stages[1].devices = devices(8, 14);
        b.stages[1].recompute = Recompute::Full;
        b.schedule.kind = ScheduleKind::DappleA;
        b.schedule.warmup = {2, 1};
        const std::vector<std::string> expected{
            "micro-batches 4 -> 2",          "stage 0: layers 0..3 -> 0..2",    "stage 1: layers 3..6 -> 2..6",
            "stage 1: devices 8-15 -> 8-13", "stage 1: recompute none -> full", "schedule 1f1b -> dapple-a",
            "warm-up by kind -> 2,1"};
        QCOMPARE(difference(a, b), expected);
        b = a;
        b.stages.pop_back();
        QCOMPARE(difference(a, b), std::vector<std::string>{"stage 1: removed (layers 3..6 on devices 8-15)"});
        QCOMPARE(difference(b, a), std::vector<std::string>{"stage 1: added, layers 3..6 on devices 8-15"});
    }

    void fingerprintsTellSimulationsApart()
    {
        const Document document{good(), subject()};
        const std::string own = fingerprint(document);
        const auto changed = [&](const Change &change) {
            Document other = document;
            change(other.plan);
            return fingerprint(other) != own;
        };
        // Names, learning rates and another name for the same order do not matter.
        QVERIFY(!changed([](Plan &p) { p.stages[0].name = "first"; }));
        QVERIFY(!changed([](Plan &p) { p.planner.name = "auto"; }));
        QVERIFY(!changed([](Plan &p) { p.optimizer.learningRate = 1; }));
        QVERIFY(!changed([](Plan &p) { p.optimizer.weightDecay = 1; }));
        QVERIFY(!changed([](Plan &p) { p.schedule.kind = ScheduleKind::DappleA; }));
        QVERIFY(!changed([](Plan &p) { p.stages[0].mesh = {8}; }));
        QVERIFY(changed([](Plan &p) { p.schedule.kind = ScheduleKind::GPipe; }));
        QVERIFY(changed([](Plan &p) { p.schedule.kind = ScheduleKind::ZeroBubbleH1; }));
        QVERIFY(changed([](Plan &p) { p.microBatches = 8; }));
        QVERIFY(changed([](Plan &p) { p.globalBatch = 64; }));
        QVERIFY(changed([](Plan &p) { p.stages[0].lastLayer = p.stages[1].firstLayer = 2; }));
        QVERIFY(changed([](Plan &p) { p.stages[1].zero = 1; }));
        QVERIFY(changed([](Plan &p) { p.optimizer.clipNorm = 1; }));
        QVERIFY(changed([](Plan &p) { p.optimizer.rule = *update::ConfiguredRule::named("sgd"); }));
        QVERIFY(changed([](Plan &p) { p.precision = Precision::BFloat16; }));
        const Document moved{document.plan,
                             makeSubject(subject().graph,
                                         std::make_shared<const cluster::Cluster>(*cluster::preset("dapple-b")),
                                         nullptr, "chain.json")};
        QVERIFY(fingerprint(moved) != own);
        const auto read = documentFromJson(toJson(document)); // as the agent gets it
        QVERIFY(read.ok());
        QCOMPARE(fingerprint(*read), own);
    }

    /// The graph is written where the hash is made, not where a fingerprint is asked for.
    void fingerprintsOfHashedSubjects()
    {
        Document document{good(), subject()};
        Fingerprints known;
        QVERIFY(known.of(document).empty());
        known.add(document.subject, subjectHash(document.subject));
        QCOMPARE(known.of(document), fingerprint(document));
        document.plan.microBatches = 8;
        QCOMPARE(known.of(document), fingerprint(document));
        const Subject first = document.subject;
        for (int other = 0; other < 20; ++other) { // the oldest is forgotten
            document.subject.cluster = std::make_shared<const cluster::Cluster>(*cluster::preset("dapple-b"));
            known.add(document.subject, "hash");
        }
        QVERIFY(known.knows(document.subject));
        QVERIFY(!known.knows(first));
    }

    void fileRoundTrip()
    {
        Plan plan = good();
        plan.planner = {"dapple", {{"policy", "a"}}, 0.25};
        plan.stages[0].recompute = Recompute::Full;
        plan.stages[1].replicaShares = {0.25, 0.75};
        plan.stages[1].mesh = {2, 4};
        plan.stages[1].shardings["x"] = "S(0),B";
        plan.schedule = {ScheduleKind::DappleB, {3, 1}, {}};
        plan.optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", 0.9}});
        plan.estimate = {{"iteration_seconds", 0.5}};
        plan.predictedJson = R"({"iteration_seconds":0.6})";
        QTemporaryDir folder;
        const std::string path = folder.filePath("plan.json").toStdString();
        QVERIFY(writePlan({plan, subject()}, path).ok());
        const auto read = readPlan(path);
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QVERIFY(difference(plan, read->plan).empty());
        QCOMPARE(read->plan.planner.options, plan.planner.options);
        QCOMPARE(read->plan.estimate, plan.estimate);
        QCOMPARE(read->plan.predictedJson, plan.predictedJson);
        QCOMPARE(read->plan.optimizer.rule.setting("momentum"), 0.9);
        QCOMPARE(read->subject.modelSource, std::string("chain.json"));
        QCOMPARE(toJson(*read), toJson({plan, subject()}));
    }

    /// Every field of sharded and real training survives; plans without them are written without them.
    void trainingRoundTrip()
    {
        Plan plan = good();
        const QString before = QString::fromStdString(toJson({plan, subject()}));
        for (const char *key :
             {"\"zero\"", "\"registers\"", "\"precision\"", "\"clip_norm\"", "\"warmup_steps\"", "\"groups\""})
            QVERIFY2(!before.contains(key), key);
        plan.stages[0].mesh = {2, 4};
        plan.stages[0].zero = 3;
        plan.stages[0].registers = 2;
        plan.stages[0].shardings = {{"*w*", "B,S(1)"}};
        plan.precision = Precision::BFloat16;
        plan.optimizer.clipNorm = 0.1;
        plan.optimizer.schedule = {LearningRateSchedule::Kind::Cosine, 10, 200, 0.1};
        plan.optimizer.groups = {{"*0", 0, 0.5}, {"rank<3", 0.2, 1}};
        plan.exchange.groups = {{"rank<3", ExchangePolicy::AllReduce}};
        const std::string text = toJson({plan, subject()});
        const auto read = documentFromJson(text);
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QCOMPARE(difference(plan, read->plan), std::vector<std::string>{});
        QCOMPARE(toJson(*read), text);
        QCOMPARE(read->plan.stages[0].zero, 3);
        QCOMPARE(read->plan.stages[0].registers, 2);
        QCOMPARE(name(read->plan.precision), "bf16");
        QCOMPARE(read->plan.optimizer.clipNorm, 0.1);
        QCOMPARE(read->plan.optimizer.schedule.totalSteps, std::int64_t{200});
        QCOMPARE(read->plan.optimizer.groups[0].learningRateFactor, 0.5);
        QCOMPARE(read->plan.exchange.groups[0].match, std::string("rank<3"));
    }

    void trainingDifferencesAreNamed()
    {
        const Plan a = good();
        Plan b = a;
        b.stages[1].zero = 1;
        b.stages[1].registers = 3;
        b.precision = Precision::BFloat16;
        b.optimizer.clipNorm = 1;
        b.optimizer.schedule = {LearningRateSchedule::Kind::Linear, 5, 0, 0.1};
        b.optimizer.groups = {{"rank<2", 0, 1}};
        const std::vector<std::string> expected{
            "stage 1: ZeRO 0 -> 1",
            "stage 1: registers by schedule -> 3",
            "precision fp32 -> bf16",
            "gradients clipped to norm 0 -> 1",
            "learning rate constant after 0 warm-up steps -> linear to 0.1 at the end after 5 warm-up steps",
            "parameter groups none -> rank<2 (decay 0, rate x 1)"};
        QCOMPARE(difference(a, b), expected);
    }

    void contractFieldsAreThere()
    {
        const auto json = nlohmann::json::parse(toJson({good(), subject()}));
        for (const char *key : {"schema", "model", "cluster", "planner", "global_batch", "micro_batches", "stages",
                                "schedule", "exchange", "optimizer", "estimate", "predicted", "embedded"})
            QVERIFY2(json.contains(key), key);
        QCOMPARE(json["stages"][1]["layers"].dump(), std::string("[3,6]"));
        QCOMPARE(json["stages"][1]["devices"][0].get<std::string>(), std::string("n1:g0"));
        QCOMPARE(json["model"]["sha256"].get<std::string>().size(), std::size_t{64});
        QVERIFY(json["embedded"]["graph"].is_object());
    }

    /// Also: no setting of a rule has the name of a field that every optimizer has.
    void everyRuleIsReadAsWritten()
    {
        for (const update::Rule &rule : update::allRules()) {
            Plan plan = good();
            plan.optimizer.rule = update::ConfiguredRule(rule);
            plan.optimizer.weightDecay = 0.25;
            plan.optimizer.learningRate = 0.125;
            plan.optimizer.clipNorm = 2;
            for (const update::Setting &setting : rule.settings)
                QVERIFY(plan.optimizer.rule.set(setting.name, setting.standard / 2 + 0.0625).ok());
            const auto read = documentFromJson(toJson({plan, subject()}));
            QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
            QVERIFY(read->plan.optimizer.rule == plan.optimizer.rule);
            QCOMPARE(read->plan.optimizer.weightDecay, 0.25);
            QCOMPARE(read->plan.optimizer.learningRate, 0.125);
            QCOMPARE(read->plan.optimizer.clipNorm, 2.0);
        }
    }

    void settingsOfAnotherRuleAreRead()
    {
        std::string json = toJson({good(), subject()});
        const std::size_t at = json.find("\"weight_decay\"");
        QVERIFY(at != std::string::npos);
        json.insert(at, "\"momentum\":0.9,"); // the first form of the file had one list for all
        const auto read = documentFromJson(json);
        QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
        QCOMPARE(QString::fromUtf8(read->plan.optimizer.rule.name().data()), QString("adamw"));
    }

    void badFilesNameLineAndField_data()
    {
        QTest::addColumn<QString>("from");
        QTest::addColumn<QString>("to");
        QTest::addColumn<QString>("says");
        QTest::addColumn<int>("line");
        QTest::newRow("syntax") << "\"micro_batches\": 4,"
                                << "\"micro_batches\": 4;"
                                << "not valid JSON" << 7;
        QTest::newRow("schema") << "planloom.plan/1"
                                << "planloom.plan/9"
                                << "planloom.plan/9" << 0;
        QTest::newRow("device") << "\"n1:g0\",\"n1:g1\""
                                << "\"n1:g0\",\"n7:g1\""
                                << "field \"stages[1].devices[1]\": device \"n7:g1\" is not in cluster dapple-a" << 10;
        QTest::newRow("number") << "\"global_batch\": 32"
                                << "\"global_batch\": -3"
                                << "field \"global_batch\": must be a whole number, at least 1" << 6;
        QTest::newRow("layers") << "\"layers\":[3,6]"
                                << "\"layers\":[3]"
                                << "field \"stages[1].layers\": must be [first, one past the last]" << 10;
        QTest::newRow("overlap") << "\"layers\":[3,6]"
                                 << "\"layers\":[2,6]"
                                 << "again in stage 1" << 10;
        QTest::newRow("kind") << "\"kind\":\"1f1b\""
                              << "\"kind\":\"zigzag\""
                              << "\"zigzag\" is not known; there are gpipe" << 12;
        QTest::newRow("order") << "\"order\":{"
                               << "\"order\":{\"n0:g0\":[\"s0.X.m0\"]"
                               << "field \"schedule.order.n0:g0[0]\": \"s0.X.m0\" is no pass; write" << 12;
        QTest::newRow("hand-made model") << "h/0"
                                         << "h/zero"
                                         << "embedded model is not the one" << 3;
        QTest::newRow("missing") << "\"exchange\": {\"kind\":\"all-reduce\"}"
                                 << "\"exchange\": {}"
                                 << "field \"exchange.kind\": is missing" << 13;
        QTest::newRow("zero") << "\"offload\":[]"
                              << "\"zero\":4"
                              << "field \"stages[0].memory.zero\": must be a whole number from 0 to 3" << 9;
        QTest::newRow("registers") << "\"mesh\":[]"
                                   << "\"registers\":-1"
                                   << "field \"stages[0].registers\"" << 9;
        QTest::newRow("precision") << "\"micro_batches\": 4,"
                                   << "\"micro_batches\": 4, \"precision\": \"fp8\","
                                   << "\"fp8\" is not known; there are fp32 and bf16" << 7;
        QTest::newRow("rate kind") << "\"weight_decay\""
                                   << "\"schedule\":{\"kind\":\"wavy\"},\"weight_decay\""
                                   << "\"wavy\" is not known; there are constant, linear" << 14;
        QTest::newRow("group") << "\"weight_decay\""
                               << "\"groups\":[{\"weight_decay\":0}],\"weight_decay\""
                               << "field \"optimizer.groups[0].match\": is missing" << 14;
        QTest::newRow("group of nothing") << "\"weight_decay\""
                                          << "\"groups\":[{\"match\":\"nothing\"}],\"weight_decay\""
                                          << "\"nothing\" matches no parameter" << 14;
        QTest::newRow("optimizer") << "\"kind\":\"adamw\""
                                   << "\"kind\":\"adagrad\""
                                   << "\"adagrad\" is not known; there are adamw, " << 14;
        QTest::newRow("optimizer's setting") << "\"weight_decay\""
                                             << "\"nesterov\":true,\"weight_decay\""
                                             << "\"nesterov\" is no setting of adamw, which has beta1 (" << 14;
        QTest::newRow("exchange") << "\"kind\":\"all-reduce\""
                                  << "\"kind\":\"gossip\""
                                  << "gradient exchange \"gossip\" is not known; there is all-reduce" << 13;
        QTest::newRow("exchange group") << "\"kind\":\"all-reduce\""
                                        << "\"groups\":[{\"match\":\"*\",\"kind\":\"gossip\"}],\"kind\":\"all-reduce\""
                                        << "gradient exchange \"gossip\" is not known; there is all-reduce" << 13;
        QTest::newRow("misspelt") << "\"micro_batches\": 4,"
                                  << "\"micro_batches\": 4, \"precison\": \"bf16\","
                                  << "field \"precison\": is not known; there are schema, " << 7;
        QTest::newRow("misspelt in memory")
            << "\"offload\":[]"
            << "\"policy\":\"delta\",\"budgt\":\"30%\""
            << "field \"stages[0].memory.budgt\": is not known; there are recompute, offload, zero, policy, budget"
            << 9;
        QTest::newRow("misspelt in a stage") << "\"mesh\":[]"
                                             << "\"meshes\":[]"
                                             << "field \"stages[0].meshes\": is not known" << 9;
        QTest::newRow("misspelt in the schedule") << "\"order\":{"
                                                  << "\"oder\":{"
                                                  << "field \"schedule.oder\": is not known" << 12;
        QTest::newRow("misspelt in the exchange") << "\"kind\":\"all-reduce\""
                                                  << "\"kind\":\"dasgd\",\"localsteps\":7"
                                                  << "field \"exchange.localsteps\": is not known" << 13;
        QTest::newRow("of averages") << "\"kind\":\"all-reduce\""
                                     << "\"kind\":\"embrace\",\"local_steps\":8"
                                     << "field \"exchange.local_steps\": has no meaning with exchange embrace" << 13;
        QTest::newRow("of tables") << "\"kind\":\"all-reduce\""
                                   << "\"kind\":\"dasgd\",\"scheduling\":\"2d\""
                                   << "field \"exchange.scheduling\": has no meaning with exchange dasgd" << 13;
        QTest::newRow("of what is no table")
            << "\"kind\":\"all-reduce\""
            << "\"kind\":\"all-reduce\",\"dense\":\"dasgd\""
            << "field \"exchange.dense\": has no meaning with exchange all-reduce" << 13;
        QTest::newRow("misspelt of a table")
            << "\"kind\":\"all-reduce\""
            << "\"kind\":\"embrace\",\"tables\":[{\"parameter\":\"wte\",\"spilt\":false}]"
            << "field \"exchange.tables[0].spilt\": is not known; there are parameter, strategy, split" << 13;
        QTest::newRow("offload") << "\"offload\":[]"
                                 << "\"offload\":[\"a\"]"
                                 << "offload is not supported" << 9;
    }
    void badFilesNameLineAndField()
    {
        QFETCH(QString, from);
        QFETCH(QString, to);
        QFETCH(QString, says);
        QFETCH(int, line);
        QString text = QString::fromStdString(toJson({good(), subject()}));
        QVERIFY2(text.contains(from), qPrintable(text.left(2000)));
        text.replace(text.indexOf(from), from.size(), to);
        const auto read = documentFromJson(text.toStdString());
        QVERIFY(!read.ok());
        QVERIFY2(QString::fromStdString(read.error().message).contains(says), read.error().message.c_str());
        QCOMPARE(read.error().line, line);
    }

    void missingFileIsNamed()
    {
        const auto read = readPlan("/nowhere/plan.json");
        QVERIFY(!read.ok());
        QVERIFY(QString::fromStdString(read.error().text()).contains("/nowhere/plan.json"));
    }
};

QTEST_GUILESS_MAIN(PlanTest)
#include "tst_plan.moc"
