// SPDX-License-Identifier: Apache-2.0
// Plans that train by ADMM with a parameter server: against the specification in double precision with the arrivals
// that were recorded, repeated bit for bit, with pauses, and with a worker that dies.
#include "engine/admm/message.h"
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/dispatch/versions.h"
#include "executor/device/recording_device.h"
#include "executor/runtime/admm_case.h"
#include "executor/runtime/trainer_communicator.h"
#include "executor/runtime/training_fixture.h"
#include "executor/runtime/version_server.h"
#include "tests/engine/admm/asynchronous.h"
#include "tests/engine/admm/measures.h"

#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <mutex>

using namespace planloom;
using namespace planloom::test;

namespace {

admm::Settings settingsOf(int barrier, int delay)
{
    admm::Settings settings;
    settings.parallel = admm::Parallel::Asynchronous;
    settings.barrier = barrier;
    settings.delay = delay;
    return settings;
}

struct Course {
    std::string problem;
    std::vector<run::StepMetrics> versions;
    dispatch::Arrivals arrivals;
    std::string recorded;                          ///< arrivals.csv
    std::vector<std::vector<std::int64_t>> pauses; ///< by worker: steps behind which it was asked
    std::vector<std::int64_t> peaks;
};

Course served(const plan::Plan &plan, const plan::Subject &subject, const run::Request &request)
{
    Course course;
    const auto program = compile::compilePlan(plan, subject);
    if (!program) {
        course.problem = program.error().text();
        return course;
    }
    const auto workers = program->ranks.size();
    course.pauses.resize(workers);
    course.peaks.resize(workers);
    QTemporaryDir folder;
    const Waves data;
    data::SampleOrder order(kSamples, 1, 0);
    order.repeatFirstEpoch();
    const runtime::Feed feed{&data, *data::needsOf(*subject.graph), order};
    comm::LocalGroup group(static_cast<int>(workers) + 1);
    std::mutex mutex;
    const auto work = [&](std::size_t rank) -> Status {
        omp_set_num_threads(1);
        const auto end = group.end(static_cast<int>(rank));
        const Status status = [&]() -> Status {
            if (rank == workers)
                return runtime::runVersionServer(
                    {plan, subject, request, *end, folder.path().toStdString(),
                     [&](const run::StepMetrics &version) { course.versions.push_back(version); }, nullptr});
            auto trainers = runtime::TrainerCommunicator::create(*end, static_cast<int>(workers));
            if (!trainers)
                return trainers.error();
            runtime::VersionLink link(*end, *program->server, request.from.step);
            trace::Ring ring(1 << 16);
            runtime::ExecutorOptions options;
            options.steps = request.settings.steps;
            options.optimizer = plan.optimizer;
            options.link = &link;
            options.afterStep = [&](const run::StepMetrics &metrics, bool &) -> Status {
                course.pauses[rank].push_back(metrics.step);
                return {};
            };
            auto executor = runtime::RankExecutor::create(*program, *subject.graph, **trainers, feed, ring, options);
            if (!executor)
                return executor.error();
            const Status ran = (*executor)->run();
            course.peaks[rank] = (*executor)->peakBytes();
            return ran;
        }();
        if (!status) {
            end->abort(status.error().text());
            const std::lock_guard lock(mutex);
            course.problem += status.error().text() + "\n";
        }
        return status;
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank <= workers; ++rank)
            threads.emplace_back([&work, rank] { (void)work(rank).ok(); });
    }
    const auto text = readFile(folder.filePath("arrivals.csv").toStdString());
    course.recorded = text ? *text : std::string();
    if (course.problem.empty())
        course.arrivals = *dispatch::arrivalsFromCsv(*text, 0, static_cast<int>(workers));
    return course;
}

run::Request requestOf(std::int64_t steps)
{
    run::Request request;
    request.settings.steps = steps;
    return request;
}

/// The augmented Lagrangian of all workers, before the step of the duals, which this makes, with parameters that they
/// have in common.
double lagrangianOf(admm::Training &training, const admm::Parameters &parameters)
{
    training.parameters = parameters;
    for (admm::Worker &worker : training.workers) {
        admm::restart(worker, parameters);
        admm::updateOutput(worker, parameters, training.method);
        const bool swept = admm::sweepBackward(worker, parameters, training.method).ok()
            && admm::sweepForward(worker, parameters, training.method).ok();
        Q_ASSERT(swept);
        admm::updateOutput(worker, parameters, training.method);
    }
    const double before = admm::lagrangian(training);
    for (admm::Worker &worker : training.workers)
        admm::updateDuals(worker, parameters, training.method);
    return before;
}

/// Mean losses of each worker's parameters, in double precision, over the same arrivals.
std::vector<double> specified(const graph::Graph &model, const admm::Settings &settings, std::int64_t workers,
                              const dispatch::Arrivals &arrivals)
{
    const admm::Samples samples = allSamples();
    const admm::Parameters first = firstParameters(model);
    auto training = admm::Asynchronous::of(settings, first, samples, static_cast<int>(workers));
    std::vector<admm::Parameters> pulled(static_cast<std::size_t>(workers), first);
    std::vector<double> own(static_cast<std::size_t>(workers));
    std::vector<double> losses;
    for (const std::vector<int> &version : arrivals) {
        for (const int k : version) {
            const std::int64_t begin = kSamples * k / workers;
            const admm::Samples slice = samples.slice(begin, kSamples * (k + 1) / workers - begin);
            own[static_cast<std::size_t>(k)] =
                admm::gradientsOf(pulled[static_cast<std::size_t>(k)], slice, 0).objective;
            const auto made = training->arrive(k);
            Q_ASSERT(made.ok());
        }
        for (const int k : version)
            pulled[static_cast<std::size_t>(k)] = training->parameters();
        losses.push_back(std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(kSamples));
    }
    return losses;
}

} // namespace

class TestAdmmServed : public QObject {
    Q_OBJECT

private slots:
    void follows_data()
    {
        QTest::addColumn<int>("workers");
        QTest::addColumn<int>("barrier");
        QTest::addColumn<double>("proximal");
        QTest::newRow("two, all") << 2 << 2 << 0.0;
        QTest::newRow("three, all, proximal") << 3 << 3 << 2.0;
    }

    /// With a barrier of all the specification needs no order within a version: losses are its losses, and memory is as
    /// predicted.
    void follows()
    {
        QFETCH(int, workers);
        QFETCH(int, barrier);
        QFETCH(double, proximal);
        admm::Settings settings = settingsOf(barrier, 3);
        settings.proximal = proximal;
        const plan::Subject subject = subjectOf(workers);
        const plan::Plan plan = planFor(subject, static_cast<std::size_t>(workers), settings);
        const Course course = served(plan, subject, requestOf(8));
        QVERIFY2(course.problem.empty(), course.problem.c_str());
        QCOMPARE(course.versions.size(), std::size_t{8});
        const std::vector<double> wanted = specified(*subject.graph, settings, workers, course.arrivals);
        for (std::size_t v = 0; v < wanted.size(); ++v) {
            QCOMPARE(course.versions[v].step, static_cast<std::int64_t>(v));
            QVERIFY2(std::fabs(course.versions[v].loss - wanted[v]) < 2e-5,
                     qPrintable(
                         QStringLiteral("%1: %2 against %3").arg(v).arg(course.versions[v].loss).arg(wanted[v])));
        }
        QVERIFY(wanted.back() < 0.95 * wanted.front());
        auto training = admm::Asynchronous::of(settings, firstParameters(*subject.graph), allSamples(), workers);
        auto blocks = admm::Training::of(settings, firstParameters(*subject.graph), allSamples(), workers);
        for (const run::StepMetrics &version : course.versions) {
            const double lagrangian = lagrangianOf(*blocks, training->parameters());
            QVERIFY2(std::fabs(version.lagrangian - lagrangian) < 2e-5 * std::fabs(lagrangian),
                     qPrintable(QStringLiteral("%1 against %2").arg(version.lagrangian).arg(lagrangian)));
            for (int k = 0; k < workers; ++k)
                QVERIFY(training->arrive(k).ok());
        }
        const auto program = compile::compilePlan(plan, subject);
        for (std::size_t rank = 0; rank < course.peaks.size(); ++rank)
            QCOMPARE(course.peaks[rank], program->ranks[rank].arenaBytes);
    }

    /// Where a version needs one arrival, each run makes its versions as its ranks come; one that repeats the record of
    /// another has the same bits.
    void repeats()
    {
        const plan::Subject subject = subjectOf(3);
        const plan::Plan plan = planFor(subject, 3, settingsOf(1, 2));
        run::Request request = requestOf(20);
        request.settings.checkpointEvery = 8;
        const Course once = served(plan, subject, request);
        QVERIFY2(once.problem.empty(), once.problem.c_str());
        QTemporaryDir folder;
        request.settings.arrivals = folder.filePath("recorded.csv").toStdString();
        QVERIFY(writeFileAtomically(request.settings.arrivals, once.recorded).ok());
        run::Request never = request; // pauses are those of the record, whatever is due
        never.settings.checkpointEvery = 0;
        const Course again = served(plan, subject, never);
        QVERIFY2(again.problem.empty(), again.problem.c_str());
        QCOMPARE(again.arrivals, once.arrivals);
        for (std::size_t v = 0; v < once.versions.size(); ++v) {
            QCOMPARE(again.versions[v].loss, once.versions[v].loss);
            QCOMPARE(again.versions[v].objective, once.versions[v].objective);
            QCOMPARE(again.versions[v].dualResidual, once.versions[v].dualResidual);
        }
        QCOMPARE(again.recorded, once.recorded);
        for (const Course *course : {&once, &again}) {
            for (const auto &pauses : course->pauses)
                QCOMPARE(pauses, (std::vector<std::int64_t>{7, 15, 19}));
        }
        request.settings.checkpointEvery = 5;
        const Course other = served(plan, subject, request);
        QVERIFY2(other.problem.find("did not pause behind version 4") != std::string::npos, other.problem.c_str());
        for (const std::size_t first : {std::size_t{0}, std::size_t{8}, std::size_t{16}})
            QCOMPARE(once.arrivals[first], (std::vector{0, 1, 2})); // all begin together
    }

    void messagesLieOnProcessors()
    {
        const plan::Subject subject = subjectOf(2);
        const plan::Plan plan = planFor(subject, 2, settingsOf(1, 1));
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY(program.ok());
        comm::LocalGroup group(3);
        const auto end = group.end(0);
        const auto trainers = runtime::TrainerCommunicator::create(*end, 2);
        QVERIFY(trainers.ok());
        runtime::VersionLink link(*end, *program->server, 0);
        const Waves data;
        const data::SampleOrder order(kSamples, 1, 0);
        const runtime::Feed feed{&data, *data::needsOf(*subject.graph), order};
        trace::Ring ring(16);
        RecordingDevice device;
        runtime::ExecutorOptions options;
        options.link = &link;
        options.device = &device;
        const auto executor = runtime::RankExecutor::create(*program, *subject.graph, **trainers, feed, ring, options);
        QVERIFY(!executor.ok());
        QVERIFY2(executor.error().message.find("put it on a processor") != std::string::npos,
                 executor.error().message.c_str());
    }

    /// The others go on until it is as late as it may be.
    void deadWorkerIsNamed()
    {
        const plan::Subject subject = subjectOf(3);
        const plan::Plan plan = planFor(subject, 3, settingsOf(1, 2));
        run::Request request = requestOf(100);
        request.settings.timeoutSeconds = 1; // by which the others, on a busy machine, are not late
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY(program.ok());
        const admm::MessageLayout layout({kModel.inputs, kModel.hidden, kModel.classes, kModel.steps}, *plan.admm);
        QCOMPARE(program->server->messageBytes, 4 * layout.elements);
        std::vector<float> sums(static_cast<std::size_t>(layout.elements), 0.0F);
        const std::int64_t inner = layout.gramIn + layout.productIn; // biases have no ridge
        sums[static_cast<std::size_t>(layout.gramIn - 1)] = sums[static_cast<std::size_t>(inner + layout.gramOut - 1)] =
            1;
        comm::LocalGroup group(4);
        std::int64_t versions = 0;
        std::string problem;
        {
            std::vector<std::jthread> threads;
            for (int rank = 0; rank < 3; ++rank)
                threads.emplace_back([&, rank] {
                    const auto end = group.end(rank);
                    runtime::VersionLink link(*end, *program->server, 0);
                    for (int iteration = 0; rank != 1 || iteration < 2; ++iteration) {
                        std::vector<float> message = sums;
                        if (!link.start(reinterpret_cast<std::byte *>(message.data())).ok())
                            return;
                        for (Result<bool> done = false; !*done;)
                            if (done = link.test(); !done)
                                return;
                    }
                });
            const auto end = group.end(3);
            const Status status = runtime::runVersionServer(
                {plan, subject, request, *end, {}, [&](const run::StepMetrics &) { ++versions; }, nullptr});
            problem = status ? std::string() : status.error().text();
            end->abort("over");
        }
        QVERIFY2(problem.find("waits for worker 1 (") != std::string::npos, problem.c_str());
        QVERIFY2(problem.find("2 versions late") != std::string::npos, problem.c_str());
        QVERIFY(versions >= 4); // two with it, and two without
    }

    void refuses_data()
    {
        using Change = std::function<void(plan::Plan &)>;
        QTest::addColumn<Change>("change");
        QTest::addColumn<QString>("message");
        const auto row = [](const char *name, Change change, const char *message) {
            QTest::newRow(name) << std::move(change) << message;
        };
        row(
            "barrier of more than all", [](plan::Plan &plan) { plan.admm->barrier = 3; },
            "barrier is 3, and there are 2 workers");
        row(
            "sums over the end of a step", [](plan::Plan &plan) { plan.exchange.acrossSteps = true; },
            "training by ADMM has no gradients; leave across_steps out");
        row(
            "no barrier", [](plan::Plan &plan) { plan.admm->barrier = 0; },
            "barrier is 0; it is a whole number from 1");
        row(
            "no delay", [](plan::Plan &plan) { plan.admm->delay = 0; }, "delay is 0; it is a whole number from 1");
        row(
            "one worker",
            [](plan::Plan &plan) {
                plan.stages.front().devices.resize(1);
                plan.stages.front().replicaShares.clear();
            },
            "needs two workers at least");
        row(
            "linearised", [](plan::Plan &plan) { plan.admm->subproblems = admm::Subproblems::Linearised; },
            "has no asynchronous mode");
        row(
            "proximal", [](plan::Plan &plan) { plan.admm->proximal = -1; }, "proximal is -1");
    }

    void refuses()
    {
        using Change = std::function<void(plan::Plan &)>;
        QFETCH(Change, change);
        QFETCH(QString, message);
        const plan::Subject subject = subjectOf(2);
        plan::Plan plan = planFor(subject, 2, settingsOf(1, 2));
        change(plan);
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY(!program);
        QVERIFY2(QString::fromStdString(program.error().text()).contains(message), program.error().text().c_str());
    }
};

QTEST_GUILESS_MAIN(TestAdmmServed)
#include "tst_admm_served.moc"
