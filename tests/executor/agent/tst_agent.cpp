// SPDX-License-Identifier: Apache-2.0
// The agent against workers that only pretend to train: what they do is asked for by the request's seed.
#include "executor/agent/agent_fixture.h"
#include "executor/agent/grpc_worker_channel.h"
#include "executor/agent/launch.h"
#include "executor/agent/private_socket.h"
#include "executor/agent/run_folder.h"

#include <QTemporaryDir>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

using namespace planloom;
using namespace planloom::agent;
using namespace planloom::testing;

namespace {

enum Pretend {
    Good = 1,
    ReportsError,
    Crashes,
    RunsUntilStopped,
    IgnoresStop,
    LeavesWithoutAWord,
    InputIsWrong,
    Floods
};
constexpr int kSteps = 5;

int rankOf()
{
    const char *rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return rank ? std::atoi(rank) : 0;
}

void pretendStep(runtime::WorkerChannel &channel, int rank, std::int64_t step)
{
    std::vector<trace::Record> records(300);
    for (std::size_t i = 0; i < records.size(); ++i) {
        records[i].start = step * 1'000'000 + static_cast<std::int64_t>(i) * 10;
        records[i].duration = 5;
        records[i].task = static_cast<std::int32_t>(i % 3);
        records[i].step = static_cast<std::int32_t>(step);
        records[i].rank = rank;
    }
    channel.records(records, 0);
    if (rank == 0)
        channel.metrics({.step = step,
                         .loss = 2.0 / static_cast<double>(step + 1),
                         .seconds = 0.001,
                         .learningRate = 1e-3,
                         .gradientNorm = 0.5});
}

int pretendWorker(const std::string &folder, const std::string &socket)
{
    const auto request = readFile(folder + "/request.json");
    const auto seed = request->find("\"seed\": ");
    const int how = std::atoi(request->c_str() + seed + 8);
    const int rank = rankOf();
    if (how == LeavesWithoutAWord) {
        std::fprintf(stderr, "the dog ate my weights\n");
        return 3;
    }
    const auto channel = connectWorkerChannel(socket, std::getenv(kTokenVariable));
    channel->hello(rank, ::getpid());
    std::int64_t step = 0;
    for (; step < kSteps || how == RunsUntilStopped || how == IgnoresStop; ++step) {
        pretendStep(*channel, rank, step);
        if (how == Crashes && step == 2 && rank == 1)
            ::raise(SIGKILL);
        if (how >= Crashes && how <= IgnoresStop)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (channel->stopRequested() && how != IgnoresStop)
            break;
    }
    if (how == Floods && rank == 0)
        channel->evaluation({.loss = 0.5, .accuracy = 0.75, .samples = 40});
    const bool bad = (how == ReportsError && rank == 1) || how == InputIsWrong;
    if (how == InputIsWrong)
        channel->failing(ErrorCode::BadInput);
    channel->sent(4000 + rank);
    channel->finished({1000 + rank, 5000 + rank, 700}, bad ? "row 3 of the data is odd; mend it" : "");
    return how == InputIsWrong ? 2 : 0;
}

} // namespace

class TestAgent : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_home;
    std::unique_ptr<Client> m_client;
    std::string m_data;

    std::string path(const char *name) const { return m_home.filePath(name).toStdString(); }
    TrainRequest request(Pretend how, int ranks, const char *run) const
    {
        TrainRequest asked;
        asked.planJson = *smallPlan(ranks, 1);
        asked.settings.data = m_data;
        asked.settings.steps = kSteps;
        asked.settings.seed = how;
        asked.runDir = path(run);
        return asked;
    }
    void nothingIsLeft(const char *run) const { QTRY_COMPARE(processesWith(path(run)).size(), std::size_t{0}); }

private slots:
    void initTestCase();
    void runsToItsEnd_data();
    void runsToItsEnd();
    void keepsEverythingThatALoudWorkerSays();
    void newFolderBeneathTheRoot();
    void failures_data();
    void failures();
    void stopsOnRequest();
    void stopsARunThatHasNotBegun();
    void stopsByForce();
    void aClientThatLeavesStopsItsRun();
    void refusals_data();
    void refusals();
    void oneTrainingPerFolder();
    void runsAreNotOverwritten();
    void socketIsPrivate();
    void strangersAreSentAway();
    void endsWithItsParent();
    void fullDiskIsOneError();
};

void TestAgent::initTestCase()
{
    qputenv("XDG_DATA_HOME", m_home.path().toUtf8());
    qputenv("XDG_RUNTIME_DIR", m_home.path().toUtf8());
    m_data = path("data.csv");
    QVERIFY(writeFileAtomically(m_data, smallData()).ok());
    const auto plan = smallPlan(2, 1);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    auto client = Client::startLocal();
    QVERIFY2(client.ok(), client.ok() ? "" : client.error().text().c_str());
    m_client = std::move(*client);
}

void TestAgent::runsToItsEnd_data()
{
    QTest::addColumn<int>("ranks");
    QTest::newRow("one rank, no launcher") << 1;
    QTest::newRow("two ranks") << 2;
}

void TestAgent::runsToItsEnd()
{
    QFETCH(int, ranks);
    const std::string run = fmt::format("good{}", ranks);
    Heard heard;
    const Status status = m_client->train(request(Good, ranks, run.c_str()), heard.events());
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
    QCOMPARE(heard.runDir, path(run.c_str()));
    QCOMPARE(heard.tables.ranks.size(), static_cast<std::size_t>(ranks));
    QVERIFY(!heard.tables.tasks.empty());
    QCOMPARE(heard.records.size(), static_cast<std::size_t>(300 * kSteps * ranks));
    QCOMPARE(heard.dropped, std::int64_t{0});
    QCOMPARE(heard.steps.size(), std::size_t{kSteps});
    QCOMPARE(heard.steps[4].step, std::int64_t{4});
    QCOMPARE(heard.steps[4].samplesPerSecond, 8000.0);
    QCOMPARE(heard.states, (std::vector{RunState::Starting, RunState::Running, RunState::Finished}));
    QVERIFY(heard.summary.has_value());
    QCOMPARE(heard.summary->steps, std::int64_t{kSteps});
    QCOMPARE(heard.summary->lossFirst, 2.0);
    QCOMPARE(heard.summary->lossLast, 2.0 / kSteps);
    QCOMPARE(heard.summary->iterationSecondsMedian, 0.001);
    QVERIFY(heard.summary->predictedIterationSeconds > 0);
    QCOMPARE(heard.summary->predictionError, heard.summary->predictedIterationSeconds / 0.001 - 1);
    QCOMPARE(heard.summary->peakBytesMeasured.back(), std::int64_t{1000 + ranks - 1});
    QCOMPARE(heard.summary->peakBytesPredicted.size(), static_cast<std::size_t>(ranks));
    QCOMPARE(heard.summary->beyondArenaBytes.back(), std::int64_t{3300});
    QCOMPARE(heard.summary->sharedBytes.back(), std::int64_t{700});
    QCOMPARE(heard.summary->sentBytes.back(), std::int64_t{4000 + ranks - 1});

    const auto traced = trace::readTrace(heard.runDir + "/trace.pltrace");
    QVERIFY(traced.ok());
    QCOMPARE(traced->records.size(), heard.records.size());
    QCOMPARE(traced->clock, std::string("wall"));
    const auto metrics = run::metricsFromJson(*readFile(heard.runDir + "/metrics.jsonl"));
    QVERIFY(metrics.ok());
    QCOMPARE(metrics->size(), std::size_t{kSteps});
    const auto summary = run::summaryFromJson(*readFile(heard.runDir + "/summary.json"));
    QVERIFY(summary.ok());
    QCOMPARE(summary->lossLast, heard.summary->lossLast);
    QCOMPARE(summary->peakBytesPredicted, heard.summary->peakBytesPredicted);
    QCOMPARE(summary->beyondArenaBytes, heard.summary->beyondArenaBytes);
    QCOMPARE(summary->sharedBytes, heard.summary->sharedBytes);
    QCOMPARE(summary->sentBytes, heard.summary->sentBytes);
    nothingIsLeft(run.c_str());
}

void TestAgent::keepsEverythingThatALoudWorkerSays()
{
    Heard heard;
    QVERIFY(m_client->train(request(Floods, 2, "loud"), heard.events()).ok());
    QCOMPARE(heard.summary->evaluation->samples, std::int64_t{40});
    QCOMPARE(heard.summary->evaluation->accuracy, 0.75);
}

void TestAgent::newFolderBeneathTheRoot()
{
    Heard heard;
    TrainRequest asked = request(Good, 1, "unused");
    asked.runDir.clear();
    QVERIFY(m_client->train(asked, heard.events()).ok());
    QVERIFY(heard.runDir.starts_with(path("planloom/runs/")));
    QVERIFY(std::filesystem::exists(heard.runDir + "/summary.json"));
}

void TestAgent::failures_data()
{
    QTest::addColumn<int>("how");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("code");
    QTest::addColumn<QString>("says");
    QTest::newRow("a worker reports an error")
        << int(ReportsError) << 2 << int(ErrorCode::Failed) << "rank 1 (n0:g1): row 3 of the data is odd";
    QTest::newRow("the input is wrong") << int(InputIsWrong) << 1 << int(ErrorCode::BadInput)
                                        << "row 3 of the data is odd";
    QTest::newRow("the input is wrong on two ranks")
        << int(InputIsWrong) << 2 << int(ErrorCode::BadInput) << "row 3 of the data is odd";
    QTest::newRow("killed") << int(Crashes) << 2 << int(ErrorCode::Failed) << "rank 1 (n0:g1) ended unexpectedly";
    QTest::newRow("one rank leaves without a word")
        << int(LeavesWithoutAWord) << 1 << int(ErrorCode::Failed) << "the dog ate my weights";
    QTest::newRow("two ranks leave without a word")
        << int(LeavesWithoutAWord) << 2 << int(ErrorCode::Failed) << "exit status 3";
}

void TestAgent::failures()
{
    QFETCH(int, how);
    QFETCH(int, ranks);
    QFETCH(int, code);
    QFETCH(QString, says);
    const std::string run = fmt::format("failure{}x{}", how, ranks);
    Heard heard;
    const Status status = m_client->train(request(static_cast<Pretend>(how), ranks, run.c_str()), heard.events());
    QVERIFY(!status.ok());
    QCOMPARE(int(status.error().code), code);
    QVERIFY2(QString::fromStdString(status.error().text()).contains(says), status.error().text().c_str());
    if (status.error().code == ErrorCode::BadInput) // every rank finds it
        QVERIFY2(!QString::fromStdString(status.error().text()).contains(QStringLiteral("rank")),
                 status.error().text().c_str());
    QCOMPARE(heard.states.back(), RunState::Failed);
    QVERIFY(!heard.summary.has_value());
    nothingIsLeft(run.c_str());
    if (!heard.steps.empty()) {
        QVERIFY(trace::readTrace(heard.runDir + "/trace.pltrace").ok());
        QCOMPARE(run::metricsFromJson(*readFile(heard.runDir + "/metrics.jsonl"))->size(), heard.steps.size());
    } else {
        QVERIFY(!std::filesystem::exists(heard.runDir + "/plan.json"));
    }
}

void TestAgent::stopsOnRequest()
{
    Heard heard;
    heard.onStep = [&] {
        if (heard.steps.size() == 3)
            m_client->stop();
    };
    TrainRequest asked = request(RunsUntilStopped, 2, "stopped");
    asked.settings.steps = 1'000'000;
    const Status status = m_client->train(asked, heard.events());
    QVERIFY(!status.ok());
    QCOMPARE(status.error().code, ErrorCode::Cancelled);
    QVERIFY2(status.error().text().find("stopped on request") != std::string::npos, status.error().text().c_str());
    QCOMPARE(heard.states.back(), RunState::Stopped);
    QVERIFY(heard.summary.has_value());
    QCOMPARE(heard.summary->steps, static_cast<std::int64_t>(heard.steps.size()));
    QVERIFY(run::summaryFromJson(*readFile(heard.runDir + "/summary.json")).ok());
    nothingIsLeft("stopped");
}

void TestAgent::stopsARunThatHasNotBegun()
{
    constexpr std::size_t kTooMany = 500;
    Heard heard;
    heard.onStep = [&] {
        if (heard.steps.size() == kTooMany) // the stop was lost: no reason to run for ever
            m_client->stop();
    };
    TrainRequest asked = request(RunsUntilStopped, 1, "stopped-before");
    asked.settings.steps = 1'000'000;
    m_client->stop();
    QCOMPARE(m_client->train(asked, heard.events()).error().code, ErrorCode::Cancelled);
    QVERIFY(heard.steps.size() < kTooMany);
    QCOMPARE(heard.states.back(), RunState::Stopped);
    nothingIsLeft("stopped-before");

    Heard after; // the stop was for one run
    const Status next = m_client->train(request(Good, 1, "not-stopped"), after.events());
    QVERIFY2(next.ok(), next.ok() ? "" : next.error().text().c_str());
}

void TestAgent::stopsByForce()
{
    Heard heard;
    heard.onStep = [&] { m_client->stop(); }; // again and again
    TrainRequest asked = request(IgnoresStop, 1, "forced");
    asked.settings.steps = 1'000'000;
    const Status status = m_client->train(asked, heard.events());
    QCOMPARE(status.error().code, ErrorCode::Cancelled);
    QVERIFY2(status.error().text().find("by force") != std::string::npos, status.error().text().c_str());
    QVERIFY(heard.summary.has_value());
    nothingIsLeft("forced");
}

void TestAgent::aClientThatLeavesStopsItsRun()
{
    const pid_t leaver = ::fork();
    if (leaver == 0) {
        // A program that trains and dies: only exec'ed programs may use gRPC after a fork.
        const std::string run = path("left");
        ::execl("/proc/self/exe", "test", "train-and-die", m_data.c_str(), run.c_str(), nullptr);
        ::_exit(1);
    }
    int status = 0;
    QCOMPARE(::waitpid(leaver, &status, 0), leaver);
    QVERIFY(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    QTRY_VERIFY_WITH_TIMEOUT(std::filesystem::exists(path("left/summary.json")), 15'000);
    nothingIsLeft("left");
    const auto summary = run::summaryFromJson(*readFile(path("left/summary.json")));
    QVERIFY(summary.ok());
    QVERIFY(summary->steps >= 3);
}

void TestAgent::refusals_data()
{
    QTest::addColumn<int>("what");
    QTest::addColumn<int>("code");
    QTest::addColumn<QString>("says");
    QTest::newRow("no plan") << 0 << int(ErrorCode::BadInput) << "";
    QTest::newRow("missing data") << 1 << int(ErrorCode::NotFound) << "nowhere.csv";
    QTest::newRow("relative data") << 2 << int(ErrorCode::BadInput) << "not absolute";
    QTest::newRow("no steps") << 3 << int(ErrorCode::BadInput) << "at least 1";
    QTest::newRow("relative folder") << 4 << int(ErrorCode::BadInput) << "not an absolute path";
    QTest::newRow("folder is a file") << 5 << int(ErrorCode::Io) << "choose another";
    QTest::newRow("share held out") << 6 << int(ErrorCode::BadInput) << "held out";
}

void TestAgent::refusals()
{
    QFETCH(int, what);
    QFETCH(int, code);
    QFETCH(QString, says);
    TrainRequest asked = request(Good, 1, "refused");
    switch (what) {
    case 0: asked.planJson = R"({"schema": "planloom.plan/1"})"; break;
    case 1: asked.settings.data = path("nowhere.csv"); break;
    case 2: asked.settings.data = "data.csv"; break;
    case 3: asked.settings.steps = 0; break;
    case 4: asked.runDir = "refused"; break;
    case 5: asked.runDir = m_data; break;
    default: asked.settings.holdout = 1; break;
    }
    Heard heard;
    const Status status = m_client->train(asked, heard.events());
    QVERIFY(!status.ok());
    QCOMPARE(int(status.error().code), code);
    QVERIFY2(QString::fromStdString(status.error().text()).contains(says), status.error().text().c_str());
    QVERIFY(heard.runId.empty());
    QVERIFY(!std::filesystem::exists(path("refused")));
}

void TestAgent::oneTrainingPerFolder()
{
    Heard second;
    Status refused;
    Heard first;
    first.onStep = [&] {
        if (first.steps.size() != 1)
            return;
        auto other = Client::startLocal(); // even from another agent
        refused = (*other)->train(request(Good, 1, "busy"), second.events());
        m_client->stop();
    };
    TrainRequest asked = request(RunsUntilStopped, 1, "busy");
    asked.settings.steps = 1'000'000;
    QCOMPARE(m_client->train(asked, first.events()).error().code, ErrorCode::Cancelled);
    QVERIFY(!refused.ok());
    QVERIFY2(refused.error().text().find("another training is running in this folder") != std::string::npos,
             refused.error().text().c_str());
    QCOMPARE(first.summary->steps, static_cast<std::int64_t>(first.steps.size()));
}

void TestAgent::runsAreNotOverwritten()
{
    Heard heard;
    QVERIFY(m_client->train(request(Good, 1, "once"), heard.events()).ok());
    const auto before = readFile(path("once/summary.json"));
    const Status again = m_client->train(request(Good, 1, "once"), heard.events());
    QVERIFY(!again.ok());
    QVERIFY(again.error().text().find("choose another folder") != std::string::npos);
    QCOMPARE(*readFile(path("once/summary.json")), *before);

    QVERIFY(QDir().mkpath(m_home.filePath("mine")));
    QVERIFY(writeFileAtomically(path("mine/plan.json"), "my own plan").ok());
    QVERIFY(!m_client->train(request(Good, 1, "mine"), heard.events()).ok());
    QCOMPARE(*readFile(path("mine/plan.json")), std::string("my own plan"));
}

void TestAgent::socketIsPrivate()
{
    QTRY_COMPARE(QDir(m_home.path()).entryList({"planloom-*"}, QDir::Dirs).size(),
                 1); // that of the client that left has gone
    const auto folders = QDir(m_home.path()).entryList({"planloom-*"}, QDir::Dirs);
    struct stat info {};
    const std::string folder = path(folders[0].toStdString().c_str());
    QCOMPARE(::stat(folder.c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, mode_t{0700});
    QCOMPARE(::stat((folder + "/agent.sock").c_str(), &info), 0);
    QVERIFY(S_ISSOCK(info.st_mode));
    QCOMPARE(info.st_mode & 0777, mode_t{0600});

    QVERIFY(!prepareSocket(folder + "/agent.sock").ok()); // another agent serves it
    QVERIFY(QDir().mkpath(m_home.filePath("open")));
    QCOMPARE(::chmod(path("open").c_str(), 0755), 0);
    QVERIFY(prepareSocket(path("open/agent.sock")).error().text().find("mode 0700") != std::string::npos);
    QVERIFY(prepareSocket(path("closed/agent.sock")).ok());
    QCOMPARE(::stat(path("closed").c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, mode_t{0700});
    QVERIFY(!prepareSocket(path("closed/") + std::string(200, 'x')).ok());
    QCOMPARE(Client::connect(path("closed/agent.sock")).error().code, ErrorCode::NotFound);
    QCOMPARE(Client::connect(m_data).error().code, ErrorCode::BadInput);
}

void TestAgent::strangersAreSentAway()
{
    const auto folders = QDir(m_home.path()).entryList({"planloom-*"}, QDir::Dirs);
    const auto channel =
        connectWorkerChannel(path((folders[0] + "/agent.sock").toStdString().c_str()), "no such token");
    channel->hello(0, ::getpid());
    QTRY_VERIFY(channel->stopRequested());
    channel->finished({}, "");
}

void TestAgent::endsWithItsParent()
{
    const std::size_t before = processesWith(m_home.path().toStdString()).size();
    {
        auto client = Client::startLocal();
        QVERIFY(client.ok());
        QCOMPARE(processesWith(m_home.path().toStdString()).size(), before + 1);
    }
    QCOMPARE(processesWith(m_home.path().toStdString()).size(), before);
    QCOMPARE(QDir(m_home.path()).entryList({"planloom-*"}, QDir::Dirs).size(), 1);
}

void TestAgent::fullDiskIsOneError()
{
    rlimit before{};
    QCOMPARE(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit tight{60'000, before.rlim_max}; // enough for the plan, not for the trace
    std::signal(SIGXFSZ, SIG_IGN);
    QCOMPARE(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    auto client = Client::startLocal(); // inherits the limit
    QCOMPARE(::setrlimit(RLIMIT_FSIZE, &before), 0);
    QVERIFY(client.ok());
    Heard heard;
    TrainRequest asked = request(RunsUntilStopped, 2, "full");
    asked.settings.steps = 1'000'000;
    const Status status = (*client)->train(asked, heard.events());
    QVERIFY(!status.ok());
    QCOMPARE(status.error().code, ErrorCode::Io);
    QVERIFY2(status.error().text().find("cannot be written") != std::string::npos, status.error().text().c_str());
    QVERIFY(trace::readTrace(path("full/trace.pltrace")).ok());
    nothingIsLeft("full");
}

/// A separate program that starts a training and dies in its third step.
static int trainAndDie(const std::string &data, const std::string &run)
{
    auto client = Client::startLocal();
    if (!client)
        return 1;
    TrainRequest asked;
    asked.planJson = *smallPlan(2, 1);
    asked.settings.data = data;
    asked.settings.steps = 1'000'000;
    asked.settings.seed = RunsUntilStopped;
    asked.runDir = run;
    Heard heard;
    heard.onStep = [&] {
        if (heard.steps.size() == 3)
            ::raise(SIGKILL);
    };
    (void)(*client)->train(asked, heard.events());
    return 1;
}

int main(int argc, char **argv)
{
    if (const auto status = actAsPlanloom(argc, argv, pretendWorker))
        return *status;
    if (argc == 4 && std::string_view(argv[1]) == "train-and-die")
        return trainAndDie(argv[2], argv[3]);
    QCoreApplication application(argc, argv);
    TestAgent test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_agent.moc"
