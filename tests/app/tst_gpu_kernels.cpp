// SPDX-License-Identifier: Apache-2.0
// `planloom train --kernels` through the agent, on the emulated GPU.
#include "app/gpu_cli_fixture.h"

#include "engine/trace/trace.h"
#include "executor/agent/client.h"

#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <string>
#include <tuple>

using namespace planloom;
using namespace planloom::testing;

namespace {

/// Where a task ran: rank, step, id.
using Run = std::tuple<std::int32_t, std::int32_t, std::string>;

bool isOfDevice(const trace::Trace &trace, const trace::Record &record)
{
    return trace.lane(record.lane).work == trace::Work::Device;
}

/// A kernel, a copy or a graph, no reading of the device.
bool isDetail(const trace::Trace &trace, const trace::Record &record)
{
    return isOfDevice(trace, record) && trace.lane(record.lane).capacity > 1;
}

std::map<Run, trace::Record> tasksOf(const trace::Trace &trace)
{
    std::map<Run, trace::Record> tasks;
    for (const trace::Record &record : trace.records)
        if (!isOfDevice(trace, record))
            tasks[{record.rank, record.step, trace.task(record.task)->id}] = record;
    return tasks;
}

std::vector<trace::Record> detailsOf(const trace::Trace &trace)
{
    std::vector<trace::Record> details;
    for (const trace::Record &record : trace.records)
        if (isDetail(trace, record))
            details.push_back(record);
    return details;
}

} // namespace

class TestGpuKernels : public GpuCliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void cleanup() { qunsetenv("PLANLOOM_TEST_KERNELS"); }
    void kernelsLieWithinTheirTasks_data();
    void kernelsLieWithinTheirTasks();
    void withoutTheOptionThereAreGraphsAlone();
    void aWindowOpensInARunUnderWay();
    void processorsHaveNothingToLookAt();
    void trainingGoesOnWithoutThem_data();
    void trainingGoesOnWithoutThem();
    void lossesAreCounted();
    void programsFollowEachOther();

private:
    Done train(const QString &plan, int steps, const QString &folder, const QStringList &options)
    {
        return run(QStringList{"train", plan, "--data", "text", "--steps", QString::number(steps), "--run-dir", folder,
                               "--json"}
                   + options);
    }
    Result<trace::Trace> traceOf(const QString &folder)
    {
        return trace::readTrace(at(folder + "/trace.pltrace").toStdString());
    }
};

void TestGpuKernels::initTestCase()
{
    useEmulatedGpu();
    makePlans();
}

void TestGpuKernels::kernelsLieWithinTheirTasks_data()
{
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QStringList>("options");
    QTest::newRow("1 rank") << 1 << QStringList{};
    QTest::newRow("2 stages on one GPU") << 2 << QStringList{};
    QTest::newRow("a memory budget") << 1 << QStringList{"--memory", "lru,budget=70%"};
}

void TestGpuKernels::kernelsLieWithinTheirTasks()
{
    QFETCH(int, ranks);
    QFETCH(QStringList, options);
    QString plan = QString("plan%1.json").arg(ranks);
    if (!options.isEmpty())
        makePlan(ranks, plan = "chosen.json", options);
    const QString folder = QString("run%1").arg(QTest::currentDataTag());
    const Done done = train(plan, 2, folder, {"--kernels=600.5"});
    QVERIFY2(done.status == 0, done.err.constData());
    QVERIFY(readAll(at(folder + "/request.json")).contains(R"("kernel_seconds": 600.5)"));
    const auto trace = traceOf(folder);
    QVERIFY2(trace.ok(), trace ? "" : trace.error().text().c_str());
    QCOMPARE(trace->dropped, std::int64_t{0});
    const auto tasks = tasksOf(*trace);
    std::map<Run, std::set<std::string>> operators;
    std::set<std::string> lanes;
    for (const trace::Record &record : detailsOf(*trace)) {
        const std::string id = trace->task(record.task)->id;
        const std::size_t slash = id.find('/');
        QVERIFY2(slash != std::string::npos, id.c_str());
        const Run where{record.rank, record.step, id.substr(0, slash)};
        const auto task = tasks.find(where);
        QVERIFY2(task != tasks.end(), id.c_str());
        // Samples of the next pass may still be on their way when a task is over.
        const bool mayEndLater = trace->lane(record.lane).name == "copies" && id.ends_with("/other");
        QVERIFY2(record.start >= task->second.start
                     && (mayEndLater || record.start + record.duration <= task->second.start + task->second.duration),
                 id.c_str());
        QCOMPARE(trace->task(record.task)->kind, trace->task(task->second.task)->kind);
        operators[where].insert(id.substr(slash + 1));
        lanes.insert(trace->lane(record.lane).name);
    }
    QCOMPARE(lanes, (std::set<std::string>{"kernels", "copies"}));
    std::map<std::string, std::set<std::string>> levels;
    for (const trace::Record &record : trace->records)
        if (isOfDevice(*trace, record) && !isDetail(*trace, record))
            levels[trace->lane(record.lane).name].insert(trace->task(record.task)->id);
    QCOMPARE(levels.size(), std::size_t{4});
    QCOMPARE(levels["SM clock"], std::set<std::string>{"SM clock/1980 MHz"});
    QVERIFY(!levels["power"].empty());
    std::size_t passes = 0;
    for (const auto &[where, record] : tasks) {
        const trace::Kind kind = trace->task(record.task)->kind;
        if (kind == trace::Kind::Optimizer)
            QCOMPARE(operators[where], std::set<std::string>{"other"});
        if (kind != trace::Kind::Forward && kind != trace::Kind::Backward)
            continue;
        ++passes;
        QVERIFY2(operators[where].size() > 2, std::get<2>(where).c_str());
    }
    QVERIFY(passes >= static_cast<std::size_t>(2 * 2 * 2 * ranks)); // more where a pass is cut
    if (ranks == 2)                                                 // copies for communication are those of their task
        QVERIFY((operators.contains({0, 1, "s0.SF.m0"}) && operators.contains({1, 1, "s1.RF.m0"})));
    const QByteArray log = readAll(at(folder + "/log"));
    QCOMPARE(log.count("recorded, clock within"), ranks);
    // Laid beside the plan they are no tasks of their own.
    const Done compared = run({"compare", folder, plan, "--json"});
    QVERIFY2(compared.status == 0, compared.err.constData());
    QVERIFY2(!compared.out.contains("/other"), compared.out.constData());
}

void TestGpuKernels::withoutTheOptionThereAreGraphsAlone()
{
    const Done done = train("plan1.json", 3, "plain", {});
    QVERIFY2(done.status == 0, done.err.constData());
    const auto trace = traceOf("plain");
    QVERIFY(trace.ok());
    const auto tasks = tasksOf(*trace);
    std::map<Run, int> graphs;
    for (const trace::Record &record : detailsOf(*trace)) {
        const std::string id = trace->task(record.task)->id;
        QVERIFY2(id.ends_with("/graph"), id.c_str());
        const Run where{record.rank, record.step, id.substr(0, id.find('/'))};
        QVERIFY2(tasks.contains(where), id.c_str());
        const trace::Record &task = tasks.at(where);
        QVERIFY(record.start >= task.start && record.start + record.duration <= task.start + task.duration);
        ++graphs[where];
    }
    for (const auto &[where, record] : tasks) { // a pass is captured when it has run once
        const trace::Kind kind = trace->task(record.task)->kind;
        const bool captured = record.step > 0 && (kind == trace::Kind::Forward || kind == trace::Kind::Backward);
        QVERIFY2(!captured || graphs[where] > 0, std::get<2>(where).c_str());
    }
    qputenv("PLANLOOM_CUPTI", "off");
    const Done without = train("plan1.json", 2, "off", {});
    qunsetenv("PLANLOOM_CUPTI");
    QVERIFY2(without.status == 0, without.err.constData());
    QVERIFY(detailsOf(*traceOf("off")).empty());
}

/// What the studio's button does.
void TestGpuKernels::aWindowOpensInARunUnderWay()
{
    const auto client = agent::Client::startLocal(binary().toStdString());
    QVERIFY2(client.ok(), client ? "" : client.error().text().c_str());
    QCOMPARE((*client)->lookCloser(1).error().code, ErrorCode::Failed); // nothing trains
    agent::TrainRequest request;
    request.planJson = readAll(at("plan2.json")).toStdString();
    request.runDir = at("closer").toStdString();
    request.settings.data = at("text").toStdString();
    request.settings.steps = 100'000;
    agent::RunEvents events;
    trace::Tables tables;
    constexpr std::int64_t kBehind = 200'000'000; // a window
    constexpr std::int64_t kAgain = 1'500'000'000;
    std::int64_t firstKernel = -1;
    std::int64_t last = -1; // kernel, or question
    std::set<std::string> operators;
    const auto seenAll = [&] { // kernels of replayed passes lie with their operators, of both stages
        return operators.contains("s0.F.m0/h/0/attn/c_attn")
            && operators.contains("s0.B.m1/grad/h/0/attn/c_attn/MatMul")
            && operators.contains("s1.F.m0/h/1/attn/c_attn") && operators.contains("s1.B.m1/grad/head/logits/MatMul");
    };
    std::jthread asking;
    std::atomic<bool> refused{false};
    events.onTraceTables = [&](const trace::Tables &heard) { tables = heard; };
    events.onRecords = [&](const std::vector<trace::Record> &records, std::int64_t) {
        for (const trace::Record &record : records) {
            if (tables.lane(record.lane).work != trace::Work::Device || tables.lane(record.lane).capacity == 1)
                continue;
            const std::string &id = tables.task(record.task)->id;
            const bool graph = id.ends_with("/graph");
            if (!graph) {
                operators.insert(id);
                firstKernel = firstKernel < 0 ? record.start : firstKernel;
                last = std::max(last, record.start);
            } else if (seenAll() && record.start > last + kBehind) {
                (*client)->stop();
            } else if (last < 0 || record.start > last + kAgain) { // on a busy machine a window may show little
                asking = std::jthread([&] { refused = refused || !(*client)->lookCloser(1).ok(); });
                last = record.start;
            }
        }
    };
    const Status trained = (*client)->train(request, events);
    asking = {};
    QVERIFY(!refused);
    QVERIFY2(!trained && trained.error().code == ErrorCode::Cancelled, trained ? "" : trained.error().text().c_str());
    const auto trace = traceOf("closer");
    QVERIFY(trace.ok());
    QCOMPARE(trace->dropped, std::int64_t{0});
    QVERIFY(seenAll());
    std::int64_t before = 0;
    std::int64_t after = 0;
    for (const trace::Record &record : detailsOf(*trace))
        if (trace->task(record.task)->id.ends_with("/graph"))
            ++(record.start < firstKernel ? before : after);
    QVERIFY(before > 0 && after > 0);
}

void TestGpuKernels::processorsHaveNothingToLookAt()
{
    const Done planned = run({"plan", "--model", "zoo:gpt-nano", "--cluster", "local:1", "--planner", "gpipe",
                              "--batch", "4", "--micro-batch", "2", "-o", "processor.json", "--quiet"});
    QVERIFY2(planned.status == 0, planned.err.constData());
    const auto client = agent::Client::startLocal(binary().toStdString());
    QVERIFY(client.ok());
    agent::TrainRequest request;
    request.planJson = readAll(at("processor.json")).toStdString();
    request.runDir = at("processor").toStdString();
    request.settings.data = at("text").toStdString();
    request.settings.steps = 5000;
    agent::RunEvents events;
    std::jthread asking;
    Status answer;
    Status wrong;
    events.onStep = [&](const run::StepMetrics &step) {
        if (step.step == 0)
            asking = std::jthread([&] {
                answer = (*client)->lookCloser(1);
                wrong = (*client)->lookCloser(-1);
                (*client)->stop();
            });
    };
    const Status trained = (*client)->train(request, events);
    asking = {};
    QVERIFY(!trained && trained.error().code == ErrorCode::Cancelled);
    QVERIFY(!answer && answer.error().code == ErrorCode::Unsupported);
    QVERIFY(!wrong && wrong.error().code == ErrorCode::BadInput);
}

void TestGpuKernels::trainingGoesOnWithoutThem_data()
{
    QTest::addColumn<QString>("fault");
    QTest::addColumn<QString>("text");
    QTest::newRow("no library") << "missing"
                                << "libcupti.so is not installed";
    QTest::newRow("another profiler") << "other"
                                      << "another profiler uses CUPTI (CUPTI for Nsight Systems)";
}

void TestGpuKernels::trainingGoesOnWithoutThem()
{
    QFETCH(QString, fault);
    QFETCH(QString, text);
    qputenv("PLANLOOM_TEST_KERNELS", fault.toLocal8Bit());
    const Done done = train("plan1.json", 1, fault, {"--kernels"});
    QVERIFY2(done.status == 0, done.err.constData());
    const auto trace = traceOf(fault);
    QVERIFY(trace.ok());
    QVERIFY(detailsOf(*trace).empty() && !tasksOf(*trace).empty());
    QCOMPARE(readAll(at(fault + "/log")).count(text.toUtf8()), 1);
    const QString quiet = fault + " without asking";
    const Done plain = train("plan1.json", 1, quiet, {});
    QVERIFY2(plain.status == 0, plain.err.constData());
    QVERIFY(detailsOf(*traceOf(quiet)).empty());
}

void TestGpuKernels::lossesAreCounted()
{
    qputenv("PLANLOOM_TEST_KERNELS", "lossy");
    const Done done = train("plan1.json", 1, "lossy", {"--kernels=600"});
    QVERIFY2(done.status == 0, done.err.constData());
    const auto trace = traceOf("lossy");
    QVERIFY(trace.ok());
    const auto got = static_cast<std::int64_t>(detailsOf(*trace).size());
    QVERIFY(got > 0);
    // One of seven.
    QVERIFY2(trace->dropped >= got / 7 && trace->dropped <= got / 6 + 1, qPrintable(QString::number(trace->dropped)));
    QVERIFY(readAll(at("lossy/log")).contains("records dropped by CUPTI"));
}

/// Iterations of ADMM, then steps by gradients: the GPUs are opened twice, and the trace has the tasks of the first
/// ones.
void TestGpuKernels::programsFollowEachOther()
{
    qputenv("PLANLOOM_TEST_GPUS", "2");
    const Done planned = run({"plan", "--planner", "admm", "--model", "zoo:rnn", "--cluster", "gpus2.yaml", "--batch",
                              "1198", "--set", "workers=2", "--set", "switch_after=2", "-o", "turn.json", "--quiet"});
    QVERIFY2(planned.status == 0, planned.err.constData());
    const Done done = run({"train", "turn.json", "--data", PLANLOOM_SOURCE_DIR "/tests/golden/data/digits.csv.gz",
                           "--holdout", "0.3333", "--steps", "4", "--run-dir", "turn", "--json", "--kernels=600"});
    qunsetenv("PLANLOOM_TEST_GPUS");
    QVERIFY2(done.status == 0, done.err.constData());
    QCOMPARE(readAll(at("turn/metrics.jsonl")).count("\"loss\""), 4);
    const QByteArray log = readAll(at("turn/log"));
    QCOMPARE(log.count("trains on cuda:"), 4);
    QVERIFY2(log.contains("ranks exchange data between GPUs by NCCL"), log.constData());
    QVERIFY2(!log.contains("emulated NCCL: a communicator is aborted"), log.constData());
    const auto trace = traceOf("turn");
    QVERIFY2(trace.ok(), trace ? "" : trace.error().text().c_str());
    std::size_t details = 0;
    for (const trace::Record &record : trace->records) {
        QVERIFY(record.step < 2);
        details += isDetail(*trace, record) ? 1 : 0;
    }
    QVERIFY(details > 0);
}

QTEST_GUILESS_MAIN(TestGpuKernels)
#include "tst_gpu_kernels.moc"
