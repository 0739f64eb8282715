// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "engine/base/files.h"
#include "engine/gnn/partition.h"
#include "engine/plan/fingerprint.h"
#include "engine/run/settings.h"
#include "executor/data/graph_folder.h"
#include "ui/state/file_kind.h"
#include "ui/state/run_files.h"
#include "ui/state/whole_trace.h"

#include <QSignalSpy>
#include <QTest>

#include <set>

using namespace planloom;
using namespace planloom::ui;

class TestStudioState : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void filesAreToldApart_data();
    void filesAreToldApart();
    void whatIsNoTraceIsSaid();
    void eventTracesOpen();
    void editsCanBeUndone();
    void illegalEditsAreRefusedWithTheReason();
    void editWithoutPlanIsRefused();
    void theNewestSimulationWins();
    void whatIsTrueNoMoreIsWithdrawn();
    void selectionIsSharedAndClamped();
    void whatCannotBeLoadedIsSaid();
    void plansAreSavedAndOpened();
    void theFolderOfARunIsOpened();
    void plannerErrorsAreSaid();
    void aStoppedSearchKeepsItsBest();
    void planningAgainKeepsHowThePlanIsTrained();
    void planningAgainKeepsTheExchange();
    void planningAgainBehindAdmm();
    void aGraphIsPlannedFor();
    void partsOfAGraph();
    void aLossIsChosenForAModelWithoutOne();
    void aRunIsFollowed();
    void aRunIsComparedWithItsOwnPlanOnly();
    void tracesKnowTheirPlan();
    void aRunThatCannotStartKeepsTheEarlierOne();
    void theReportBeforeIsOfTheSameSubject();
    void alternativesFollowUndo();
    void alternativesDifferInMoreThanNames();
    void aRunCanBeStopped();
    void aRunThatFailsSaysWhy();
    void destructionDuringARun();

private:
    static plan::Plan boundaryMoved(const plan::Plan &plan, std::size_t to)
    {
        plan::Plan moved = plan;
        moved.stages[0].lastLayer = to;
        moved.stages[1].firstLayer = to;
        return moved;
    }
    static void listen(StudioState &state, QStringList &heard)
    {
        connect(&state, &StudioState::message, &state, [&heard](MessageLevel, const QString &text) { heard << text; });
    }
};

void TestStudioState::filesAreToldApart_data()
{
    QTest::addColumn<QString>("name");
    QTest::addColumn<QByteArray>("head");
    QTest::addColumn<int>("kind");
    const auto row = [](const char *name, const char *head, FileKind kind) {
        QTest::newRow(name) << QString::fromLatin1(name) << QByteArray(head) << int(kind);
    };
    row("zoo:gpt2", "", FileKind::Model);
    row("net.onnx", "", FileKind::Model);
    row("preset:h100-8", "", FileKind::Cluster);
    row("local:4", "", FileKind::Cluster);
    row("cluster.yaml", "", FileKind::Cluster);
    row("topology.xml", "", FileKind::Cluster);
    row("a.json", R"({"schema": "planloom.plan/1")", FileKind::Plan);
    row("b.json", R"({"schema": "planloom.cluster/1")", FileKind::Cluster);
    row("config.json", R"({"model_type": "gpt2")", FileKind::Model);
    row("smi.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV12", FileKind::Cluster);
    row("topology.conf", "# tree\nSwitchName=leaf Nodes=n[1-2]", FileKind::Cluster);
    row("topology.txt", "SwitchName=leaf Nodes=n[1-2]", FileKind::Cluster);
    row("other.conf", "port=80", FileKind::Unknown);
    row("profile.txt", "node1 -- Input", FileKind::Model);
    row("run.pltrace", "", FileKind::Trace);
    row("gpt.args", "", FileKind::Setup);
    row("pretrain.txt", "--num-layers 12\n--hidden-size 768", FileKind::Setup);
    row("ds.json", R"({"train_batch_size": 64)", FileKind::Setup);
    row("llama.toml", "", FileKind::Setup);
    row("order.csv", "", FileKind::Order);
    row("letter.odt", "", FileKind::Unknown);
    row("torch.pt.trace.json", R"({"schemaVersion": 1, "deviceProperties": [{"id": 0)", FileKind::ForeignTrace);
    row("chrome.json", R"({"displayTimeUnit": "ns", "traceEvents": [)", FileKind::ForeignTrace);
    row("list.json", "\n[{\"name\": \"a\", \"ph\": \"X\"", FileKind::ForeignTrace);
    row("torch.json.gz", "\x1f\x8b\x08", FileKind::ForeignTrace);
    row("report.nsys-rep", "", FileKind::ForeignTrace);
    row("events.json", R"({"schema": "planloom.plan/1", "name": "traceEvents")", FileKind::Plan);
}

void TestStudioState::filesAreToldApart()
{
    QFETCH(QString, name);
    QFETCH(QByteArray, head);
    QFETCH(int, kind);
    QCOMPARE(int(classify(name, {head.constData(), static_cast<std::size_t>(head.size())})), kind);
}

void TestStudioState::whatIsNoTraceIsSaid()
{
    QTemporaryDir folder;
    StudioState state;
    QStringList heard;
    listen(state, heard);
    const auto says = [&](const char *name, const QByteArray &bytes) {
        const QString path = folder.filePath(QString::fromLatin1(name));
        QFile file(path);
        heard.clear();
        if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.flush() || !state.open(path)
            || !QTest::qWaitFor([&] { return !heard.isEmpty(); }))
            return QString();
        return heard.first();
    };
    const QString damaged = says("nsight.sqlite", QByteArray("SQLite format 3\0rest", 20));
    QVERIFY2(damaged.contains(QStringLiteral("nsys export")) || damaged.contains(QStringLiteral("damaged")),
             qPrintable(damaged));
    const QString report = says("report.nsys-rep", "x");
    QVERIFY2(report.contains(QStringLiteral("nsys export --type sqlite")), qPrintable(report));
}

void TestStudioState::eventTracesOpen()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("worker.pt.trace.json"));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        "{\"schemaVersion\": 1, \"deviceProperties\": [], \"traceEvents\": [\n"
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": 5, \"dur\": 2},\n"
        "{\"ph\": \"C\", \"name\": \"memory\", \"pid\": 0, \"ts\": 5}]}");
    file.close();
    StudioState state;
    QStringList heard;
    listen(state, heard);
    QVERIFY(state.open(path));
    QTRY_COMPARE(wholeMeasured(state).records.size(), std::size_t{1});
    QVERIFY(state.measured().records.empty()); // its index has all that they say
    QCOMPARE(wholeMeasured(state).records.front().duration, std::int64_t{2000});
    QCOMPARE(state.measuredPath(), path);
    QCOMPARE(state.measured().tasks.front().id, std::string("gemm"));
    QVERIFY(!state.measuredOrigin().known() && !state.measuredIsOfDocument());
    QVERIFY2(heard.value(0).contains(QStringLiteral("1 counters without a number or a time are not shown")),
             qPrintable(heard.value(0)));

    heard.clear();
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("{\"deviceProperties\": [], \"traceEvents\": []}");
    file.close();
    QVERIFY(state.open(path)); // what was open stays
    QTRY_VERIFY2(heard.value(0).contains(QStringLiteral("has no events")), qPrintable(heard.value(0)));
    QCOMPARE(wholeMeasured(state).records.size(), std::size_t{1});
}

void TestStudioState::editsCanBeUndone()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    const auto before = state.document();
    const double seconds = state.simulation()->report.iterationSeconds;
    const std::size_t boundary = before->plan.stages[0].lastLayer;
    QVERIFY(boundary > 1);

    QVERIFY(state.replacePlan(QStringLiteral("move"), boundaryMoved(before->plan, boundary - 1)));
    QCOMPARE(state.document()->plan.stages[1].firstLayer, boundary - 1);
    QVERIFY(!state.simulationCurrent());
    QTRY_VERIFY(state.simulationCurrent());
    QVERIFY(state.simulation()->report.iterationSeconds != seconds);
    QCOMPARE(state.previousReport()->iterationSeconds, seconds);
    QVERIFY(!before->plan.estimate.empty() && state.document()->plan.estimate.empty()); // the planner's, of its plan

    state.undoStack()->undo();
    QCOMPARE(state.document(), before); // the very same snapshot
    QTRY_VERIFY(state.simulationCurrent());
    QCOMPARE(state.simulation()->report.iterationSeconds, seconds);
    state.undoStack()->redo();
    QCOMPARE(state.document()->plan.stages[1].firstLayer, boundary - 1);
}

void TestStudioState::illegalEditsAreRefusedWithTheReason()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QStringList heard;
    listen(state, heard);
    const auto before = state.document();
    const int commands = state.undoStack()->count();
    const bool done =
        state.editPlan(QStringLiteral("leave out a layer"), [](plan::Plan &plan) { plan.stages[1].firstLayer += 1; });
    QVERIFY(!done);
    QCOMPARE(state.document(), before);
    QCOMPARE(state.undoStack()->count(), commands);
    QCOMPARE(heard.size(), 1);
    QVERIFY2(heard[0].contains(QStringLiteral("stage"), Qt::CaseInsensitive), qPrintable(heard[0]));

    QVERIFY(!state.editPlan(QStringLiteral("too many"),
                            [](plan::Plan &plan) { plan.microBatches = plan.globalBatch + 1; }));
    QCOMPARE(heard.size(), 2);
    QVERIFY2(heard[1].contains(QStringLiteral("micro"), Qt::CaseInsensitive), qPrintable(heard[1]));
}

void TestStudioState::editWithoutPlanIsRefused()
{
    StudioState state;
    QStringList heard;
    listen(state, heard);
    QVERIFY(!state.editPlan(QStringLiteral("nothing"), [](plan::Plan &) {}));
    QVERIFY(!state.startRun({}));
    QVERIFY(!state.savePlan(QStringLiteral("nowhere.json")));
    QCOMPARE(heard.size(), 3);
}

void TestStudioState::theNewestSimulationWins()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QSignalSpy simulated(&state, &StudioState::simulationChanged);
    const plan::Plan original = state.document()->plan;
    for (int k = 0; k < 20; ++k) {
        const std::int64_t microBatches = k % 2 == 0 ? 4 : 2;
        QVERIFY(state.editPlan(QStringLiteral("micro-batches"),
                               [microBatches](plan::Plan &plan) { plan.microBatches = microBatches; }));
    }
    QTRY_VERIFY(state.simulationCurrent());
    QTRY_VERIFY(!state.simulating());
    const auto expected = simulate::simulatePlan(state.document()->plan, state.document()->subject);
    QVERIFY(expected.ok());
    QCOMPARE(state.simulation()->report.iterationSeconds, expected->report.iterationSeconds);
    QCOMPARE(simulated.count(), 1); // superseded ones are not shown
}

void TestStudioState::whatIsTrueNoMoreIsWithdrawn()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QSignalSpy said(&state, &StudioState::message);
    QSignalSpy withdrawn(&state, &StudioState::messageWithdrawn);
    QVERIFY(state.editPlan(QStringLiteral("no room"), [](plan::Plan &plan) {
        plan.stages[0].memory.filter = plan::MemoryFilter::Delta;
        plan.stages[0].memory.budgetBytes = 64;
    }));
    QTRY_COMPARE(said.size(), 1);
    QVERIFY(withdrawn.isEmpty());
    state.undoStack()->undo();
    QTRY_COMPARE(withdrawn.size(), 1);
    QCOMPARE(withdrawn[0][0].toString(), said[0][1].toString());
    QVERIFY(state.editPlan(QStringLiteral("micro-batches"), [](plan::Plan &plan) { plan.microBatches = 2; }));
    QTRY_VERIFY(!state.simulating());
    QCOMPARE(withdrawn.size(), 1);
}

void TestStudioState::selectionIsSharedAndClamped()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QSignalSpy changed(&state, &StudioState::selectionChanged);
    state.selectStage(StageId(3));
    QCOMPARE(changed.count(), 1);
    QCOMPARE(state.selection().layers.last, state.document()->subject.layers().size());
    state.selectStage(StageId(3));
    QCOMPARE(changed.count(), 1);
    state.selectTask("s2.F.m1");
    QCOMPARE(state.selection().stage, StageId(2));
    state.selectDevice(DeviceId(1));
    QCOMPARE(state.selection().stage, StageId(1));
    state.selectStage(StageId(99));
    QVERIFY(!state.selection().stage.valid());
}

void TestStudioState::whatCannotBeLoadedIsSaid()
{
    StudioState state;
    QStringList heard;
    listen(state, heard);
    state.open(QStringLiteral("zoo:no-such-model"));
    QTRY_COMPARE(heard.size(), 1);
    QVERIFY2(heard[0].contains(QStringLiteral("no-such-model")), qPrintable(heard[0]));
    QVERIFY(!state.model());
    QVERIFY(!state.open(QStringLiteral("letter.odt")));
    QCOMPARE(heard.size(), 2);
}

void TestStudioState::plansAreSavedAndOpened()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("plan.json"));
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QVERIFY(state.savePlan(path));
    QVERIFY(state.undoStack()->isClean());

    StudioState other;
    QVERIFY(other.open(path));
    QTRY_VERIFY_WITH_TIMEOUT(other.simulationCurrent(), 20'000);
    QCOMPARE(plan::difference(state.document()->plan, other.document()->plan), std::vector<std::string>{});
    QCOMPARE(other.simulation()->report.iterationSeconds, state.simulation()->report.iterationSeconds);
    QCOMPARE(other.planPath(), path);
    QVERIFY(!state.savePlan(folder.filePath(QStringLiteral("no/such/folder/plan.json"))));
}

void TestStudioState::theFolderOfARunIsOpened()
{
    QTemporaryDir folder;
    {
        StudioState state;
        QVERIFY(testing::loadSample(state));
        QVERIFY(state.savePlan(folder.filePath(QStringLiteral("plan.json"))));
        QVERIFY(trace::writeTrace(state.simulation()->trace,
                                  folder.filePath(QStringLiteral("trace.pltrace")).toStdString()));
    }
    StudioState state;
    QCOMPARE(classifyFile(folder.path()), FileKind::Run);
    QVERIFY(state.open(folder.path()));
    QTRY_VERIFY_WITH_TIMEOUT(state.simulationCurrent() && !state.measured().ranks.empty(), 20'000);
    QVERIFY(state.measuredIsOfDocument());
    QVERIFY(state.planPath().isEmpty()); // saving asks where: the run keeps the plan that it was trained by
    QCOMPARE(state.run().phase, RunData::Phase::Unfinished); // nothing else lies there

    // With what a run leaves beside them.
    const auto write = [&](const char *name, const std::string &text) {
        QVERIFY(writeFileAtomically(folder.filePath(QLatin1String(name)).toStdString(), text));
    };
    run::Request request;
    request.settings.steps = 100;
    request.settings.data = "/data";
    write("request.json", run::toJson(request));
    write("metrics.jsonl",
          run::toJson(run::StepMetrics{0, 4.5, 0.1, 80, 0, 0}) + "\n"
              + run::toJson(run::StepMetrics{1, 4.25, 0.1, 80, 0, 0}) + "\n{\"step\": 2, ");
    run::Summary summary;
    summary.steps = 2;
    summary.iterationSecondsMedian = 0.1;
    write("summary.json", run::toJson(summary));
    QVERIFY(state.open(folder.path()));
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Stopped, 20'000);
    QCOMPARE(state.run().steps.size(), std::size_t(2));
    QCOMPARE(state.run().steps.back().loss, 4.25);
    QCOMPARE(state.run().settings.steps, std::int64_t(100));
    QVERIFY(state.runIsOfDocument());
    QTRY_VERIFY_WITH_TIMEOUT(state.run().predicted(), 20'000);
    QTRY_VERIFY_WITH_TIMEOUT(state.measuredIsOfDocument(), 20'000);
    QVERIFY(!hasCheckpoints(folder.path()));
    QVERIFY(QDir(folder.path()).mkpath(QStringLiteral("checkpoints/step-2")));
    QVERIFY(hasCheckpoints(folder.path()));

    // A run that is resumed goes on behind its steps.
    testing::FakeRun fake;
    fake.hold = true;
    state.setClientFactory(testing::fakeAgent(fake));
    agent::TrainRequest again;
    again.resume = true;
    again.runDir = state.run().folder.toStdString();
    QVERIFY(state.startRun(again));
    QCOMPARE(state.run().steps.size(), std::size_t(2));
    state.stopRun();
    QTRY_VERIFY_WITH_TIMEOUT(!state.run().active(), 20'000);

    QTemporaryDir other;
    QCOMPARE(classifyFile(other.path()), FileKind::Unknown);
}

void TestStudioState::plannerErrorsAreSaid()
{
    StudioState state;
    QStringList heard;
    listen(state, heard);
    QVERIFY(!state.runPlanner({}));
    QCOMPARE(heard.size(), 1);
    QVERIFY(testing::loadSample(state));
    PlanRequest request;
    request.planner = "clairvoyant";
    heard.clear();
    QVERIFY(!state.runPlanner(request));
    QVERIFY2(heard.value(0).contains(QStringLiteral("dapple")), qPrintable(heard.value(0))); // lists the existing ones
    request.planner = "gpipe";
    request.options["no-such-option"] = "1";
    heard.clear();
    QVERIFY(state.runPlanner(request));
    QTRY_COMPARE(heard.size(), 1);
    QVERIFY2(heard[0].contains(QStringLiteral("no-such-option")), qPrintable(heard[0]));
}

void TestStudioState::aStoppedSearchKeepsItsBest()
{
    StudioState state;
    state.loadModel(QStringLiteral("zoo:amoebanet-36"));
    QTRY_VERIFY_WITH_TIMEOUT(state.model() && !state.loadJob()->running(), 20'000);
    state.loadCluster(QStringLiteral("preset:dapple-b"));
    QTRY_VERIFY_WITH_TIMEOUT(state.subject() && !state.loadJob()->running(), 20'000);
    QStringList heard;
    listen(state, heard);
    PlanRequest request;
    request.planner = "automap";
    request.globalBatch = 512;
    request.options = {{"families", "pp"}, {"episodes", "1000000"}};
    QVERIFY(state.runPlanner(request));
    // Its progress names the best plan once there is one.
    QTRY_VERIFY_WITH_TIMEOUT(state.planJob()->what().contains(QStringLiteral("plan so far")), 20'000);
    state.planJob()->cancel();
    QTRY_VERIFY_WITH_TIMEOUT(!state.planJob()->running(), 20'000);
    QCOMPARE(state.document()->plan.planner.name, std::string("automap"));
    QCOMPARE(state.document()->plan.estimate.at("stopped_early"), 1.0);
    QVERIFY2(heard.value(0).contains(QStringLiteral("stopped early; this is its best plan")),
             qPrintable(heard.value(0)));
    QVERIFY2(state.undoStack()->undoText().contains(QStringLiteral("stopped early")),
             qPrintable(state.undoStack()->undoText()));
}

void TestStudioState::planningAgainKeepsHowThePlanIsTrained()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    PlanRequest request;
    request.planner = "data-parallel";
    request.globalBatch = 8;
    request.precision = plan::Precision::BFloat16;
    request.zero = 1;
    request.optimizer.rule = *update::ConfiguredRule::named("sgd");
    request.optimizer.learningRate = 0.25;
    const auto before = state.document();
    QVERIFY(state.runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(state.document() != before && state.simulationCurrent(), 20'000);
    QCOMPARE(state.document()->plan.precision, plan::Precision::BFloat16);
    QCOMPARE(state.document()->plan.stages[0].zero, 1);
    QVERIFY(state.document()->subject.costs->half());

    PlanRequest last;
    last.planner = "gpipe";
    const PlanRequest next = state.requestLikeDocument(last);
    QCOMPARE(next.planner, std::string("gpipe"));
    QCOMPARE(next.globalBatch, std::int64_t(8));
    QCOMPARE(next.precision, plan::Precision::BFloat16);
    QCOMPARE(next.zero, 1);
    QCOMPARE(next.optimizer.rule.name(), std::string_view("sgd"));
    QCOMPARE(next.optimizer.learningRate, 0.25);

    // A cluster that is edited to what it was costs what it did: the figures stay those of bfloat16.
    const double seconds = state.simulation()->report.iterationSeconds;
    const auto planned = state.document();
    QVERIFY(state.editCluster(QStringLiteral("nothing"), std::make_shared<const cluster::Cluster>(*state.cluster())));
    QTRY_VERIFY_WITH_TIMEOUT(state.document() != planned && state.simulationCurrent(), 20'000);
    QVERIFY(state.document()->subject.costs->half());
    QCOMPARE(state.simulation()->report.iterationSeconds, seconds);
}

/// The exchange belongs to how a plan is trained; what the planner notes of it belongs to the plan.
void TestStudioState::planningAgainKeepsTheExchange()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QStringList heard;
    listen(state, heard);
    QVERIFY(state.notes().empty());
    QVERIFY(testing::planWithAverages(state, "dasgd,local_steps=4,delay=4,merge=convex"));
    const plan::Exchange exchange = state.document()->plan.exchange;
    QVERIFY(exchange.averages());
    QCOMPARE(exchange.averaging.localSteps, std::int64_t{4});
    QVERIFY(!state.notes().empty());
    const std::size_t notes = state.notes().size();
    QVERIFY2(heard.value(0).contains(QStringLiteral("keeps 25 % of the steps' progress")), qPrintable(heard.value(0)));
    const auto planned = state.document();
    QVERIFY(state.editPlan(QStringLiteral("rate"), [](plan::Plan &plan) { plan.optimizer.learningRate = 0.5; }));
    QVERIFY(state.notes().empty());
    state.undoStack()->undo();
    QCOMPARE(state.document(), planned);
    QCOMPARE(state.notes().size(), notes);

    PlanRequest again = state.requestLikeDocument({});
    QVERIFY(again.exchange.has_value());
    QCOMPARE(plan::textOf(again.exchange->exchange), plan::textOf(exchange));
    again.planner = "data-parallel";
    QVERIFY(state.runPlanner(again));
    QTRY_VERIFY_WITH_TIMEOUT(state.document() != planned && state.simulationCurrent(), 20'000);
    QCOMPARE(plan::textOf(state.document()->plan.exchange), plan::textOf(exchange));

    QVERIFY(state.editPlan(QStringLiteral("sum"), [](plan::Plan &plan) { plan.exchange = {}; }));
    QVERIFY(!state.requestLikeDocument(again).exchange);
}

/// A plan that trains by ADMM alone has no optimizer for the next plan; one that goes on by gradients has.
void TestStudioState::planningAgainBehindAdmm()
{
    StudioState state;
    QStringList heard;
    listen(state, heard);
    state.loadModel(QStringLiteral("zoo:rnn"));
    state.loadCluster(QStringLiteral("local:2"));
    QTRY_VERIFY_WITH_TIMEOUT(state.subject(), 20'000);
    const auto planned = [&state](const PlanRequest &request) {
        const auto before = state.document();
        return state.runPlanner(request)
            && QTest::qWaitFor([&] { return state.document() != before && state.simulationCurrent(); }, 20'000);
    };
    PlanRequest iterations;
    iterations.planner = "admm";
    iterations.globalBatch = 1198;
    iterations.options = {{"workers", "2"}};
    QVERIFY2(planned(iterations), qPrintable(heard.join(QLatin1Char('\n'))));
    QVERIFY(state.document()->plan.admm && !state.document()->plan.then);
    PlanRequest last;
    last.planner = "admm"; // planning again keeps what the plan has
    QCOMPARE(state.requestLikeDocument(last).options.at("workers"), std::string("2"));
    QCOMPARE(state.requestLikeDocument(last).options.at("parallel"), std::string("synchronous"));
    last.planner = "data-parallel";
    last.optimizer.learningRate = 0.25;
    const PlanRequest next = state.requestLikeDocument(last);
    QCOMPARE(next.optimizer.rule.name(), std::string_view("adamw"));
    QCOMPARE(next.optimizer.learningRate, 0.25);
    QCOMPARE(next.globalBatch, std::int64_t{1198});
    QVERIFY2(planned(next), qPrintable(heard.join(QLatin1Char('\n'))));
    QCOMPARE(state.document()->plan.optimizer.learningRate, 0.25);

    iterations.options["switch_after"] = "3";
    iterations.optimizer.rule = *update::ConfiguredRule::named("sgd");
    iterations.optimizer.learningRate = 0.125;
    QVERIFY2(planned(iterations), qPrintable(heard.join(QLatin1Char('\n'))));
    QVERIFY(state.document()->plan.then);
    PlanRequest behind = state.requestLikeDocument({});
    QCOMPARE(behind.optimizer.rule.name(), std::string_view("sgd"));
    QCOMPARE(behind.optimizer.learningRate, 0.125);
    behind.planner = "data-parallel";
    QVERIFY2(planned(behind), qPrintable(heard.join(QLatin1Char('\n'))));
    QCOMPARE(state.document()->plan.optimizer.rule.name(), std::string_view("sgd"));
}

/// Planner gnn reads the graph that the request names; the graph stays at hand, for the next request, too.
void TestStudioState::aGraphIsPlannedFor()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("blocks"));
    auto graph = gnn::blockModelGraph({}); // 16 features, which zoo:graphsage-blocks takes
    QVERIFY(graph.ok());
    graph->part = *gnn::partitionOf(*graph, {gnn::PartitionMethod::Hash, 2, 1, false});
    QVERIFY(data::writeGraphFolder(*graph, {"hash", 1, false}, {}, path.toStdString()));
    QCOMPARE(classifyFile(path), FileKind::Graph);

    StudioState state;
    QStringList heard;
    listen(state, heard);
    state.loadModel(QStringLiteral("zoo:graphsage-blocks"));
    state.loadCluster(QStringLiteral("local:2"));
    QTRY_VERIFY_WITH_TIMEOUT(state.subject(), 20'000);
    PlanRequest request;
    request.planner = "gnn";
    request.globalBatch = 32;
    request.options = {{"search", "initial"}};
    QVERIFY(state.runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(!heard.isEmpty(), 20'000);
    QVERIFY2(heard.back().contains(QStringLiteral("choose its folder")), qPrintable(heard.back()));
    request.graph = folder.path(); // has no graph
    heard.clear();
    QTRY_VERIFY_WITH_TIMEOUT(!state.planJob()->running(), 20'000);
    QVERIFY(state.runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(!heard.isEmpty(), 20'000);
    QVERIFY2(heard.back().contains(QStringLiteral("graph.json")), qPrintable(heard.back()));
    QVERIFY(!state.document() && !state.graph().data);

    request.graph = path;
    QTRY_VERIFY_WITH_TIMEOUT(!state.planJob()->running(), 20'000);
    QVERIFY(state.runPlanner(request));
    QTRY_VERIFY2_WITH_TIMEOUT(state.document() != nullptr, qPrintable(heard.join(QLatin1Char('\n'))), 20'000);
    QVERIFY(state.document()->plan.job);
    QCOMPARE(state.document()->plan.job->graph.nodes, graph->nodes());
    QVERIFY(state.graphIsOfDocument());
    QCOMPARE(state.requestLikeDocument({}).graph, path);

    // Another one is opened beside it.
    QVERIFY(data::writeGraphFolder(gnn::karateClub(), {}, {}, folder.filePath(QStringLiteral("club")).toStdString()));
    heard.clear();
    QVERIFY(state.open(folder.filePath(QStringLiteral("club"))));
    QTRY_COMPARE_WITH_TIMEOUT(state.graph().parts.size(), std::size_t{1}, 20'000);
    QVERIFY(!state.graphIsOfDocument());
    QVERIFY2(heard.value(0).contains(QStringLiteral("34 nodes and 78 edges"))
                 && heard.value(0).contains(QStringLiteral("made for another one")),
             qPrintable(heard.value(0)));
    // It is proposed next, whatever was planned for before.
    QCOMPARE(state.requestLikeDocument(request).graph, folder.filePath(QStringLiteral("club")));
}

/// 0 - 1 - 2 - 3 - 4 and 1 - 4, in two parts; by hand. The hub is the first of the nodes with three neighbours.
void TestStudioState::partsOfAGraph()
{
    gnn::GraphData graph;
    graph.labels = {0, 1, gnn::GraphData::kNoLabel, 0, 1};
    gnn::setEdges(graph, 5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {1, 4}});
    graph.part = {0, 0, 0, 1, 1};
    const std::vector<GraphPart> parts = partsOf(graph);
    QCOMPARE(parts.size(), std::size_t{2});
    QCOMPARE(parts[0].nodes, std::int64_t{3});
    QCOMPARE(parts[0].labelled, std::int64_t{2});
    QCOMPARE(parts[0].edges, std::int64_t{4}); // 0-1, 1-2, 2-3, 1-4
    QCOMPARE(parts[0].cut, std::int64_t{2});   // 2-3, 1-4
    QCOMPARE(parts[0].hubs, std::int64_t{1});
    QCOMPARE(parts[1].nodes, std::int64_t{2});
    QCOMPARE(parts[1].edges, std::int64_t{3});
    QCOMPARE(parts[1].cut, std::int64_t{2});
    QCOMPARE(parts[1].hubs, std::int64_t{0});
    const auto blocks = gnn::blockModelGraph({});
    const auto cut = *gnn::partitionOf(*blocks, {gnn::PartitionMethod::Hash, 3, 1, false});
    gnn::GraphData shared = *blocks;
    shared.part = cut;
    std::int64_t nodes = 0, ends = 0, hubs = 0;
    for (const GraphPart &part : partsOf(shared)) {
        nodes += part.nodes;
        ends += part.cut;
        hubs += part.hubs;
    }
    QCOMPARE(nodes, blocks->nodes());
    QCOMPARE(ends, 2 * gnn::partitionFigures(shared, cut).cutEdges);
    QCOMPARE(hubs, blocks->nodes() / 100);
}

void TestStudioState::aLossIsChosenForAModelWithoutOne()
{
    StudioState state;
    QStringList heard;
    listen(state, heard);
    const QString model = QStringLiteral(PLANLOOM_SOURCE_DIR "/tests/golden/losses/denoise/model.onnx");
    QVERIFY(state.loadModel(model, {"mse"}));
    QTRY_VERIFY_WITH_TIMEOUT(state.model() && !state.loadJob()->running(), 20'000);
    QVERIFY2(state.model()->noLoss.empty(), state.model()->noLoss.c_str());
    QCOMPARE(state.modelLoss(), (std::vector<std::string>{"mse"}));
    const auto before = state.model();
    QVERIFY(state.loadModel(model, {"nonsense"}));
    QTRY_VERIFY_WITH_TIMEOUT(!heard.isEmpty(), 20'000);
    QVERIFY2(heard.back().contains(QStringLiteral("'nonsense' is no loss")), qPrintable(heard.back()));
    QCOMPARE(state.model(), before);
}

void TestStudioState::aRunIsFollowed()
{
    testing::FakeRun run;
    StudioState state;
    state.setClientFactory(testing::fakeAgent(run));
    QVERIFY(testing::loadSample(state));
    QSignalSpy appended(&state, &StudioState::measuredAppended);
    agent::TrainRequest request;
    request.settings.steps = 5;
    QVERIFY(state.startRun(request));
    QVERIFY(state.run().active());
    QVERIFY(!state.startRun(request)); // one at a time
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Finished, 20'000);
    QCOMPARE(state.run().steps.size(), std::size_t(5));
    QVERIFY(state.run().summary.has_value());
    QCOMPARE(state.measured().records.size(), 5 * state.simulation()->trace.records.size());
    QVERIFY(appended.count() >= 1);
    QCOMPARE(state.run().id, QStringLiteral("fake-1"));
}

void TestStudioState::aRunIsComparedWithItsOwnPlanOnly()
{
    testing::FakeRun run;
    StudioState state;
    state.setClientFactory(testing::fakeAgent(run));
    QVERIFY(testing::loadSample(state));
    const auto trained = state.document();
    const double predicted = state.simulation()->report.iterationSeconds;
    QVERIFY(state.startRun({}));
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Finished, 20'000);
    QVERIFY(state.runIsOfDocument() && state.measuredIsOfDocument());

    const std::size_t boundary = trained->plan.stages[0].lastLayer;
    QVERIFY(state.replacePlan(QStringLiteral("move"), boundaryMoved(trained->plan, boundary - 1)));
    QTRY_VERIFY(state.simulationCurrent());
    QVERIFY(state.simulation()->report.iterationSeconds != predicted);
    QVERIFY(!state.runIsOfDocument() && !state.measuredIsOfDocument());
    QCOMPARE(state.measuredOrigin().simulation->report.iterationSeconds, predicted); // its own
    QVERIFY2(state.measuredOrigin().name.contains(QStringLiteral("gpt-nano")), qPrintable(state.measuredOrigin().name));

    state.undoStack()->undo();
    QVERIFY(state.runIsOfDocument() && state.measuredIsOfDocument());
    // What does not decide the simulation makes no other plan.
    QVERIFY(state.editPlan(QStringLiteral("rate"), [](plan::Plan &plan) { plan.optimizer.learningRate *= 2; }));
    QVERIFY(state.measuredIsOfDocument());
}

void TestStudioState::tracesKnowTheirPlan()
{
    QTemporaryDir folder;
    const QString named = folder.filePath(QStringLiteral("named.pltrace"));
    const QString unnamed = folder.filePath(QStringLiteral("unnamed.pltrace"));
    StudioState state;
    QVERIFY(testing::loadSample(state));
    trace::Trace trace = state.simulation()->trace;
    QVERIFY(trace::writeTrace(trace, unnamed.toStdString()));
    trace.plan = plan::fingerprint(*state.document());
    QVERIFY(trace::writeTrace(trace, named.toStdString()));

    QVERIFY(state.openTrace({unnamed}));
    QTRY_VERIFY_WITH_TIMEOUT(!state.measured().ranks.empty(), 20'000);
    QVERIFY(!state.measuredIsOfDocument()); // nothing says so
    QVERIFY(!state.measuredOrigin().known());
    QVERIFY(state.openTrace({named}));
    QTRY_VERIFY_WITH_TIMEOUT(state.measuredIsOfDocument(), 20'000);
    QCOMPARE(state.measuredOrigin().simulation, state.simulation());
    QVERIFY(state.editPlan(QStringLiteral("recompute"),
                           [](plan::Plan &plan) { plan.stages[0].recompute = plan::Recompute::Full; }));
    QVERIFY(!state.measuredIsOfDocument());

    // A new cluster is hashed with the simulation; on the way back nothing waits.
    state.undoStack()->undo();
    QVERIFY(state.measuredIsOfDocument());
    QVERIFY(state.editCluster(QStringLiteral("same"), std::make_shared<const cluster::Cluster>(*state.cluster())));
    QVERIFY(!state.measuredIsOfDocument());
    QTRY_VERIFY_WITH_TIMEOUT(state.measuredIsOfDocument(), 20'000);
    state.undoStack()->undo();
    QVERIFY(state.measuredIsOfDocument());
    QVERIFY(state.editPlan(QStringLiteral("recompute"),
                           [](plan::Plan &plan) { plan.stages[0].recompute = plan::Recompute::Full; }));

    // Beside its plan, as in a run's folder, the prediction of that plan is made.
    QVERIFY(plan::writePlan({boundaryMoved(state.document()->plan, 1), state.document()->subject},
                            folder.filePath(QStringLiteral("plan.json")).toStdString()));
    const QString ofRun = folder.filePath(QStringLiteral("trace.pltrace"));
    QVERIFY(QFile::copy(unnamed, ofRun));
    QVERIFY(state.openTrace({ofRun}));
    QTRY_VERIFY_WITH_TIMEOUT(state.measuredOrigin().known() && state.measuredOrigin().fingerprint != trace.plan,
                             20'000);
    QTRY_VERIFY_WITH_TIMEOUT(state.measuredOrigin().simulation, 20'000);
    QVERIFY(!state.measuredIsOfDocument());
    QVERIFY(state.measuredOrigin().simulation != state.simulation());
}

void TestStudioState::aRunThatCannotStartKeepsTheEarlierOne()
{
    testing::FakeRun run;
    StudioState state;
    state.setClientFactory(testing::fakeAgent(run));
    QVERIFY(testing::loadSample(state));
    QVERIFY(state.startRun({}));
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Finished, 20'000);
    const std::size_t steps = state.run().steps.size();
    const std::size_t records = state.measured().records.size();
    QVERIFY(steps > 0 && records > 0);
    QStringList heard;
    listen(state, heard);
    QSignalSpy reset(&state, &StudioState::measuredReset);
    run.refuse = true;
    QVERIFY(state.startRun({}));
    QTRY_VERIFY_WITH_TIMEOUT(!state.run().active(), 20'000);
    QVERIFY2(heard.value(0).contains(QStringLiteral("already holds a run")), qPrintable(heard.value(0)));
    QCOMPARE(state.run().phase, RunData::Phase::Finished);
    QCOMPARE(state.run().steps.size(), steps);
    QCOMPARE(state.measured().records.size(), records);
    QVERIFY(state.measuredIsOfDocument());
    QCOMPARE(reset.count(), 0); // the picture never went
    run.refuse = false;
    QVERIFY(state.startRun({}));
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Finished, 20'000);
    QVERIFY(reset.count() >= 1);
}

void TestStudioState::theReportBeforeIsOfTheSameSubject()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("nano.json"));
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QVERIFY(state.savePlan(path));
    QVERIFY(state.editPlan(QStringLiteral("recompute"),
                           [](plan::Plan &plan) { plan.stages[0].recompute = plan::Recompute::Full; }));
    QTRY_VERIFY(state.simulationCurrent());
    QVERIFY(state.previousReport().has_value());
    const auto before = state.document();
    QVERIFY(state.openPlan(path));
    QTRY_VERIFY_WITH_TIMEOUT(state.document() && state.document() != before && state.simulationCurrent(), 20'000);
    QVERIFY(!state.previousReport().has_value());
}

void TestStudioState::alternativesFollowUndo()
{
    StudioState state;
    QVERIFY(testing::loadSample(state));
    QVERIFY(state.alternatives().empty());
    const auto before = state.document();
    PlanRequest request;
    request.planner = "dapple";
    request.globalBatch = 8;
    QVERIFY(state.runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(state.document() != before && !state.planJob()->running(), 60'000);
    const std::size_t found = state.alternatives().size();
    QVERIFY(found > 0);
    state.undoStack()->undo();
    QCOMPARE(state.document(), before);
    QVERIFY(state.alternatives().empty());
    state.undoStack()->redo();
    QCOMPARE(state.alternatives().size(), found);
}

void TestStudioState::alternativesDifferInMoreThanNames()
{
    StudioState state;
    state.loadModel(QStringLiteral("zoo:gpt-nano"));
    state.loadCluster(QStringLiteral("preset:h100-8"));
    PlanRequest request;
    request.planner = "auto";
    request.globalBatch = 64;
    state.whenLoaded([&] { state.runPlanner(request); });
    QTRY_VERIFY_WITH_TIMEOUT(state.document() && !state.planJob()->running(), 60'000);
    std::set<std::string> keys{plan::simulationKey(state.document()->plan)};
    for (const planners::Candidate &each : state.alternatives())
        QVERIFY2(keys.insert(plan::simulationKey(each.plan)).second, plan::notation(each.plan).c_str());
}

void TestStudioState::aRunCanBeStopped()
{
    testing::FakeRun run;
    run.hold = true;
    StudioState state;
    state.setClientFactory(testing::fakeAgent(run));
    QVERIFY(testing::loadSample(state));
    QVERIFY(state.startRun({}));
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Running, 20'000);
    state.stopRun();
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Stopped, 20'000);
    QVERIFY(!state.run().active());
}

void TestStudioState::aRunThatFailsSaysWhy()
{
    testing::FakeRun run;
    run.failAt = 2;
    StudioState state;
    state.setClientFactory(testing::fakeAgent(run));
    QVERIFY(testing::loadSample(state));
    QStringList heard;
    listen(state, heard);
    QVERIFY(state.startRun({}));
    QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Failed, 20'000);
    QVERIFY(state.run().error.contains(QStringLiteral("rank 1")));
    QVERIFY(heard.value(0).contains(QStringLiteral("rank 1")));
    QCOMPARE(state.run().steps.size(), std::size_t(2)); // what was done stays
}

void TestStudioState::destructionDuringARun()
{
    testing::FakeRun run;
    run.hold = true;
    {
        StudioState state;
        state.setClientFactory(testing::fakeAgent(run));
        QVERIFY(testing::loadSample(state));
        QVERIFY(state.startRun({}));
        QTRY_COMPARE_WITH_TIMEOUT(state.run().phase, RunData::Phase::Running, 20'000);
    }
    QVERIFY(run.hold); // it was stopped, not released
}

PLANLOOM_UI_MAIN(TestStudioState)
#include "tst_studio_state.moc"
