// SPDX-License-Identifier: Apache-2.0
// The whole way: client, agent, Open MPI, two real workers, and back.
#include "engine/store/store.h"
#include "executor/agent/agent_fixture.h"
#include "executor/checkpoint/restore.h"

#include "engine/compile/compile.h"

#include <QTemporaryDir>
#include <cmath>
#include <map>
#include <set>

using namespace planloom;
using namespace planloom::agent;
using namespace planloom::testing;

class TestTrainingRun : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_home;
    std::unique_ptr<Client> m_client;
    std::string m_data;

    std::string path(const std::string &name) const
    {
        return m_home.filePath(QString::fromStdString(name)).toStdString();
    }
    TrainRequest request(int ranks, int stages, std::int64_t steps, const std::string &run) const
    {
        TrainRequest asked;
        asked.planJson = *smallPlan(ranks, stages);
        asked.settings.data = m_data;
        asked.settings.steps = steps;
        asked.settings.seed = 5;
        asked.runDir = path(run);
        return asked;
    }
    void nothingIsLeft(const std::string &run) const { QTRY_COMPARE(processesWith(path(run)).size(), std::size_t{0}); }

private slots:
    void initTestCase();
    void trains_data();
    void trains();
    void killedWorkerIsOneClearError();
    void stopsAfterTheStep();
    void dataThatDoesNotFitIsNamed();
    void nothingToValidateWithIsSaid();
    void resumes_data();
    void resumes();
    void anotherBatchGoesOnInTheData();
    void aResumeInVainChangesNothing_data();
    void aResumeInVainChangesNothing();
    void aResumeWithNothingToDoChangesNothing();
    void stopsEarly();
};

void TestTrainingRun::initTestCase()
{
    qputenv("XDG_DATA_HOME", m_home.path().toUtf8());
    qputenv("XDG_RUNTIME_DIR", m_home.path().toUtf8());
    m_data = path("data.csv");
    QVERIFY(writeFileAtomically(m_data, smallData()).ok());
    auto client = Client::startLocal();
    QVERIFY2(client.ok(), client.ok() ? "" : client.error().text().c_str());
    m_client = std::move(*client);
}

void TestTrainingRun::trains_data()
{
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("stages");
    QTest::newRow("one rank") << 1 << 1;
    QTest::newRow("two replicas") << 2 << 1;
    QTest::newRow("two stages") << 2 << 2;
}

void TestTrainingRun::trains()
{
    QFETCH(int, ranks);
    QFETCH(int, stages);
    constexpr std::int64_t kSteps = 30;
    TrainRequest asked = request(ranks, stages, kSteps, fmt::format("train{}x{}", ranks, stages));
    asked.settings.holdout = 0.2;
    Heard heard;
    const Status status = m_client->train(asked, heard.events());
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
    QCOMPARE(heard.steps.size(), std::size_t{kSteps});
    for (std::size_t i = 0; i < heard.steps.size(); ++i)
        QCOMPARE(heard.steps[i].step, static_cast<std::int64_t>(i));
    QVERIFY(heard.summary.has_value());
    QVERIFY(heard.summary->lossLast < heard.summary->lossFirst);
    QCOMPARE(heard.summary->peakBytesMeasured, heard.summary->peakBytesPredicted);
    QCOMPARE(heard.summary->traceDropped, std::int64_t{0});
    QCOMPARE(heard.summary->evaluation->samples, std::int64_t{40});

    // Every task of every rank is in the trace, once a step, under its own id.
    const auto document = plan::documentFromJson(asked.planJson);
    const auto program = compile::compilePlan(document->plan, document->subject, {.bodies = false});
    const auto traced = trace::readTrace(heard.summary->tracePath);
    QVERIFY(traced.ok());
    QCOMPARE(traced->dropped, std::int64_t{0});
    std::multiset<std::tuple<int, std::string, int>> seen;
    for (const auto &record : traced->records)
        seen.insert({record.rank, traced->tasks[static_cast<std::size_t>(record.task)].id, record.step});
    QCOMPARE(seen.size(), static_cast<std::size_t>(kSteps) * program->tasks.size());
    for (const auto &task : program->tasks) {
        for (int step = 0; step < kSteps; ++step)
            QCOMPARE(seen.count({task.rank.value, program::idOf(task), step}), std::size_t{1});
    }
    QCOMPARE(heard.records.size(), traced->records.size());
    nothingIsLeft(fmt::format("train{}x{}", ranks, stages));
}

void TestTrainingRun::killedWorkerIsOneClearError()
{
    Heard heard;
    heard.onStep = [&] {
        if (heard.steps.size() != 3)
            return;
        for (const int process : processesWith(path("killed"))) {
            // One of the workers, not their launcher.
            if (std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process)).filename() == "tst_training_run") {
                ::kill(process, SIGKILL);
                return;
            }
        }
    };
    const Status status = m_client->train(request(2, 2, 1'000'000, "killed"), heard.events());
    QVERIFY(!status.ok());
    QCOMPARE(status.error().code, ErrorCode::Failed);
    QVERIFY2(status.error().text().find("rank") != std::string::npos, status.error().text().c_str());
    QCOMPARE(heard.states.back(), RunState::Failed);
    nothingIsLeft("killed");
    QVERIFY(trace::readTrace(path("killed/trace.pltrace")).ok());
    QVERIFY(!std::filesystem::exists(path("killed/summary.json")));
}

void TestTrainingRun::stopsAfterTheStep()
{
    Heard heard;
    heard.onStep = [&] {
        if (heard.steps.size() == 5)
            m_client->stop();
    };
    const Status status = m_client->train(request(2, 1, 1'000'000, "stopped"), heard.events());
    QVERIFY(!status.ok());
    QCOMPARE(status.error().code, ErrorCode::Cancelled);
    QVERIFY2(status.error().text().find("on request") != std::string::npos, status.error().text().c_str());
    QVERIFY(heard.summary.has_value());
    QCOMPARE(heard.summary->steps, static_cast<std::int64_t>(heard.steps.size()));
    QCOMPARE(heard.summary->peakBytesMeasured, heard.summary->peakBytesPredicted);
    nothingIsLeft("stopped");
}

void TestTrainingRun::resumes_data()
{
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("thenRanks");
    QTest::addColumn<int>("thenStages");
    QTest::addColumn<double>("tolerance");
    QTest::newRow("one rank") << 1 << 1 << 1 << 1 << 0.0;
    QTest::newRow("two replicas") << 2 << 1 << 2 << 1 << 0.0;
    QTest::newRow("two stages") << 2 << 2 << 2 << 2 << 0.0;
    QTest::newRow("two stages, then one rank") << 2 << 2 << 1 << 1 << 1e-5;
    QTest::newRow("one rank, then two replicas") << 1 << 1 << 2 << 1 << 1e-5;
    QTest::newRow("two stages on one rank") << 1 << 2 << 1 << 2 << 0.0;
    QTest::newRow("two stages on one rank, then on two") << 1 << 2 << 2 << 2 << 1e-5;
    QTest::newRow("two stages on two ranks, then on one") << 2 << 2 << 1 << 2 << 1e-5;
}

/// A run that is stopped and resumed has the losses of one that was not; of the same layout bit for bit.
void TestTrainingRun::resumes()
{
    QFETCH(int, ranks);
    QFETCH(int, stages);
    QFETCH(int, thenRanks);
    QFETCH(int, thenStages);
    QFETCH(double, tolerance);
    constexpr std::int64_t kSteps = 25;
    const std::string name = fmt::format("{}x{}to{}x{}", ranks, stages, thenRanks, thenStages);
    Heard whole;
    QVERIFY(m_client->train(request(ranks, stages, kSteps, "whole" + name), whole.events()).ok());

    TrainRequest asked = request(ranks, stages, 1'000'000, "parts" + name);
    asked.settings.checkpointEvery = 4;
    asked.settings.keep = 1;
    Heard first;
    first.onStep = [&] {
        if (first.steps.size() == 7)
            m_client->stop();
    };
    QCOMPARE(m_client->train(asked, first.events()).error().code, ErrorCode::Cancelled);
    const auto stoppedAfter = static_cast<std::int64_t>(first.steps.size());
    asked = request(thenRanks, thenStages, std::max(kSteps, stoppedAfter), "parts" + name);
    asked.settings.checkpointEvery = 4;
    asked.resume = true;
    Heard second;
    const Status status = m_client->train(asked, second.events());
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
    QCOMPARE(second.steps.empty() ? stoppedAfter : second.steps.front().step,
             stoppedAfter); // a stop leaves a checkpoint of its step
    const auto steps = run::metricsFromJson(*readFile(path("parts" + name) + "/metrics.jsonl"));
    for (std::size_t i = 0; i < whole.steps.size(); ++i) {
        const double off = std::abs((*steps)[i].loss - whole.steps[i].loss);
        QVERIFY2(off <= tolerance * whole.steps[i].loss,
                 fmt::format("step {}: {} and {}", i, (*steps)[i].loss, whole.steps[i].loss).c_str());
    }
    nothingIsLeft("parts" + name);
}

/// Whatever the batches were, no sample is trained on twice before all were.
void TestTrainingRun::anotherBatchGoesOnInTheData()
{
    TrainRequest asked = request(1, 1, 3, "batches");
    asked.settings.checkpointEvery = 100;
    QVERIFY(m_client->train(asked, {}).ok());
    asked.resume = true;
    for (const auto &[batch, steps, samples] : {std::tuple{4, 8, 44}, std::tuple{16, 10, 76}, std::tuple{8, 11, 84}}) {
        asked.planJson = *smallPlan(1, 1, batch);
        asked.settings.steps = steps;
        QVERIFY(m_client->train(asked, {}).ok());
        const auto newest = checkpoint::newestCheckpoint(path("batches"));
        QVERIFY(newest.ok());
        QCOMPARE(newest->state.step, std::int64_t{steps});
        QCOMPARE(newest->state.samples, std::int64_t{samples});
    }
}

void TestTrainingRun::aResumeInVainChangesNothing_data()
{
    QTest::addColumn<QString>("what");
    QTest::addColumn<int>("checkpointEvery");
    QTest::addColumn<QString>("why");
    QTest::newRow("another seed") << "seed" << 4 << "begun with seed 5, not 2";
    QTest::newRow("data that do not fit") << "data" << 4 << "odd.csv";
    QTest::newRow("data that do not fit, no checkpoint") << "data" << 0 << "odd.csv";
    QTest::newRow("another model") << "model" << 4 << "";
}

/// A run that cannot be resumed is refused, and its folder does not change: the next resume finds the whole run.
void TestTrainingRun::aResumeInVainChangesNothing()
{
    QFETCH(QString, what);
    QFETCH(int, checkpointEvery);
    QFETCH(QString, why);
    const std::string run = "vain-" + what.toStdString() + std::to_string(checkpointEvery);
    TrainRequest asked = request(1, 1, 6, run);
    asked.settings.checkpointEvery = checkpointEvery;
    asked.settings.holdout = 0.2;
    asked.settings.validateEvery = 2;
    QVERIFY(m_client->train(asked, {}).ok());
    const auto contents = [&] {
        std::map<std::string, std::string> all;
        for (const char *name : {"plan.json", "request.json", "summary.json", "metrics.jsonl", "trace.pltrace"})
            all[name] = *readFile(path(run) + "/" + name);
        return all;
    };
    const auto before = contents();

    TrainRequest other = asked;
    other.resume = true;
    other.settings.steps = 9;
    if (what == "seed")
        other.settings.seed = 2;
    if (what == "data") {
        other.settings.data = path("odd.csv");
        QVERIFY(writeFileAtomically(other.settings.data, "1,2,3\n4,5\n").ok());
    }
    if (what == "model") {
        auto document = *plan::documentFromJson(asked.planJson);
        auto model = graph::mlp("small", {16, 24, 32, 4});
        document.subject = plan::makeSubject(std::make_shared<graph::Graph>(std::move(*model)),
                                             document.subject.cluster, nullptr, "zoo:small");
        other.planJson = plan::toJson(document);
    }
    const Status refused = m_client->train(other, {});
    QCOMPARE(refused.error().code, ErrorCode::BadInput);
    QVERIFY2(refused.error().text().find(why.toStdString()) != std::string::npos, refused.error().text().c_str());
    QCOMPARE(contents(), before);
    QVERIFY(!std::filesystem::exists(path(run) + "/trace.1.pltrace"));
    {
        auto store = store::Workspace::open(path(run) + "/metrics.db");
        QVERIFY(store.ok());
        const auto row = store->listRuns()->front();
        QCOMPARE(row.state, std::string("finished"));
        QCOMPARE(std::ssize(*store->steps(row.id)), std::ptrdiff_t{6});
        QCOMPARE(std::ssize(*store->validations(row.id)), std::ptrdiff_t{3});
    }
    asked.resume = true;
    asked.settings.steps = 9;
    const Status status = m_client->train(asked, {});
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
    QCOMPARE(std::ssize(*run::metricsFromJson(*readFile(path(run) + "/metrics.jsonl"))), std::ptrdiff_t{9});
}

/// All steps are done: workers that did none have other peaks, which are not the run's.
void TestTrainingRun::aResumeWithNothingToDoChangesNothing()
{
    TrainRequest asked = request(2, 1, 4, "done");
    asked.settings.checkpointEvery = 2;
    asked.settings.holdout = 0.2;
    Heard first;
    QVERIFY(m_client->train(asked, first.events()).ok());
    const auto contents = [&] {
        std::map<std::string, std::string> all;
        for (const char *name : {"summary.json", "metrics.jsonl", "trace.pltrace"})
            all[name] = *readFile(path("done") + "/" + name);
        return all;
    };
    const auto before = contents();
    asked.resume = true;
    Heard second;
    const Status status = m_client->train(asked, second.events());
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
    QVERIFY(second.steps.empty());
    QCOMPARE(contents(), before);
    QVERIFY(second.summary.has_value());
    QCOMPARE(second.summary->peakBytesMeasured, first.summary->peakBytesMeasured);
    QCOMPARE(second.summary->beyondArenaBytes, first.summary->beyondArenaBytes);
}

/// With a learning rate of 0 nothing gets better: the second validation after the first ends the run.
void TestTrainingRun::stopsEarly()
{
    TrainRequest asked = request(2, 1, 100, "early");
    auto document = *plan::documentFromJson(asked.planJson);
    document.plan.optimizer.learningRate = 0;
    document.plan.optimizer.weightDecay = 0;
    asked.planJson = plan::toJson(document);
    asked.settings.holdout = 0.2;
    asked.settings.validateEvery = 3;
    asked.settings.earlyStop = 2;
    Heard heard;
    std::vector<run::Validation> seen;
    RunEvents events = heard.events();
    events.onValidation = [&seen](const run::Validation &validation) { seen.push_back(validation); };
    const Status status = m_client->train(asked, events);
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
    QCOMPARE(seen.size(), std::size_t{3});
    QCOMPARE(seen[2].step, std::int64_t{8});
    QCOMPARE(seen[2].loss, seen[0].loss);
    QCOMPARE(seen[0].samples, std::int64_t{40});
    QCOMPARE(seen[0].perplexity(), std::exp(seen[0].loss));
    QCOMPARE(heard.steps.size(), std::size_t{9});
    QVERIFY(heard.summary->stoppedEarly);
    QCOMPARE(heard.summary->evaluation->loss, seen[0].loss);
}

void TestTrainingRun::nothingToValidateWithIsSaid()
{
    TrainRequest asked = request(1, 1, 3, "none-held-out");
    asked.settings.holdout = 0.001; // of 200 rows
    asked.settings.validateEvery = 1;
    const Status status = m_client->train(asked, {});
    QCOMPARE(status.error().code, ErrorCode::BadInput);
    QVERIFY2(status.error().text().find("0.001 of 200 samples leaves none") != std::string::npos,
             status.error().text().c_str());
}

void TestTrainingRun::dataThatDoesNotFitIsNamed()
{
    const std::string bad = path("bad.csv");
    QVERIFY(writeFileAtomically(bad, "1,2,3\n4,5\n").ok());
    TrainRequest asked = request(2, 1, 3, "bad");
    asked.settings.data = bad;
    Heard heard;
    const Status status = m_client->train(asked, heard.events());
    QVERIFY(!status.ok());
    QCOMPARE(status.error().code, ErrorCode::BadInput);
    QVERIFY2(status.error().text().find("bad.csv") != std::string::npos, status.error().text().c_str());
    nothingIsLeft("bad");
}

int main(int argc, char **argv)
{
    if (const auto status = actAsPlanloom(argc, argv, realWorker))
        return *status;
    QCoreApplication application(argc, argv);
    TestTrainingRun test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_training_run.moc"
