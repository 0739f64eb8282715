// SPDX-License-Identifier: Apache-2.0
// Plans of sampled training on machines whose cores trainers and roles share.
#include "engine/gnn/partition.h"
#include "engine/gnn/steady_iteration.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/role_cores.h"
#include "engine/simulate/prediction.h"
#include "planners/gnn/explore.h"
#include "planners/gnn/gnn.h"
#include "planners/gnn/placed_plan.h"

#include <QTest>

#include <algorithm>

using namespace planloom;

namespace {

/// @p nodes machines of @p devices processors on @p cores cores each; 0: a core for each.
std::shared_ptr<const cluster::Cluster> clusterOf(int nodes, int devices, int cores)
{
    cluster::ClusterBuilder builder("cores");
    const std::size_t type = builder.type({"CPU-test", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10});
    const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
    for (int n = 0; n < nodes; ++n) {
        const NodeId node = builder.node("n" + std::to_string(n), cores);
        for (int i = 0; i < devices; ++i)
            builder.link({cluster::Link::Kind::Network, builder.vertexOf(builder.device(node, type)), network, 1e10,
                          1e10, Seconds(1e-6), true});
    }
    auto made = std::move(builder).build();
    return made ? std::make_shared<const cluster::Cluster>(*std::move(made)) : nullptr;
}

planners::Problem problemOf(int nodes, int devices, int cores)
{
    graph::GraphSageConfig config;
    config.features = 16;
    config.hidden = 32;
    config.classes = 4;
    planners::Problem problem;
    auto model = graph::graphSage(config);
    problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(model)),
                                        clusterOf(nodes, devices, cores), nullptr, "zoo:graphsage-blocks");
    problem.globalBatch = 256;
    auto graph = gnn::blockModelGraph({});
    graph->part = *gnn::partitionOf(*graph, {gnn::PartitionMethod::Hash, 3, 1, false});
    problem.sampledGraph = std::make_shared<const gnn::GraphData>(*std::move(graph));
    problem.sampledGraphHash = "abc";
    return problem;
}

plan::Plan planned(const planners::Problem &problem, const planners::Options &options)
{
    NoProgress progress;
    const auto report = planners::gnn::GnnPlanner().plan(problem, options, progress);
    if (!report)
        qFatal("%s", report.error().text().c_str());
    return report->plan;
}

double simulated(const plan::Plan &plan, const plan::Subject &subject)
{
    const auto simulation = simulate::simulatePlan(plan, subject, {.trace = false, .memory = false});
    return simulation ? simulation->report.iterationSeconds : -1;
}

/// Seconds of cores that an iteration of a job on one machine takes: tasks, and copies between its processes.
double workOf(const gnn::Job &job)
{
    const gnn::Network network = gnn::networkOf(job);
    const gnn::Port &port = job.machines.front().port;
    double work = 0;
    for (std::size_t step = 0; step < network.steps(); ++step)
        work += network.connection[step] == gnn::Network::kTask
            ? network.amount[step] * (network.trains[step] ? port.trainerThreads : 1)
            : network.amount[step] / port.within;
    return work / job.volumes.iterations;
}

} // namespace

class TestRoleCores : public QObject {
    Q_OBJECT
private slots:
    void planAndSearchAgree_data()
    {
        QTest::addColumn<int>("devices");
        QTest::addColumn<int>("cores");
        QTest::addColumn<int>("trainers");
        QTest::addColumn<bool>("servers");
        for (const bool servers : {false, true}) {
            const char *exchange = servers ? "servers" : "all-reduce";
            QTest::addRow("a core for each device, %s", exchange) << 2 << 2 << 2 << servers;
            QTest::addRow("trainers outnumber cores, %s", exchange) << 4 << 2 << 4 << servers;
            QTest::addRow("devices outnumber cores, trainers do not, %s", exchange) << 4 << 2 << 2 << servers;
            QTest::addRow("several cores a device, %s", exchange) << 2 << 8 << 2 << servers;
            QTest::addRow("one core, %s", exchange) << 2 << 1 << 2 << servers;
        }
    }

    /// The search's job takes what the simulator says of the plan, and no less than the cores need for what there is to
    /// do, which it reaches where there is much more of it than cores.
    void planAndSearchAgree()
    {
        QFETCH(int, devices);
        QFETCH(int, cores);
        QFETCH(int, trainers);
        QFETCH(bool, servers);
        const planners::Problem problem = problemOf(1, devices, cores);
        const plan::Plan plan =
            planned(problem, {{"trainers", std::to_string(trainers)}, {"servers", servers ? "1" : "0"}});
        gnn::Placement machineOf;
        const auto job = planners::gnn::jobOfPlan(plan, problem.subject, 0, machineOf);
        QVERIFY(job);
        const double seconds = gnn::steadyIteration(*job, machineOf, plan.job->transfers);
        const double simulates = simulated(plan, problem.subject);
        const double least = workOf(*job) / cores;
        // Of trainers that share cores, sums of gradients that wait for the last are simulated, and not in the search.
        QVERIFY2(std::abs(seconds / simulates - 1) < 0.02, qPrintable(QString("%1 %2").arg(seconds).arg(simulates)));
        QVERIFY2(seconds >= least * 0.999, qPrintable(QString("%1 %2").arg(seconds).arg(least)));
        if (cores == 1)
            QVERIFY2(seconds <= least * 1.01, qPrintable(QString("%1 %2").arg(seconds).arg(least)));
        const planners::Problem free = problemOf(1, devices, 0);
        QVERIFY(simulated(plan, free.subject) < simulates * (1 + 1e-9));
    }

    void notes()
    {
        const planners::Problem problem = problemOf(1, 2, 2);
        const plan::Plan plan = planned(problem, {{"trainers", "2"}});
        QCOMPARE(plan::roleCoreNotes(plan, *problem.subject.cluster),
                 std::vector<std::string>{"2 trainers and 5 roles share 2 cores of n0"});
        QVERIFY(plan::roleCoreNotes(plan, *clusterOf(1, 2, 0)).empty());
        // A trainer of four threads, and another one: three threads are left for five roles.
        QCOMPARE(plan::roleCoreNotes(plan, *clusterOf(1, 2, 11)).size(), std::size_t{1});
        QVERIFY(plan::roleCoreNotes(plan, *clusterOf(1, 20, 20)).empty());
    }

    /// All roles that can move on one machine of two is no optimum, though no message then takes time.
    void searchSpreadsWork()
    {
        const planners::Problem problem = problemOf(2, 2, 1);
        const plan::Plan plan = planned(problem, {{"trainers", "2"}, {"samplers", "2"}});
        gnn::Placement machineOf;
        auto job = planners::gnn::searchJobOf(plan, problem.subject, 0, machineOf);
        QVERIFY(job);
        gnn::Placement start = machineOf;
        for (std::size_t role = 0; role < start.size(); ++role) {
            if (job->roles[role].kind != gnn::RoleKind::GraphStore)
                start[role] = 0;
        }
        NoProgress progress;
        planners::gnn::ExploreOptions options;
        options.proposals = 200;
        const auto found = planners::gnn::explore(*job, start, options, progress);
        QVERIFY(found.proposals > 0);
        QVERIFY2(found.seconds < 0.7 * found.startSeconds,
                 qPrintable(QString("%1 %2").arg(found.seconds).arg(found.startSeconds)));
    }
};

QTEST_GUILESS_MAIN(TestRoleCores)
#include "tst_role_cores.moc"
