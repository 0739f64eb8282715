// SPDX-License-Identifier: Apache-2.0
// Memory in the precision that a plan computes in: what planners think before they compile, against what the compiler
// lays out, and what they find.
#include "engine/cluster/cluster.h"
#include "engine/graph/zoo/zoo.h"
#include "planners/common/memory.h"
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using planners::Options;
using planners::Planner;
using planners::Problem;
using testing::must;

namespace {

import::Model gpt(){graph::TransformerConfig config;
config.layers = 4;
config.heads = 4;
config.hidden = 64;
config.feedForward = 256;
config.vocabulary = 256;
config.context = 128;
import::Model model;
model.graph = std::make_shared<const graph::Graph>(must(graph::gpt(config)));
model.source = "gpt";
return model;
} // namespace

Problem problemIn(plan::Precision precision, double megabytes)
{
    Problem problem = testing::problemOf(gpt(), testing::smallCluster(1, 2, megabytes / 1000), 32);
    problem.subject = plan::inPrecision(problem.subject, precision);
    problem.precision = precision;
    problem.microBatch = 8;
    return problem;
}

/// Megabytes of each device, within 8 %, with which the planner finds a plan.
double leastMegabytes(const Planner &planner, plan::Precision precision)
{
    const Options wanted = {{"episodes", "8"},   {"simulations", "24"}, {"seeds", "data-parallel,gpipe"},
                            {"max_tensor", "1"}, {"zero", "keep"},      {"mesh", "2"}};
    Options options;
    for (const planners::OptionInfo &option : planner.options())
        if (const auto found = wanted.find(option.key); found != wanted.end())
            options.insert(*found);
    if (planner.name() == "auto") // memory policies would leave few of the activations, which bfloat16 halves
        options["policies"] = "none";
    double low = 2;
    double high = 256;
    while (high > 1.08 * low) {
        const double middle = std::sqrt(low * high);
        NoProgress progress;
        const auto report = planner.plan(problemIn(precision, middle), options, progress);
        (report && report->predicted.fits ? high : low) = middle;
    }
    return high;
}

} // namespace

class TestPlanPrecision : public QObject {
    Q_OBJECT

private slots:
    void boundsOfStages_data()
    {
        QTest::addColumn<int>("precision");
        QTest::addColumn<int>("cut");
        for (const plan::Precision precision : {plan::Precision::Float32, plan::Precision::BFloat16})
            for (const int cut : {1, 3, 5})
                QTest::addRow("%s, cut at %d", plan::name(precision), cut) << static_cast<int>(precision) << cut;
    }

    // Planners' bound of a stage that keeps four micro-batches is near what the compiler needs.
    void boundsOfStages()
    {
        QFETCH(int, precision);
        QFETCH(int, cut);
        const Problem problem = problemIn(static_cast<plan::Precision>(precision), 1000);
        const auto report = testing::planned(problem, "manual",
                                             {{"pipeline", "2"}, {"schedule", "gpipe"}, {"cuts", std::to_string(cut)}});
        const planners::MemoryModel memory(*problem.subject.costs, problem.optimizer, 0);
        for (std::size_t s = 0; s < 2; ++s) {
            const plan::Stage &stage = report.plan.stages[s];
            const planners::StageFootprint footprint = memory.footprint(stage.firstLayer, stage.lastLayer, 8, false);
            const double bound = footprint.fixed + 4 * footprint.perMicroBatch;
            const double ratio = bound / static_cast<double>(report.predicted.devices[s].peakBytes);
            QVERIFY2(ratio > 0.85 && ratio < 1.3,
                     qPrintable(
                         QString("stage %1: %2 of %3").arg(s).arg(ratio).arg(report.predicted.devices[s].peakBytes)));
        }
    }

    // Matrix units take most of a ResNet-50's time off an H100, and its images take half the memory.
    void convolutionsGain()
    {
        import::Model model;
        model.graph = std::make_shared<const graph::Graph>(must(graph::resnet50()));
        model.source = "resnet-50";
        const auto predictedIn = [&](plan::Precision precision) {
            Problem problem = testing::problemOf(model, must(cluster::preset("h100-8")), 1024);
            problem.subject = plan::inPrecision(problem.subject, precision);
            problem.precision = precision;
            problem.microBatch = 128;
            return testing::planned(problem, "data-parallel").predicted;
        };
        const auto whole = predictedIn(plan::Precision::Float32);
        const auto half = predictedIn(plan::Precision::BFloat16);
        const double time = half.iterationSeconds / whole.iterationSeconds;
        QVERIFY2(time < 0.4, qPrintable(QString::number(time)));
        const double memory =
            static_cast<double>(half.devices[0].peakBytes) / static_cast<double>(whole.devices[0].peakBytes);
        QVERIFY2(memory < 0.65, qPrintable(QString::number(memory)));
    }

    void halfFitsOnLess_data()
    {
        QTest::addColumn<QString>("name");
        for (const Planner *planner : planners::allPlanners())
            if (planner->name() != "manual") // it plans what does not fit, too
                QTest::newRow(planner->name().c_str()) << QString::fromStdString(planner->name());
    }

    // Activations are most of it here: in bfloat16 they take half.
    void halfFitsOnLess()
    {
        QFETCH(QString, name);
        const Planner &planner = *must(planners::findPlanner(name.toStdString()));
        const double whole = leastMegabytes(planner, plan::Precision::Float32);
        const double half = leastMegabytes(planner, plan::Precision::BFloat16);
        QVERIFY2(whole < 250 && half < 0.85 * whole, qPrintable(QString("%1 MB, in bf16 %2 MB").arg(whole).arg(half)));
    }
};

QTEST_GUILESS_MAIN(TestPlanPrecision)
#include "tst_plan_precision.moc"
