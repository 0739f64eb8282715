// SPDX-License-Identifier: Apache-2.0
// The planner interface, and the two planners that need no search: data-parallel and gpipe.
#include "engine/graph/zoo/zoo.h"
#include "planners/common/balance.h"
#include "planners/common/micro_batch.h"
#include "planners/interface/options.h"
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

using namespace planloom;
using planners::Options;
using planners::PlanReport;
using planners::Problem;
using testing::must;
using testing::planned;

namespace {

Problem randomProblem(unsigned seed, std::size_t layers, int nodes, int perNode, std::int64_t batch)
{
    std::mt19937 random(seed);
    Problem problem =
        testing::problemOf(testing::randomModel(random, layers), testing::smallCluster(nodes, perNode), batch);
    problem.microBatch = 1;
    return problem;
}

import::Model smallGpt(){graph::TransformerConfig config;
config.layers = 4;
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

Error errorOf(const std::string &planner, const Problem &problem, const Options &options = {})
{
    NoProgress progress;
    const auto report = must(planners::findPlanner(planner))->plan(problem, options, progress);
    return report ? Error{} : report.error();
}

/// Smallest largest part by trying every cut.
double bestLargest(std::size_t items, std::size_t parts, const planners::PartCost &cost, std::size_t begin = 0,
                   std::size_t part = 0)
{
    if (part + 1 == parts)
        return cost(part, begin, items);
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t end = begin + 1; end + (parts - part - 1) <= items; ++end)
        best = std::min(best, std::max(cost(part, begin, end), bestLargest(items, parts, cost, end, part + 1)));
    return best;
}

class Stopped final : public Progress {
public:
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override { return true; }
};

} // namespace

class TestPlanners : public QObject {
    Q_OBJECT

private slots:
    void registryNamesThem()
    {
        std::set<std::string> names;
        std::vector<const planners::Planner *> all = planners::allPlanners();
        std::ranges::copy(planners::jobPlanners(), std::back_inserter(all));
        for (const planners::Planner *planner : all) {
            QVERIFY(names.insert(planner->name()).second);
            QVERIFY(!planner->about().empty());
            for (const planners::OptionInfo &option : planner->options()) {
                QVERIFY(!option.key.empty() && !option.fallback.empty() && !option.about.empty());
                QVERIFY2(option.choices.empty() || std::ranges::count(option.choices, option.fallback) == 1,
                         option.key.c_str());
            }
            QVERIFY(must(planners::findPlanner(planner->name())) == planner);
        }
        for (const char *name : {"data-parallel", "gpipe", "dapple"})
            QVERIFY(names.count(name) == 1);
        const auto none = planners::findPlanner("magic");
        QVERIFY(!none);
        QCOMPARE(none.error().code, ErrorCode::NotFound);
        QVERIFY(none.error().message.find("dapple") != std::string::npos);
    }

    // Every fallback is a value that the planner itself accepts.
    void fallbacksAreValid()
    {
        const Problem problem = testing::problemOf(smallGpt(), testing::smallCluster(1, 2), 8);
        for (const planners::Planner *planner : planners::allPlanners()) {
            Options options;
            for (const planners::OptionInfo &option : planner->options())
                options[option.key] = option.fallback;
            QVERIFY(planned(problem, planner->name(), options).predicted.iterationSeconds > 0);
        }
    }

    void otherChoicesAreRefused()
    {
        const Problem problem = testing::problemOf(smallGpt(), testing::smallCluster(1, 2), 8);
        NoProgress progress;
        int tried = 0;
        for (const planners::Planner *planner : planners::allPlanners()) {
            for (const planners::OptionInfo &option : planner->options()) {
                if (option.choices.empty())
                    continue;
                const auto report = planner->plan(problem, {{option.key, "magic"}}, progress);
                QVERIFY2(!report && report.error().code == ErrorCode::BadInput, option.key.c_str());
                ++tried;
                const std::string &said = report.error().message;
                QVERIFY2(said.starts_with("option " + option.key + "=magic is not known"), said.c_str());
                for (const std::string &choice : option.choices)
                    QVERIFY2(said.find(choice) != std::string::npos, said.c_str());
            }
        }
        QVERIFY(tried > 30);
    }

    void wrongProblems_data()
    {
        QTest::addColumn<QString>("what");
        QTest::addColumn<QString>("says");
        QTest::newRow("batch 0") << "batch 0"
                                 << "batch is 0";
        QTest::newRow("batch below 0") << "batch -5"
                                       << "batch is -5";
        QTest::newRow("micro-batch 0") << "micro 0"
                                       << "micro-batch is 0";
        QTest::newRow("micro-batch above the batch") << "micro 9"
                                                     << "micro-batch is 9";
        QTest::newRow("no model") << "nothing"
                                  << "no model";
        QTest::newRow("not a number") << "nan"
                                      << "not finite";
    }

    void wrongProblems()
    {
        QFETCH(QString, what);
        QFETCH(QString, says);
        Problem problem = randomProblem(1, 4, 1, 2, 8);
        if (what.startsWith("batch"))
            problem.globalBatch = what.section(' ', 1).toLongLong();
        if (what.startsWith("micro"))
            problem.microBatch = what.section(' ', 1).toLongLong();
        if (what == "nothing")
            problem.subject = {};
        if (what == "nan")
            problem.optimizer.learningRate = std::nan("");
        for (const planners::Planner *planner : planners::allPlanners()) {
            const Error error = errorOf(planner->name(), problem);
            QCOMPARE(error.code, ErrorCode::BadInput);
            QVERIFY2(error.message.find(says.toStdString()) != std::string::npos, error.message.c_str());
        }
    }

    void wrongOptions()
    {
        const Problem problem = randomProblem(1, 4, 1, 2, 8);
        for (const planners::Planner *planner : planners::allPlanners()) {
            const Error unknown = errorOf(planner->name(), problem, {{"colour", "blue"}});
            QCOMPARE(unknown.code, ErrorCode::BadInput);
            QVERIFY2(unknown.message.find("'colour'") != std::string::npos, unknown.message.c_str());
            QCOMPARE(errorOf(planner->name(), problem, {{"memory_reserve", "half"}}).code, ErrorCode::BadInput);
        }
    }

    void readerKeepsTheFirstError()
    {
        planners::OptionReader reader({{"a", "7"}, {"b", "x,y"}, {"c", "12x"}},
                                      {{"a", "1", ""}, {"b", "x", ""}, {"c", "3", ""}});
        QCOMPARE(reader.integer("a", 0, 10), std::int64_t(7));
        QCOMPARE(reader.choices("b", {"z", "y", "x"}), (std::vector<std::string>{"y", "x"}));
        QVERIFY(reader.status());
        QCOMPARE(reader.integer("c", 0, 100), std::int64_t(3));
        QVERIFY(!reader.status());
        QCOMPARE(reader.integer("a", 0, 5), std::int64_t(1));
        QVERIFY(reader.status().error().message.find("c=12x") != std::string::npos);
    }

    void stoppedAtOnce()
    {
        const Problem problem = randomProblem(1, 6, 1, 2, 8);
        Stopped stopped;
        for (const planners::Planner *planner : planners::allPlanners()) {
            const auto report = planner->plan(problem, {}, stopped);
            QVERIFY(!report);
            QCOMPARE(report.error().code, ErrorCode::Cancelled);
        }
    }

    void balancedCutsAreTheBest()
    {
        std::mt19937 random(21);
        std::uniform_int_distribution<int> weight(0, 9);
        for (int round = 0; round < 60; ++round) {
            const std::size_t items = 1 + static_cast<std::size_t>(round) % 9;
            const std::size_t parts = 1 + static_cast<std::size_t>(round / 9) % items;
            std::vector<int> weights(items);
            for (int &value : weights)
                value = weight(random);
            // The cost of a part depends on its place, as on unequal devices.
            const planners::PartCost cost = [&](std::size_t index, std::size_t first, std::size_t last) {
                double sum = 0;
                for (std::size_t i = first; i < last; ++i)
                    sum += weights[i];
                return sum * static_cast<double>(1 + index % 3) + (index > 0 ? weights[first] : 0);
            };
            const std::vector<std::size_t> cuts = planners::balancedCuts(items, parts, cost);
            QCOMPARE(cuts.size(), parts - 1);
            double largest = 0;
            for (std::size_t p = 0; p < parts; ++p) {
                const std::size_t first = p == 0 ? 0 : cuts[p - 1];
                const std::size_t last = p < cuts.size() ? cuts[p] : items;
                QVERIFY(first < last);
                largest = std::max(largest, cost(p, first, last));
            }
            QCOMPARE(largest, bestLargest(items, parts, cost));
        }
    }

    void microBatchesToTry()
    {
        Problem problem = testing::zooProblem("vgg-19-layers", "dapple-a", 2048);
        QCOMPARE(planners::microBatchChoices(problem), (std::vector<std::int64_t>{32}));
        problem.globalBatch = 8;
        QCOMPARE(planners::microBatchChoices(problem), (std::vector<std::int64_t>{8}));
        problem.microBatch = 3;
        QCOMPARE(planners::microBatchChoices(problem), (std::vector<std::int64_t>{3}));
        const Problem real = testing::problemOf(smallGpt(), testing::smallCluster(1, 2), 10);
        QCOMPARE(planners::microBatchChoices(real), (std::vector<std::int64_t>{1, 2, 4, 8}));
    }

    void dataParallel()
    {
        const Problem problem = randomProblem(31, 5, 2, 2, 16);
        const PlanReport report = planned(problem, "data-parallel");
        QCOMPARE(report.plan.stages.size(), std::size_t(1));
        QCOMPARE(report.plan.stages[0].devices.size(), std::size_t(4));
        QCOMPARE(report.plan.microBatches, std::int64_t(4));
        QVERIFY(plan::validate(report.plan, problem.subject));
        QVERIFY(report.predicted.fits);
        const auto &estimate = report.plan.estimate;
        QVERIFY(estimate.at("iteration_seconds_with_overlap") <= estimate.at("iteration_seconds"));
        QVERIFY(std::abs(report.predicted.iterationSeconds / estimate.at("iteration_seconds") - 1) < 0.02);
    }

    void dataParallelOnOneDevice()
    {
        const PlanReport report = planned(randomProblem(31, 5, 1, 1, 4), "data-parallel");
        QCOMPARE(report.plan.estimate.at("all_reduce_seconds"), 0.0);
        QCOMPARE(report.plan.estimate.at("speedup_over_one_device"), 1.0);
        QCOMPARE(report.plan.estimate.at("speedup_with_overlap"), 1.0);
        const double speedup = report.predicted.speedupOverOneDevice; // one device takes the optimizer's step, too
        QVERIFY2(std::abs(speedup - 1) < 1e-6, qPrintable(QString::number(speedup)));
    }

    void dataParallelNeedsASampleEach()
    {
        const Error error = errorOf("data-parallel", randomProblem(31, 5, 2, 2, 3));
        QCOMPARE(error.code, ErrorCode::Infeasible);
        QVERIFY2(error.message.find("at least 4") != std::string::npos, error.message.c_str());
    }

    // More micro-batches where one does not fit, then recomputation if allowed, then a clear refusal.
    void dataParallelFitsItself()
    {
        std::vector<import::ProfileLayerSpec> layers;
        for (std::size_t i = 0; i < 6; ++i)
            layers.push_back({"layer_" + std::to_string(i), 3, 6, i == 5 ? 1e6 : 200e6, 1e6,
                              i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1}});
        const import::Model model = must(import::profileModel("wide", 1, layers));
        Problem problem = testing::problemOf(model, testing::smallCluster(1, 2, 3), 8);
        QCOMPARE(planned(problem, "data-parallel").plan.microBatches, std::int64_t(4));
        problem.microBatch = 4;
        const Error error = errorOf("data-parallel", problem);
        QCOMPARE(error.code, ErrorCode::Infeasible);
        QVERIFY2(error.message.find("usable") != std::string::npos, error.message.c_str());
    }

    void gpipeIsBalanced()
    {
        const Problem problem = randomProblem(41, 12, 1, 4, 16);
        const PlanReport report = planned(problem, "gpipe");
        QCOMPARE(report.plan.stages.size(), std::size_t(4));
        QCOMPARE(report.plan.microBatches, std::int64_t(16));
        QCOMPARE(report.plan.schedule.kind, plan::ScheduleKind::GPipe);
        QVERIFY(plan::validate(report.plan, problem.subject));
        const cost::CostModel &costs = *problem.subject.costs;
        const planners::PartCost cost = [&](std::size_t, std::size_t first, std::size_t last) {
            return (costs.forward(first, last, 1, 0) + costs.backward(first, last, 1, 0)).value();
        };
        double slowest = 0;
        for (const plan::Stage &stage : report.plan.stages)
            slowest = std::max(slowest, cost(0, stage.firstLayer, stage.lastLayer));
        QCOMPARE(slowest, bestLargest(12, 4, cost));
    }

    void gpipeStages()
    {
        Problem problem = randomProblem(42, 5, 2, 4, 32);
        problem.microBatch.reset();
        QCOMPARE(planned(problem, "gpipe").plan.stages.size(), std::size_t(5)); // no more than layers
        const PlanReport two = planned(problem, "gpipe", {{"stages", "2"}});
        QCOMPARE(two.plan.stages.size(), std::size_t(2));
        QCOMPARE(two.plan.microBatches, std::int64_t(8)); // four a stage
        const Error error = errorOf("gpipe", problem, {{"stages", "6"}});
        QCOMPARE(error.code, ErrorCode::BadInput);
        QVERIFY2(error.message.find("at most 5") != std::string::npos, error.message.c_str());
    }

    void gpipeKeepsEveryMicroBatch()
    {
        std::vector<import::ProfileLayerSpec> layers;
        for (std::size_t i = 0; i < 6; ++i)
            layers.push_back({"layer_" + std::to_string(i), 3, 6, i == 2 ? 1e6 : 100e6, 1e6,
                              i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1}});
        const import::Model model = must(import::profileModel("wide", 1, layers));
        Problem problem = testing::problemOf(model, testing::smallCluster(1, 2, 3), 16);
        problem.microBatch = 1;
        const Error error = errorOf("gpipe", problem); // 16 micro-batches of 200 MB each
        QCOMPARE(error.code, ErrorCode::Infeasible);
        QVERIFY2(error.message.find("stage0") != std::string::npos
                     && error.message.find("16 micro-batches") != std::string::npos,
                 error.message.c_str());
        const PlanReport report = planned(problem, "gpipe", {{"recompute", "auto"}});
        QCOMPARE(report.plan.stages[0].recompute, plan::Recompute::Full);
        QVERIFY(report.predicted.fits);
    }

    void realGraphs_data()
    {
        QTest::addColumn<QString>("planner");
        for (const planners::Planner *planner : planners::allPlanners())
            QTest::newRow(planner->name().c_str()) << QString::fromStdString(planner->name());
    }

    void realGraphs()
    {
        QFETCH(QString, planner);
        const Problem problem = testing::problemOf(smallGpt(), testing::smallCluster(1, 4), 16);
        const PlanReport report = planned(problem, planner.toStdString());
        QVERIFY(plan::validate(report.plan, problem.subject));
        QVERIFY(report.predicted.fits);
        QCOMPARE(report.plan.planner.name, planner.toStdString());
        QCOMPARE(report.plan.globalBatch, std::int64_t(16));
        for (const planners::Candidate &other : report.alternatives) // the compiled program ranks them
            QVERIFY(other.simulatedSeconds >= report.predicted.iterationSeconds);
        QVERIFY(report.plan.estimate.count("iteration_seconds") == 1
                && report.plan.estimate.count("speedup_over_one_device") == 1);
        QCOMPARE(QString::fromStdString(report.plan.predictedJson),
                 QString::fromStdString(simulate::toJson(report.predicted)));
    }
};

QTEST_GUILESS_MAIN(TestPlanners)
#include "tst_planners.moc"
