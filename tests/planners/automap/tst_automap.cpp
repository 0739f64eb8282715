// SPDX-License-Identifier: Apache-2.0
// The automap planner as a whole, and the published figures that its families are measured by.
#include "engine/graph/zoo/zoo.h"
#include "engine/import/model/zoo.h"
#include "engine/sharding/sbp.h"
#include "engine/simulate/chain_program.h"
#include "planners/automap/resume.h"
#include "planners/dapple/latency.h"
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using planners::Options;
using planners::PlanReport;
using planners::Problem;
using testing::must;
using testing::planned;

namespace {

import::Model smallGpt(std::int64_t layers){graph::TransformerConfig config;
config.layers = layers;
config.heads = 4;
config.hidden = 64;
config.feedForward = 256;
config.vocabulary = 256;
config.context = 32;
import::Model model;
model.graph = std::make_shared<const graph::Graph>(must(graph::gpt(config)));
model.source = "gpt";
return model;
} // namespace

class StopAfter final : public Progress {
public:
    explicit StopAfter(int reports) : m_left(reports) {}
    void report(double, std::string_view what) override
    {
        --m_left;
        said.append(QString::fromUtf8(what.data(), static_cast<int>(what.size())));
    }
    [[nodiscard]] bool stopped() const override { return m_left < 0; }
    QStringList said;

private:
    int m_left;
};

Result<PlanReport> tried(const Problem &problem, const Options &options)
{
    NoProgress progress;
    return must(planners::findPlanner("automap"))->plan(problem, options, progress);
}

} // namespace

class TestAutoMap : public QObject {
    Q_OBJECT

private slots:
    void dataParallelSpeedups_data()
    {
        QTest::addColumn<int>("profileBatch");
        QTest::addColumn<double>("forward");
        QTest::addColumn<double>("backward");
        QTest::addColumn<double>("weights");
        QTest::addColumn<int>("batch");
        QTest::addColumn<double>("total");
        QTest::addColumn<double>("allReduce");
        QTest::addColumn<double>("speedup");
        QTest::newRow("VGG-19") << 32 << 51.41 << 96.20 << 548047022.0 << 2048 << 9.447 << 0.3425 << 10.13;
        QTest::newRow("BERT-48") << 2 << 129.197 << 214.560 << 2549805056.0 << 64 << 11.000 << 1.594 << 4.82;
        QTest::newRow("XLNet-36") << 1 << 139.93 << 177.78 << 2003000000.0 << 128 << 40.667 << 1.252 << 10.72;
        QTest::newRow("AmoebaNet-36") << 1 << 48.67 << 119.38 << 3731135780.0 << 128 << 21.510 << 2.332 << 5.85;
        QTest::newRow("GNMT-16") << 64 << 90.329 << 158.587 << 1162988352.0 << 1024 << 3.983 << 0.727 << 4.08;
    }

    // Brief §4.1: the sums of the published profiles, sixteen devices on two machines, no overlap.
    void dataParallelSpeedups()
    {
        QFETCH(int, profileBatch);
        QFETCH(double, forward);
        QFETCH(double, backward);
        QFETCH(double, weights);
        QFETCH(int, batch);
        QFETCH(double, total);
        QFETCH(double, allReduce);
        QFETCH(double, speedup);
        const import::Model model =
            must(import::profileModel("whole", profileBatch, {{"all", forward, backward, 1e6, weights, {}}}));
        const Problem problem = testing::problemOf(model, must(cluster::preset("dapple-a")), batch);
        const cost::CostModel &costs = *problem.subject.costs;
        const double seconds = (costs.forward(0, 1, batch, 0) + costs.backward(0, 1, batch, 0)).value();
        std::vector<DeviceId> devices;
        for (const cluster::Device &device : problem.subject.cluster->devices())
            devices.push_back(device.id);
        QCOMPARE(devices.size(), std::size_t(16));
        const double exchange =
            costs.allReduce(devices, static_cast<double>(costs.parameterBytes(0, 1).value())).value();
        QVERIFY2(std::fabs(seconds / total - 1) < 1e-3, qPrintable(QString::number(seconds)));
        QVERIFY2(std::fabs(exchange / allReduce - 1) < 1e-3, qPrintable(QString::number(exchange)));
        QVERIFY2(std::fabs(seconds / (seconds / 16 + exchange) - speedup) < 0.01,
                 qPrintable(QString::number(seconds / (seconds / 16 + exchange))));
    }

    void pipelineLengths_data()
    {
        QTest::addColumn<std::vector<double>>("forward");
        QTest::addColumn<int>("pivot");
        QTest::addColumn<double>("length");
        QTest::newRow("even") << std::vector<double>{1, 1, 1} << 2 << 18.0;
        QTest::newRow("slow in the middle") << std::vector<double>{1, 3, 1} << 1 << 39.0;
        QTest::newRow("slow at the front") << std::vector<double>{3, 1, 1} << 0 << 36.0;
    }

    // Brief §4.2: four micro-batches, backward twice as long as forward; formula and events agree.
    void pipelineLengths()
    {
        QFETCH(std::vector<double>, forward);
        QFETCH(int, pivot);
        QFETCH(double, length);
        planners::dapple::Chain chain;
        chain.forward = forward;
        for (const double time : forward)
            chain.backward.push_back(2 * time);
        chain.allReduce.assign(forward.size(), 0);
        chain.microBatches = 4;
        QCOMPARE(static_cast<int>(planners::dapple::pivotOf(chain)), pivot);
        QCOMPARE(planners::dapple::formulaLatency(chain).total(), length);
        QCOMPARE(must(simulate::iterationSeconds(chainProgram(chain))), length);
    }

    // Products that follow one another are split by columns, then by rows: Megatron-LM's layout is one linkage group.
    void operatorsOfATransformer()
    {
        const Problem problem = testing::problemOf(smallGpt(5), testing::smallCluster(1, 4), 16);
        const PlanReport report = must(tried(problem, {{"families", "opp"}}));
        QVERIFY(plan::validate(report.plan, problem.subject));
        QCOMPARE(report.plan.stages[0].mesh, (std::vector<int>{1, 4}));
        const auto &pins = report.plan.stages[0].shardings;
        for (int layer = 0; layer < 5; ++layer) {
            const std::string block = "transformer.h." + std::to_string(layer) + ".mlp.";
            const auto first = must(sharding::fromText(pins.at(block + "c_fc.weight")))[1];
            const auto second = must(sharding::fromText(pins.at(block + "c_proj.weight")))[1];
            if (first.kind == sharding::Sbp::Kind::Split && first.axis == 1)
                QVERIFY(second.kind == sharding::Sbp::Kind::Split && second.axis == 0);
        }
        QVERIFY(report.plan.estimate.at("opp_score") > 0.5);
        QVERIFY(report.plan.estimate.at("boxing_bytes") > 0);
    }

    void eachFamilyPlans_data()
    {
        QTest::addColumn<QString>("family");
        for (const char *family : {"opp", "adp", "pp"})
            QTest::newRow(family) << family;
    }

    void eachFamilyPlans()
    {
        QFETCH(QString, family);
        const Problem problem = testing::problemOf(smallGpt(4), testing::smallCluster(2, 2), 16);
        const PlanReport report = must(tried(problem, {{"families", family.toStdString()}, {"episodes", "60"}}));
        QVERIFY(plan::validate(report.plan, problem.subject));
        QVERIFY(report.predicted.fits && report.complete);
        QCOMPARE(report.plan.estimate.at("from_" + family.toStdString()), 1.0);
        QCOMPARE(report.plan.planner.name, std::string("automap"));
        const PlanReport all = must(tried(problem, {{"episodes", "60"}}));
        QVERIFY(all.predicted.iterationSeconds <= report.predicted.iterationSeconds);
    }

    void layerProfiles()
    {
        const Problem problem = testing::zooProblem("vgg-19-layers", "dapple-b", 512);
        const PlanReport report = must(tried(problem, {}));
        QVERIFY(plan::validate(report.plan, problem.subject));
        QCOMPARE(report.plan.estimate.at("from_pp"), 1.0);
        const PlanReport whole = planned(problem, "data-parallel");
        QVERIFY(report.predicted.iterationSeconds <= whole.predicted.iterationSeconds * 1.001);
        const auto refused = tried(problem, {{"families", "opp,adp"}});
        QVERIFY(!refused);
        QCOMPARE(refused.error().code, ErrorCode::Unsupported);
        QVERIFY2(refused.error().message.find("families=pp") != std::string::npos, refused.error().message.c_str());
    }

    // Stopped at any time it returns the best so far, and the state for another search.
    void stoppedAndResumed()
    {
        const Problem problem = testing::problemOf(smallGpt(4), testing::smallCluster(2, 2), 16);
        StopAfter stop(70);
        const Options few{{"episodes", "60"}};
        const PlanReport half = must(must(planners::findPlanner("automap"))->plan(problem, few, stop));
        QVERIFY(!half.complete);
        QVERIFY(half.predicted.fits && plan::validate(half.plan, problem.subject));
        QVERIFY(stop.said.join('\n').contains("plan so far"));
        const std::string text = half.plan.planner.options.at("resume");
        const auto memory = must(planners::automap::memoryFrom(text));
        QVERIFY(memory.best.count("opp") == 1);
        QCOMPARE(planners::automap::toText(memory), text);
        Options more = few;
        more["resume"] = text;
        more["episodes"] = "5"; // hardly more than what is remembered
        const PlanReport rest = must(tried(problem, more));
        QVERIFY(rest.complete);
        QVERIFY(rest.predicted.iterationSeconds <= half.predicted.iterationSeconds * (1 + 1e-9));
        QVERIFY(rest.plan.estimate.at("opp_score") >= half.plan.estimate.at("opp_score"));
        QCOMPARE(rest.plan.estimate.at("episodes"), 65.0);
    }

    void wrongOptions_data()
    {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::newRow("resume: no pair") << "resume"
                                         << "opp";
        QTest::newRow("resume: no number") << "resume"
                                           << "episodes=few";
        QTest::newRow("resume: an action that is none") << "resume"
                                                        << "opp=1.x";
        QTest::newRow("family") << "families"
                                << "magic";
        QTest::newRow("episodes") << "episodes"
                                  << "0";
    }

    void wrongOptions()
    {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto report = tried(testing::problemOf(smallGpt(1), testing::smallCluster(1, 2), 4),
                                  {{key.toStdString(), value.toStdString()}});
        QVERIFY(!report);
        QCOMPARE(report.error().code, ErrorCode::BadInput);
        QVERIFY2(report.error().message.find(key.toStdString()) != std::string::npos, report.error().message.c_str());
    }

    void memoryThatFitsNoGame()
    {
        const Problem problem = testing::problemOf(smallGpt(2), testing::smallCluster(1, 4), 8);
        QVERIFY(
            must(tried(problem, {{"resume", "episodes=3;opp=9.9.9;pp7=1000000"}, {"episodes", "10"}})).predicted.fits);
    }

    void oneDeviceAndNoMemory()
    {
        const PlanReport one =
            must(tried(testing::problemOf(smallGpt(2), testing::smallCluster(1, 1), 4), {{"episodes", "5"}}));
        QCOMPARE(one.plan.stages.size(), std::size_t(1));
        const auto none =
            tried(testing::problemOf(smallGpt(4), testing::smallCluster(1, 2, 0.001), 4), {{"episodes", "5"}});
        QVERIFY(!none);
        QCOMPARE(none.error().code, ErrorCode::Infeasible);
    }

    void sameEveryTime()
    {
        const Problem problem = testing::problemOf(smallGpt(4), testing::smallCluster(2, 2), 16);
        const PlanReport first = must(tried(problem, {{"episodes", "40"}}));
        const PlanReport second = must(tried(problem, {{"episodes", "40"}}));
        QCOMPARE(first.plan.planner.options.at("resume"), second.plan.planner.options.at("resume"));
        QCOMPARE(first.predicted.iterationSeconds, second.predicted.iterationSeconds);
    }
};

QTEST_GUILESS_MAIN(TestAutoMap)
#include "tst_automap.moc"
