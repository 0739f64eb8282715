// SPDX-License-Identifier: GPL-3.0-or-later
// Records of actions: what is written, what is read, and that playing one does again what was done.
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "engine/base/files.h"
#include "ui/script/script_tools.h"
#include "ui/script/script_values.h"
#include "ui/shell/main_window.h"
#include "ui/state/cluster_parts.h"
#include "ui/state/plan_export.h"
#include "ui/theme/theme.h"
#include "ui/timeline/timeline_view.h"

#include <QFile>
#include <QImage>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

class TestScript : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();
    void wordsAreQuoted_data();
    void wordsAreQuoted();
    void wrongLinesAreSaid_data();
    void wrongLinesAreSaid();
    void searchesAreReadBack();
    void trainingsAreReadBack();
    void patchesMakeThePlan();
    void aSessionIsPlayedAgain();
    void whatIsOpenIsTheBeginning();
    void aRunIsPlayedAgain();
    void aStoppedRunHasItsSteps();
    void clustersArePlayedAgain();
    void refusalsEndTheScript_data();
    void refusalsEndTheScript();
    void whatEditsIsRecordedOnce();
    void plansOnOtherClustersAreFoundAgain();
    void editsOfAnOpenedPlanBeginThere();
    void searchesWithoutAPlanHaveNoLine_data();
    void searchesWithoutAPlanHaveNoLine();
    void aRunOfBeforeHasNoLine();
    void importsAreRecordedOnce();
    void namesKeepTheirBlanks();
    void actsWaitWithoutALimit();
    void picturesAreTaken();
    void aClosedWindowKeepsItsRecord();

private:
    /// Records @p act in the window and returns the script.
    QString recorded(const std::function<void()> &act);
    /// Plays a script in a new window; empty, or what went wrong.
    QString played(const QString &script);
    void newWindow();
    [[nodiscard]] QAction *command(const QString &id) const;
    [[nodiscard]] bool settle();

    std::unique_ptr<testing::OwnSettings> m_settings;
    QTemporaryDir m_folder;
    testing::FakeRun m_run;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<MainWindow> m_window;
    ScriptTools *m_tools = nullptr;
};

void TestScript::initTestCase()
{
    m_settings = std::make_unique<testing::OwnSettings>();
    applyTheme(*qApp, ThemeKind::Light);
}

void TestScript::newWindow()
{
    m_window.reset();
    m_state = std::make_unique<StudioState>();
    m_state->setClientFactory(testing::fakeAgent(m_run));
    m_window = std::make_unique<MainWindow>(m_state.get());
    m_window->setAsks(false);
    m_tools = new ScriptTools(m_state.get(), m_window.get());
    m_window->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_window.get()));
}

void TestScript::init()
{
    if (!m_window)
        newWindow();
}

void TestScript::cleanup()
{
    if (!m_state->model() && !m_state->cluster()) // nothing was done in it: the next function takes it
        return;
    m_window.reset();
    m_state.reset();
}

QAction *TestScript::command(const QString &id) const
{
    for (const NamedAction &each : m_window->namedActions())
        if (each.id() == id)
            return each.action;
    return nullptr;
}

bool TestScript::settle()
{
    bool done = false;
    m_window->whenSettled([&done] { done = true; });
    return QTest::qWaitFor([&done] { return done; }, 30'000);
}

QString TestScript::recorded(const std::function<void()> &act)
{
    command(QStringLiteral("tools.record"))->trigger();
    if (!m_tools->recording() || !command(QStringLiteral("tools.record"))->isChecked())
        return QStringLiteral("not recording");
    act();
    if (!settle())
        return QStringLiteral("not settled");
    const QString path = m_folder.filePath(QStringLiteral("actions.planloom"));
    QSignalSpy written(m_tools, &ScriptTools::written);
    m_tools->stopRecording(path);
    if (!written.wait(30'000))
        return QStringLiteral("not written: ") + m_window->messageBar()->text();
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

QString TestScript::played(const QString &script)
{
    const QString path = m_folder.filePath(QStringLiteral("played.planloom"));
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(script.toUtf8()) < 0)
        return QStringLiteral("cannot be written");
    file.close();
    newWindow();
    ScriptPlayer player(m_state.get(), m_window.get());
    QSignalSpy finished(&player, &ScriptPlayer::finished);
    if (const Status status = player.play(path); !status)
        return QString::fromStdString(status.error().text()).remove(m_folder.path() + QLatin1Char('/'));
    if (finished.isEmpty() && !finished.wait(60'000))
        return QStringLiteral("no end");
    QTest::qWait(60); // three polls
    if (finished.size() != 1)
        return QStringLiteral("it goes on behind its end");
    return player.failure().remove(m_folder.path() + QLatin1Char('/'));
}

void TestScript::wordsAreQuoted_data()
{
    QTest::addColumn<QString>("word");
    QTest::addColumn<QString>("text");
    QTest::newRow("plain") << "view=plan"
                           << "open view=plan";
    QTest::newRow("blank") << "/my data/a.json"
                           << "open \"/my data/a.json\"";
    QTest::newRow("json") << "[{\"op\":\"test\"}]"
                          << "open '[{\"op\":\"test\"}]'";
    QTest::newRow("both") << "it's \"so\""
                          << "open \"it's \\\"so\\\"\"";
    QTest::newRow("lines") << "a\nb"
                           << "open \"a\\nb\"";
    QTest::newRow("empty") << ""
                           << "open \"\"";
    QTest::newRow("comment") << "#1"
                             << "open \"#1\"";
}

void TestScript::wordsAreQuoted()
{
    QFETCH(QString, word);
    QFETCH(QString, text);
    QCOMPARE(lineText({QStringLiteral("open"), {word}, 0}), text);
    const auto lines =
        readScript(QStringLiteral("# comment\n\nplanloom-script 1\n%1 # more\n").arg(text), QStringLiteral("f"), {});
    QVERIFY2(lines, lines ? "" : lines.error().text().c_str());
    QCOMPARE(lines->size(), std::size_t{1});
    QCOMPARE(lines->front().words, QStringList{word});
    QCOMPARE(lines->front().number, 4);
}

void TestScript::wrongLinesAreSaid_data()
{
    QTest::addColumn<QString>("line");
    QTest::addColumn<QString>("said");
    QTest::newRow("verb") << "opne zoo:mlp"
                          << "there is no verb 'opne'; use one of open, find-plan";
    QTest::newRow("words") << "edit what"
                           << "'edit' has 1 words behind it; write edit WHAT '[JSON patch]'";
    QTest::newRow("quote") << "open \"zoo:mlp"
                           << "a quotation mark at column 6 has no end; write \" at the end";
    QTest::newRow("blank") << "open \"a\"b"
                           << "there is no blank behind the word that ends at column 8";
    QTest::newRow("command") << "do veiw.timeline"
                             << "there is no command 'veiw.timeline'; did you mean 'view.timeline'?";
    QTest::newRow("no command") << "do x.y.z"
                                << "Edit ▸ Preferences lists them";
    QTest::newRow("dialog") << "do file.open"
                            << "command 'file.open' opens a dialog; write what is chosen in it";
    QTest::newRow("key") << "show stagé=1"
                         << "there is no key 'stagé'; use one of layout, view";
    QTest::newRow("value") << "show stage=one"
                           << "stage=one: give a number of a stage";
    QTest::newRow("view") << "show view=times"
                          << "there is no view 'times'; use one of model";
    QTest::newRow("pair") << "show 1"
                          << "1 is not KEY=VALUE";
    QTest::newRow("planner") << "find-plan dappel batch=8"
                             << "dappel";
    QTest::newRow("batch") << "find-plan dapple batch=0"
                           << "batch=0: give a whole number, 1 or more";
    QTest::newRow("search") << "find-plan dapple size=1"
                            << "size=1: find-plan has the keys batch";
    QTest::newRow("precision") << "find-plan dapple precision=fp8"
                               << "precision=fp8: give fp32 or bf16";
    QTest::newRow("data") << "train steps=3"
                          << "train has no data; write data=FILE";
    QTest::newRow("steps") << "train data=a steps=x"
                           << "steps=x: give a whole number";
    QTest::newRow("patch") << "edit what '{}'"
                           << "the edit is not a JSON patch; write '[{";
    QTest::newRow("picture") << "picture window a.bmp"
                             << "a.bmp: write a file that ends in .png or .svg";
    QTest::newRow("drawing") << "picture window a.svg"
                             << "a.svg: a picture of the window is a .png";
}

void TestScript::wrongLinesAreSaid()
{
    QFETCH(QString, line);
    QFETCH(QString, said);
    const QString path = m_folder.filePath(QStringLiteral("wrong.planloom"));
    const auto refused = [&](const QString &script) {
        QFile file(path);
        if (!file.open(QIODevice::WriteOnly) || file.write(script.toUtf8()) < 0)
            return QStringLiteral("cannot be written");
        file.close();
        ScriptPlayer player(m_state.get(), m_window.get());
        const Status status = player.play(path);
        return status ? QString() : QString::fromStdString(status.error().text());
    };
    const QString why = refused(QStringLiteral("planloom-script 1\nopen zoo:mlp\n%1\n").arg(line));
    QVERIFY2(why.startsWith(path + QStringLiteral(":3: ")) && why.contains(said), qPrintable(why));
    QVERIFY(!m_state->loadJob()->running() && !m_state->model()); // nothing was played
    QVERIFY(refused(QStringLiteral("open zoo:mlp")).contains(QStringLiteral("its first line is planloom-script 1")));
    QVERIFY(refused(QString()).contains(QStringLiteral("the script is empty")));
}

void TestScript::searchesAreReadBack()
{
    Search search;
    search.model = QStringLiteral("zoo:gpt2");
    search.cluster = QStringLiteral("preset:h100-8");
    search.loss = {"mse"};
    search.request.planner = "gpipe";
    search.request.globalBatch = 64;
    search.request.microBatch = 4;
    search.request.options = {{"stages", "2"}, {"note", "a b"}};
    search.request.precision = plan::Precision::BFloat16;
    search.request.zero = 1;
    search.request.exchange = *planners::exchangeRequest("dasgd,local_steps=4,delay=auto");
    search.request.optimizer.learningRate = 0.25;
    const QStringList words = searchWords(search);
    const auto read = searchFromWords(words);
    QVERIFY2(read, read ? "" : read.error().text().c_str());
    QCOMPARE(searchWords(*read), words);
    QVERIFY(read->request.exchange && read->request.exchange->findsDelay);
    QCOMPARE(read->request.optimizer.learningRate, 0.25);
    QCOMPARE(read->request.options, search.request.options);
    QCOMPARE(searchWords({{}, {}, {}, {}}), (QStringList{QStringLiteral("dapple"), QStringLiteral("batch=1")}));
}

void TestScript::trainingsAreReadBack()
{
    run::Settings settings;
    settings.data = "/my data/text";
    settings.steps = 12;
    settings.holdout = 0.05;
    settings.checkpointEvery = 3;
    const QStringList words = trainingWords(settings);
    QCOMPARE(words,
             (QStringList{QStringLiteral("data=/my data/text"), QStringLiteral("steps=12"),
                          QStringLiteral("holdout=0.050000000000000003"), QStringLiteral("checkpoint-every=3")}));
    const auto read = trainingFromWords(words);
    QVERIFY(read);
    QCOMPARE(trainingWords(read->settings), words);
}

void TestScript::patchesMakeThePlan()
{
    QVERIFY(testing::loadSample(*m_state));
    const auto before = m_state->document();
    QVERIFY(m_state->editPlan(QStringLiteral("it's an edit"), [](plan::Plan &plan) {
        plan.stages[0].recompute = plan::Recompute::Full;
        plan.stages[0].lastLayer -= 1;
        plan.stages[1].firstLayer -= 1;
    }));
    const QString patch = planPatch(before.get(), *m_state->document());
    QVERIFY2(patch.size() < 400 && !patch.contains(QLatin1Char('\'')), qPrintable(patch));
    const auto made = patchedPlan(*before, patch);
    QVERIFY2(made, made ? "" : made.error().text().c_str());
    QCOMPARE(plan::simulationKey(*made), plan::simulationKey(m_state->document()->plan));
    QCOMPARE(planPatch(m_state->document().get(), {*made, before->subject}), QStringLiteral("[]"));
    // All of it.
    const auto whole = patchedPlan(*before, planPatch(nullptr, *m_state->document()));
    QVERIFY2(whole, whole ? "" : whole.error().text().c_str());
    QCOMPARE(plan::simulationKey(*whole), plan::simulationKey(m_state->document()->plan));
    const auto wrong = patchedPlan(*before, QStringLiteral("[{\"op\":\"remove\",\"path\":\"/stages/9\"}]"));
    QVERIFY(!wrong);
    QVERIFY2(wrong.error().message.find("does not fit this plan") != std::string::npos, wrong.error().message.c_str());
}

/// Open, search, edit, take back, do again, select, zoom, change the layout, save: afterwards all is as it was.
void TestScript::aSessionIsPlayedAgain()
{
    const QString script = recorded([&] {
        m_window->open({QStringLiteral("zoo:gpt-nano"), QStringLiteral("local:4")});
        QVERIFY(settle());
        PlanRequest request;
        request.planner = "gpipe";
        request.globalBatch = 8;
        m_window->findPlan({}, {}, request);
        QVERIFY(settle());
        QVERIFY(m_state->document());
        for (const std::size_t stage : {0, 1})
            QVERIFY(m_state->editPlan(QStringLiteral("Recompute stage %1").arg(stage), [stage](plan::Plan &plan) {
                plan.stages[stage].recompute = plan::Recompute::Full;
            }));
        m_state->undoStack()->undo();
        m_state->undoStack()->redo();
        m_state->undoStack()->undo();
        QVERIFY(settle());
        m_state->selectStage(StageId(2));
        static_cast<TimelineView *>(m_window->view(QStringLiteral("Timeline")))
            ->canvas()
            ->viewport()
            .showRange(100, 9000);
        command(QStringLiteral("window.layout-compare"))->trigger();
        command(QStringLiteral("view.memory"))->trigger();
        QTest::qWait(600); // what is seen rests
        m_state->select({});
        m_state->selectDevice(m_state->cluster()->devices()[3].id);
    });
    const QStringList lines = script.split(QLatin1Char('\n'));
    QCOMPARE(lines.front(), QStringLiteral("planloom-script 1"));
    for (const char *line :
         {"open zoo:gpt-nano local:4", "find-plan gpipe batch=8", "do window.layout-compare", "do view.memory"})
        QVERIFY2(lines.contains(QLatin1String(line)), qPrintable(script));
    QCOMPARE(lines.filter(QStringLiteral("edit \"Recompute stage ")).size(), 2);
    QCOMPARE(lines.filter(QRegularExpression(QStringLiteral("^undo$"))).size(), 2);
    QCOMPARE(lines.filter(QRegularExpression(QStringLiteral("^redo$"))).size(), 1);
    QCOMPARE(lines.filter(QRegularExpression(QStringLiteral("^edit "))).size(), 2); // the search's plan is no edit
    const std::string key = plan::simulationKey(m_state->document()->plan);
    const ViewFields seen = m_window->viewFields();
    const Selection selected = m_state->selection();

    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why + QLatin1Char('\n') + script));
    QCOMPARE(plan::simulationKey(m_state->document()->plan), key);
    QVERIFY(m_state->undoStack()->canRedo());
    QCOMPARE(m_state->undoStack()->text(1), QStringLiteral("Recompute stage 0"));
    QVERIFY(m_state->selection() == selected);
    for (const char *field : {"layout", "view", "device", "zoom"})
        QCOMPARE(fieldOf(m_window->viewFields(), field), fieldOf(seen, field));
}

void TestScript::whatIsOpenIsTheBeginning()
{
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY(m_state->editPlan(QStringLiteral("before"),
                              [](plan::Plan &plan) { plan.stages[1].recompute = plan::Recompute::Full; }));
    QVERIFY(settle());
    const QString script = recorded([&] {
        QVERIFY(m_state->editPlan(QStringLiteral("then"),
                                  [](plan::Plan &plan) { plan.stages[3].recompute = plan::Recompute::Full; }));
    });
    const std::string key = plan::simulationKey(m_state->document()->plan);
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why + QLatin1Char('\n') + script));
    QCOMPARE(plan::simulationKey(m_state->document()->plan), key);
}

void TestScript::aRunIsPlayedAgain()
{
    QVERIFY(testing::loadSample(*m_state));
    const QString saved = m_folder.filePath(QStringLiteral("run plan.json"));
    QVERIFY(m_state->savePlan(saved));
    const QString script = recorded([&] {
        agent::TrainRequest request;
        request.settings.data = "a text";
        request.settings.steps = 4;
        request.runDir = m_folder.filePath(QStringLiteral("run-1")).toStdString();
        QVERIFY(m_state->startRun(request));
        QTRY_VERIFY(!m_state->run().active());
    });
    QVERIFY2(script.contains(QStringLiteral("\ntrain \"data=a text\" steps=4\n")), qPrintable(script));
    QVERIFY2(script.contains(QStringLiteral("\nopen \"%1\"\n").arg(saved)), qPrintable(script));
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why));
    QCOMPARE(m_state->run().phase, RunData::Phase::Finished);
    QCOMPARE(m_state->run().steps.size(), std::size_t{4});

    m_run.failAt = 1;
    const QString failed = played(script);
    m_run.failAt = -1;
    QVERIFY2(failed.startsWith(QStringLiteral("played.planloom:")) && failed.contains(QStringLiteral("rank 1")),
             qPrintable(failed));
}

void TestScript::aStoppedRunHasItsSteps()
{
    QVERIFY(testing::loadSample(*m_state));
    m_run.hold = true;
    const QString script = recorded([&] {
        agent::TrainRequest request;
        request.settings.data = "a text";
        request.settings.steps = 400;
        QVERIFY(m_state->startRun(request));
        QTRY_COMPARE(m_state->run().phase, RunData::Phase::Running);
        command(QStringLiteral("run.stop"))->trigger();
        QTRY_VERIFY(!m_state->run().active());
    });
    m_run.hold = false;
    QVERIFY2(script.contains(QStringLiteral("steps=1\n")) && !script.contains(QStringLiteral("run.stop")),
             qPrintable(script));
}

void TestScript::clustersArePlayedAgain()
{
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY(settle());
    const QString script = recorded([&] {
        const auto same = cluster::clusterFromJson(cluster::toJson(*m_state->cluster()));
        QVERIFY(same);
        QVERIFY(
            m_state->editCluster(QStringLiteral("The same cluster"), std::make_shared<const cluster::Cluster>(*same)));
    });
    QVERIFY2(script.contains(QStringLiteral("\ncluster \"The same cluster\" '{")), qPrintable(script.left(3000)));
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why));
    QCOMPARE(m_state->undoStack()->undoText(), QStringLiteral("The same cluster"));
}

void TestScript::refusalsEndTheScript_data()
{
    QTest::addColumn<QString>("lines");
    QTest::addColumn<int>("line");
    QTest::addColumn<QString>("said");
    QTest::newRow("file") << "open zoo:mlp\nopen missing.json" << 3 << "missing.json";
    QTest::newRow("no plan") << "edit what '[{\"op\":\"replace\",\"path\":\"/micro_batches\",\"value\":4}]'" << 2
                             << "there is no plan to edit; write open FILE or find-plan first";
    QTest::newRow("no model") << "find-plan dapple batch=8" << 2 << "";
    QTest::newRow("disabled") << "do file.save" << 2 << "command 'file.save' cannot be used now";
    QTest::newRow("nothing to undo") << "undo" << 2 << "command 'edit.undo' cannot be used now";
    QTest::newRow("refused") << "open zoo:gpt-nano local:4\nfind-plan gpipe batch=8\n"
                                "edit what '[{\"op\":\"replace\",\"path\":\"/micro_batches\",\"value\":0}]'"
                             << 4 << "micro";
    QTest::newRow("device") << "open local:2\nshow device=none" << 3 << "there is no device 'none'";
    QTest::newRow("folder") << "picture window no/such/folder/w.png" << 2 << "cannot be written";
}

void TestScript::refusalsEndTheScript()
{
    QFETCH(QString, lines);
    QFETCH(int, line);
    QFETCH(QString, said);
    const QString why = played(QStringLiteral("planloom-script 1\n") + lines + QStringLiteral("\nopen zoo:gpt2\n"));
    QVERIFY2(why.startsWith(QStringLiteral("played.planloom:%1: ").arg(line)) && why.contains(said), qPrintable(why));
    QVERIFY(!why.endsWith(QStringLiteral(": ")));
    QVERIFY(settle());
    QVERIFY(!m_state->model() || m_state->model()->graph->name() != "gpt2"); // the last line was not played
}

/// Commands whose effect is an edit or a search: by hand they are done once, and so they are played.
void TestScript::whatEditsIsRecordedOnce()
{
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY(settle());
    const auto find = [this](const QString &text) -> QAction * {
        for (const NamedAction &each : m_window->namedActions())
            if (each.action->text() == text)
                return each.action;
        return nullptr;
    };
    m_state->selectStage(StageId(0));
    const QString script = recorded([&] {
        QAction *recompute = find(QStringLiteral("Recompute the stage's activations, or keep them"));
        QVERIFY(recompute);
        recompute->trigger(); // done twice it is undone
        QVERIFY(settle());
        const auto before = m_state->document();
        QAction *again = find(QStringLiteral("Plan again on this cluster"));
        QVERIFY(again);
        again->trigger();
        QTRY_VERIFY(m_state->document() != before);
        QVERIFY(settle());
        command(QStringLiteral("view.memory"))->trigger();
    });
    const QStringList lines = script.split(QLatin1Char('\n'));
    QCOMPARE(lines.filter(QRegularExpression(QStringLiteral("^do "))), QStringList{QStringLiteral("do view.memory")});
    const std::string key = plan::simulationKey(m_state->document()->plan);
    const int steps = m_state->undoStack()->count();
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why + QLatin1Char('\n') + script));
    QCOMPARE(plan::simulationKey(m_state->document()->plan), key);
    QCOMPARE(m_state->undoStack()->count(), steps); // the first search is among both
}

/// A plan on a cluster without one of the plan's devices: the cluster alone would be refused.
void TestScript::plansOnOtherClustersAreFoundAgain()
{
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY(settle());
    const QString script = recorded([&] {
        const std::size_t gone[] = {m_state->cluster()->vertexOf(DeviceId(3))};
        auto left = withoutVertices(*m_state->cluster(), gone);
        QVERIFY(left);
        const auto before = m_state->document();
        QVERIFY(m_state->planOnCluster(std::make_shared<const cluster::Cluster>(*std::move(left))));
        QTRY_VERIFY(m_state->document() != before);
    });
    QVERIFY2(script.contains(QStringLiteral("\nplan-again '{")) && !script.contains(QStringLiteral("\ncluster ")),
             qPrintable(script.right(2000)));
    const std::string key = plan::simulationKey(m_state->document()->plan);
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why));
    QCOMPARE(m_state->cluster()->devices().size(), std::size_t{3});
    QCOMPARE(plan::simulationKey(m_state->document()->plan), key);
}

void TestScript::editsOfAnOpenedPlanBeginThere()
{
    QVERIFY(testing::loadSample(*m_state));
    const QString saved = m_folder.filePath(QStringLiteral("opened.json"));
    QVERIFY(m_state->savePlan(saved));
    QVERIFY(m_state->editPlan(QStringLiteral("another"), [](plan::Plan &plan) { plan.microBatches = 1; }));
    QVERIFY(settle());
    const QString script = recorded([&] {
        m_window->open({saved});
        QVERIFY(settle());
        QVERIFY(m_state->editPlan(QStringLiteral("then"),
                                  [](plan::Plan &plan) { plan.stages[1].recompute = plan::Recompute::Full; }));
    });
    const QStringList edits = script.split(QLatin1Char('\n')).filter(QRegularExpression(QStringLiteral("^edit then ")));
    QCOMPARE(edits.size(), 1);
    QVERIFY2(edits.front().contains(QStringLiteral("/stages/1/memory/recompute"))
                 && !edits.front().contains(QStringLiteral("/micro_batches")),
             qPrintable(edits.front()));
    const std::string key = plan::simulationKey(m_state->document()->plan);
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why + QLatin1Char('\n') + script));
    QCOMPARE(plan::simulationKey(m_state->document()->plan), key);
}

void TestScript::searchesWithoutAPlanHaveNoLine_data()
{
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("option");
    QTest::addColumn<QString>("line"); ///< of what stays open; empty: nothing new does
    QTest::newRow("refused") << QString() << "no-such-option" << QString();
    QTest::newRow("refused with a model") << "zoo:mlp"
                                          << "no-such-option"
                                          << "open zoo:mlp";
    QTest::newRow("no model") << "missing.onnx" << QString() << QString();
}

void TestScript::searchesWithoutAPlanHaveNoLine()
{
    QFETCH(QString, model);
    QFETCH(QString, option);
    QFETCH(QString, line);
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY(settle());
    const QString script = recorded([&] {
        PlanRequest request;
        request.planner = "gpipe";
        request.globalBatch = 8;
        if (!option.isEmpty())
            request.options[option.toStdString()] = "1";
        m_window->findPlan(model, {}, request);
        QVERIFY(settle());
        if (!m_state->document()) {
            request.options.clear();
            m_window->findPlan({}, {}, request);
            QVERIFY(settle());
        }
        QVERIFY(m_state->document());
        QVERIFY(m_state->editPlan(QStringLiteral("What gpipe left"),
                                  [](plan::Plan &plan) { plan.stages[0].recompute = plan::Recompute::Full; }));
    });
    const QStringList lines = script.split(QLatin1Char('\n'));
    QCOMPARE(lines.filter(option.isEmpty() ? QStringLiteral("missing") : option), QStringList());
    QCOMPARE(lines.filter(QRegularExpression(QStringLiteral("^edit \"What gpipe left\""))).size(), 1);
    QCOMPARE(lines.contains(line), true);
    const std::string key = plan::simulationKey(m_state->document()->plan);
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why + QLatin1Char('\n') + script));
    QCOMPARE(plan::simulationKey(m_state->document()->plan), key);
}

void TestScript::aRunOfBeforeHasNoLine()
{
    QVERIFY(testing::loadSample(*m_state));
    m_run.hold = true;
    agent::TrainRequest request;
    request.settings.data = "a text";
    request.settings.steps = 400;
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE(m_state->run().phase, RunData::Phase::Running);
    const QString script = recorded([&] {
        command(QStringLiteral("run.stop"))->trigger();
        QTRY_VERIFY(!m_state->run().active());
    });
    m_run.hold = false;
    QVERIFY2(script.contains(QStringLiteral("\nopen zoo:gpt-nano local:4\n"))
                 && !script.contains(QStringLiteral("a text")),
             qPrintable(script.left(2000)));
}

/// A schedule is an edit of the plan, and has the line of its file.
void TestScript::importsAreRecordedOnce()
{
    QVERIFY(testing::loadSample(*m_state));
    const QString saved = m_folder.filePath(QStringLiteral("of schedule.json"));
    QVERIFY(m_state->savePlan(saved));
    const auto order = exportPlan("pytorch-csv", *m_state->document(), nullptr);
    QVERIFY2(order, order ? "" : order.error().text().c_str());
    const QString path = m_folder.filePath(QStringLiteral("order.csv"));
    QVERIFY(writeFileAtomically(path.toStdString(), order->text));
    QVERIFY(settle());
    const QString script = recorded([&] {
        m_window->open({path});
        QVERIFY(settle());
        QVERIFY(m_state->undoStack()->canUndo());
    });
    const QStringList lines = script.split(QLatin1Char('\n'));
    QCOMPARE(lines.filter(QRegularExpression(QStringLiteral("^edit "))), QStringList());
    const int steps = m_state->undoStack()->count();
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why + QLatin1Char('\n') + script));
    QVERIFY(m_state->undoStack()->undoText().contains(path));
    QCOMPARE(m_state->undoStack()->count(), steps - 1); // without the search
}

void TestScript::namesKeepTheirBlanks()
{
    m_state->loadCluster(QStringLiteral("local:2"));
    QVERIFY(settle());
    const QString script = recorded([&] {
        std::string text = cluster::toJson(*m_state->cluster());
        const std::string name = m_state->cluster()->name();
        text.replace(text.find(name), name.size(), "two  blanks");
        const auto named = cluster::clusterFromJson(text);
        QVERIFY(named);
        QVERIFY(m_state->editCluster(QStringLiteral("Name it"), std::make_shared<const cluster::Cluster>(*named)));
    });
    const QString why = played(script);
    QVERIFY2(why.isEmpty(), qPrintable(why));
    QCOMPARE(m_state->cluster()->name(), std::string("two  blanks"));
}

void TestScript::actsWaitWithoutALimit()
{
    ActPlayer player(m_state.get());
    const Act never{QStringLiteral("never"), [] {}, [] { return false; }};
    player.play({never});
    QTest::qWait(200);
    QVERIFY(player.playing());
    player.stop();
    player.setLimit(50);
    QSignalSpy finished(&player, &ActPlayer::finished);
    player.play({never});
    QVERIFY(finished.wait(10'000));
    QCOMPARE(player.failure(), QStringLiteral("\"never\" did not finish"));
}

void TestScript::picturesAreTaken()
{
    const QString png = m_folder.filePath(QStringLiteral("w.png"));
    const QString svg = m_folder.filePath(QStringLiteral("t.svg"));
    const QString why = played(QStringLiteral("planloom-script 1\nopen zoo:gpt-nano local:4\nfind-plan gpipe batch=8\n"
                                              "show stage=1\npicture window %1\npicture timeline %2\n")
                                   .arg(png, svg));
    QVERIFY2(why.isEmpty(), qPrintable(why));
    QCOMPARE(QImage(png).size(), m_window->size());
    QVERIFY(QFile(svg).size() > 1000);
}

void TestScript::aClosedWindowKeepsItsRecord()
{
    const QString path = m_folder.filePath(QStringLiteral("closed.planloom"));
    int asked = 0;
    m_tools->setAskForFile([&] {
        ++asked;
        return path;
    });
    m_window->close();
    QCOMPARE(asked, 0); // nothing is recorded
    m_window->show();
    m_tools->startRecording();
    m_window->open({QStringLiteral("zoo:mlp")});
    QVERIFY(settle());
    m_window->close();
    QCOMPARE(asked, 1);
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadOnly));
    QVERIFY(file.readAll().contains("\nopen zoo:mlp\n"));
}

PLANLOOM_UI_MAIN(TestScript)
#include "tst_script.moc"
