// SPDX-License-Identifier: Apache-2.0
// Worker groups that die, freeze or make no progress, and their successors. The workers only pretend to
// train.
#include "engine/store/store.h"
#include "executor/agent/agent_fixture.h"
#include "executor/agent/grpc_worker_channel.h"
#include "executor/agent/launch.h"
#include "executor/agent/metrics_database.h"

#include <QTemporaryDir>
#include <cmath>
#include <thread>

using namespace planloom;
using namespace planloom::agent;
using namespace planloom::testing;

namespace {

/// Action of rank 1 after its third step, chosen by the request's seed. Once: only the first worker group's.
enum Pretend { Good = 1, DiesOnce, DiesAlways, FreezesOnce, StallsOnce, ReportsError, InputIsWrong, AsksToKeep };
constexpr int kSteps = 6;

/// True for one caller per run folder.
bool firstTime(const std::string &folder)
{
    std::FILE *mark = std::fopen((folder + "/it-happened").c_str(), "wx");
    if (mark)
        std::fclose(mark);
    return mark != nullptr;
}

/// Alive, but with nothing to show for it; true if it was told to stop.
void stall(runtime::WorkerChannel &channel)
{
    while (!channel.stopRequested()) {
        channel.progress(1, true);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

/// Nothing happens to a worker group that is not yet complete: its run would never be said to be running.
void waitForTheOther(const std::string &folder)
{
    for (bool there = false; !there;) {
        const auto lines = readFile(folder + "/metrics.jsonl");
        there = lines && !lines->empty();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

const char *misbehave(Pretend how, const std::string &folder, runtime::WorkerChannel &channel)
{
    if (how != Good && how != AsksToKeep)
        waitForTheOther(folder);
    if (how == DiesAlways || (how == DiesOnce && firstTime(folder)))
        ::raise(SIGKILL);
    if (how == FreezesOnce && firstTime(folder))
        ::raise(SIGSTOP);
    if (how == StallsOnce && firstTime(folder))
        stall(channel);
    if (how == InputIsWrong)
        channel.failing(ErrorCode::BadInput);
    return how == ReportsError || how == InputIsWrong ? "row 3 of the data is odd; mend it" : "";
}

/// Rank 0's question, after @p steps steps, whether they will be found again; what is wrong with the answer.
std::string wrongAnswer(runtime::WorkerChannel &channel, const std::string &folder, std::int64_t steps)
{
    if (channel.metricsKept() != std::optional<std::int64_t>(0))
        return "the metrics were reported as kept before the request";
    channel.keepMetrics(steps);
    while (channel.metricsKept() == std::optional<std::int64_t>(0))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto lines = readFile(folder + "/metrics.jsonl");
    const bool kept = channel.metricsKept() == steps && lines && std::ssize(*run::metricsFromJson(*lines)) == steps
        && run::validationsFromJson(*lines)->size() == 1;
    return kept ? "" : "metrics that were said to be kept are not there";
}

int pretendWorker(const std::string &folder, const std::string &socket)
{
    const auto request = readFile(folder + "/request.json");
    const auto how = static_cast<Pretend>(std::atoi(request->c_str() + request->find("\"seed\": ") + 8));
    const char *number = std::getenv("OMPI_COMM_WORLD_RANK");
    const int rank = number ? std::atoi(number) : 0;
    const auto channel = connectWorkerChannel(socket, std::getenv(kTokenVariable));
    channel->hello(rank, ::getpid());
    std::string error;
    for (std::int64_t step = 0; step < kSteps && error.empty() && !channel->stopRequested(); ++step) {
        channel->progress(step, true);
        if (rank == 0)
            channel->metrics({.step = step,
                              .loss = 2.0 / static_cast<double>(step + 1),
                              .seconds = 0.02,
                              .learningRate = 1e-3,
                              .gradientNorm = 0.5});
        if (rank == 0 && step == 3)
            channel->validation({.step = step, .loss = 1, .accuracy = 0.5, .samples = 40});
        if (how == AsksToKeep && rank == 0 && step == 3)
            error = wrongAnswer(*channel, folder, step + 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (rank == 1 && step == 2)
            error = misbehave(how, folder, *channel);
    }
    channel->finished({1000, 2000, 0}, error);
    return error.empty() ? 0 : 1;
}

} // namespace

class Restarts : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_home;
    std::unique_ptr<Client> m_client;

    std::string path(const std::string &name) const
    {
        return m_home.filePath(QString::fromStdString(name)).toStdString();
    }
    TrainRequest request(Pretend how, const std::string &run, int restarts) const
    {
        TrainRequest asked;
        asked.planJson = *smallPlan(2, 1);
        asked.settings.data = path("data.csv");
        asked.settings.steps = kSteps;
        asked.settings.seed = how;
        asked.runDir = path(run);
        asked.settings.restarts = restarts;
        asked.settings.hungSeconds =
            how == FreezesOnce || how == StallsOnce ? 4 : 0; // heartbeats come every second, later on a busy machine
        return asked;
    }
    void nothingIsLeft(const std::string &run) const { QTRY_COMPARE(processesWith(path(run)).size(), std::size_t{0}); }

private slots:
    void initTestCase()
    {
        qputenv("XDG_DATA_HOME", m_home.path().toUtf8());
        qputenv("XDG_RUNTIME_DIR", m_home.path().toUtf8());
        QVERIFY(writeFileAtomically(path("data.csv"), smallData()).ok());
        auto client = Client::startLocal();
        QVERIFY2(client.ok(), client.ok() ? "" : client.error().text().c_str());
        m_client = std::move(*client);
    }

    void goesOn_data()
    {
        QTest::addColumn<int>("how");
        QTest::addColumn<QString>("why");
        QTest::newRow("a rank dies") << int(DiesOnce) << "rank 1 (n0:g1) ended unexpectedly";
        QTest::newRow("a rank is suspended") << int(FreezesOnce) << "rank 1 (n0:g1) has been silent for 4 s";
        QTest::newRow("a rank gets nothing done") << int(StallsOnce) << "no task has ended for 4 s";
    }

    /// After what happens to the first worker group a second one does all steps; files and client have each step once
    /// in the end.
    void goesOn()
    {
        QFETCH(int, how);
        QFETCH(QString, why);
        const std::string run = fmt::format("goes-on-{}", how);
        Heard heard;
        agent::RunEvents events = heard.events();
        QStringList messages;
        events.onState = [&](RunState state, const std::string &message) {
            heard.states.push_back(state);
            messages << QString::fromStdString(message);
        };
        const Status status = m_client->train(request(static_cast<Pretend>(how), run, 2), events);
        QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
        QCOMPARE(heard.states,
                 (std::vector{RunState::Starting, RunState::Running, RunState::Restarting, RunState::Running,
                              RunState::Finished}));
        QVERIFY2(messages[2].contains(why), qPrintable(messages[2]));
        QVERIFY2(messages[2].contains("starting again, 1 of 2"), qPrintable(messages[2]));
        QCOMPARE(heard.summary->restarts, std::int64_t{1});
        QCOMPARE(heard.summary->steps, std::int64_t{kSteps});
        const auto lines = readFile(path(run) + "/metrics.jsonl");
        const auto steps = run::metricsFromJson(*lines);
        QCOMPARE(steps->size(), std::size_t{kSteps});
        QCOMPARE(steps->back().step, std::int64_t{kSteps - 1});
        QCOMPARE(steps->back().learningRate, 1e-3);
        QCOMPARE(run::validationsFromJson(*lines)->size(), std::size_t{1});
        QVERIFY(readFile(path(run) + "/log")->find(why.toStdString()) != std::string::npos);
        nothingIsLeft(run);
    }

    /// The data base has what the lines have.
    void metricsInSqlite()
    {
        Heard heard;
        int validations = 0;
        agent::RunEvents events = heard.events();
        events.onValidation = [&](const run::Validation &seen) {
            ++validations;
            QCOMPARE(seen.perplexity(), std::exp(1.0));
        };
        QVERIFY(m_client->train(request(Good, "sqlite", 0), events).ok());
        QCOMPARE(validations, 1);
        auto workspace = store::Workspace::open(path("sqlite/metrics.db"));
        QVERIFY(workspace.ok());
        const auto runs = workspace->listRuns();
        QCOMPARE(runs->size(), std::size_t{1});
        QCOMPARE(runs->front().state, std::string("finished"));
        QCOMPARE(runs->front().lossLast, 2.0 / kSteps);
        const auto steps = workspace->steps(runs->front().id);
        QCOMPARE(steps->size(), std::size_t{kSteps});
        QCOMPARE(steps->back().gradientNorm, 0.5);
        QCOMPARE(workspace->validations(runs->front().id)->front().step, std::int64_t{3});
    }

    /// A worker hears that its metrics are kept once they are in the folder, the last one, too.
    void metricsAreKept()
    {
        Heard heard;
        const Status status = m_client->train(request(AsksToKeep, "kept", 0), heard.events());
        QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
        QCOMPARE(heard.summary->steps, std::int64_t{kSteps});
    }

    /// Rows that a killed agent had not put into the data base are there after the resume.
    void theDataBaseCatchesUp()
    {
        Heard first;
        QVERIFY(m_client->train(request(Good, "behind", 0), first.events()).ok());
        const std::string file = path("behind/metrics.db");
        {
            auto workspace = store::Workspace::open(file);
            QVERIFY(workspace.ok() && workspace->forgetFrom(workspace->listRuns()->front().id, 2).ok());
        }
        store::Run run;
        run.folder = path("behind");
        auto metrics = MetricsDatabase::open(file, run);
        QVERIFY(metrics.ok());
        const auto lines = readFile(path("behind/metrics.jsonl"));
        QVERIFY(metrics->addMissing(*run::metricsFromJson(*lines), *run::validationsFromJson(*lines)).ok());
        auto workspace = store::Workspace::open(file);
        const auto steps = workspace->steps(workspace->listRuns()->front().id);
        QCOMPARE(steps->size(), std::size_t{kSteps});
        for (std::size_t step = 0; step < std::size_t{kSteps}; ++step) {
            QCOMPARE((*steps)[step].step, static_cast<std::int64_t>(step));
            QCOMPARE((*steps)[step].loss, 2.0 / static_cast<double>(step + 1));
            QCOMPARE((*steps)[step].seconds * (*steps)[step].samplesPerSecond, 8.0);
        }
        QCOMPARE(workspace->validations(workspace->listRuns()->front().id)->size(), std::size_t{1});
    }

    void givesUp_data()
    {
        QTest::addColumn<int>("how");
        QTest::addColumn<int>("restarts");
        QTest::addColumn<int>("groups");
        QTest::newRow("always dies") << int(DiesAlways) << 2 << 3;
        QTest::newRow("no restart was asked for") << int(DiesOnce) << 0 << 1;
        QTest::newRow("a worker's own error may go away") << int(ReportsError) << 1 << 2;
        QTest::newRow("wrong input stays wrong") << int(InputIsWrong) << 2 << 1;
    }

    void givesUp()
    {
        QFETCH(int, how);
        QFETCH(int, restarts);
        QFETCH(int, groups);
        const std::string run = fmt::format("gives-up-{}", how);
        Heard heard;
        const Status status = m_client->train(request(static_cast<Pretend>(how), run, restarts), heard.events());
        QVERIFY(!status.ok());
        QCOMPARE(int(std::count(heard.states.begin(), heard.states.end(), RunState::Restarting)), groups - 1);
        QCOMPARE(heard.states.back(), RunState::Failed);
        nothingIsLeft(run);
    }

    /// A stop between two worker groups is a stop.
    void stopWhileRestarting()
    {
        Heard heard;
        agent::RunEvents events = heard.events();
        events.onState = [&](RunState state, const std::string &) {
            heard.states.push_back(state);
            if (state == RunState::Restarting)
                m_client->stop();
        };
        const Status status = m_client->train(request(DiesAlways, "stopped", 1000), events);
        QVERIFY(!status.ok());
        QVERIFY(std::count(heard.states.begin(), heard.states.end(), RunState::Restarting) < 5);
        nothingIsLeft("stopped");
    }

    void resumeNeedsARun()
    {
        TrainRequest asked = request(Good, "nothing-here", 0);
        asked.resume = true;
        Heard heard;
        const Status status = m_client->train(asked, heard.events());
        QCOMPARE(int(status.error().code), int(ErrorCode::NotFound));
        QVERIFY2(status.error().text().find("holds no run to resume") != std::string::npos,
                 status.error().text().c_str());
    }

    /// Without a checkpoint the run begins anew in its folder; its first trace is kept.
    void resumeWithoutACheckpoint()
    {
        Heard first;
        QVERIFY(!m_client->train(request(DiesOnce, "again", 0), first.events()).ok());
        TrainRequest asked = request(DiesOnce, "again", 0);
        asked.resume = true;
        Heard second;
        const Status status = m_client->train(asked, second.events());
        QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
        QCOMPARE(second.summary->steps, std::int64_t{kSteps});
        QCOMPARE(run::metricsFromJson(*readFile(path("again/metrics.jsonl")))->size(), std::size_t{kSteps});
        QVERIFY(trace::readTrace(path("again/trace.1.pltrace")).ok());
        QVERIFY(trace::readTrace(path("again/trace.pltrace")).ok());
    }
};

int main(int argc, char **argv)
{
    if (const auto status = actAsPlanloom(argc, argv, pretendWorker))
        return *status;
    QCoreApplication application(argc, argv);
    Restarts test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_restarts.moc"
