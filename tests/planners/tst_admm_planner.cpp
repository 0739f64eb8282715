// SPDX-License-Identifier: Apache-2.0
// How planner admm chooses who waits for whom.
#include "engine/compile/compile.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/plan_json.h"
#include "engine/simulate/simulate.h"
#include "engine/simulate/straggler.h"
#include "planners/common/why.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using namespace planloom::planners;
using testing::must;

namespace {

/// Processors of one machine, the last @p slow of which have a third of the others' speed.
Problem problemOn(int fast, int slow)
{
    cluster::ClusterBuilder builder("processors");
    cluster::DeviceType type = *cluster::knownDeviceType("CPU");
    const std::size_t fastType = builder.type(type);
    constexpr double kSlower = 3;
    type.name = "slow CPU";
    type.memoryBandwidth /= kSlower;
    for (auto &[precision, flops] : type.peakFlops)
        flops /= kSlower;
    const std::size_t slowType = builder.type(type);
    const NodeId node = builder.node("n0", fast + slow);
    const std::size_t memory = builder.vertex({cluster::Vertex::Kind::Switch, "memory", {}, node});
    for (int i = 0; i < fast + slow; ++i)
        builder.link({cluster::Link::Kind::Memory,
                      builder.vertexOf(builder.device(node, i < fast ? fastType : slowType)), memory, 8e9, 4e9,
                      Seconds(1e-6), true});
    Problem problem;
    problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(must(graph::rnnClassifier({}))),
                                        std::make_shared<const cluster::Cluster>(must(std::move(builder).build())),
                                        nullptr, "zoo:rnn");
    problem.globalBatch = 1200;
    return problem;
}

admm::Parallel modeOf(const PlanReport &report) { return report.plan.admm->parallel; }

} // namespace

class TestAdmmPlanner : public QObject {
    Q_OBJECT

    /// On so many equal processors.
    static std::string refusal(int devices, const Options &options)
    {
        NoProgress progress;
        const auto report = must(findPlanner("admm"))->plan(problemOn(devices, 0), options, progress);
        return report ? "no error" : report.error().text();
    }

private slots:
    /// A slow worker holds the others up where they wait for it.
    void slowWorkersAreNotWaitedFor()
    {
        const Options four{{"workers", "4"}, {"parallel", "auto"}};
        const PlanReport alike = testing::planned(problemOn(4, 0), "admm", four);
        QCOMPARE(modeOf(alike), admm::Parallel::Synchronous);
        QVERIFY(alike.alternatives.size() >= 6); // barriers and delays
        // A version is shorter than an iteration and gets less done: by what they get done, none is faster.
        double before = alike.predicted.iterationSeconds;
        for (const Candidate &other : alike.alternatives) {
            QVERIFY(other.simulatedSeconds >= before);
            before = other.simulatedSeconds;
        }
        const PlanReport uneven = testing::planned(problemOn(3, 1), "admm", four);
        QCOMPARE(modeOf(uneven), admm::Parallel::Asynchronous);
        QVERIFY(uneven.plan.admm->delay >= 2 && uneven.plan.admm->barrier <= 3);
    }

    void takesWhatIsGiven()
    {
        const PlanReport report =
            testing::planned(problemOn(3, 1), "admm",
                             {{"workers", "4"}, {"parallel", "asynchronous"}, {"barrier", "2"}, {"delay", "4"}});
        QCOMPARE(report.plan.admm->barrier, 2);
        QCOMPARE(report.plan.admm->delay, 4);
        QVERIFY(report.alternatives.empty());
        QCOMPARE(modeOf(testing::planned(problemOn(3, 1), "admm")), admm::Parallel::Synchronous);
        const PlanReport linearised = testing::planned(problemOn(2, 0), "admm", {{"subproblems", "linearised"}});
        QCOMPARE(linearised.plan.admm->subproblems, admm::Subproblems::Linearised);
    }

    /// With a server the limit is what is busiest in the long run, of workers and server.
    void whatLimitsVersions()
    {
        const Problem problem = problemOn(4, 0);
        const PlanReport report =
            testing::planned(problem, "admm",
                             {{"workers", "4"}, {"parallel", "asynchronous"}, {"barrier", "1"}, {"delay", "4"}});
        auto program = must(compile::compilePlan(report.plan, problem.subject, {.bodies = false}));
        const auto whyWith = [&](double seconds) {
            program.server->seconds = seconds;
            const auto simulation = must(simulate::simulate(program, *problem.subject.cluster, {.memory = false}));
            return whyOf(report.plan, problem.subject, program, simulation);
        };
        const plan::Why workers = whyWith(program.server->seconds);
        QCOMPARE(workers.limit, std::string("compute"));
        QVERIFY2(workers.detail.find("and wait for versions of the parameters") != std::string::npos,
                 workers.detail.c_str());
        const plan::Why server = whyWith(report.predicted.iterationSeconds * 20);
        QCOMPARE(server.limit, std::string("role"));
        QVERIFY2(server.detail.find("the parameter server sets the pace: 100 %") == 0, server.detail.c_str());
    }

    /// A server that is busier than the workers sets the pace only where it is at work nearly all the time: for less,
    /// both wait for each other.
    void serverBelowThePace_data()
    {
        QTest::addColumn<double>("workersTimes"); ///< seconds of a version, over those of a worker's iteration
        QTest::addColumn<QString>("limit");
        QTest::newRow("two thirds") << 2.0 << "compute";
        QTest::newRow("three quarters") << 3.0 << "compute";
        QTest::newRow("nine tenths") << 9.0 << "role";
    }

    void serverBelowThePace()
    {
        QFETCH(double, workersTimes);
        QFETCH(QString, limit);
        const Problem problem = problemOn(4, 0);
        const PlanReport report =
            testing::planned(problem, "admm",
                             {{"workers", "4"}, {"parallel", "asynchronous"}, {"barrier", "4"}, {"delay", "4"}});
        auto program = must(compile::compilePlan(report.plan, problem.subject, {.bodies = false}));
        program.server->seconds = workersTimes * report.predicted.iterationSeconds; // all wait for all: one after other
        const auto simulation = must(simulate::simulate(program, *problem.subject.cluster, {.memory = false}));
        const double busy = program.server->seconds / simulation.report.iterationSeconds;
        QVERIFY2(std::abs(busy - workersTimes / (1 + workersTimes)) < 0.03, std::to_string(busy).c_str());
        const plan::Why why = whyOf(report.plan, problem.subject, program, simulation);
        const QString detail = QString::fromStdString(why.detail);
        QCOMPARE(QString::fromStdString(why.limit), limit);
        QCOMPARE(detail.startsWith("the parameter server sets the pace: "), limit == "role");
        QCOMPARE(detail.contains(QStringLiteral("which take their server %1 %").arg(100 * busy, 0, 'f', 0)),
                 limit != "role");
    }

    /// A worker that is slowed down costs what one on a slower device costs.
    void stragglerIsASlowDevice()
    {
        using admm::Parallel;
        const Problem alike = problemOn(4, 0);
        const PlanReport report =
            testing::planned(alike, "admm",
                             {{"workers", "4"}, {"parallel", "asynchronous"}, {"barrier", "1"}, {"delay", "4"}});
        simulate::Straggler straggler(report.plan, alike.subject);
        QCOMPARE(straggler.workers(), 4);
        const auto samples = [&](Parallel form, double factor) {
            const auto found = straggler.samplesPerSecond(form, 3, factor);
            return found ? *found : -1.0;
        };
        QCOMPARE(samples(Parallel::Asynchronous, 1), report.predicted.samplesPerSecond);
        QCOMPARE(samples(Parallel::Synchronous, 1),
                 testing::planned(alike, "admm", {{"workers", "4"}}).predicted.samplesPerSecond);
        const Problem uneven = problemOn(3, 1);
        const auto close = [](double a, double b) { return std::abs(a / b - 1) < 0.02; };
        QVERIFY(close(samples(Parallel::Synchronous, 3),
                      testing::planned(uneven, "admm", {{"workers", "4"}}).predicted.samplesPerSecond));
        QVERIFY(
            close(samples(Parallel::Asynchronous, 3),
                  testing::planned(uneven, "admm",
                                   {{"workers", "4"}, {"parallel", "asynchronous"}, {"barrier", "1"}, {"delay", "4"}})
                      .predicted.samplesPerSecond));
        QVERIFY(samples(Parallel::Asynchronous, 3) > 2 * samples(Parallel::Synchronous, 3));

        const PlanReport linearised =
            testing::planned(alike, "admm", {{"workers", "4"}, {"subproblems", "linearised"}});
        simulate::Straggler served(linearised.plan, alike.subject);
        QVERIFY(served.samplesPerSecond(Parallel::Synchronous, 0, 2).ok());
        QVERIFY(!served.samplesPerSecond(Parallel::Asynchronous, 0, 2).ok());
    }

    /// The error counts devices as they are, and proposes ranges that there are devices for.
    void rangesNeedDevices()
    {
        const std::string workers = refusal(4, {{"workers", "4"}, {"time_ranges", "2"}});
        QVERIFY2(workers.find("4 workers with 2 ranges of steps do not fit the 4 devices of cluster processors; use at "
                              "most 2, or fewer ranges")
                     != std::string::npos,
                 workers.c_str());
        const std::string five = refusal(6, {{"workers", "1"}, {"time_ranges", "5"}});
        QVERIFY2(five.ends_with("equal ranges; choose 4"), five.c_str()); // not 8
        const std::string three = refusal(6, {{"workers", "2"}, {"time_ranges", "3"}});
        QVERIFY2(three.ends_with("equal ranges; choose 2"), three.c_str()); // not 4, as there are two workers
        const std::string both = refusal(8, {{"workers", "1"}, {"time_ranges", "5"}});
        QVERIFY2(both.ends_with("equal ranges; choose 4 or 8"), both.c_str());
    }

    void slipsArePointedAt()
    {
        const planners::Problem problem = problemOn(2, 0);
        std::string text = plan::toJson(plan::Document{testing::planned(problem, "admm", {}).plan, problem.subject});
        const auto read = plan::documentFromJson(text.replace(text.find("\"ridge\""), 7, "\"rigde\""));
        QVERIFY(!read);
        QVERIFY2(read.error().text().find("training.rigde\": is not known; there are kind, penalties, ridge")
                     != std::string::npos,
                 read.error().text().c_str());
    }

    /// Workers or modes that a setting is not for are left out; a setting that is for none is refused.
    void triesWhatIsPossible()
    {
        const PlanReport three =
            testing::planned(problemOn(4, 0), "admm", {{"parallel", "asynchronous"}, {"barrier", "3"}});
        QCOMPARE(three.plan.admm->barrier, 3);
        QVERIFY(three.plan.stages.front().devices.size() >= 3);
        for (const auto &[key, value] :
             {std::pair("shards", "2"), std::pair("switch_after", "3"), std::pair("time_ranges", "2")}) {
            const PlanReport report = testing::planned(problemOn(4, 0), "admm", {{"parallel", "auto"}, {key, value}});
            QCOMPARE(modeOf(report), admm::Parallel::Synchronous);
        }
        const std::string none = refusal(4, {{"parallel", "asynchronous"}, {"barrier", "9"}});
        QVERIFY2(none.find("barrier is 9, and there are 4 workers") != std::string::npos, none.c_str());
    }
};

QTEST_GUILESS_MAIN(TestAdmmPlanner)
#include "tst_admm_planner.moc"
