// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/run_folder.h"
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "ui/demo/demo.h"
#include "engine/gnn/graph_data.h"
#include "engine/plan/fingerprint.h"
#include "engine/simulate/prediction.h"
#include "executor/data/graph_folder.h"
#include "planners/registry.h"
#include "ui/memory/memory_view.h"
#include "ui/model/model_view.h"
#include "ui/planview/layer_bars.h"
#include "ui/run/run_view.h"
#include "ui/shell/help_window.h"
#include "ui/shell/main_window.h"
#include "ui/shell/planner_dialog.h"
#include "ui/shell/start_page.h"
#include "ui/shell/train_dialog.h"
#include "ui/theme/theme.h"
#include "ui/timeline/timeline_view.h"

#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QWheelEvent>
#include <QDialogButtonBox>
#include <QMenuBar>
#include <QDir>
#include <QDoubleSpinBox>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QLineSeries>
#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QScrollArea>
#include <QSignalSpy>
#include <QTest>
#include <QTimer>
#include <QToolBar>

#include <set>

using namespace planloom;
using namespace planloom::ui;

class TestMainWindow : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();
    void everyViewHasADock();
    void refusedEditsAppearInTheBar();
    void fuzzyMatching_data();
    void fuzzyMatching();
    void paletteRunsCommands();
    void undoByKey();
    void dropOpensFiles();
    void viewsAreExported();
    void sessionIsRestored();
    void sessionIsRestoredFromAnotherFolder();
    void theLayoutOfAMaximisedWindowStays();
    void anEmptyWindowForgetsNothing();
    void modelAndClusterAreRestored();
    void anEmptyWindowOffersTheNextStep();
    void messagesMoveNothing();
    void anotherPlanThanTheTracesIsSaid();
    void longPlansDoNotWidenTheWindow();
    void undoKeysLeaveCommittedFields();
    void anUnsavedPlanIsNotDroppedUnasked();
    void closingAsksAboutARun();
    void aModelThatCannotBeLoadedIsNotPlannedFor();
    void plannerDialogOffersChoices();
    void plannerDialogAsksForEverything();
    void plannerDialogShowsItsHintsWhole();
    void plannerDialogTakesExchangeAndLoss();
    void plannerDialogTakesTheOptimizer();
    void plannerDialogTakesTheGraph();
    void consensusDistancesAreDrawn();
    void recentFilesOfOneNameDiffer();
    void picturesThatAreCutSaySo();
    void trainDialogNeedsData();
    void trainDialogHoldsOutAndPaces();
    void memoryViewShowsPeaksAndCapacity();
    void replicasShareALineOfMemory();
    void runViewComparesPredictedAndMeasured();
    void runViewTellsIterationsFromStepsByGradients();
    void aChangedCourseHasItsOwnPrediction();
    void helpHasPages();
    void theWholeStory();

private:
    /// Answers the next question with @p button, and counts it.
    void answer(QMessageBox::StandardButton button);
    int m_asked = 0;

    std::unique_ptr<testing::OwnSettings> m_settings;
    testing::FakeRun m_run;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<MainWindow> m_window;
};

void TestMainWindow::initTestCase()
{
    m_settings = std::make_unique<testing::OwnSettings>();
    applyTheme(*qApp, ThemeKind::Light);
}

void TestMainWindow::init()
{
    m_state = std::make_unique<StudioState>();
    m_state->setClientFactory(testing::fakeAgent(m_run));
    m_window = std::make_unique<MainWindow>(m_state.get());
    m_window->setAsks(false);
    m_window->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_window.get()));
}

void TestMainWindow::cleanup()
{
    m_window.reset();
    m_state.reset();
}

void TestMainWindow::everyViewHasADock()
{
    for (const char *name : {"Model", "Cluster", "Plan", "Timeline", "Memory", "Run", "Placement", "Runs", "Compare"}) {
        View *view = m_window->view(QString::fromLatin1(name));
        QVERIFY2(view, name);
        QVERIFY(!view->accessibleName().isEmpty());
        QVERIFY(view->focusTarget());
    }
    QVERIFY(m_window->statusText().contains(QStringLiteral("no model")));
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY2(m_window->statusText().contains(QStringLiteral("gpt-nano")), qPrintable(m_window->statusText()));
    QVERIFY(m_window->statusText().contains(QStringLiteral("iteration")));
    QVERIFY(m_window->isWindowModified());
    // A screen of 1024 x 640, less the window's frame, holds it all; so does one of 1000 lines at twice the scale.
    const QSize least = m_window->minimumSizeHint();
    QVERIFY2(least.width() <= 1020 && least.height() <= 480,
             qPrintable(QStringLiteral("%1 x %2").arg(least.width()).arg(least.height())));
}

void TestMainWindow::refusedEditsAppearInTheBar()
{
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY(!m_state->editPlan(QStringLiteral("empty stage"), [](plan::Plan &plan) {
        plan.stages[0].lastLayer = 0;
        plan.stages[1].firstLayer = 0;
    }));
    QVERIFY(m_window->messageBar()->isVisible());
    QCOMPARE(m_window->messageBar()->level(), MessageLevel::Error);
    QVERIFY2(m_window->messageBar()->text().contains(QStringLiteral("stage"), Qt::CaseInsensitive),
             qPrintable(m_window->messageBar()->text()));
}

void TestMainWindow::fuzzyMatching_data()
{
    QTest::addColumn<QString>("pattern");
    QTest::addColumn<QString>("better");
    QTest::addColumn<QString>("worse");
    QTest::newRow("start of words") << "fp"
                                    << "Plan ▸ Find a plan"
                                    << "xfxpx";
    QTest::newRow("side by side") << "undo"
                                  << "Edit ▸ Undo"
                                  << "u n d o all over";
    QTest::newRow("in order only") << "ba"
                                   << "bar"
                                   << "ab";
}

void TestMainWindow::fuzzyMatching()
{
    QFETCH(QString, pattern);
    QFETCH(QString, better);
    QFETCH(QString, worse);
    QVERIFY(fuzzyScore(pattern, better) > fuzzyScore(pattern, worse));
}

void TestMainWindow::paletteRunsCommands()
{
    QVERIFY(testing::loadSample(*m_state));
    m_window->showPalette();
    auto *palette = m_window->findChild<CommandPalette *>();
    QVERIFY(palette);
    QVERIFY(palette->shown() > 30);
    QVERIFY(CommandPalette(std::vector<Command>(20'000, Command{QStringLiteral("Go to device"), {}, [] {}}), nullptr)
                .shown()
            <= 200);
    auto *input = palette->findChild<QLineEdit *>();
    QTest::keyClicks(input, QStringLiteral("go to stage 2"));
    QCOMPARE(palette->current(), QStringLiteral("Go to stage 2"));
    QTest::keyClick(input, Qt::Key_Return);
    QCOMPARE(m_state->selection().stage, StageId(2));
}

void TestMainWindow::undoByKey()
{
    QVERIFY(testing::loadSample(*m_state));
    const auto before = m_state->document();
    QVERIFY(m_state->editPlan(QStringLiteral("recompute"),
                              [](plan::Plan &plan) { plan.stages[1].recompute = plan::Recompute::Full; }));
    QTest::keyClick(m_window.get(), Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(m_state->document(), before);
    QTest::keyClick(m_window.get(), Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    QCOMPARE(m_state->document()->plan.stages[1].recompute, plan::Recompute::Full);
}

void TestMainWindow::dropOpensFiles()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("dropped.json"));
    QVERIFY(m_state->savePlan(path));
    m_state->undoStack()->undo();
    QVERIFY(!m_state->document());
    QMimeData mime;
    mime.setUrls({QUrl::fromLocalFile(path)});
    QDragEnterEvent enter(QPoint(100, 100), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(m_window.get(), &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent event(QPointF(100, 100), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(m_window.get(), &event);
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    QCOMPARE(m_state->planPath(), path);
    QVERIFY(m_window->windowTitle().contains(QStringLiteral("dropped.json")));
}

void TestMainWindow::viewsAreExported()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    View *timeline = m_window->view(QStringLiteral("Timeline"));
    const QString png = folder.filePath(QStringLiteral("t.png"));
    const QString svg = folder.filePath(QStringLiteral("t.svg"));
    QVERIFY(m_window->exportView(timeline, png));
    QCOMPARE(QImage(png).size(), timeline->pictureSize());
    // Every row, however small the view is; and no tool bar.
    auto *rows = static_cast<TimelineView *>(timeline);
    m_window->resize(900, 500);
    QCoreApplication::processEvents();
    QVERIFY(rows->canvas()->viewport().rows().height() < rows->model().layout().height());
    QVERIFY(timeline->pictureSize().height() > rows->model().layout().height());
    QVERIFY(m_window->exportView(timeline, png));
    const QImage picture(png);
    QCOMPARE(picture.size(), timeline->pictureSize());
    const auto colors = [&picture](int from, int to) {
        std::set<QRgb> found;
        for (int y = from; y < to; ++y)
            for (int x = 200; x < picture.width(); ++x)
                found.insert(picture.pixel(x, y));
        return found.size();
    };
    QVERIFY(colors(rows->model().layout().height() - 60, rows->model().layout().height()) > 4); // the last device
    // The model at its own scale.
    View *model = m_window->view(QStringLiteral("Model"));
    QTRY_VERIFY(!static_cast<ModelView *>(model)->layingOut());
    QVERIFY(m_window->exportView(model, png));
    QCOMPARE(QImage(png).size(), model->pictureSize());
    QVERIFY(model->pictureSize() != model->size());
    QVERIFY(m_window->exportView(timeline, svg));
    QVERIFY(QFileInfo(svg).size() > 1000);
    QVERIFY(!m_window->exportView(timeline, folder.filePath(QStringLiteral("no/folder/t.png"))));
    QVERIFY(m_window->messageBar()->isVisible());
}

void TestMainWindow::sessionIsRestored()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    QVERIFY(m_state->savePlan(folder.filePath(QStringLiteral("kept.json"))));
    m_window->docks()[1]->hide();
    m_window->saveSession();

    StudioState state;
    MainWindow other(&state);
    other.setAsks(false);
    QVERIFY(other.restoreLayout());
    other.show();
    other.restoreSession();
    QTRY_VERIFY_WITH_TIMEOUT(state.simulationCurrent(), 20'000);
    QCOMPARE(state.planPath(), m_state->planPath());
    QVERIFY(other.docks()[1]->isHidden());
    QVERIFY(!other.docks()[3]->isHidden());
}

void TestMainWindow::sessionIsRestoredFromAnotherFolder()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    const QString before = QDir::currentPath();
    QVERIFY(QDir::setCurrent(folder.path()));
    QVERIFY(m_state->savePlan(QStringLiteral("kept.json")));
    m_window->open({QStringLiteral("kept.json")}); // as on the command line
    bool opened = false;
    m_state->whenLoaded([&opened] { opened = true; });
    QTRY_VERIFY_WITH_TIMEOUT(opened, 20'000);
    m_window->saveSession();
    QVERIFY(QDir::setCurrent(before));

    StudioState state;
    MainWindow other(&state);
    other.setAsks(false);
    other.restoreSession();
    QTRY_VERIFY_WITH_TIMEOUT(state.simulationCurrent(), 20'000);
    QCOMPARE(QFileInfo(state.planPath()).canonicalFilePath(),
             QFileInfo(folder.filePath(QStringLiteral("kept.json"))).canonicalFilePath());
}

void TestMainWindow::theLayoutOfAMaximisedWindowStays()
{
    m_window->resize(660, 600); // smaller than the screen of the offscreen platform
    m_window->showMaximized();
    QTRY_VERIFY(m_window->isMaximized());
    QCoreApplication::processEvents();
    m_window->resizeDocks({m_window->docks()[0], m_window->docks()[2]}, {300, 500}, Qt::Horizontal);
    QCoreApplication::processEvents();
    const int width = m_window->docks()[0]->width();
    m_window->saveSession();
    StudioState state;
    MainWindow other(&state);
    other.setAsks(false);
    QVERIFY(other.restoreLayout());
    other.show();
    QTRY_VERIFY(other.isMaximized());
    QTRY_COMPARE(other.size(), m_window->size());
    QTRY_COMPARE(other.docks()[0]->width(), width);
}

void TestMainWindow::anEmptyWindowForgetsNothing()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("kept.json"));
    QVERIFY(m_state->savePlan(path));
    m_window->saveSession();
    StudioState empty;
    MainWindow fresh(&empty); // as with --fresh
    fresh.saveSession();
    QCOMPARE(QSettings().value(QStringLiteral("session/plan")).toString(), path);
}

void TestMainWindow::modelAndClusterAreRestored()
{
    m_window->open({QStringLiteral("zoo:mlp"), QStringLiteral("preset:h100-8")});
    QTRY_VERIFY_WITH_TIMEOUT(m_state->subject(), 20'000);
    m_window->saveSession();
    StudioState state;
    MainWindow other(&state);
    other.setAsks(false);
    other.restoreSession();
    QTRY_VERIFY_WITH_TIMEOUT(state.subject(), 20'000);
    QCOMPARE(state.model()->source, std::string("zoo:mlp"));
    QCOMPARE(state.cluster()->devices().size(), std::size_t(8));
}

void TestMainWindow::anEmptyWindowOffersTheNextStep()
{
    qputenv("PLANLOOM_RESOURCES", PLANLOOM_SOURCE_DIR "/resources");
    StudioState state;
    MainWindow window(&state);
    window.setAsks(false);
    window.resize(1200, 800);
    window.show();
    auto *page = window.findChild<StartPage *>();
    QVERIFY(page && page->isVisible());
    const auto button = [page](const char *text) -> QPushButton * {
        for (auto *each : page->findChildren<QPushButton *>())
            if (each->text().remove(QLatin1Char('&')).contains(QLatin1String(text)))
                return each;
        return nullptr;
    };
    QMenu *models = button("Choose a model")->menu();
    const QList<QAction *> actions = models->actions();
    const auto gpt = std::ranges::find(actions, QStringLiteral("zoo:gpt-nano"), &QAction::text);
    QVERIFY(gpt != actions.end());
    (*gpt)->trigger();
    QTRY_VERIFY(state.model());
    const auto labels = page->findChildren<QLabel *>();
    QVERIFY(
        std::ranges::any_of(labels, [](const QLabel *each) { return each->text() == QStringLiteral("✓ gpt-nano"); }));
    QTest::mouseClick(button("Open the sample"), Qt::LeftButton);
    QTRY_VERIFY(state.document());
    QVERIFY(!page->isVisible());
    QTRY_VERIFY(state.simulationCurrent());
    QVERIFY(recentFiles().front().endsWith(QStringLiteral("gpt-nano.plan.json")));
}

void TestMainWindow::messagesMoveNothing()
{
    QVERIFY(testing::loadSample(*m_state));
    const auto places = [this] {
        QList<QRect> all;
        for (const QDockWidget *dock : m_window->docks())
            all << dock->geometry();
        return all;
    };
    const QList<QRect> before = places();
    m_state->say(MessageLevel::Error, QStringLiteral("something is wrong"));
    QCoreApplication::processEvents();
    MessageBar *bar = m_window->messageBar();
    QVERIFY(bar->isVisible());
    const QRect room(bar->mapTo(m_window.get(), QPoint()), bar->size());
    QVERIFY(m_window->rect().contains(room));
    QVERIFY(room.width() > m_window->width() / 2);
    for (const QDockWidget *dock : m_window->docks())
        QVERIFY2(!dock->geometry().intersects(room), qPrintable(dock->objectName()));
    QCOMPARE(places(), before);
    QVERIFY(!m_window->findChild<QToolBar *>(QStringLiteral("MessageStrip"))); // nor is it kept for the next start

    // Nor does an edit move what stands below the plan's figures.
    View *plan = m_window->view(QStringLiteral("Plan"));
    auto *bars = plan->findChild<LayerBars *>();
    const QPoint at = bars->mapTo(plan, QPoint());
    QVERIFY(m_state->editPlan(QStringLiteral("recompute"),
                              [](plan::Plan &changed) { changed.stages[1].recompute = plan::Recompute::Full; }));
    QTRY_VERIFY(m_state->simulationCurrent());
    QCoreApplication::processEvents();
    QCOMPARE(bars->mapTo(plan, QPoint()), at);
}

void TestMainWindow::anotherPlanThanTheTracesIsSaid()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    QVERIFY(QDir(folder.path()).mkdir(QStringLiteral("plans")));
    const QString path = folder.filePath(QStringLiteral("p.pltrace"));
    const QString right = folder.filePath(QStringLiteral("plans/right.json"));
    const QString wrong = folder.filePath(QStringLiteral("plans/wrong.json"));
    trace::Trace trace = m_state->simulation()->trace;
    trace.plan = plan::fingerprint(*m_state->document());
    QVERIFY(trace::writeTrace(trace, path.toStdString()));
    QVERIFY(plan::writePlan(*m_state->document(), right.toStdString()));
    plan::Document other = *m_state->document();
    other.plan.stages[0].recompute = plan::Recompute::Full;
    QVERIFY(plan::writePlan(other, wrong.toStdString()));
    QVERIFY(m_state->openTrace({path}));
    QTRY_VERIFY(!m_state->measuredPath().isEmpty());
    m_window->openPlanOfTrace(wrong);
    QTRY_VERIFY2(m_window->messageBar()->text().contains(QStringLiteral("not the plan of the trace")),
                 qPrintable(m_window->messageBar()->text()));
    m_window->openPlanOfTrace(right);
    QTRY_VERIFY(m_state->measuredIsOfDocument());
    QVERIFY(m_state->simulationCurrent() || m_state->simulating());
}

void TestMainWindow::longPlansDoNotWidenTheWindow()
{
    QVERIFY(testing::loadSample(*m_state));
    m_state->loadCluster(QStringLiteral("preset:h100-1024"));
    m_state->whenLoaded([this] {
        plan::Plan plan;
        const plan::Subject &subject = *m_state->subject();
        plan.modelName = subject.graph->name();
        plan.modelSource = subject.modelSource;
        plan.clusterName = subject.cluster->name();
        plan.globalBatch = 64;
        plan.microBatches = 4;
        const std::size_t layers = subject.layers().size();
        for (std::size_t layer = 0; layer < layers; ++layer) {
            plan::Stage stage;
            stage.name = "a stage with a long name " + std::to_string(layer);
            stage.firstLayer = layer;
            stage.lastLayer = layer + 1;
            stage.devices = {DeviceId(static_cast<std::int64_t>(2 * layer)),
                             DeviceId(static_cast<std::int64_t>(2 * layer + 1))};
            stage.replicaShares = layer % 2 ? std::vector<double>{} : std::vector<double>{0.5, 0.5};
            plan.stages.push_back(stage);
        }
        m_state->replacePlan(QStringLiteral("long"), plan);
    });
    QTRY_VERIFY_WITH_TIMEOUT(m_state->document() && m_state->document()->plan.stages.size() > 4, 20'000);
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    QVERIFY2(m_window->minimumSizeHint().width() <= 1020,
             qPrintable(QString::number(m_window->minimumSizeHint().width())));
}

void TestMainWindow::undoKeysLeaveCommittedFields()
{
    QVERIFY(testing::loadSample(*m_state));
    QTRY_VERIFY(m_state->simulationCurrent());
    QSpinBox *microBatches = nullptr;
    for (auto *box : m_window->view(QStringLiteral("Plan"))->findChildren<QSpinBox *>())
        if (box->accessibleName() == QStringLiteral("Micro-batches"))
            microBatches = box;
    QVERIFY(microBatches);
    const auto before = m_state->document();
    m_window->activateWindow();
    microBatches->setFocus();
    microBatches->selectAll();
    QTest::keyClicks(microBatches, QStringLiteral("2"));
    QCOMPARE(m_state->document(), before); // is being written
    QTest::keyClick(microBatches, Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(m_state->document(), before); // the typing is undone
    microBatches->selectAll();
    QTest::keyClicks(microBatches, QStringLiteral("2"));
    QTest::keyClick(microBatches, Qt::Key_Return);
    QCOMPARE(m_state->document()->plan.microBatches, std::int64_t(2));
    QTest::keyClick(microBatches, Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(m_state->document(), before);
    QCOMPARE(microBatches->value(), static_cast<int>(before->plan.microBatches));
}

void TestMainWindow::answer(QMessageBox::StandardButton button)
{
    QTimer::singleShot(0, this, [this, button] {
        auto *box = qobject_cast<QMessageBox *>(QApplication::activeModalWidget());
        if (!box)
            return;
        ++m_asked;
        box->button(button)->click();
    });
}

void TestMainWindow::anUnsavedPlanIsNotDroppedUnasked()
{
    QVERIFY(testing::loadSample(*m_state));
    m_window->setAsks(true);
    m_asked = 0;
    const auto plan = m_state->document();
    answer(QMessageBox::Cancel);
    m_window->open({QStringLiteral("zoo:mlp")});
    answer(QMessageBox::Cancel);
    m_window->findPlan({}, QStringLiteral("local:2"), {});
    QCOMPARE(m_asked, 2);
    QVERIFY(!m_state->loadJob()->running());
    QCOMPARE(m_state->document(), plan);

    QTemporaryDir folder;
    QVERIFY(m_state->savePlan(folder.filePath(QStringLiteral("kept.json")))); // what is saved can go
    QVERIFY(!m_window->isWindowModified());
    m_window->open({QStringLiteral("zoo:mlp")});
    QCOMPARE(m_asked, 2);
    QTRY_VERIFY_WITH_TIMEOUT(!m_state->document(), 20'000);
    m_window->setAsks(false);
}

void TestMainWindow::closingAsksAboutARun()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    QVERIFY(m_state->savePlan(folder.filePath(QStringLiteral("kept.json"))));
    m_run.hold = true;
    QVERIFY(m_state->startRun({}));
    QTRY_COMPARE(m_state->run().phase, RunData::Phase::Running);
    m_window->setAsks(true);
    m_asked = 0;
    answer(QMessageBox::Cancel);
    QVERIFY(!m_window->close());
    QCOMPARE(m_asked, 1);
    QVERIFY(m_state->run().active());
    answer(QMessageBox::Close);
    QVERIFY(m_window->close());
    QCOMPARE(m_asked, 2);
    QTRY_VERIFY_WITH_TIMEOUT(!m_state->run().active(), 20'000);
    m_run.hold = false;
    m_window->setAsks(false);
}

void TestMainWindow::aModelThatCannotBeLoadedIsNotPlannedFor()
{
    QVERIFY(testing::loadSample(*m_state));
    const auto plan = m_state->document();
    PlanRequest request;
    request.planner = "data-parallel";
    request.globalBatch = 8;
    m_window->findPlan(QStringLiteral("zoo:no-such-model"), {}, request);
    bool done = false;
    m_state->whenLoaded([&done] { done = true; });
    QTRY_VERIFY_WITH_TIMEOUT(done, 20'000);
    QVERIFY(!m_state->planJob()->running());
    QCOMPARE(m_state->document(), plan);
    QVERIFY(m_window->messageBar()->text().contains(QStringLiteral("no-such-model")));

    m_window->findPlan(QStringLiteral("zoo:mlp"), QStringLiteral("local:2"), request);
    QTRY_VERIFY_WITH_TIMEOUT(m_state->document() && m_state->document() != plan, 20'000);
    QCOMPARE(m_state->document()->plan.modelName, std::string("mlp"));
    QCOMPARE(m_state->document()->subject.cluster->devices().size(), std::size_t(2));
}

void TestMainWindow::plannerDialogShowsItsHintsWhole()
{
    PlannerDialog dialog(*m_state);
    dialog.show();
    QVERIFY(QTest::qWaitForWindowExposed(&dialog));
    QVERIFY(dialog.height() <= dialog.screen()->availableGeometry().height());
    QCOMPARE(dialog.request().planner, std::string("auto"));
    int hints = 0;
    for (const QLabel *label : dialog.findChildren<QLabel *>()) {
        if (!label->isVisible() || !label->wordWrap())
            continue;
        ++hints;
        QVERIFY2(label->height() >= label->heightForWidth(label->width()), qPrintable(label->text()));
    }
    QVERIFY(hints >= 10);
    // The size is the same for every planner, with room for four options at least.
    const QSize size = dialog.size();
    std::vector<const planners::Planner *> offered = planners::allPlanners();
    for (const planners::Planner *planner : planners::jobPlanners())
        offered.push_back(planner);
    for (const planners::Planner *planner : offered) {
        PlanRequest other;
        other.planner = planner->name();
        dialog.setRequest(other);
        QCOMPARE(dialog.request().planner, planner->name());
        QCoreApplication::processEvents();
        QCOMPARE(dialog.size(), size);
        QVERIFY(dialog.findChild<QScrollArea *>()->height() >= 180);
        for (const QLabel *label : dialog.findChildren<QLabel *>())
            if (label->text() == QString::fromStdString(planner->about()))
                QVERIFY2(label->height() >= label->heightForWidth(label->width()), qPrintable(label->text()));
    }
    QTest::keyClicks(dialog.findChildren<QComboBox *>()[2], QStringLiteral("auto"));
    QCOMPARE(dialog.request().planner, std::string("auto"));
    auto *buttons = dialog.findChild<QDialogButtonBox *>();
    QVERIFY(dialog.rect().contains(buttons->geometry()));
}

/// An option that has one of a few values is a list of them, and empty as long as nothing was chosen.
void TestMainWindow::plannerDialogOffersChoices()
{
    PlannerDialog dialog(*m_state);
    PlanRequest dapple;
    dapple.planner = "dapple";
    dialog.setRequest(dapple);
    QComboBox *schedules = nullptr;
    for (QComboBox *list : dialog.findChildren<QComboBox *>())
        if (list->isEditable() && list->findText(QStringLiteral("gpipe")) >= 0
            && list->lineEdit()->placeholderText() == QLatin1String("dapple"))
            schedules = list;
    QVERIFY(schedules);
    QCOMPARE(schedules->count(), 3);
    QVERIFY(dialog.request().options.empty());
    QWheelEvent wheel(QPointF(5, 5), schedules->mapToGlobal(QPointF(5, 5)), {}, QPoint(0, -120), Qt::NoButton,
                      Qt::NoModifier, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(schedules, &wheel);
    QVERIFY(dialog.request().options.empty());
    schedules->setCurrentText(QStringLiteral("gpipe"));
    QCOMPARE(dialog.request().options.at("schedule"), std::string("gpipe"));
}

void TestMainWindow::plannerDialogAsksForEverything()
{
    QVERIFY(testing::loadSample(*m_state));
    PlannerDialog dialog(*m_state);
    PlanRequest wanted;
    wanted.planner = "dapple";
    wanted.globalBatch = 24;
    wanted.microBatch = 2;
    wanted.precision = plan::Precision::BFloat16;
    wanted.zero = 2;
    wanted.optimizer.learningRate = 0.5; // has no field in the dialog
    dialog.setRequest(wanted);
    const PlanRequest given = dialog.request();
    QCOMPARE(given.planner, std::string("dapple"));
    QCOMPARE(given.globalBatch, std::int64_t(24));
    QCOMPARE(given.microBatch, std::optional<std::int64_t>(2));
    QVERIFY(given.options.empty());
    QCOMPARE(given.precision, plan::Precision::BFloat16);
    QCOMPARE(given.zero, 2);
    QCOMPARE(given.optimizer.learningRate, 0.5);
    QCOMPARE(given.optimizer.weightDecay, 0.01);
    QVERIFY(given.optimizer.groups.empty());
    dialog.findChild<QDoubleSpinBox *>(QStringLiteral("weightDecay"))->setValue(0.1);
    dialog.findChild<QComboBox *>(QStringLiteral("noDecay"))->setCurrentText(QStringLiteral("biases and norms"));
    const plan::Optimizer decayed = dialog.request().optimizer;
    QCOMPARE(decayed.weightDecay, 0.1);
    QCOMPARE(decayed.groups.size(), std::size_t(1));
    QCOMPARE(decayed.groups[0].match, std::string("rank<2"));
    wanted.optimizer.groups = {{"*.bias", 0.5, 1}}; // has no choice: stays
    dialog.setRequest(wanted);
    QCOMPARE(dialog.request().optimizer.groups[0].match, std::string("*.bias"));
    QCOMPARE(dialog.modelSource(), QStringLiteral("zoo:gpt-nano"));
    QVERIFY(dialog.clusterSource().isEmpty()); // keeps the one that is open
}

void TestMainWindow::plannerDialogTakesExchangeAndLoss()
{
    QVERIFY(testing::loadSample(*m_state));
    PlannerDialog dialog(*m_state);
    QVERIFY(!dialog.request().exchange);
    QVERIFY(dialog.loss().empty());
    auto *exchange = dialog.findChild<QLineEdit *>(QStringLiteral("exchange"));
    auto *loss = dialog.findChild<QLineEdit *>(QStringLiteral("loss"));
    QVERIFY(exchange && loss);
    exchange->setText(QStringLiteral("dasgd,local_steps=8,delay=auto"));
    loss->setText(QStringLiteral("classes=cross-entropy boxes=huber,weight=5"));
    QVERIFY(dialog.request().exchange->findsDelay);
    QCOMPARE(dialog.request().exchange->exchange.averaging.localSteps, std::int64_t{8});
    QCOMPARE(dialog.loss(), (std::vector<std::string>{"classes=cross-entropy", "boxes=huber,weight=5"}));
    dialog.accept();
    QCOMPARE(dialog.result(), static_cast<int>(QDialog::Accepted));
    // What cannot be read is said, and the dialog stays.
    dialog.setResult(QDialog::Rejected);
    exchange->setText(QStringLiteral("gossip"));
    dialog.accept();
    QCOMPARE(dialog.result(), static_cast<int>(QDialog::Rejected));
    QVERIFY2(dialog.problem().contains(QStringLiteral("\"gossip\" is not known")), qPrintable(dialog.problem()));
    exchange->clear();
    loss->setText(QStringLiteral("huber,delta=1,delta=2"));
    dialog.accept();
    QVERIFY2(dialog.problem().contains(QStringLiteral("'delta' is given twice")), qPrintable(dialog.problem()));
    // As the plan has it, with groups, which have no text.
    PlanRequest request;
    request.planner = "gpipe";
    request.exchange = *planners::exchangeRequest("dasgd,local_steps=2,delay=1");
    request.exchange->exchange.groups = {{"rank<2", plan::ExchangePolicy::AllReduce}};
    dialog.setRequest(request);
    QCOMPARE(plan::textOf(dialog.request().exchange->exchange), plan::textOf(request.exchange->exchange));
    QVERIFY(dialog.request().exchange->exchange.groups == request.exchange->exchange.groups);
}

/// Rule and rate of steps by gradients; another rule begins with its own rates. Plans by ADMM alone have none.
void TestMainWindow::plannerDialogTakesTheOptimizer()
{
    QVERIFY(testing::loadSample(*m_state));
    PlannerDialog dialog(*m_state);
    auto *rule = dialog.findChild<QComboBox *>(QStringLiteral("optimizer"));
    auto *rate = dialog.findChild<QLineEdit *>(QStringLiteral("learningRate"));
    QVERIFY(rule && rate);
    PlanRequest wanted;
    wanted.planner = "gpipe";
    wanted.optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", 0.5}});
    wanted.optimizer.learningRate = 0.123456789;
    dialog.setRequest(wanted);
    QCOMPARE(rule->currentText(), QStringLiteral("SGD"));
    QCOMPARE(dialog.request().optimizer.rule.setting("momentum"), 0.5);
    QCOMPARE(dialog.request().optimizer.learningRate, 0.123456789); // of which the field shows fewer digits
    rate->setText(QStringLiteral("0.5"));
    QCOMPARE(dialog.request().optimizer.learningRate, 0.5);
    rate->setText(QStringLiteral("fast"));
    dialog.accept();
    QCOMPARE(dialog.result(), static_cast<int>(QDialog::Rejected));
    QVERIFY2(dialog.problem().contains(QStringLiteral("\"fast\"")), qPrintable(dialog.problem()));
    dialog.show();
    rule->setFocus();
    QTest::keyClicks(rule, QStringLiteral("lion"));
    QCOMPARE(dialog.request().optimizer.rule.name(), std::string_view("lion"));
    QCOMPARE(dialog.request().optimizer.learningRate, 1e-4);

    wanted.planner = "admm";
    dialog.setRequest(wanted);
    QVERIFY(!rule->isEnabled() && !rate->isEnabled());
    wanted.options = {{"switch_after", "3"}};
    dialog.setRequest(wanted);
    QVERIFY(rule->isEnabled() && rate->isEnabled());
    wanted.planner = "dapple";
    wanted.options.clear();
    dialog.setRequest(wanted);
    QVERIFY(rule->isEnabled());
}

/// A planner that needs a graph asks for its folder.
void TestMainWindow::plannerDialogTakesTheGraph()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("club"));
    QVERIFY(data::writeGraphFolder(gnn::karateClub(), {}, {}, path.toStdString()));
    PlannerDialog dialog(*m_state);
    const auto field = [&dialog] { return dialog.findChild<QLineEdit *>(QStringLiteral("graph")); };
    QVERIFY(!field());
    PlanRequest wanted;
    wanted.planner = "gnn";
    dialog.setRequest(wanted);
    QVERIFY(field());
    dialog.accept();
    QVERIFY2(dialog.problem().contains(QStringLiteral("Graph: choose")), qPrintable(dialog.problem()));
    field()->setText(folder.path());
    dialog.accept();
    QVERIFY2(dialog.problem().contains(QStringLiteral("has no graph.json")), qPrintable(dialog.problem()));
    QCOMPARE(dialog.result(), static_cast<int>(QDialog::Rejected));
    field()->setText(path);
    auto *planner = dialog.findChildren<QComboBox *>()[2];
    planner->setCurrentText(QStringLiteral("dapple"));
    QVERIFY(!field());
    planner->setCurrentText(QStringLiteral("gnn"));
    QCOMPARE(field()->text(), path);
    QCOMPARE(dialog.request().graph, path);
    if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE"); !picture.isEmpty())
        QVERIFY(dialog.grab().save(QString::fromUtf8(picture)));
    dialog.accept();
    QCOMPARE(dialog.result(), static_cast<int>(QDialog::Accepted));
    // A graph that is open is proposed.
    QVERIFY(m_state->open(path));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->graph().data, 20'000);
    PlannerDialog other(*m_state);
    other.findChildren<QComboBox *>()[2]->setCurrentText(QStringLiteral("gnn"));
    QCOMPARE(other.request().graph, path);
}

/// The run's dock has another tab where replicas are averaged.
void TestMainWindow::consensusDistancesAreDrawn()
{
    QVERIFY(testing::loadSample(*m_state));
    auto *view = static_cast<RunView *>(m_window->view(QStringLiteral("Run")));
    const auto isShown = [view] { return view->tabs()->isTabVisible(view->tabs()->indexOf(view->replicaPanel())); };
    QVERIFY(!isShown());
    QVERIFY(testing::planWithAverages(*m_state));
    agent::TrainRequest request;
    request.settings.steps = 12;
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
    QTRY_VERIFY(isShown());
    QCOMPARE(view->replicaPanel()->distance()->points(), (QList<QPointF>{{4, 0.25}, {8, 0.25}}));
}

void TestMainWindow::recentFilesOfOneNameDiffer()
{
    QTemporaryDir folder;
    for (const char *run : {"first", "second"}) {
        QVERIFY(QDir(folder.path()).mkdir(QString::fromLatin1(run)));
        const QString path = folder.filePath(QString::fromLatin1(run) + QStringLiteral("/plan.json"));
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly));
        rememberFile(path);
    }
    QMenu menu;
    StartPage page(m_state.get(), &menu, &menu);
    page.show();
    QStringList names;
    for (const QPushButton *button : page.findChildren<QPushButton *>())
        names << button->text();
    QVERIFY2(names.contains(QStringLiteral("first/plan.json")), qPrintable(names.join(QLatin1Char(' '))));
    QVERIFY(names.contains(QStringLiteral("second/plan.json")));
}

/// A picture that does not hold everything says so, in itself and when it is written.
void TestMainWindow::picturesThatAreCutSaySo()
{
    StudioState &state = *m_state;
    state.loadModel(QStringLiteral("zoo:gpt-nano"));
    state.loadCluster(QStringLiteral("preset:h100-1024"));
    state.whenLoaded([&state] {
        PlanRequest request;
        request.planner = "data-parallel";
        request.globalBatch = 1024;
        state.runPlanner(request);
    });
    QTRY_VERIFY_WITH_TIMEOUT(state.simulationCurrent(), 120'000);
    View *timeline = m_window->view(QStringLiteral("Timeline"));
    QVERIFY2(timeline->pictureNote().contains(QStringLiteral("of 1024 devices")), qPrintable(timeline->pictureNote()));
    QVERIFY(testing::loadSample(state));
    QTRY_COMPARE_WITH_TIMEOUT(timeline->pictureNote(), QString(), 20'000);
}

void TestMainWindow::trainDialogNeedsData()
{
    TrainDialog dialog({});
    auto *buttons = dialog.findChild<QDialogButtonBox *>();
    QVERIFY(!buttons->button(QDialogButtonBox::Ok)->isEnabled());
    QTemporaryDir folder;
    const QString text = folder.filePath(QStringLiteral("text.txt"));
    auto *data = dialog.findChildren<QLineEdit *>().front();
    data->setText(text);
    QVERIFY(!buttons->button(QDialogButtonBox::Ok)->isEnabled()); // is not there
    QFile file(text);
    QVERIFY(file.open(QIODevice::WriteOnly));
    data->setText({});
    data->setText(text);
    QVERIFY(buttons->button(QDialogButtonBox::Ok)->isEnabled());
    QCOMPARE(dialog.request().settings.data, text.toStdString());
    // A folder with a run is refused, an empty one is not.
    auto *runFolder = dialog.findChildren<QLineEdit *>().back();
    runFolder->setText(folder.path());
    QVERIFY(buttons->button(QDialogButtonBox::Ok)->isEnabled());
    QFile plan(folder.filePath(QStringLiteral("plan.json")));
    QVERIFY(plan.open(QIODevice::WriteOnly));
    runFolder->setText(folder.path() + QLatin1Char('/'));
    QVERIFY(!buttons->button(QDialogButtonBox::Ok)->isEnabled());
    const auto *behind = qobject_cast<QPushButton *>(data->nextInFocusChain()); // Tab goes as the eye does
    QVERIFY(behind && behind->text() == QStringLiteral("&Browse…"));
    for (const QLabel *label : dialog.findChildren<QLabel *>())
        if (label->text() == QStringLiteral("&Data"))
            QVERIFY(label->buddy() != nullptr);

    const auto crowded = [&dialog] {
        const auto labels = dialog.findChildren<QLabel *>();
        return std::ranges::any_of(labels, [](const QLabel *label) {
            return !label->isHidden() && label->text().contains(QStringLiteral("4 devices share 2 cores"));
        });
    };
    dialog.setSharedCores({});
    QVERIFY(!crowded());
    dialog.setSharedCores({QStringLiteral("4 devices share 2 cores: times are those of 2 devices a core")});
    QVERIFY(crowded());

    // A run is resumed in its folder, with its seed.
    agent::TrainRequest last = dialog.request();
    last.resume = true;
    last.runDir = folder.path().toStdString();
    last.settings.seed = 7;
    last.settings.checkpointEvery = 50;
    last.settings.kernelSeconds = 2;
    TrainDialog resume(last);
    QVERIFY(resume.findChild<QDialogButtonBox *>()->button(QDialogButtonBox::Ok)->isEnabled());
    QVERIFY(!resume.findChildren<QLineEdit *>().back()->isEnabled());
    QVERIFY(resume.request().resume);
    QCOMPARE(resume.request().runDir, folder.path().toStdString());
    QCOMPARE(resume.request().settings.seed, std::int64_t(7));
    QCOMPARE(resume.request().settings.checkpointEvery, std::int64_t(50));
    QCOMPARE(resume.request().settings.kernelSeconds, 2.0);
}

/// Held-out samples and looks at them, which accuracy needs; paces of plans with roles on several machines.
void TestMainWindow::trainDialogHoldsOutAndPaces()
{
    QTemporaryDir folder;
    agent::TrainRequest last;
    last.settings.data = folder.path().toStdString();
    last.settings.holdout = 0.33333;
    TrainDialog dialog(last);
    auto *start = dialog.findChild<QDialogButtonBox *>()->button(QDialogButtonBox::Ok);
    auto *holdout = dialog.findChild<QDoubleSpinBox *>(QStringLiteral("holdout"));
    auto *every = dialog.findChild<QSpinBox *>(QStringLiteral("validateEvery"));
    auto *paced = dialog.findChild<QCheckBox *>(QStringLiteral("paced"));
    QVERIFY(start->isEnabled() && holdout && every && paced);
    QCOMPARE(dialog.request().settings.holdout, 0.33333); // of which the field shows fewer digits
    every->setValue(5);
    QVERIFY2(start->isEnabled(), qPrintable(dialog.problem()));
    QCOMPARE(dialog.request().settings.validateEvery, std::int64_t{5});
    holdout->setValue(0);
    QVERIFY(!start->isEnabled());
    QVERIFY2(dialog.problem().contains(QStringLiteral("nothing to validate with")), qPrintable(dialog.problem()));
    holdout->setValue(0.25);
    QVERIFY(start->isEnabled());
    QCOMPARE(dialog.request().settings.holdout, 0.25);

    QVERIFY(testing::loadSample(*m_state));
    plan::Document document = *m_state->document();
    dialog.show();
    dialog.setPlan(document);
    QVERIFY(paced->isHidden());
    document.plan.job.emplace();
    document.plan.roles = {{"g0", gnn::RoleKind::GraphStore, "elsewhere", 0, -1}};
    dialog.setPlan(document);
    QVERIFY(!paced->isHidden());
    QVERIFY(!start->isEnabled()); // no graph in the folder
    QVERIFY2(dialog.problem().contains(QStringLiteral("has no graph.json")), qPrintable(dialog.problem()));
    QVERIFY(data::writeGraphFolder(gnn::karateClub(), {}, {}, folder.path().toStdString()));
    dialog.setPlan(document);
    QVERIFY(start->isEnabled());
    QCOMPARE(dialog.request().settings.paced, std::int64_t{0});
    QTest::mouseClick(paced, Qt::LeftButton, {}, {8, paced->height() / 2});
    QCOMPARE(dialog.request().settings.paced, std::int64_t{1});
    if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE_TRAIN"); !picture.isEmpty())
        QVERIFY(dialog.grab().save(QString::fromUtf8(picture)));

    // A run that is resumed keeps what it holds out.
    last = dialog.request();
    last.resume = true;
    TrainDialog resume(last);
    QVERIFY(!resume.findChild<QDoubleSpinBox *>(QStringLiteral("holdout"))->isEnabled());
    QCOMPARE(resume.request().settings.holdout, 0.25);
    QCOMPARE(resume.request().settings.validateEvery, std::int64_t{5});
    QCOMPARE(resume.request().settings.paced, std::int64_t{1});
}

void TestMainWindow::memoryViewShowsPeaksAndCapacity()
{
    QVERIFY(testing::loadSample(*m_state));
    auto *view = static_cast<MemoryView *>(m_window->view(QStringLiteral("Memory")));
    const auto &devices = m_state->simulation()->report.devices;
    QCOMPARE(view->devicePicker()->count(), static_cast<int>(devices.size()) + 1);
    QCOMPARE(view->table()->tableModel()->rowCount(), static_cast<int>(devices.size()));
    QCOMPARE(*view->table()->tableModel()->row(2)[2].number, static_cast<double>(devices[2].peakBytes));
    m_state->selectDevice(DeviceId(2));
    QCOMPARE(view->devicePicker()->currentText().toStdString(), devices[2].id);
    for (QAbstractSeries *series : view->chart()->chart()->series()) {
        if (auto *line = qobject_cast<QLineSeries *>(series))
            QVERIFY(line->count() <= 2000);
    }
}

void TestMainWindow::replicasShareALineOfMemory()
{
    QVERIFY(testing::loadSample(*m_state));
    auto *view = static_cast<MemoryView *>(m_window->view(QStringLiteral("Memory")));
    const auto lines = [view] {
        const auto all = view->chart()->chart()->series();
        const auto isCurve = [](const QAbstractSeries *series) {
            return series->type() == QAbstractSeries::SeriesTypeLine && series->name() != QStringLiteral("capacity")
                && series->name() != QStringLiteral("budget");
        };
        return std::count_if(all.begin(), all.end(), isCurve);
    };
    QCOMPARE(lines(), 4); // four stages
    const auto before = m_state->document();
    PlanRequest request;
    request.planner = "data-parallel";
    request.globalBatch = 8;
    QVERIFY(m_state->runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->document() != before && m_state->simulationCurrent(), 20'000);
    QCOMPARE(lines(), 1);
    const TableModel &rows = *view->table()->tableModel();
    QCOMPARE(rows.rowCount(), 4);
    QCOMPARE(rows.row(3)[0].swatch, rows.row(0)[0].swatch);
}

void TestMainWindow::runViewComparesPredictedAndMeasured()
{
    QVERIFY(testing::loadSample(*m_state));
    auto *view = static_cast<RunView *>(m_window->view(QStringLiteral("Run")));
    QVERIFY(!view->stopButton()->isEnabled());
    m_run.hold = true;
    agent::TrainRequest request;
    request.settings.steps = 4;
    m_run.kernels = true;
    QVERIFY(m_state->startRun(request));
    QTRY_VERIFY(view->stopButton()->isEnabled());
    QTRY_VERIFY(view->lookCloserButton()->isVisibleTo(view) && view->lookCloserButton()->isEnabled());
    QTest::mouseClick(view->lookCloserButton(), Qt::LeftButton);
    QTRY_COMPARE(m_run.lookedCloser.load(), 2.0);
    QTRY_VERIFY(m_state->run().log.contains(QStringLiteral("every kernel is recorded for 2 s")));
    m_run.kernels = false;
    m_run.hold = false;
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
    QTRY_VERIFY(view->statusLabel()->text().contains(QStringLiteral("Finished")));
    QVERIFY(!view->stopButton()->isEnabled());
    QVERIFY(!view->lookCloserButton()->isVisibleTo(view));
    QTRY_COMPARE(view->table()->tableModel()->rowCount(),
                 4 + 4); // time, throughput in samples and tokens, MFU, four peaks
    // Half as long again: the prediction is a third too small.
    QTRY_VERIFY2(view->table()->tableModel()->row(0)[3].text.contains(QStringLiteral("▼ 33.3 %")),
                 qPrintable(view->table()->tableModel()->row(0)[3].text));
    QVERIFY(view->table()->tableModel()->row(2)[0].text.contains(QStringLiteral("Tokens")));
    QVERIFY(view->table()->tableModel()->row(3)[0].text.contains(QStringLiteral("float32 peak")));
    const double mfu = *view->table()->tableModel()->row(3)[2].number;
    QCOMPARE(
        mfu,
        plan::efficiencyOf(plan::modelWork(*m_state->document()), *view->table()->tableModel()->row(1)[2].number).mfu);
    QCOMPARE(view->table()->tableModel()->row(4)[3].text, QStringLiteral("exact"));

    // Steps by gradients behind iterations of ADMM: with seconds of their own, and their own peaks in a resumed run.
    m_run.change = [](run::Summary &summary) {
        summary.thenFrom = 3;
        summary.thenSecondsMedian = summary.thenSecondsPredicted = 0.25;
        for (std::int64_t &peak : summary.peakBytesMeasured)
            summary.peakBytesPredicted.push_back(peak /= 2);
    };
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
    QTRY_COMPARE(view->table()->tableModel()->rowCount(), 5 + 4);
    QVERIFY(view->table()->tableModel()->row(1)[0].text.contains(QStringLiteral("from step 3 on")));
    QCOMPARE(view->table()->tableModel()->row(1)[2].text, QStringLiteral("250 ms"));
    QCOMPARE(view->table()->tableModel()->row(5)[3].text, QStringLiteral("exact"));
    m_run.change = nullptr;
}

/// Without a summary, as while it runs or where it failed: iterations by ADMM, which alone have an objective, are
/// compared with their own prediction, steps behind them with theirs.
void TestMainWindow::runViewTellsIterationsFromStepsByGradients()
{
    m_state->loadModel(QStringLiteral("zoo:rnn"));
    m_state->loadCluster(QStringLiteral("local:2"));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->subject(), 20'000);
    PlanRequest asked;
    asked.planner = "admm";
    asked.globalBatch = 1198;
    asked.options = {{"workers", "2"}, {"switch_after", "3"}};
    QVERIFY(m_state->runPlanner(asked));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    m_run.changeStep = [](run::StepMetrics &step) {
        step.seconds = step.step < 3 ? 0.75 : 0.25;
        step.objective = step.step < 3 ? 100 : 0;
    };
    m_run.failAt = 7;
    agent::TrainRequest request;
    request.settings.steps = 8;
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Failed, 20'000);
    m_run.failAt = -1;
    m_run.changeStep = nullptr;
    QVERIFY(!m_state->run().summary);
    const TableModel &rows = *static_cast<RunView *>(m_window->view(QStringLiteral("Run")))->table()->tableModel();
    QTRY_COMPARE(rows.rowCount(), 3 + 2);
    QCOMPARE(rows.row(0)[2].text, QStringLiteral("750 ms"));
    QVERIFY2(rows.row(1)[0].text.contains(QStringLiteral("from step 3 on")), qPrintable(rows.row(1)[0].text));
    QCOMPARE(rows.row(1)[2].text, QStringLiteral("250 ms"));
    const auto later = simulate::predict(*m_state->document());
    QVERIFY(later.ok() && later->later);
    QCOMPARE(*rows.row(1)[1].number, later->later->iterationSeconds);
    QCOMPARE(*rows.row(0)[1].number, m_state->simulation()->report.iterationSeconds);
}

/// Steps by measured times are held against the prediction by these, in the Run view and on the timeline.
void TestMainWindow::aChangedCourseHasItsOwnPrediction()
{
    QVERIFY(testing::loadSample(*m_state));
    QVERIFY(m_state->editPlan(QStringLiteral("measured"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages) {
            stage.memory.filter = plan::MemoryFilter::Delta;
            stage.memory.clock = plan::MemoryClock::Measured;
        }
    }));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    const plan::Document document = *m_state->document();
    const double logical = m_state->simulation()->report.iterationSeconds;
    const QTemporaryDir work;
    const QString folder = work.filePath(QStringLiteral("measured.run"));
    QVERIFY(testing::writeRun(folder, document, {.steps = 9}));
    const auto later = testing::addMeasuredCourse(folder, document, 0.004);
    QVERIFY(later && later->report.iterationSeconds > 2 * logical && later->report.speedupOverOneDevice == 0);
    QVERIFY(m_state->openRun(folder));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->run().change && m_state->run().predicted(), 20'000);
    QCOMPARE(m_state->run().change->predicted, later->report.iterationSeconds);
    auto *view = static_cast<RunView *>(m_window->view(QStringLiteral("Run")));
    const TableModel &rows = *view->table()->tableModel();
    QTRY_VERIFY(rows.rowCount() > 1 && rows.row(1)[0].text == QStringLiteral("By measured times, from step 4 on"));
    QCOMPARE(rows.row(0)[0].text, QStringLiteral("Iteration time, up to step 3"));
    QCOMPARE(*rows.row(0)[1].number, logical);
    QCOMPARE(*rows.row(1)[1].number, later->report.iterationSeconds);
    const auto &steps = m_state->run().steps;
    QCOMPARE(*rows.row(0)[2].number, run::medianSeconds({steps.begin(), steps.begin() + 4}));
    QCOMPARE(*rows.row(1)[2].number, run::medianSeconds({steps.begin() + 4, steps.end()}));
    QVERIFY(rows.row(2)[0].text.contains(QStringLiteral("from step 4 on")));
    QVERIFY(view->statusLabel()->text().contains(QStringLiteral("by measured times from step 4 on")));
    for (const QLineSeries *mark : view->changes()) {
        QVERIFY(mark->isVisible());
        QCOMPARE(mark->points().front().x(), 4.0);
    }
    auto *timeline = static_cast<TimelineView *>(m_window->view(QStringLiteral("Timeline")));
    QTRY_VERIFY2(timeline->footerText().contains(QStringLiteral("from step 4 on by measured times")),
                 qPrintable(timeline->footerText()));
    QVERIFY(timeline->otherCourseButton()->isVisibleTo(timeline));
    timeline->otherCourseButton()->click();
    QTRY_VERIFY_WITH_TIMEOUT(m_state->measuredOrigin().measuredFrom && m_state->measuredOrigin().simulation, 20'000);
    QCOMPARE(m_state->measuredOrigin().simulation->report.iterationSeconds, later->report.iterationSeconds);
    QVERIFY(m_state->measuredIsOfDocument() && m_state->simulation()->report.iterationSeconds == logical);
    QTRY_VERIFY2(timeline->footerText().contains(QStringLiteral("by measured times, from step 4 on"))
                     && timeline->footerText().contains(QStringLiteral("(1.00 × predicted)")),
                 qPrintable(timeline->footerText()));
    timeline->otherCourseButton()->click();
    QTRY_VERIFY_WITH_TIMEOUT(!m_state->measuredOrigin().measuredFrom, 20'000);
    QTRY_COMPARE(m_state->measuredOrigin().simulation, m_state->simulation());
}

void TestMainWindow::helpHasPages()
{
    qputenv("PLANLOOM_RESOURCES", PLANLOOM_SOURCE_DIR "/resources");
    m_window->showHelp(QStringLiteral("studio/keys.md"));
    auto *help = m_window->findChild<HelpWindow *>();
    QVERIFY(help);
    const QTreeWidget *list = help->list();
    QVERIFY(list->topLevelItemCount() >= 4);
    QCOMPARE(list->topLevelItem(0)->text(0), QStringLiteral("Studio"));
    QCOMPARE(list->currentItem()->parent(), list->topLevelItem(0));
    for (int g = 0; g < list->topLevelItemCount(); ++g) {
        const QTreeWidgetItem *group = list->topLevelItem(g);
        QVERIFY2(group->childCount() > 0, qPrintable(group->text(0)));
        for (int p = 0; p < group->childCount(); ++p)
            QVERIFY2(!group->child(p)->text(0).contains(QLatin1Char('`')), qPrintable(group->child(p)->text(0)));
    }
    help->findChild<QLineEdit *>()->setText(QStringLiteral("command palette"));
    QVERIFY(!list->topLevelItem(0)->isHidden());
    help->findChild<QLineEdit *>()->setText(QStringLiteral("no page has these words"));
    QVERIFY(list->topLevelItem(0)->isHidden());
    help->findChild<QLineEdit *>()->clear();
    QVERIFY(help->browser()->toPlainText().contains(QStringLiteral("command palette")));
    // Every shortcut of the menus is in the page, by its first key sequence's text.
    const QString page = help->browser()->toPlainText();
    for (const char *keys : {"Ctrl+Shift+P", "Ctrl+P", "Ctrl+E", "Ctrl+F5", "Shift+F5"})
        QVERIFY2(page.contains(QLatin1String(keys)), keys);
    help->close();
}

void TestMainWindow::theWholeStory()
{
    QTemporaryDir folder;
    DemoOptions options;
    options.folder = folder.path();
    options.data = QStringLiteral("a text");
    options.steps = 4;
    Demo demo(m_state.get(), m_window.get(), options);
    QSignalSpy finished(&demo, &Demo::finished);
    demo.start();
    QVERIFY(finished.wait(60'000));
    QVERIFY2(finished[0][0].toBool(), qPrintable(demo.failure()));
    for (const char *name : {"window.png", "model.png", "cluster.png", "plan.png", "timeline.png", "memory.png",
                             "run.png", "plan.json", "trace.json"})
        QVERIFY2(QFileInfo(folder.filePath(QString::fromLatin1(name))).size() > 100, name);
    // Plan and edit of the story are on the undo stack, the edit taken back if it made the iteration longer.
    QVERIFY(m_state->undoStack()->count() >= 2);
    QVERIFY(m_state->undoStack()->canUndo());

    m_run.failAt = 1;
    Demo again(m_state.get(), m_window.get(), options);
    QSignalSpy ended(&again, &Demo::finished);
    again.start();
    QVERIFY(ended.wait(60'000));
    QVERIFY(!ended[0][0].toBool());
    QVERIFY(again.failure().contains(QStringLiteral("rank 1")));
    m_run.failAt = -1;
}

PLANLOOM_UI_MAIN(TestMainWindow)
#include "tst_main_window.moc"
