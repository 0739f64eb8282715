// SPDX-License-Identifier: Apache-2.0
// Plans of sampled training: planner gnn, plan file, differences, fingerprint, prediction.
#include "engine/gnn/partition.h"
#include "engine/gnn/sampling.h"
#include "engine/gnn/steady_iteration.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/fingerprint.h"
#include "engine/simulate/prediction.h"
#include "planners/common/why.h"
#include "planners/gnn/gnn.h"
#include "planners/gnn/placed_plan.h"
#include "planners/registry.h"

#include <QRegularExpression>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

using namespace planloom;

namespace {

/// Two machines of two devices, 1 GB/s unless said otherwise between them.
std::shared_ptr<const cluster::Cluster> machines(double rate)
{
    cluster::RegularCluster spec;
    spec.name = "two";
    spec.nodes = 2;
    spec.perNode = 2;
    spec.type = {"CPU-test", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10};
    spec.intraBandwidth = 1e10;
    spec.interPointToPoint = spec.interCollective = rate;
    auto made = cluster::regular(spec);
    return made ? std::make_shared<const cluster::Cluster>(*std::move(made)) : nullptr;
}

graph::GraphSageConfig config()
{
    graph::GraphSageConfig config;
    config.features = 16;
    config.hidden = 32;
    config.classes = 4;
    return config;
}

planners::Problem problemOf(double rate = 1e9)
{
    planners::Problem problem;
    auto model = graph::graphSage(config());
    problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(model)), machines(rate),
                                        nullptr, "zoo:graphsage-blocks");
    problem.globalBatch = 32;
    auto nodes = gnn::blockModelGraph({});
    nodes->part = *gnn::partitionOf(*nodes, {gnn::PartitionMethod::Hash, 3, 1, false});
    problem.sampledGraph = std::make_shared<const gnn::GraphData>(*std::move(nodes));
    problem.sampledGraphHash = "abc";
    return problem;
}

/// A machine of one slow device, and one whose device is 50 times as fast.
std::shared_ptr<const cluster::Cluster> slowAndFast()
{
    cluster::ClusterBuilder builder("slow-and-fast");
    const std::size_t slow = builder.type({"slow", {{"float32", 1e9}}, Bytes(std::int64_t{4} << 30), 1e10});
    const std::size_t fast = builder.type({"fast", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10});
    const DeviceId first = builder.device(builder.node("a"), slow);
    const DeviceId second = builder.device(builder.node("b"), fast);
    builder.link({cluster::Link::Kind::Network, builder.vertexOf(first), builder.vertexOf(second), 1e9, 1e9,
                  Seconds(2e-5), true});
    auto made = std::move(builder).build();
    return made ? std::make_shared<const cluster::Cluster>(*std::move(made)) : nullptr;
}

Result<planners::PlanReport> planned(const planners::Problem &problem, const planners::Options &options = {})
{
    NoProgress progress;
    return planners::gnn::GnnPlanner().plan(problem, options, progress);
}

} // namespace

class TestGnnPlan : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void rolesOfAPlan()
    {
        const auto report = planned(problemOf(), {{"trainers", "2"}, {"samplers", "2"}});
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        const plan::Plan &plan = report->plan;
        QCOMPARE(plan.stages.front().devices.size(), std::size_t{2});
        QCOMPARE(plan.roles.size(), std::size_t{3 + 4});
        QCOMPARE(plan.roles[3].trainer, 0);
        QCOMPARE(plan.roles[6].trainer, 1);
        QCOMPARE(plan.job->fanout.first, 10);
        QCOMPARE(plan.job->fanout.second, 5);
        QCOMPARE(plan.job->volumes.samplers, 4);
        QCOMPARE(plan.job->volumes.batch(0, 0), 8.0 * (8 + 4 * 16 * 61)); // labels, and 61 rows of 16 features
    }

    void trainersNeedDevices()
    {
        const auto report = planned(problemOf(), {{"trainers", "8"}});
        QVERIFY(!report);
        QCOMPARE(report.error().text(),
                 std::string("8 trainers do not fit the 4 devices of cluster two; use at most 4"));
    }

    /// Each row once with its number, and for each place which of them it is.
    void blocksHaveEachRowOnce()
    {
        planners::Problem problem = problemOf();
        auto model = graph::graphSageBlocks(config());
        problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(model)), machines(1e9),
                                            nullptr, "zoo:graphsage-blocks-rows");
        const auto report = planned(problem, {{"trainers", "2"}, {"samplers", "2"}});
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        const gnn::Volumes &volumes = report->plan.job->volumes;
        QCOMPARE(report->plan.job->fanout.second, 5);
        for (std::int32_t n = 0; n < volumes.iterations; ++n) {
            double features = 0;
            for (std::int32_t part = 0; part < 3; ++part)
                features += volumes.feature(n, part, 1);
            QCOMPARE(volumes.batch(n, 1), features + 8.0 * (8 + 4 * 61));
        }
        auto whole = graph::graphSageWhole(config());
        problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(whole)), machines(1e9),
                                            nullptr, "zoo:graphsage-blocks-whole");
        const auto entire = planned(problem, {{"trainers", "2"}, {"samplers", "2"}});
        QVERIFY2(entire, entire ? "" : entire.error().text().c_str());
        for (std::int32_t n = 0; n < volumes.iterations; ++n) {
            const gnn::Volumes &bytes = entire->plan.job->volumes;
            double features = 0;
            for (std::int32_t part = 0; part < 3; ++part)
                features += bytes.feature(n, part, 1);
            const double degrees = 4 * features / (8 + 4 * 16); // one a row
            const double places = bytes.batch(n, 1) - features - degrees - 8.0 * 8;
            QVERIFY2(places > 0 && places < 8.0 * 4 * 61 && std::fmod(places, 4) == 0, std::to_string(places).c_str());
        }
    }

    /// The seconds of samplers are those of the places that whole neighbourhoods have.
    void wholeNeighbourhoodsTakeTheirPlaces()
    {
        planners::Problem problem = problemOf();
        auto model = graph::gcn(config());
        problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(model)), machines(1e9),
                                            nullptr, "zoo:gcn-blocks");
        const auto report = planned(problem, {{"trainers", "2"}, {"samplers", "2"}});
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        const gnn::GraphData &graph = *problem.sampledGraph;
        double places = 0;
        for (std::int64_t node = 0; node < graph.nodes(); ++node) {
            std::vector<std::int64_t> tree;
            gnn::appendTree(graph, {{10, 5}, true, 1, 0}, node, tree);
            places += static_cast<double>(tree.size()) / static_cast<double>(graph.nodes());
        }
        QVERIFY(places < 61);
        QCOMPARE(report->plan.job->fanout.first, 10);
        QVERIFY(std::abs(report->plan.job->drawSeconds / (8 * places * 8e-8) - 1) < 1e-9);
    }

    /// The passes are those of the trainers alone; what is left of the job's iteration they wait for the other roles.
    void explanationIsOfTheTrainers()
    {
        const planners::Problem problem = problemOf(2e7);
        const auto report = planned(problem, {{"trainers", "2"}, {"samplers", "2"}});
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        const auto why = planners::explain(report->plan, problem.subject);
        QVERIFY2(why, why ? "" : why.error().text().c_str());
        plan::Plan alone = report->plan;
        alone.job.reset();
        alone.roles.clear();
        const auto wanted = planners::explain(alone, problem.subject);
        QVERIFY2(wanted, wanted ? "" : wanted.error().text().c_str());
        QCOMPARE(why->stages.size(), std::size_t{1});
        QVERIFY(wanted->stages.front().forwardSeconds > 0);
        QCOMPARE(why->stages.front().forwardSeconds, wanted->stages.front().forwardSeconds);
        QCOMPARE(why->stages.front().backwardSeconds, wanted->stages.front().backwardSeconds);
        const plan::StageWhy &stage = why->stages.front();
        const double computing = stage.forwardSeconds + stage.backwardSeconds + stage.optimizerSeconds;
        QVERIFY(report->predicted.iterationSeconds > 1.01 * computing);
        QVERIFY(std::abs(computing + stage.idleSeconds - report->predicted.iterationSeconds) < 1e-8);
        const QString detail = QString::fromStdString(why->detail);
        QVERIFY2(detail.contains("for other roles") && detail.startsWith("another role sets the pace: "),
                 why->detail.c_str());
        QCOMPARE(why->limit, std::string("link")); // slow cards

        // Samplers that take longer than an iteration of the trainers; then ones that take next to nothing.
        for (const bool slow : {true, false}) {
            plan::Plan changed = report->plan;
            changed.job->sampleSeconds = slow ? 10 * report->predicted.iterationSeconds : 1e-9;
            changed.job->drawSeconds = changed.job->rowSeconds = 1e-9;
            changed.job->volumes.features.assign(changed.job->volumes.features.size(), 0);
            changed.job->volumes.batches.assign(changed.job->volumes.batches.size(), 0);
            const auto of = planners::explain(changed, problem.subject);
            QVERIFY2(of, of ? "" : of.error().text().c_str());
            const QString text = QString::fromStdString(of->detail);
            QCOMPARE(of->limit == "role", slow);
            QVERIFY2(text.startsWith(slow ? "another role sets the pace: s" : "its only stage sets the pace: "),
                     of->detail.c_str());
        }
    }

    /// A sampler that is busier than the trainers and waits for a store as long as half of that sets no pace: below 80
    /// % of the time the limit stays the trainers', who wait for turns.
    void busiestRoleBelowThePace()
    {
        const planners::Problem problem = problemOf(1e10);
        const auto report = planned(problem, {{"trainers", "2"}, {"samplers", "1"}, {"prefetch", "1"}});
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        for (const bool waits : {true, false}) {
            plan::Plan changed = report->plan;
            const double third = 5 * report->predicted.iterationSeconds;
            const double rowBytes = 8 + 4 * 16;
            std::vector<double> &features = changed.job->volumes.features;
            features.assign(features.size(), 10 * rowBytes);
            changed.job->drawSeconds = changed.job->sampleSeconds = third;
            changed.job->rowSeconds = waits ? third / (2 * 10) : 1e-9; // two samplers ask each store
            const auto why = planners::explain(changed, problem.subject);
            QVERIFY2(why, why ? "" : why.error().text().c_str());
            const QString detail = QString::fromStdString(why->detail);
            const QRegularExpressionMatch busy = QRegularExpression(" s[01][^;]* (\\d+) %").match(detail);
            QVERIFY2(busy.hasMatch(), why->detail.c_str());
            const int percent = busy.captured(1).toInt();
            QVERIFY2(waits ? percent > 55 && percent < 80 : percent > 90, why->detail.c_str());
            QCOMPARE(why->limit == "role", !waits);
            QCOMPARE(detail.contains("; busiest of the other roles: s"), waits);
            QCOMPARE(detail.startsWith("another role sets the pace: s"), !waits);
        }
    }

    /// Of 1, 2 and 4 the fewest mini-batches with which the iteration is as short; the notes say what each takes.
    void prefetchIsChosen()
    {
        const planners::Problem problem = problemOf(2e7);
        const auto report = planned(problem, {{"prefetch", "0"}, {"proposals", "40"}});
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        const std::int32_t chosen = report->plan.job->prefetch;
        QVERIFY(chosen == 1 || chosen == 2 || chosen == 4);
        QCOMPARE(report->notes.size(), std::size_t{2});
        QVERIFY(report->notes.back().find("was not measured") != std::string::npos);
        QVERIFY(report->notes.front().find("prefetch " + std::to_string(chosen) + " was chosen") == 0);
        double best = 1e9;
        for (const char *prefetch : {"1", "2", "4"}) {
            const auto other = planned(problem, {{"prefetch", prefetch}, {"proposals", "40"}});
            QVERIFY(other);
            best = std::min(best, other->predicted.iterationSeconds);
        }
        // The search counts all iterations of the job from its start, the prediction one in the long run.
        QVERIFY2(report->predicted.iterationSeconds <= best * 1.1, qPrintable(QString::number(best)));
    }

    void fileKeepsAll()
    {
        const planners::Problem problem = problemOf();
        const auto report = planned(problem);
        QVERIFY(report);
        const plan::Document document{report->plan, problem.subject};
        const std::string text = plan::toJson(document);
        const auto read = plan::documentFromJson(text);
        QVERIFY2(read, read ? "" : read.error().text().c_str());
        QCOMPARE(plan::toJson(*read), text);
        QVERIFY(plan::difference(document.plan, read->plan).empty());
        QCOMPARE(plan::simulationKey(read->plan), plan::simulationKey(document.plan));
    }

    /// Bytes and times are those of the batch that was planned: another one is refused, edited or read from a file.
    void batchIsThatOfTheVolumes()
    {
        const planners::Problem problem = problemOf();
        const auto report = planned(problem);
        QVERIFY(report);
        QCOMPARE(report->plan.job->volumesBatch, problem.globalBatch);
        plan::Plan other = report->plan;
        other.globalBatch = 64;
        const Status refused = plan::validate(other, problem.subject);
        QVERIFY(!refused);
        const char *const wanted =
            "the volumes are those of a batch of 32, and the plan's batch is 64; plan again with --batch 64";
        QVERIFY2(refused.error().text().find(wanted) != std::string::npos, refused.error().text().c_str());
        planners::Problem larger = problem;
        larger.globalBatch = 64;
        const auto again = planned(larger);
        QVERIFY(again);
        QCOMPARE(again->plan.job->volumes.batch(0, 0), 2 * report->plan.job->volumes.batch(0, 0)); // of trees

        std::string text = plan::toJson(plan::Document{report->plan, problem.subject});
        std::string slip = text;
        const auto mistyped = plan::documentFromJson(slip.replace(slip.find("\"prefetch\""), 10, "\"prefech\""));
        QVERIFY(!mistyped);
        QVERIFY2(mistyped.error().text().find("job.prefech\": is not known") != std::string::npos,
                 mistyped.error().text().c_str());
        const std::size_t at = text.find("\"batch\":32,");
        QVERIFY(at != std::string::npos);
        const auto old = plan::documentFromJson(text.erase(at, std::string_view("\"batch\":32,").size()));
        QVERIFY2(old.ok(), old ? "" : old.error().text().c_str()); // of an older version: of the plan's batch
        QCOMPARE(old->plan.job->volumesBatch, problem.globalBatch);
    }

    void differencesNameRoles()
    {
        const auto report = planned(problemOf());
        QVERIFY(report);
        plan::Plan other = report->plan;
        other.roles[0].machine = other.roles[0].machine == "n0" ? "n1" : "n0";
        other.job->prefetch = 7;
        const auto lines = plan::difference(report->plan, other);
        QCOMPARE(lines.size(), std::size_t{2});
        QVERIFY(lines[0].starts_with("job gnn-sampled") && lines[0].ends_with("prefetch 7, transfers degree)"));
        QVERIFY(lines[1].starts_with("role g0 on n"));
        QVERIFY(plan::simulationKey(report->plan) != plan::simulationKey(other));
        other.job.reset();
        other.roles.clear();
        QVERIFY(plan::simulationKey(report->plan) != plan::simulationKey(other));
    }

    void searchAgainstTheSimulator_data()
    {
        QTest::addColumn<std::int64_t>("batch");
        QTest::addColumn<double>("rate"); ///< 0: slowAndFast()
        QTest::addColumn<QString>("trainers");
        QTest::newRow("few samples, slow network") << std::int64_t{2} << 2e7 << "2";
        QTest::newRow("slower network") << std::int64_t{4} << 5e6 << "2";
        QTest::newRow("servers") << std::int64_t{4} << 5e6 << "2 and a server";
        QTest::newRow("a slow machine") << std::int64_t{32} << 0.0 << "1";
    }

    /// What is planned takes no longer in the simulator than any other placement: gradients that are summed up go over
    /// the network, and a trainer takes as long as its machine's device does.
    void searchAgainstTheSimulator()
    {
        QFETCH(std::int64_t, batch);
        QFETCH(double, rate);
        QFETCH(QString, trainers);
        planners::Problem problem = problemOf(rate > 0 ? rate : 1e9);
        problem.globalBatch = batch;
        if (rate == 0)
            problem.subject = plan::makeSubject(problem.subject.graph, slowAndFast(), nullptr, "zoo:graphsage-blocks");
        planners::Options options{{"trainers", trainers.left(1).toStdString()}};
        if (trainers.contains(QStringLiteral("server")))
            options["servers"] = "1";
        const auto report = planned(problem, options);
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        gnn::Placement machineOf;
        const auto job = planners::gnn::searchJobOf(report->plan, problem.subject, 0, machineOf);
        QVERIFY(job);
        double best = 1e9;
        int feasible = 0;
        planners::gnn::eachFeasible(*job, [&](const gnn::Placement &placement) {
            plan::Plan other = report->plan;
            planners::gnn::placeRoles(placement, *problem.subject.cluster, other);
            const auto seconds = simulate::simulatePlan(other, problem.subject, {.trace = false, .memory = false});
            best = std::min(best, seconds ? seconds->report.iterationSeconds : 1e9);
            return ++feasible < 4096;
        });
        QVERIFY(feasible > 1);
        QVERIFY2(report->predicted.iterationSeconds <= best * 1.02,
                 qPrintable(QString("%1 %2").arg(report->predicted.iterationSeconds).arg(best)));
    }

    /// On slow cards the busiest one sets the pace; of the eight iterations that count, two may have been sent before.
    void networkSetsThePace()
    {
        const double rate = 1e6;
        const auto report = planned(problemOf(rate), {{"trainers", "2"}, {"iterations", "16"}});
        QVERIFY(report);
        const planners::Problem problem = problemOf(rate);
        gnn::Placement machineOf;
        gnn::Job job = plan::jobOf(report->plan, problem.subject, machineOf);
        std::vector<double> in(2), out(2);
        const auto send = [&](std::size_t from, std::size_t to, double bytes) {
            if (machineOf[from] == machineOf[to])
                return;
            out[static_cast<std::size_t>(machineOf[from])] += bytes;
            in[static_cast<std::size_t>(machineOf[to])] += bytes;
        };
        for (std::int32_t n = 8; n < 16; ++n) {
            for (std::int32_t s = 0; s < 2; ++s) {
                for (std::int32_t g = 0; g < 3; ++g)
                    send(static_cast<std::size_t>(g), static_cast<std::size_t>(3 + s), job.volumes.feature(n, g, s));
                send(static_cast<std::size_t>(3 + s), static_cast<std::size_t>(5 + s), job.volumes.batch(n, s));
            }
        }
        const double bound = std::max({in[0], in[1], out[0], out[1]}) / 8 / rate;
        QVERIFY(bound > 1e-3);
        QVERIFY2(report->predicted.iterationSeconds > 0.7 * bound,
                 qPrintable(QString("%1 %2").arg(report->predicted.iterationSeconds).arg(bound)));
        const auto fast = planned(problemOf(1e10), {{"trainers", "2"}});
        QVERIFY(fast);
        QVERIFY(fast->predicted.iterationSeconds < report->predicted.iterationSeconds);
    }

    /// Folded ranks give the same figures; a trace, which has a row for each of them, is refused.
    void foldedRanks()
    {
        const planners::Problem problem = problemOf();
        const auto report = planned(problem, {{"trainers", "2"}, {"samplers", "1"}});
        QVERIFY(report);
        const auto whole = compile::compilePlan(report->plan, problem.subject, {.bodies = false});
        const auto folded = compile::compilePlan(report->plan, problem.subject, {.bodies = false, .fold = true});
        QVERIFY(whole && folded && folded->ranks.size() < whole->ranks.size());
        const cluster::Cluster &cluster = *problem.subject.cluster;
        const simulate::Options figures{.trace = false, .memory = false};
        const auto a = simulate::simulate(*whole, cluster, figures);
        const auto b = simulate::simulate(*folded, cluster, figures);
        QVERIFY(a && b);
        QCOMPARE(simulate::toJson(b->report), simulate::toJson(a->report));
        const auto refused = simulate::simulate(*folded, cluster, {.trace = true, .memory = false});
        QVERIFY(!refused && refused.error().code == ErrorCode::Unsupported);
        QVERIFY2(refused.error().message.find("compile it without folding") != std::string::npos,
                 refused.error().message.c_str());
    }

    /// Ranks of the run: trainers, then the roles in the plan's order.
    void predictionHasTheProcesses()
    {
        const planners::Problem problem = problemOf();
        const auto report = planned(problem, {{"trainers", "1"}});
        QVERIFY(report);
        const auto prediction = simulate::predict({report->plan, problem.subject});
        QVERIFY(prediction);
        QCOMPARE(prediction->tables.ranks.size(), std::size_t{1 + 3 + 1});
        QVERIFY(prediction->tables.ranks[1].device.starts_with("g0 on n"));
        QCOMPARE(prediction->peakBytes.size(), std::size_t{1}); // a store has no arena
        QCOMPARE(prediction->nodes.size(), prediction->tables.ranks.size());
        for (std::size_t i = 0; i < report->plan.roles.size(); ++i) {
            const auto node = static_cast<std::size_t>(prediction->nodes[1 + i]);
            QCOMPARE(problem.subject.cluster->nodes()[node].name, report->plan.roles[i].machine);
        }
        QCOMPARE(prediction->iterationSeconds, report->predicted.iterationSeconds);
    }

    /// Servers behind the trainers in the job, and their bytes on the network.
    void servers()
    {
        const planners::Problem problem = problemOf();
        const auto report = planned(problem, {{"trainers", "2"}, {"servers", "2"}});
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        QVERIFY(report->plan.exchange.policy == plan::ExchangePolicy::ParameterServer);
        QCOMPARE(report->plan.roles.back().name, std::string("p1"));
        gnn::Placement machineOf;
        const gnn::Job job = plan::jobOf(report->plan, problem.subject, machineOf);
        QVERIFY(gnn::checkJob(job));
        QCOMPARE(machineOf.size(), job.roles.size());
        QCOMPARE(job.roles[5].name, std::string("w0"));
        QCOMPARE(job.roles[8].name, std::string("p1"));
        QVERIFY(!job.sumsGradients);
        QCOMPARE(job.volumes.model, static_cast<double>(problem.subject.graph->parameterBytes().value()));
        const auto read = plan::documentFromJson(plan::toJson({report->plan, problem.subject}));
        QVERIFY2(read, read ? "" : read.error().text().c_str());
        QVERIFY(plan::difference(report->plan, read->plan).empty());
    }

    void serversRefuseWhatTheyCannotUpdate()
    {
        planners::Problem problem = problemOf();
        const auto report = planned(problem, {{"trainers", "2"}, {"servers", "1"}});
        QVERIFY(report);
        const auto refusal = [&](const std::function<void(plan::Plan &)> &change) {
            plan::Plan plan = report->plan;
            change(plan);
            const Status valid = plan::validate(plan, problem.subject);
            return QString::fromStdString(valid ? std::string() : valid.error().text());
        };
        QVERIFY(refusal([](plan::Plan &) {}).isEmpty());
        QVERIFY(refusal([](plan::Plan &plan) { plan.optimizer.clipNorm = 1; }).contains("clip_norm"));
        QVERIFY(refusal([](plan::Plan &plan) { plan.stages.front().zero = 1; }).contains("ZeRO"));
        QVERIFY(refusal([](plan::Plan &plan) { plan.precision = plan::Precision::BFloat16; }).contains("float32"));
        QVERIFY(
            refusal([](plan::Plan &plan) { plan.roles.pop_back(); }).contains("add a role of kind parameter-server"));
        QVERIFY(refusal([](plan::Plan &plan) { plan.exchange = {}; }).contains("leave the servers out"));
        QVERIFY(refusal([](plan::Plan &plan) {
                    plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging;
                }).contains("not dasgd"));
        QVERIFY(refusal([](plan::Plan &plan) {
                    plan.job.reset();
                    plan.roles.clear();
                }).contains("--planner gnn"));
        QVERIFY(
            refusal([](plan::Plan &plan) { std::swap(plan.roles.front(), plan.roles.back()); }).contains("list graph"));
    }

    /// The iterations of the job, with the ranks' tasks from when their trainers start, under the ids of the run.
    void tracesHaveRoles()
    {
        const planners::Problem problem = problemOf(2e6);
        const auto report = planned(problem, {{"trainers", "2"}, {"servers", "1"}, {"iterations", "5"}});
        QVERIFY(report);
        const auto simulation = simulate::simulatePlan(report->plan, problem.subject);
        QVERIFY2(simulation, simulation ? "" : simulation.error().text().c_str());
        const auto prediction = simulate::predict({report->plan, problem.subject});
        QVERIFY(prediction);
        const trace::Trace &trace = simulation->trace;
        QCOMPARE(trace.tasks.size(), prediction->tables.tasks.size());
        QCOMPARE(trace.ranks.size(), std::size_t{2 + 3 + 2 + 1});
        QVERIFY(trace.rounds.overlap);
        std::map<std::pair<std::int32_t, std::string>, std::set<std::int32_t>> steps;
        std::map<std::int32_t, std::int64_t> forward; ///< of trainer 0, by step
        for (const trace::Record &record : trace.records) {
            const std::string &id = trace.tasks[static_cast<std::size_t>(record.task)].id;
            QCOMPARE(id, prediction->tables.tasks[static_cast<std::size_t>(record.task)].id);
            steps[{record.rank, id}].insert(record.step);
            if (record.rank == 0 && id == "s0.F.m0")
                forward[record.step] = record.start;
        }
        const std::pair<std::int32_t, std::string> expected[] = {
            {0, "s0.F.m0"}, {1, "s0.PS.b0"}, {5, "s0.NS"}, {5, "s0g1"}, {3, "s0g1"}, {3, "g1.SN.s0"},
            {3, "g1s0"},    {5, "g1s0"},     {6, "s1.LD"}, {6, "s1w1"}, {1, "s1w1"}, {1, "w1p0"},
            {7, "w1p0"},    {7, "p0.U"},     {7, "p0w0"},  {0, "p0w0"}};
        for (const auto &task : expected)
            QVERIFY2(steps[task].size() == 5, task.second.c_str());
        QCOMPARE(forward.size(), std::size_t{5});
        const double between = static_cast<double>(forward[4] - forward[1]) * 1e-9 / 3;
        QVERIFY(std::abs(between / simulation->report.iterationSeconds - 1) < 0.35); // volumes differ from step to step
    }

    void refusals()
    {
        planners::Problem problem = problemOf();
        QVERIFY(QString::fromStdString(planned(problem, {{"trainers", "5"}}).error().text()).contains("4 devices"));
        QVERIFY(
            QString::fromStdString(planned(problem, {{"samplers", "3"}}).error().text()).contains("multiple of 12"));
        QVERIFY(QString::fromStdString(planned(problem, {{"slots", "3"}}).error().text()).contains("role-slots"));
        QVERIFY(QString::fromStdString(planned(problem, {{"servers", "9"}}).error().text()).contains("at most 8"));
        problem.sampledGraph = nullptr;
        QVERIFY(QString::fromStdString(planned(problem).error().text()).contains("--graph"));
        QVERIFY(planners::findPlanner("gnn"));
    }
};

QTEST_GUILESS_MAIN(TestGnnPlan)
#include "tst_gnn_plan.moc"
