// SPDX-License-Identifier: Apache-2.0
// Every planner on edge cases: nothing fits, layers that cost nothing, one device, more
// devices than layers, a search that is stopped. A planner that is added to the registry is covered by that.
#include "engine/graph/zoo/zoo.h"
#include "planners/common/explain.h"
#include "planners/common/hardware.h"
#include "planners/common/remedy.h"
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <limits>

using namespace planloom;
using planners::Options;
using planners::Planner;
using planners::PlanReport;
using planners::Problem;
using testing::must;

namespace {

import::Model gptOf(int blocks){graph::TransformerConfig config;
config.layers = blocks;
config.heads = 2;
config.hidden = 64;
config.feedForward = 256;
config.vocabulary = 256;
config.context = 64;
import::Model model;
model.graph = std::make_shared<const graph::Graph>(must(graph::gpt(config)));
model.source = "gpt";
return model;
} // namespace

/// Layers of a profile at batch 1: milliseconds of each pass, megabytes of what they make and of parameters.
struct Figures {
    double milliseconds = 1;
    double made = 1;
    double parameters = 1;
};

import::Model profileOf(const std::vector<Figures> &layers){std::vector<import::ProfileLayerSpec> specs;
for (std::size_t i = 0; i < layers.size(); ++i)
    specs.push_back({"layer_" + std::to_string(i), layers[i].milliseconds, 2 * layers[i].milliseconds,
                     layers[i].made * 1e6, layers[i].parameters * 1e6,
                     i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1}});
return must(import::profileModel("profile", 1, specs));
}

/// Fast enough for a test; where a planner has no such option it is left out.
Options quick(const Planner &planner)
{
    const Options wanted = {{"episodes", "8"}, {"simulations", "24"}, {"seeds", "data-parallel,gpipe,whale"}};
    Options options;
    for (const planners::OptionInfo &option : planner.options())
        if (const auto found = wanted.find(option.key); found != wanted.end())
            options.insert(*found);
    return options;
}

Result<PlanReport> ask(const Planner &planner, const Problem &problem)
{
    NoProgress progress;
    return planners::planAndExplain(planner, problem, quick(planner), progress);
}

bool isManual(const Planner &planner)
{
    return planner.name() == "manual";
} // it does what it is told, whether that fits or not

/// Asks for a stop from the given question on.
class StopsAfter final : public Progress {
public:
    explicit StopsAfter(std::size_t questions) : m_left(questions) {}
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override
    {
        m_asked = m_left == 0;
        if (m_left > 0)
            --m_left;
        return m_asked;
    }
    /// True if the stop was seen.
    [[nodiscard]] bool wasHeard() const { return m_asked; }

private:
    mutable std::size_t m_left;
    mutable bool m_asked = false;
};

} // namespace

class TestHardProblems : public QObject {
    Q_OBJECT

    static void everyPlanner()
    {
        QTest::addColumn<QString>("name");
        for (const Planner *planner : planners::allPlanners())
            QTest::newRow(planner->name().c_str()) << QString::fromStdString(planner->name());
    }

    static const Planner &plannerOf(const QString &name) { return *must(planners::findPlanner(name.toStdString())); }

    static void verifyPlan(const Result<PlanReport> &report, const Problem &problem)
    {
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        const Status valid = plan::validate(report->plan, problem.subject);
        QVERIFY2(valid, valid ? "" : valid.error().text().c_str());
        QVERIFY(report->predicted.fits);
        QVERIFY(std::isfinite(report->predicted.iterationSeconds));
        QVERIFY(report->complete);
        for (const auto &[key, value] : report->plan.estimate)
            QVERIFY2(std::isfinite(value), key.c_str());
    }

private slots:
    void nothingFits_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<double>("megabytes");
        QTest::addColumn<int>("microBatch");
        for (const Planner *planner : planners::allPlanners()) {
            if (isManual(*planner))
                continue;
            const auto name = QString::fromStdString(planner->name());
            QTest::addRow("%s, weights", planner->name().c_str()) << name << 0.6 << 0;
            QTest::addRow("%s, activations", planner->name().c_str()) << name << 6.0 << 16;
        }
    }

    // The error names the limit, its place and the missing amount; and its remedy works.
    void nothingFits()
    {
        QFETCH(QString, name);
        QFETCH(double, megabytes);
        QFETCH(int, microBatch);
        const Planner &planner = plannerOf(name);
        Problem problem = testing::problemOf(gptOf(2), testing::smallCluster(1, 2, megabytes / 1000), 32);
        if (microBatch > 0)
            problem.microBatch = microBatch;
        NoProgress progress;
        const auto report = planner.plan(problem, quick(planner), progress);
        if (report) { // tensors that are split, or ZeRO: this planner has a way
            QVERIFY(microBatch > 0);
            QVERIFY(report->predicted.fits);
            return;
        }
        const std::string &message = report.error().message;
        QCOMPARE(report.error().code, ErrorCode::Infeasible);
        for (const char *part : {"memory of device n0:g", "(V100", "layers", "needed", "usable", "short"})
            QVERIFY2(message.find(part) != std::string::npos, message.c_str());
        const auto remedy = planners::remedyFor(planner, problem, quick(planner), progress);
        QVERIFY2(remedy, message.c_str());
        QVERIFY(!remedy->text.empty());
        QVERIFY(must(planner.plan(remedy->problem, remedy->options, progress)).predicted.fits);
    }

    void remedies_data()
    {
        QTest::addColumn<double>("megabytes");
        QTest::addColumn<int>("microBatch");
        QTest::addColumn<QString>("recompute");
        QTest::addColumn<QString>("helps");
        QTest::newRow("an option") << 12.0 << 2 << ""
                                   << "recompute=auto";
        QTest::newRow("smaller micro-batches") << 12.0 << 16 << "auto"
                                               << "a micro-batch of 8";
        QTest::newRow("both") << 10.0 << 16 << ""
                              << "a micro-batch of 1 and recompute=auto";
        QTest::newRow("a smaller batch") << 3.2 << 1 << "auto"
                                         << "a batch of ";
        QTest::newRow("memory") << 1.0 << 1 << ""
                                << "on each V100-16GB";
    }

    // The smallest of several changes that would do; people are told of it.
    void remedies()
    {
        QFETCH(double, megabytes);
        QFETCH(int, microBatch);
        QFETCH(QString, recompute);
        QFETCH(QString, helps);
        Problem problem = testing::problemOf(gptOf(4), testing::smallCluster(1, 2, megabytes / 1000), 32);
        problem.microBatch = microBatch;
        Options options;
        if (!recompute.isEmpty())
            options["recompute"] = recompute.toStdString();
        NoProgress progress;
        const auto report = planners::planAndExplain(plannerOf("gpipe"), problem, options, progress);
        QVERIFY(!report);
        qInfo("%s", report.error().message.c_str());
        QVERIFY2(QString::fromStdString(report.error().message).section("; one fits with ", 1).contains(helps),
                 report.error().message.c_str());
    }

    // More devices of the same kind, on the same network or the same switches.
    void copiesOfClusters()
    {
        for (const auto &[nodes, each] : {std::pair(1, 4), std::pair(3, 2)}) {
            const cluster::Cluster small = testing::smallCluster(nodes, each);
            const cluster::Cluster large = must(planners::withCopies(small, 3));
            QCOMPARE(large.devices().size(), 3 * small.devices().size());
            QCOMPARE(large.nodes().size(), nodes == 1 ? std::size_t(1) : 3 * small.nodes().size());
            QCOMPARE(large.route(large.devices().front().id, large.devices().back().id).size(),
                     small.route(small.devices().front().id, small.devices().back().id).size());
        }
        const cluster::Cluster more = must(planners::withMemory(testing::smallCluster(2, 2), 1.5));
        QCOMPARE(more.types().front().memory.value(), std::int64_t(24'000'000'000));
        QCOMPARE(more.devices().size(), std::size_t(4));
    }

    void tooFewSamples_data() { everyPlanner(); }

    // Fewer samples than devices: a plan that leaves devices idle, or an error with the needed number.
    void tooFewSamples()
    {
        QFETCH(QString, name);
        const Problem problem = testing::problemOf(gptOf(4), testing::smallCluster(2, 4), 3);
        const auto report = ask(plannerOf(name), problem);
        if (report)
            return verifyPlan(report, problem);
        QVERIFY2(report.error().code == ErrorCode::Infeasible || report.error().code == ErrorCode::BadInput,
                 report.error().message.c_str());
        QVERIFY2(report.error().message.find("batch") != std::string::npos, report.error().message.c_str());
    }

    void disconnected_data() { everyPlanner(); }

    // No planner sees devices that cannot reach each other: there is no such cluster.
    void disconnected()
    {
        cluster::ClusterBuilder builder("islands");
        const std::size_t type = builder.type(*cluster::knownDeviceType("V100"));
        const NodeId left = builder.node("left");
        builder.device(left, type);
        const NodeId right = builder.node("right");
        builder.device(right, type);
        const auto made = std::move(builder).build();
        QVERIFY(!made);
        QCOMPARE(made.error().code, ErrorCode::BadInput);
        QVERIFY2(made.error().message.find("n0:g0") != std::string::npos
                     && made.error().message.find("n1:g0") != std::string::npos,
                 made.error().message.c_str());
    }

    void layersOfNoCost_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<int>("free"); ///< of every four layers
        for (const Planner *planner : planners::allPlanners())
            for (const int free : {1, 3, 4})
                QTest::addRow("%s, %d of 4", planner->name().c_str(), free)
                    << QString::fromStdString(planner->name()) << free;
    }

    void layersOfNoCost()
    {
        QFETCH(QString, name);
        QFETCH(int, free);
        std::vector<Figures> layers;
        for (int i = 0; i < 8; ++i)
            layers.push_back(i % 4 < free ? Figures{0, 0, 0} : Figures{2, 1, 4});
        const Problem problem = testing::problemOf(profileOf(layers), testing::smallCluster(2, 2), 16);
        const auto report = ask(plannerOf(name), problem);
        if (!report && report.error().code == ErrorCode::Unsupported) { // no operators in a profile
            QVERIFY2(report.error().message.find("profile") != std::string::npos, report.error().message.c_str());
            return;
        }
        verifyPlan(report, problem);
    }

    void oneDevice_data() { everyPlanner(); }

    void oneDevice()
    {
        QFETCH(QString, name);
        for (const import::Model &model : {gptOf(2), profileOf(std::vector<Figures>(4))}) {
            const Problem problem = testing::problemOf(model, testing::smallCluster(1, 1), 8);
            const auto report = ask(plannerOf(name), problem);
            if (!report && report.error().code == ErrorCode::Unsupported)
                continue;
            verifyPlan(report, problem);
            for (const plan::Stage &stage : report->plan.stages)
                QCOMPARE(stage.devices.size(), std::size_t(1));
        }
    }

    void moreDevicesThanLayers_data() { everyPlanner(); }

    void moreDevicesThanLayers()
    {
        QFETCH(QString, name);
        for (const int layers : {1, 3}) {
            const Problem problem =
                testing::problemOf(profileOf(std::vector<Figures>(static_cast<std::size_t>(layers))),
                                   testing::smallCluster(2, 4), 64);
            const auto report = ask(plannerOf(name), problem);
            if (!report && report.error().code == ErrorCode::Unsupported)
                continue;
            verifyPlan(report, problem);
        }
        const Problem problem = testing::problemOf(gptOf(1), testing::smallCluster(4, 4), 64);
        verifyPlan(ask(plannerOf(name), problem), problem);
    }

    void stopped_data() { everyPlanner(); }

    // Wherever a search is stopped there is a whole plan, marked as the best so far, or an error without one.
    void stopped()
    {
        QFETCH(QString, name);
        const Planner &planner = plannerOf(name);
        const Problem problem = testing::problemOf(gptOf(4), testing::smallCluster(1, 4), 16);
        std::size_t plans = 0;
        for (std::size_t questions = 0; questions < 100000; questions += 1 + questions / 2) {
            StopsAfter progress(questions);
            const auto report = planners::planAndExplain(planner, problem, quick(planner), progress);
            if (!report) {
                QCOMPARE(report.error().code, ErrorCode::Cancelled);
                QVERIFY2(report.error().message.find("before a plan was found") != std::string::npos,
                         report.error().message.c_str());
                continue;
            }
            QVERIFY(plan::validate(report->plan, problem.subject));
            QVERIFY(report->predicted.fits);
            QVERIFY(report->plan.why);
            QCOMPARE(report->complete, !progress.wasHeard());
            QCOMPARE(report->plan.estimate.count("stopped_early"), std::size_t(report->complete ? 0 : 1));
            if (report->complete)
                break;
            ++plans;
        }
        QVERIFY2(plans > 0 || name == "gpipe" || isManual(planner), "it never had a plan when it was stopped");
    }
};

QTEST_GUILESS_MAIN(TestHardProblems)
#include "tst_hard_problems.moc"
