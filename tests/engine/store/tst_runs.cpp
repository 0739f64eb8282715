// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/import.h"
#include "engine/plan/fingerprint.h"
#include "engine/run/settings.h"
#include "engine/store/database.h"
#include "engine/store/migrations.h"
#include "engine/store/run_filter.h"
#include "engine/store/run_reader.h"

#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>

using namespace planloom;
using namespace planloom::store;

namespace {

plan::Document nanoOnOneDevice(plan::Precision precision = plan::Precision::Float32)
{
    const auto model = import::loadModel("zoo:gpt-nano");
    const auto cluster = import::loadCluster("local:1");
    plan::Document document{{}, plan::makeSubject(model->graph, *cluster, nullptr, "zoo:gpt-nano")};
    document.plan.modelName = "gpt-nano";
    document.plan.clusterName = (*cluster)->name();
    document.plan.globalBatch = 8;
    document.plan.microBatches = 1;
    document.plan.precision = precision;
    plan::Stage stage;
    stage.name = "all";
    stage.lastLayer = document.subject.layers().size();
    stage.devices = {DeviceId(0)};
    document.plan.stages = {stage};
    return document;
}

Run listedRun(const char *folder, const char *model, double iteration)
{
    Run run;
    run.folder = folder;
    run.model = model;
    run.plan = "DP";
    run.state = "finished";
    run.startedAt = 1'700'000'000;
    run.steps = 10;
    run.lossLast = 2.5;
    run.iterationSecondsMedian = iteration;
    run.predictedIterationSeconds = iteration * 1.1;
    run.samplesPerSecond = 8 / iteration;
    run.mfu = 0.3;
    run.mfuPrecision = "float32";
    return run;
}

} // namespace

/// Lists of runs: their rows, filters and notes.
class TestRuns : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;
    int m_count = 0;
    std::string fresh() { return m_folder.filePath(QString("w%1.planloom").arg(++m_count)).toStdString(); }

    /// A run of @p document with a median step of 0.5 s; @p seconds: without a summary, its steps so far.
    std::string makeRun(const QString &name, const plan::Document &document, bool ended)
    {
        const QString folder = m_folder.filePath(name);
        QDir().mkpath(folder);
        const auto write = [&](const char *file, const std::string &text) {
            return writeFileAtomically((folder + "/" + file).toStdString(), text).ok();
        };
        run::Request request;
        request.settings.data = "/data";
        request.settings.steps = 3;
        std::string metrics;
        for (std::int64_t step = 0; step < 3; ++step)
            metrics += run::toJson(run::StepMetrics{step, 4.0 - static_cast<double>(step), 0.5, 16}) + "\n";
        run::Summary summary;
        summary.steps = 3;
        summary.lossFirst = 4;
        summary.lossLast = 2;
        summary.iterationSecondsMedian = 0.5;
        summary.predictedIterationSeconds = 0.6;
        const bool written = write("plan.json", plan::toJson(document)) && write("request.json", run::toJson(request))
            && write("metrics.jsonl", metrics) && (!ended || write("summary.json", run::toJson(summary)));
        return written ? folder.toStdString() : std::string();
    }

private Q_SLOTS:
    /// Each is what the work of a sample gives at the speed in samples.
    void speedInTokensAndFlops()
    {
        const plan::ModelWork work = plan::modelWork(nanoOnOneDevice());
        QVERIFY(work.tokensPerSample > 1);
        QVERIFY(work.flopsPerSample > 0);
        QCOMPARE(work.precision, std::string("float32"));
        const plan::Efficiency speed = plan::efficiencyOf(work, 10);
        QCOMPARE(speed.tokensPerSecond, 10 * work.tokensPerSample);
        QCOMPARE(speed.mfu, 10 * work.flopsPerSample / work.peakFlops);
        QCOMPARE(speed.precision, std::string("float32"));
        QCOMPARE(plan::efficiencyOf(work, 0).mfu, 0.0);
        const plan::ModelWork none;
        QCOMPARE(plan::efficiencyOf(none, 10).mfu, 0.0);
        QVERIFY(plan::efficiencyOf(none, 10).precision.empty());
    }

    /// Six times parameters and tokens, and a part for attention and the head: what papers count (2022, appendix B).
    void flopsAreThoseOfPapers()
    {
        const plan::Document document = nanoOnOneDevice();
        const graph::Graph &graph = *document.subject.graph;
        double products = 0; // elements of weights that rows are multiplied by
        for (const graph::Op &op : graph.ops())
            if (op.traits().cost == graph::CostClass::Product)
                for (const TensorId input : op.inputs)
                    if (input.valid() && graph.tensor(input).role == graph::TensorRole::Parameter)
                        products += static_cast<double>(graph.tensor(input).shape.elements(1));
        const plan::ModelWork work = plan::modelWork(document);
        const double dense = 6 * products * work.tokensPerSample;
        QVERIFY2(work.flopsPerSample >= dense && work.flopsPerSample < 1.5 * dense,
                 qPrintable(QString("%1 %2").arg(work.flopsPerSample).arg(dense)));
    }

    void anOlderWorkspaceKeepsItsRuns()
    {
        const std::string path = fresh();
        {
            auto workspace = Workspace::open(path);
            const auto id = workspace->recordRun(listedRun("/runs/old", "gpt-nano", 0.5));
            QVERIFY(workspace->record(*id, std::vector<run::StepMetrics>{{0, 4, 0.5, 16}}, {}).ok());
        }
        { // as schema 6 had it
            auto connection = Connection::open(path);
            QVERIFY(connection
                        ->execute("DROP TABLE run_notes; DROP TABLE run_folders; "
                                  "ALTER TABLE runs DROP COLUMN plan_hash; "
                                  "ALTER TABLE runs DROP COLUMN samples_per_second; "
                                  "ALTER TABLE runs DROP COLUMN tokens_per_second; ALTER TABLE runs DROP COLUMN mfu; "
                                  "ALTER TABLE runs DROP COLUMN mfu_precision; "
                                  "ALTER TABLE runs DROP COLUMN ranks_on_processors; PRAGMA user_version = 6")
                        .ok());
        }
        auto workspace = Workspace::open(path);
        QVERIFY2(workspace.ok(), workspace ? "" : workspace.error().text().c_str());
        const auto runs = workspace->listRuns();
        QCOMPARE(runs->size(), std::size_t{1});
        QCOMPARE(runs->front().model, std::string("gpt-nano"));
        QCOMPARE(runs->front().iterationSecondsMedian, 0.5);
        QCOMPARE(runs->front().samplesPerSecond, 0.0);
        QCOMPARE(workspace->steps(runs->front().id)->size(), std::size_t{1});
        QVERIFY(workspace->annotateRun("/runs/old", "a", "b").ok());
    }

    void notesStayWithTheFolder()
    {
        auto workspace = Workspace::open(fresh());
        QVERIFY(workspace->recordRun(listedRun("/runs/1", "gpt2", 0.5)).ok());
        QVERIFY(workspace->annotateRun("/runs/1", "best keep", "it's \"ä\"").ok());
        QCOMPARE(workspace->listRuns()->front().tags, std::string("best keep"));
        QVERIFY(workspace->recordRun(listedRun("/runs/1", "gpt2", 0.4)).ok()); // the run is repeated
        const auto again = workspace->listRuns();
        QCOMPARE(again->front().iterationSecondsMedian, 0.4);
        QCOMPARE(again->front().notes, std::string("it's \"ä\""));
        QVERIFY(workspace->annotateRun("/runs/1", "", "other").ok());
        QCOMPARE(workspace->run(again->front().id)->notes, std::string("other"));
        QVERIFY(workspace->removeRun(again->front().id).ok());
        QVERIFY(workspace->recordRun(listedRun("/runs/1", "gpt2", 0.4)).ok());
        QCOMPARE(workspace->listRuns()->front().notes, std::string());
    }

    /// A run that was recorded step by step keeps its steps when its folder is read.
    void mergingKeepsStepsAndStart()
    {
        auto workspace = Workspace::open(fresh());
        const auto id = workspace->recordRun(listedRun("/runs/1", "gpt2", 0.5));
        QVERIFY(workspace->record(*id, std::vector<run::StepMetrics>{{0, 4, 0.5, 16}}, {}).ok());
        Run read = listedRun("/runs/1", "gpt2", 0.25);
        read.startedAt = 0;
        QVERIFY(workspace->mergeRuns(std::vector<Run>{read, listedRun("/runs/2", "mlp", 1)}).ok());
        const auto runs = workspace->listRuns();
        QCOMPARE(runs->size(), std::size_t{2});
        const Run first = *workspace->run(*id);
        QCOMPARE(first.iterationSecondsMedian, 0.25);
        QCOMPARE(first.startedAt, std::int64_t{1'700'000'000});
        QCOMPARE(workspace->steps(*id)->size(), std::size_t{1});
    }

    void foldersOfRunsAreRead()
    {
        const plan::Document document = nanoOnOneDevice();
        const std::string ended = makeRun("lab/a/ended", document, true);
        const std::string open = makeRun("lab/open", document, false);
        QVERIFY(!ended.empty() && !open.empty());
        NoProgress progress;
        const std::string lab = m_folder.filePath("lab").toStdString();
        QCOMPARE(findRuns(lab, progress), (std::vector<std::string>{ended, open}));
        RunReader reader;
        const auto run = reader.read(ended);
        QVERIFY2(run.ok(), run ? "" : run.error().text().c_str());
        QCOMPARE(run->state, std::string("finished"));
        QCOMPARE(run->model, std::string("gpt-nano"));
        QCOMPARE(run->planHash, plan::fingerprint(document));
        QCOMPARE(run->samplesPerSecond, 16.0); // 8 samples in half a second; the summary has none
        QCOMPARE(run->tokensPerSecond, 16 * plan::modelWork(document).tokensPerSample);
        QVERIFY(run->mfu > 0);
        const auto unfinished = reader.read(open);
        QCOMPARE(unfinished->state, std::string("unfinished"));
        QCOMPARE(unfinished->steps, std::int64_t{3});
        QCOMPARE(unfinished->lossLast, 2.0);
        QCOMPARE(reader.read(lab).error().code, ErrorCode::NotFound);

        auto workspace = Workspace::open(fresh());
        QVERIFY(workspace->addRunFolder(lab).ok());
        QCOMPARE(*workspace->runFolders(), std::vector<std::string>{lab});
        const auto messages = refreshRuns(*workspace, progress);
        QVERIFY(messages.ok() && messages->empty());
        QCOMPARE(workspace->listRuns()->size(), std::size_t{2});
        QVERIFY(workspace->annotateRun(open, "mine", "").ok());
        QVERIFY(!makeRun("lab/open", document, true).empty()); // it ends
        QVERIFY(refreshRuns(*workspace, progress).ok());
        const auto runs = workspace->listRuns();
        QCOMPARE(runs->size(), std::size_t{2});
        for (const Run &each : *runs)
            QCOMPARE(each.state, std::string("finished"));
        QVERIFY(std::ranges::any_of(*runs, [](const Run &each) { return each.tags == "mine"; }));
    }

    void aFolderThatCannotBeReadIsSaid()
    {
        const std::string bad = makeRun("broken/run", nanoOnOneDevice(), true);
        QVERIFY(writeFileAtomically(bad + "/plan.json", "{}").ok());
        auto workspace = Workspace::open(fresh());
        QVERIFY(workspace->addRunFolder(m_folder.filePath("broken").toStdString()).ok());
        NoProgress progress;
        const auto messages = refreshRuns(*workspace, progress);
        QVERIFY(messages.ok());
        QCOMPARE(messages->size(), std::size_t{1});
        QVERIFY2(messages->front().find("plan.json") != std::string::npos, messages->front().c_str());
        QVERIFY(workspace->listRuns()->empty());
    }

    void filters_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<int>("kept"); ///< bits: gpt-nano 0.05 s, gpt2 0.5 s
        QTest::newRow("nothing") << "" << 3;
        QTest::newRow("word") << "NANO" << 1;
        QTest::newRow("two words") << "runs gpt2" << 2;
        QTest::newRow("field") << "model:gpt" << 3;
        QTest::newRow("field of another") << "model:runs" << 0;
        QTest::newRow("milliseconds") << "iteration>100ms" << 2;
        QTest::newRow("at most") << "iteration<=0.05" << 1;
        QTest::newRow("equal") << "samples:160" << 1;
        QTest::newRow("percent") << "mfu>=30% mfu<31%" << 3;
        QTest::newRow("error of the prediction") << "error>9%" << 3;
        QTest::newRow("thousands") << "samples<0.1k" << 2;
        QTest::newRow("not known") << "tokens<1M" << 0;
        QTest::newRow("date") << "started>2023-11-13" << 3;
        QTest::newRow("date, none") << "started>2023-11-20" << 0;
        QTest::newRow("quoted") << "notes:\"a b\"" << 1;
    }

    void filters()
    {
        QFETCH(QString, text);
        QFETCH(int, kept);
        Run nano = listedRun("/runs/first", "gpt-nano", 0.05);
        nano.notes = "x A B y";
        const Run gpt = listedRun("/runs/second", "gpt2", 0.5);
        const auto filter = RunFilter::parse(text.toStdString());
        QVERIFY2(filter.ok(), filter ? "" : filter.error().text().c_str());
        QCOMPARE((filter->matches(nano) ? 1 : 0) | (filter->matches(gpt) ? 2 : 0), kept);
    }

    void badFilters_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<QString>("says");
        QTest::newRow("field") << "speed>1"
                               << "there is no field 'speed'; fields are name, model";
        QTest::newRow("figure") << "mfu>fast"
                                << "'fast' is no figure";
        QTest::newRow("unit") << "iteration>3parsec"
                              << "'3parsec' is no figure";
        QTest::newRow("no value") << "model:"
                                  << "has no value";
    }

    void badFilters()
    {
        QFETCH(QString, text);
        QFETCH(QString, says);
        const auto filter = RunFilter::parse(text.toStdString());
        QVERIFY(!filter.ok());
        QCOMPARE(filter.error().code, ErrorCode::BadInput);
        QVERIFY2(QString::fromStdString(filter.error().message).contains(says), filter.error().message.c_str());
    }

    void fieldsAreShown()
    {
        Run run = listedRun("/runs/first", "gpt-nano", 0.05);
        const auto shown = [&](const char *key) { return textOf(*findRunField(key), run); };
        QCOMPARE(shown("name"), std::string("first"));
        QCOMPARE(shown("iteration"), std::string("50 ms"));
        QCOMPARE(shown("mfu"), std::string("30 % fp32"));
        QCOMPARE(shown("error"), std::string("+10.0 %"));
        QCOMPARE(shown("tokens"), std::string("–"));
        QCOMPARE(shown("memory_error"), std::string("–"));
        run.peakBytesPredicted = 980;
        run.peakBytesMeasured = 1000;
        QCOMPARE(shown("memory_error"), std::string("-2.0 %"));
        run.ranksOnProcessors = 1; // then its times say nothing of the plan's devices
        QCOMPARE(shown("error"), std::string("–"));
        run.steps = 0;
        QCOMPARE(shown("loss"), std::string("–"));
    }
};

QTEST_GUILESS_MAIN(TestRuns)
#include "tst_runs.moc"
