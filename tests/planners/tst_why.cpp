// SPDX-License-Identifier: Apache-2.0
// The explanation of a plan: terms add up to the simulated iteration and the compiled memory, and limits are the ones
// that are built in here.
#include "engine/graph/zoo/zoo.h"
#include "planners/common/explain.h"
#include "planners/common/why.h"
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <cmath>
#include <numeric>

using namespace planloom;
using planners::PlanReport;
using planners::Problem;
using testing::must;

namespace {

import::Model even(std::size_t count, double milliseconds, double megabytes,
                   double weightMegabytes){std::vector<import::ProfileLayerSpec> layers;
for (std::size_t i = 0; i < count; ++i)
    layers.push_back({"layer_" + std::to_string(i), milliseconds, 2 * milliseconds, megabytes * 1e6,
                      weightMegabytes * 1e6, i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1}});
return must(import::profileModel("even", 1, layers));
} // namespace

import::Model smallGpt(){graph::TransformerConfig config;
config.name = "small";
config.layers = 2;
config.heads = 4;
config.hidden = 64;
config.feedForward = 256;
config.vocabulary = 256;
config.context = 32;
import::Model model;
model.graph = std::make_shared<const graph::Graph>(must(graph::gpt(config)));
return model;
}

/// Two machines of one device with a network of @p gigabytes a second between them.
cluster::Cluster pair(double gigabytes)
{
    cluster::RegularCluster spec;
    spec.name = "pair";
    spec.nodes = 2;
    spec.perNode = 1;
    spec.type = *cluster::knownDeviceType("V100");
    spec.intraBandwidth = 25e9;
    spec.interPointToPoint = spec.interCollective = gigabytes * 1e9;
    return must(cluster::regular(spec));
}

PlanReport explained(const Problem &problem, const char *planner, const planners::Options &options = {})
{
    NoProgress progress;
    return must(planners::planAndExplain(*must(planners::findPlanner(planner)), problem, options, progress));
}

const simulate::DeviceReport &deviceOf(const simulate::Report &report, const std::string &name)
{
    for (const simulate::DeviceReport &device : report.devices)
        if (device.id == name)
            return device;
    throw std::runtime_error("no device " + name);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)) + 1e-8; }

} // namespace

class TestWhy : public QObject {
    Q_OBJECT

private slots:
    void everyPlannerSaysWhy_data()
    {
        QTest::addColumn<QString>("planner");
        for (const planners::Planner *planner : planners::allPlanners())
            QTest::newRow(planner->name().c_str()) << QString::fromStdString(planner->name());
    }

    void everyPlannerSaysWhy()
    {
        QFETCH(QString, planner);
        const Problem problem = testing::problemOf(smallGpt(), testing::smallCluster(2, 2), 32);
        const PlanReport report = explained(problem, planner.toLatin1().constData());
        QVERIFY(report.plan.why.has_value());
        const plan::Why &why = *report.plan.why;
        QCOMPARE(why.stages.size(), report.plan.stages.size());
        QVERIFY(!why.limit.empty() && !why.detail.empty());
        if (why.runnerUp) { // the first that is another plan
            QVERIFY(!report.alternatives.empty()
                    && why.runnerUp->iterationSeconds >= report.alternatives.front().simulatedSeconds);
            QVERIFY(!why.runnerUp->differences.empty());
        } else {
            for (const planners::Candidate &other : report.alternatives)
                QVERIFY(plan::difference(report.plan, other.plan).empty());
        }
        for (const plan::StageWhy &stage : why.stages) {
            const simulate::DeviceReport &device = deviceOf(report.predicted, stage.device);
            const double computing =
                stage.forwardSeconds + stage.backwardSeconds + stage.recomputeSeconds + stage.optimizerSeconds;
            QVERIFY2(near(computing + stage.idleSeconds, report.predicted.iterationSeconds),
                     qPrintable(QString::number(computing + stage.idleSeconds)));
            QVERIFY(near(computing, device.busyFraction * report.predicted.iterationSeconds));
            QVERIFY(stage.exposedExchangeSeconds <= stage.exchangeSeconds + 1e-9
                    && stage.exposedExchangeSeconds <= stage.idleSeconds + 1e-9);
            QCOMPARE(stage.parameterBytes + stage.gradientBytes + stage.optimizerBytes + stage.activationBytes
                         + stage.otherBytes,
                     device.peakBytes);
            QCOMPARE(stage.capacityBytes, device.capacityBytes);
        }
        // The plan file keeps it.
        const auto read = plan::documentFromJson(plan::toJson({report.plan, problem.subject}));
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QVERIFY(read->plan.why.has_value() && read->plan.why->detail == why.detail
                && read->plan.why->stages.size() == why.stages.size());
    }

    void computeLimits()
    {
        const PlanReport report = explained(testing::problemOf(even(4, 5, 1, 1), pair(100), 16), "data-parallel");
        QCOMPARE(report.plan.why->limit, std::string("compute"));
        QVERIFY2(report.plan.why->stages[0].idleSeconds < 0.1 * report.predicted.iterationSeconds
                     && report.plan.why->detail.find("computes") != std::string::npos,
                 report.plan.why->detail.c_str());
    }

    // 800 MB of gradients over 0.1 GB/s, beside 12 ms of work: the network between the two, by name.
    void aLinkLimits()
    {
        const PlanReport report = explained(testing::problemOf(even(4, 1, 1, 200), pair(0.1), 2), "data-parallel");
        const plan::Why &why = *report.plan.why;
        QCOMPARE(why.limit, std::string("link"));
        QVERIFY2(why.detail.find("the exchange of gradients over") != std::string::npos
                     && why.detail.find("network") != std::string::npos,
                 why.detail.c_str());
        QVERIFY(why.stages[0].exposedExchangeSeconds > 0.9 * report.predicted.iterationSeconds);
        QVERIFY(near(why.stages[0].exchangeSeconds, 8.0) || std::abs(why.stages[0].exchangeSeconds - 8.0) < 0.1);
    }

    void memoryLimits()
    {
        // Too much for the device, made by hand: no planner would propose it.
        const Problem problem = testing::problemOf(even(4, 1, 1, 2000), pair(1), 2);
        plan::Plan plan = planners::emptyPlan(problem, "manual", {});
        plan::Stage stage;
        stage.lastLayer = 4;
        stage.devices = {DeviceId(0), DeviceId(1)};
        plan.stages = {stage};
        const plan::Why why = must(planners::explain(plan, problem.subject));
        QCOMPARE(why.limit, std::string("memory"));
        QCOMPARE(why.stages[0].limit, std::string("memory"));
        QVERIFY2(why.detail.find("does not fit") != std::string::npos, why.detail.c_str());
        // Weights 8 GB, as much for gradients, twice that for the moments of AdamW.
        QVERIFY(near(static_cast<double>(why.stages[0].gradientBytes), 8e9));
        QVERIFY(near(static_cast<double>(why.stages[0].optimizerBytes), 16e9));
    }

    void whatIsSharedOutIsCountedOnce()
    {
        Problem problem = testing::problemOf(even(4, 1, 1, 100), pair(1), 2);
        const auto bytesOf = [&](int zero) {
            problem.zero = zero;
            return explained(problem, "data-parallel").plan.why->stages[0];
        };
        const plan::StageWhy whole = bytesOf(0);
        const plan::StageWhy first = bytesOf(1);
        QVERIFY(near(static_cast<double>(whole.optimizerBytes), 2 * static_cast<double>(whole.gradientBytes)));
        QVERIFY(
            std::abs(static_cast<double>(first.optimizerBytes) / (0.5 * static_cast<double>(whole.optimizerBytes)) - 1)
            < 0.35);
    }

    void longDifferencesAreCut()
    {
        const Problem problem = testing::problemOf(even(40, 1, 1, 1), testing::smallCluster(2, 8), 64);
        const plan::Plan a = explained(problem, "gpipe", {{"stages", "16"}}).plan;
        const plan::Plan b = explained(problem, "gpipe", {{"stages", "8"}}).plan;
        const plan::RunnerUp runnerUp = planners::runnerUpOf(a, b, 1);
        QCOMPARE(runnerUp.differences.size(), std::size_t(13));
        QVERIFY(runnerUp.differences.back().starts_with("and "));
    }
};

QTEST_GUILESS_MAIN(TestWhy)
#include "tst_why.moc"
