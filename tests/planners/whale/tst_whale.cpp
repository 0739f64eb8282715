// SPDX-License-Identifier: Apache-2.0
// The Whale planner on whole problems: presets with unequal devices, annotations, memory that binds, and what is
// refused.
#include "engine/compile/compile.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/model/zoo.h"
#include "planners/common/explain.h"
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <numeric>

using namespace planloom;
using planners::Options;
using planners::PlanReport;
using planners::Problem;
using testing::must;
using testing::planned;

namespace {

Problem problemFor(const std::string &model, const std::string &preset, std::int64_t batch)
{
    return testing::problemOf(must(import::loadModel("zoo:" + model)), must(cluster::preset(preset)), batch);
}

import::Model smallGpt(int layers = 6){graph::TransformerConfig config;
config.name = "small";
config.layers = layers;
config.heads = 4;
config.hidden = 64;
config.feedForward = 256;
config.vocabulary = 256;
config.context = 32;
config.tiedEmbeddings = false;
import::Model model;
model.graph = std::make_shared<const graph::Graph>(must(graph::gpt(config)));
model.source = "zoo:small";
return model;
} // namespace

Problem annotated(Problem problem, const std::vector<std::string> &annotations)
{
    for (const std::string &text : annotations)
        problem.annotations.push_back(must(plan::annotationFromText(text)));
    return problem;
}

Error errorOf(const Problem &problem, const Options &options = {})
{
    NoProgress progress;
    const auto report = planners::planAndExplain(*must(planners::findPlanner("whale")), problem, options, progress);
    if (report)
        throw std::runtime_error("a plan was found: " + plan::notation(report->plan));
    return report.error();
}

/// One node of two fast devices with much memory and one of two slow ones with @p slowGb.
cluster::Cluster mixed(double fastGb, double slowGb)
{
    cluster::ClusterBuilder builder("mixed");
    const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
    int n = 0;
    for (const auto &[name, gb] : {std::pair{"V100-32GB", fastGb}, std::pair{"P100", slowGb}}) {
        cluster::DeviceType type = *cluster::knownDeviceType(name);
        type.memory = Bytes(static_cast<std::int64_t>(gb * 1e9));
        const std::size_t index = builder.type(type);
        const NodeId node = builder.node("n" + std::to_string(n++));
        for (int i = 0; i < 2; ++i)
            builder.link({cluster::Link::Kind::Network, builder.vertexOf(builder.device(node, index)), network, 10e9,
                          10e9, Seconds(1e-6), true});
    }
    return must(std::move(builder).build());
}

/// Layers of equal time, with @p megabytes of activations a sample and @p weightMegabytes of weights each.
import::Model profile(std::size_t count, double megabytes,
                      double weightMegabytes){std::vector<import::ProfileLayerSpec> layers;
for (std::size_t i = 0; i < count; ++i)
    layers.push_back({"layer_" + std::to_string(i), 2, 4, megabytes * 1e6, weightMegabytes * 1e6,
                      i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1}});
import::Model model = must(import::profileModel("even", 1, layers));
cost::Profile times = *model.profile;
times.deviceType = "V100";
model.profile = std::make_shared<const cost::Profile>(std::move(times));
return model;
}

class StopsAfter final : public Progress {
public:
    explicit StopsAfter(int reports) : m_left(reports) {}
    void report(double, std::string_view) override { --m_left; }
    [[nodiscard]] bool stopped() const override { return m_left <= 0; }

private:
    int m_left;
};

} // namespace

class TestWhale : public QObject {
    Q_OBJECT

private slots:
    void presets_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("cluster");
        for (const char *cluster : {"v100-p100", "v100-t4", "dapple-a", "h100-8", "a100-128"})
            for (const char *model : {"gpt-nano", "vgg-19-layers"})
                QTest::addRow("%s on %s", model, cluster) << model << cluster;
    }

    void presets()
    {
        QFETCH(QString, model);
        QFETCH(QString, cluster);
        const Problem problem = problemFor(model.toStdString(), cluster.toStdString(), 1024);
        const PlanReport report = planned(problem, "whale");
        QVERIFY(plan::validate(report.plan, problem.subject));
        QVERIFY(report.predicted.fits && report.complete);
        // The planner's formula and the simulator see the same plan.
        const double ratio = report.plan.estimate.at("iteration_seconds") / report.predicted.iterationSeconds;
        QVERIFY2(ratio > 0.4 && ratio < 1.3, qPrintable(QString::number(ratio)));
    }

    // Balance against even shares, simulated: at least what it can gain, at most mean over minimum speed.
    void balanceGains_data()
    {
        QTest::addColumn<QString>("cluster");
        QTest::addColumn<double>("bound");
        QTest::newRow("V100 and P100") << "v100-p100" << (15.7 + 10.6) / 2 / 10.6;
        QTest::newRow("V100 and T4") << "v100-t4" << (15.7 + 8.1) / 2 / 8.1;
    }

    void balanceGains()
    {
        QFETCH(QString, cluster);
        QFETCH(double, bound);
        const Problem problem = problemFor("xlnet-36", cluster.toStdString(), 1024);
        const double balanced = planned(problem, "whale", {{"task_graphs", "1"}}).predicted.iterationSeconds;
        const double even =
            planned(problem, "whale", {{"task_graphs", "1"}, {"balance", "even"}}).predicted.iterationSeconds;
        QVERIFY2(even / balanced > 1 + 0.6 * (bound - 1) && even / balanced < bound * 1.01,
                 qPrintable(QString("%1 of %2").arg(even / balanced).arg(bound)));
    }

    void slowerDevicesGetLess()
    {
        const PlanReport report = planned(testing::problemOf(profile(8, 1, 1), mixed(32, 16), 50), "whale",
                                          {{"task_graphs", "1"}, {"micro_batches", "1"}});
        const plan::Stage &stage = report.plan.stages.front();
        QCOMPARE(stage.replicaShares.size(), std::size_t(4));
        // 15.7 to 10.6 of 50 are 14.9 and 10.1.
        for (std::size_t r = 0; r < 4; ++r)
            QCOMPARE(plan::replicaRange(stage, r, 50).size, std::int64_t(r < 2 ? 15 : 10));
    }

    void equalDevicesGetEqualShares()
    {
        const PlanReport report = planned(problemFor("gpt-nano", "h100-8", 64), "whale");
        for (const plan::Stage &stage : report.plan.stages)
            QVERIFY(stage.replicaShares.empty());
    }

    // The slow devices cannot hold what is in proportion to their speed: the fast ones take it over.
    void memoryMovesLoad()
    {
        Problem problem = testing::problemOf(profile(8, 100, 1), mixed(64, 8), 50); // 0.8 GB a sample
        const PlanReport report = planned(problem, "whale", {{"task_graphs", "1"}, {"micro_batches", "1"}});
        QVERIFY(report.predicted.fits);
        const plan::Stage &stage = report.plan.stages.front();
        const std::int64_t slow = plan::replicaRange(stage, 3, 50).size;
        QVERIFY2(slow < 10 && slow >= 1, qPrintable(QString::number(slow)));
        // Even shares do not fit at all.
        const Error even = errorOf(problem, {{"task_graphs", "1"}, {"micro_batches", "1"}, {"balance", "even"}});
        QCOMPARE(even.code, ErrorCode::Infeasible);
        QVERIFY2(even.message.find("P100") != std::string::npos
                     && even.message.find("one fits with balance=memory") != std::string::npos,
                 even.message.c_str());
    }

    // In a pipeline across kinds the larger memory comes first, and the faster device gets more layers.
    void pipelineAcrossKinds()
    {
        const PlanReport report = planned(testing::problemOf(profile(20, 1, 1), mixed(32, 16), 64), "whale",
                                          {{"task_graphs", "2"}, {"place", "across"}});
        const cluster::Cluster cluster = mixed(32, 16);
        QCOMPARE(report.plan.stages.size(), std::size_t(2));
        for (const DeviceId device : report.plan.stages[0].devices)
            QCOMPARE(cluster.typeOf(device).name, std::string("V100-32GB"));
        QCOMPARE(report.plan.stages[0].lastLayer, std::size_t(12)); // 15.7 / 26.3 of 20
        const PlanReport even = planned(testing::problemOf(profile(20, 1, 1), mixed(32, 16), 64), "whale",
                                        {{"task_graphs", "2"}, {"place", "across"}, {"balance", "even"}});
        QCOMPARE(even.plan.stages[0].lastLayer, std::size_t(10));
        QVERIFY(even.predicted.iterationSeconds > 1.1 * report.predicted.iterationSeconds);
    }

    void ordersAreSchedules()
    {
        const Problem problem = testing::problemOf(smallGpt(), testing::smallCluster(1, 4), 48);
        const auto scheduleOf = [&](const char *order) {
            return planned(problem, "whale", {{"task_graphs", "4"}, {"micro_batches", "6"}, {"order", order}}).plan;
        };
        QCOMPARE(plan::warmupDepths(scheduleOf("backward")), (std::vector<int>{4, 3, 2, 1}));
        QCOMPARE(plan::warmupDepths(scheduleOf("forward")), (std::vector<int>{6, 6, 6, 6}));
        // Of the released scheduler's test: F(m) of stage s waits for B(s + m - 5) where s + m > 4.
        const plan::Plan ahead = scheduleOf("optimizer");
        QCOMPARE(plan::warmupDepths(ahead), (std::vector<int>{5, 4, 3, 1}));
        const auto program = must(compile::compilePlan(ahead, problem.subject));
        for (const program::Rank &rank : program.ranks) {
            std::vector<std::string> order;
            for (const TaskId task : rank.computeOrder())
                order.push_back(program::idOf(program.task(task)));
            const int s = order.front()[1] - '0';
            for (int m = 0; m < 6; ++m) {
                const auto forward =
                    std::find(order.begin(), order.end(), "s" + std::to_string(s) + ".F.m" + std::to_string(m));
                const auto backward =
                    std::find(order.begin(), order.end(), "s" + std::to_string(s) + ".B.m" + std::to_string(s + m - 5));
                QVERIFY(forward != order.end());
                if (s < 3 && s + m > 4)
                    QVERIFY(backward < forward);
            }
        }
    }

    void annotationsMakeStages()
    {
        const Problem problem = annotated(testing::problemOf(smallGpt(), testing::smallCluster(1, 8), 32),
                                          {"embedding..h/2=replicate:2", "h/3..h/5=split:2"});
        const PlanReport report = planned(problem, "whale");
        QVERIFY(plan::validate(report.plan, problem.subject));
        QVERIFY(report.plan.annotations == problem.annotations);
        QCOMPARE(report.plan.stages.size(), std::size_t(2));
        QCOMPARE(report.plan.stages[0].name, std::string("embedding..h/2"));
        QCOMPARE(report.plan.stages[0].lastLayer, std::size_t(4));
        QCOMPARE(report.plan.stages[0].replicas(), std::size_t(4)); // two copies of the model
        QCOMPARE(report.plan.stages[1].mesh, (std::vector<int>{2, 2}));
        QVERIFY(!report.plan.stages[1].shardings.empty());
        // Copy by copy: 0, 1 then 2, 3 for the first.
        QCOMPARE(report.plan.stages[0].devices[2].value, 4);
        QCOMPARE(report.plan.stages[1].devices[0].value, 2);
        QVERIFY(report.plan.estimate.at("bridge_bytes") > 0);
        QVERIFY(report.plan.estimate.at("sharding_bytes") > 0);
    }

    void bridgesAreFused()
    {
        const Problem problem = annotated(testing::problemOf(smallGpt(), testing::smallCluster(1, 4), 32),
                                          {"embedding..h/2=split:2", "h/3..h/5=split:2"});
        const PlanReport report = planned(problem, "whale");
        QCOMPARE(report.plan.estimate.at("bridges_fused"), 1.0);
        QCOMPARE(report.plan.estimate.at("bridge_bytes"), 0.0);
    }

    // Tied weights: parts must be the same ones, and the weights themselves stay whole.
    void tiedWeights()
    {
        graph::TransformerConfig config;
        config.name = "tied";
        config.layers = 4;
        config.heads = 4;
        config.hidden = 64;
        config.feedForward = 256;
        config.vocabulary = 256;
        config.context = 32;
        import::Model model;
        model.graph = std::make_shared<const graph::Graph>(must(graph::gpt(config)));
        const Problem problem = testing::problemOf(model, testing::smallCluster(1, 8), 32);
        const PlanReport report = planned(annotated(problem, {"embedding..h/1=split:2", "h/2..h/3=split:2"}), "whale");
        for (const plan::Stage &stage : report.plan.stages)
            for (const auto &[tensor, sbp] : stage.shardings)
                QVERIFY2(tensor.find("wte") == std::string::npos || sbp.ends_with(",B"), (tensor + " " + sbp).c_str());
        const Error error = errorOf(annotated(problem, {"embedding..h/1=replicate:2", "h/2..h/3=split:2"}));
        QCOMPARE(error.code, ErrorCode::Unsupported);
        QVERIFY2(error.message.find("share the parameter") != std::string::npos, error.message.c_str());
    }

    void annotationsThatDoNotWork_data()
    {
        QTest::addColumn<QStringList>("annotations");
        QTest::addColumn<QString>("says");
        QTest::newRow("unknown scope") << QStringList{"h/7=split:2"} << "near it are h/";
        QTest::newRow("too many parts") << QStringList{"h=split:3"} << "3 devices together";
        QTest::newRow("sizes do not divide") << QStringList{"h/0..h/5=split:128"} << "128";
        QTest::newRow("nested") << QStringList{"h=replicate:2", "h/2=split:2"} << "do not nest";
        QTest::newRow("no device left") << QStringList{"h/0..h/2=replicate:8", "h/3..h/5=replicate"} << "ask for fewer";
    }

    void annotationsThatDoNotWork()
    {
        QFETCH(QStringList, annotations);
        QFETCH(QString, says);
        std::vector<std::string> texts;
        for (const QString &text : annotations)
            texts.push_back(text.toStdString());
        const Error error = errorOf(annotated(testing::problemOf(smallGpt(), testing::smallCluster(1, 8), 32), texts));
        QVERIFY2(QString::fromStdString(error.message).contains(says), error.message.c_str());
    }

    void aProfileCannotBeSplit()
    {
        const Error error = errorOf(
            annotated(testing::problemOf(profile(4, 1, 1), testing::smallCluster(1, 4), 32), {"layer_1=split:2"}));
        QCOMPARE(error.code, ErrorCode::Unsupported);
        QVERIFY2(error.message.find("layer_1") != std::string::npos
                     && error.message.find("replicate it") != std::string::npos,
                 error.message.c_str());
    }

    void othersRefuseAnnotations()
    {
        const Problem problem =
            annotated(testing::problemOf(smallGpt(), testing::smallCluster(1, 4), 32), {"h/1=replicate:2"});
        for (const char *name : {"dapple", "gpipe", "data-parallel", "spp", "manual"}) {
            NoProgress progress;
            const auto report = must(planners::findPlanner(name))->plan(problem, {}, progress);
            QVERIFY(!report);
            QVERIFY2(report.error().message.find("whale") != std::string::npos, report.error().message.c_str());
        }
    }

    // The limit is named, and the remedy works.
    void infeasibleSaysWhy()
    {
        const Problem problem = testing::problemOf(profile(6, 200, 1), mixed(6, 3), 16);
        const Error error = errorOf(problem, {{"task_graphs", "1"}, {"micro_batches", "1"}});
        QCOMPARE(error.code, ErrorCode::Infeasible);
        QVERIFY2(error.message.find("memory of device") != std::string::npos, error.message.c_str());
        QVERIFY2(error.message.find("one fits with micro_batches=0") != std::string::npos, error.message.c_str());
        QVERIFY(planned(problem, "whale", {{"task_graphs", "1"}}).predicted.fits);
        const Problem heavy = testing::problemOf(profile(2, 1, 2000), mixed(6, 3), 16);
        const Error weights = errorOf(heavy);
        QVERIFY2(weights.message.find("P100") != std::string::npos || weights.message.find("V100") != std::string::npos,
                 weights.message.c_str());
        QVERIFY2(weights.message.find("the present memory") != std::string::npos, weights.message.c_str());
    }

    void recomputationIsSuggestedWhereItHelps()
    {
        // 4 GB of activations in eight layers: recomputed, one layer's is enough.
        std::vector<import::ProfileLayerSpec> layers;
        for (std::size_t i = 0; i < 8; ++i)
            layers.push_back({"layer_" + std::to_string(i), 2, 4, i == 3 ? 1e6 : 50e6, 1e6,
                              i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1}});
        Problem problem =
            testing::problemOf(must(import::profileModel("wide", 1, layers)), testing::smallCluster(1, 2, 3), 16);
        problem.microBatch = 1;
        const Options order{{"order", "forward"}, {"task_graphs", "2"}};
        const Error error = errorOf(problem, order);
        QCOMPARE(error.code, ErrorCode::Infeasible);
        QVERIFY2(error.message.find("one fits with recompute=auto") != std::string::npos, error.message.c_str());
        Options with = order;
        with["recompute"] = "auto";
        QVERIFY(planned(problem, "whale", with).predicted.fits);
    }

    void deterministic()
    {
        const Problem problem = problemFor("gpt-nano", "v100-t4", 256);
        QCOMPARE(plan::toJson({planned(problem, "whale").plan, problem.subject}),
                 plan::toJson({planned(problem, "whale").plan, problem.subject}));
    }

    void stoppedInTheMiddle()
    {
        const Problem problem = problemFor("gpt-nano", "v100-t4", 256);
        bool partial = false;
        for (int reports = 1; reports < 60; reports += 3) {
            StopsAfter progress(reports);
            const auto report = must(planners::findPlanner("whale"))->plan(problem, {}, progress);
            if (!report) {
                QCOMPARE(report.error().code, ErrorCode::Cancelled);
                continue;
            }
            QVERIFY(report->predicted.fits);
            partial = partial || !report->complete;
        }
        QVERIFY(partial);
    }

    void oneDeviceAndOneLayer()
    {
        QCOMPARE(
            planned(testing::problemOf(profile(1, 1, 1), testing::smallCluster(1, 1), 4), "whale").plan.stages.size(),
            std::size_t(1));
        QCOMPARE(planned(testing::problemOf(profile(1, 1, 1), testing::smallCluster(2, 4), 16), "whale")
                     .plan.stages.front()
                     .devices.size(),
                 std::size_t(8));
    }

    void wrongOptions()
    {
        const Problem problem = testing::problemOf(profile(4, 1, 1), testing::smallCluster(1, 8), 16);
        QVERIFY(errorOf(problem, {{"task_graphs", "5"}}).message.find("at most 4") != std::string::npos);
        QVERIFY(errorOf(problem, {{"task_graphs", "3"}}).message.find("2 or 4 together") != std::string::npos);
        QVERIFY(errorOf(problem, {{"micro_batches", "17"}}).message.find("at most that") != std::string::npos);
        QVERIFY(errorOf(annotated(problem, {"layer_1=replicate:2"}), {{"task_graphs", "2"}}).message.find("annotations")
                != std::string::npos);
        const Error few = errorOf(testing::problemOf(profile(4, 1, 1), testing::smallCluster(1, 8), 1));
        QCOMPARE(few.code, ErrorCode::Infeasible);
        QVERIFY2(few.message.find("batch of 1") != std::string::npos, few.message.c_str());
    }
};

QTEST_GUILESS_MAIN(TestWhale)
#include "tst_whale.moc"
