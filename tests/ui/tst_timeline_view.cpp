// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "engine/plan/fingerprint.h"
#include "ui/theme/theme.h"
#include "ui/timeline/slice_text.h"
#include "ui/timeline/timeline_view.h"

#include <QApplication>
#include <QComboBox>
#include <QPainter>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>
#include <QWheelEvent>

#include <map>

using namespace planloom;
using namespace planloom::ui;

/// A client that reports records of one lane, a second after the other, in as many pieces as it is asked for.
class Flood final : public agent::Client {
public:
    static constexpr std::int64_t kPiece = 100'000;
    struct Valve {
        std::atomic<int> asked{0};
        std::atomic<bool> saysFinished{false}; ///< as a state; it goes on
        std::atomic<bool> ended{false};
        int endsAfter = 0; ///< pieces; 0: not before it is told to
    };
    explicit Flood(Valve &valve) : m_valve(valve) {}
    Status train(const agent::TrainRequest &request, const agent::RunEvents &events) override
    {
        trace::Tables tables;
        tables.lanes = {{"compute", trace::Work::Compute, 1}};
        tables.kinds = trace::standardKinds();
        tables.ranks = {{"d0"}};
        tables.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0}};
        events.onStarted("flood", request.runDir);
        events.onTraceTables(tables);
        events.onState(agent::RunState::Running, {});
        std::vector<trace::Record> piece;
        for (int sent = 0; !m_valve.ended;) {
            if (m_valve.saysFinished.exchange(false))
                events.onState(agent::RunState::Finished, {});
            if (m_valve.endsAfter > 0 && sent == m_valve.endsAfter) {
                events.onState(agent::RunState::Finished, {});
                return {};
            }
            if (sent >= m_valve.asked) {
                std::this_thread::sleep_for(std::chrono::microseconds(200));
                continue;
            }
            piece.clear();
            for (std::int64_t k = sent * kPiece; k < (sent + 1) * kPiece; ++k)
                piece.push_back({k * 1000, 900, 0, static_cast<std::int32_t>(k / 1000), 0, 0});
            events.onRecords(piece, 7); // so many were lost before
            ++sent;
        }
        return {};
    }
    void stop() override { m_valve.ended = true; }
    Status lookCloser(double) override { return {}; }

private:
    Valve &m_valve;
};

class TestTimelineView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();
    void rowsOfEveryDevice();
    void anEditIsPaintedOnce();
    void anOldPredictionSaysSo();
    void stagesThatShareADevice();
    void boxesAreDrawnWhereTheModelSays();
    void clickSelectsAndEscapeClears();
    void selectionElsewhereIsShown();
    void hoverTellsTheTask();
    void wheelAndKeysZoomAndPan();
    void focusAndPreviousView();
    void dragMeasuresARange();
    void stepsAlongRowAndMicroBatch();
    void searchFindsHiddenTasks();
    void searchFollowsThePlan();
    void marks();
    void measuredRowsLieUnderPredictedOnes();
    void aRunOfAnotherModelIsNotCompared();
    void aRunLiesBesideItsOwnPrediction();
    void aRoundLiesBesideItsPrediction();
    void aPredictionHasItsMerges();
    void aSimulatorsTraceIsNotMeasured();
    void versionsAreLines();
    void aResumedRunBeginsWhereItWentOn();
    void aRunThatReportsTooMuchKeepsTheNewest();
    void anEndThatIsLateDoesNotEndTheNextRun();
    void aRunEndsBehindItsRecords();
    void aTraceWithoutItsPlanSaysWhatItIs();
    void theLegendIsWholeInANarrowView();
    void startsInTheTableDiffer();
    void anOpenedTraceIsComparedByALaterStep();
    void tableShowsTheSame();
    void mergedSlicesLookDifferent();
    void levelsAreAsHighAsTheirShare();
    void everyThemePaints();

private:
    [[nodiscard]] TimelineCanvas &canvas() { return *m_view->canvas(); }
    [[nodiscard]] TimelineModel::Slice slice(const char *task) { return *m_view->model().find(task, {}); }
    void key(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) { QTest::keyClick(m_view->canvas(), key, modifiers); }
    void wheel(int delta, Qt::KeyboardModifiers modifiers, const QPoint &at);
    void trainFake();
    void averagesAreMarked();
    void versionsOfOneClock(const simulate::Simulation &simulation, const std::vector<std::int64_t> &ends);

    testing::FakeRun m_run;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<TimelineView> m_view;
};

void TestTimelineView::initTestCase() { applyTheme(*qApp, ThemeKind::Light); }

void TestTimelineView::init()
{
    m_state = std::make_unique<StudioState>();
    m_state->setClientFactory(testing::fakeAgent(m_run));
    QVERIFY(testing::loadSample(*m_state));
    m_view = std::make_unique<TimelineView>(m_state.get());
    m_view->resize(1100, 560);
    m_view->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
    canvas().setFocus();
}

void TestTimelineView::cleanup()
{
    m_view.reset();
    m_state.reset();
}

void TestTimelineView::wheel(int delta, Qt::KeyboardModifiers modifiers, const QPoint &at)
{
    QWheelEvent event(at, canvas().mapToGlobal(at), {}, {0, delta}, Qt::NoButton, modifiers, Qt::NoScrollPhase, false);
    QApplication::sendEvent(&canvas(), &event);
}

void TestTimelineView::trainFake()
{
    agent::TrainRequest request;
    request.settings.steps = 3;
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
}

/// The picture stays until the edit is simulated.
void TestTimelineView::anEditIsPaintedOnce()
{
    QSignalSpy changes(&canvas(), &TimelineCanvas::viewChanged);
    QVERIFY(m_state->editPlan(QStringLiteral("recompute"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            stage.recompute = plan::Recompute::Full;
    }));
    QVERIFY(!m_state->simulationCurrent());
    QCOMPARE(changes.size(), 0);
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    QCOMPARE(changes.size(), 1);
}

/// While the plan cannot be simulated.
void TestTimelineView::anOldPredictionSaysSo()
{
    const QString mark = QStringLiteral("! of the last plan that could be simulated");
    QVERIFY(!m_view->footerText().contains(mark));
    QVERIFY(m_state->editPlan(QStringLiteral("too small a budget"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages) {
            stage.memory.filter = plan::MemoryFilter::Delta;
            stage.memory.budgetBytes = 64;
        }
    }));
    QTRY_VERIFY_WITH_TIMEOUT(m_view->footerText().contains(mark), 20'000);
    m_state->undoStack()->undo();
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent() && !m_view->footerText().contains(mark), 20'000);
}

void TestTimelineView::rowsOfEveryDevice()
{
    const TimelineModel &model = m_view->model();
    QCOMPARE(model.groups().size(), std::size_t(4));
    for (std::size_t g = 0; g < 4; ++g) {
        const double share = model.predictedIdle(model.groups()[g]);
        QCOMPARE(model.stage(model.groups()[g]), static_cast<int>(g));
        QVERIFY(share > 0 && share < 1);
    }
    // The share of idle time over all compute lanes is the report's bubble fraction.
    double idle = 0;
    for (const auto &group : model.groups())
        idle += model.predictedIdle(group) / 4;
    QVERIFY(std::abs(idle - m_state->simulation()->report.bubbleFraction) < 1e-6);
    QVERIFY(!canvas().accessibleName().isEmpty());
    QVERIFY(canvas().accessibleDescription().contains(QStringLiteral("4 devices")));
}

/// Two devices with two stages each: each row names both, and is marked when either is selected.
void TestTimelineView::stagesThatShareADevice()
{
    QVERIFY(m_state->editPlan(QStringLiteral("two places"), [](plan::Plan &plan) {
        plan.schedule.kind = plan::ScheduleKind::Interleaved1F1B;
        plan.schedule.warmup.clear();
        plan.stages[2].devices = plan.stages[0].devices;
        plan.stages[3].devices = plan.stages[1].devices;
    }));
    QVERIFY(QTest::qWaitFor([this] { return m_state->simulationCurrent() && m_view->model().groups().size() == 2; },
                            30'000));
    const auto &groups = m_view->model().groups();
    QCOMPARE(m_view->model().stages(groups[0]), (std::vector<int>{0, 2}));
    QCOMPARE(m_view->model().stages(groups[1]), (std::vector<int>{1, 3}));
    QVERIFY(m_view->model().find("s2.F.m0", groups[0].device).has_value());
    m_state->selectStage(StageId(2));
    const QImage later = canvas().grab().toImage();
    m_state->selectStage(StageId(0));
    QCOMPARE(canvas().grab().toImage().copy(0, 0, 4, later.height()),
             later.copy(0, 0, 4, later.height())); // the same device is marked
    m_state->selectStage(StageId(1));
    QVERIFY(canvas().grab().toImage().copy(0, 0, 4, later.height()) != later.copy(0, 0, 4, later.height()));
}

void TestTimelineView::boxesAreDrawnWhereTheModelSays()
{
    const QRect box = canvas().viewport().boxOf(slice("s0.F.m3"));
    QVERIFY(box.width() > 4);
    const QImage picture = canvas().grab().toImage();
    const QColor forward = theme().hue(trace::standard(trace::Kind::Forward).hue);
    QCOMPARE(picture.pixelColor(box.left() + 1, box.top() + 2), forward);
    QVERIFY(picture.pixelColor(box.left() + 1, box.bottom() + 2) != forward);
}

void TestTimelineView::clickSelectsAndEscapeClears()
{
    QSignalSpy changed(m_state.get(), &StudioState::selectionChanged);
    QTest::mouseClick(&canvas(), Qt::LeftButton, {}, canvas().viewport().boxOf(slice("s1.F.m2")).center());
    QCOMPARE(m_state->selection().task, std::string("s1.F.m2"));
    QCOMPARE(m_state->selection().stage, StageId(1));
    QCOMPARE(m_state->selection().device, DeviceId(1));
    QVERIFY(changed.count() >= 1);
    QVERIFY(canvas().accessibleDescription().contains(QStringLiteral("s1.F.m2")));
    key(Qt::Key_Escape);
    QVERIFY(m_state->selection().task.empty());
}

void TestTimelineView::selectionElsewhereIsShown()
{
    const QRect box = canvas().viewport().boxOf(slice("s2.F.m1"));
    const QImage before = canvas().grab().toImage();
    m_state->selectTask("s2.F.m1");
    const QImage after = canvas().grab().toImage();
    QVERIFY(before.copy(box.adjusted(-2, -2, 2, 2)) != after.copy(box.adjusted(-2, -2, 2, 2)));
}

void TestTimelineView::hoverTellsTheTask()
{
    const auto over = slice("s1.B.m0");
    const QImage before = canvas().grab().toImage();
    QTest::mouseMove(&canvas(), canvas().viewport().boxOf(over).center());
    QTRY_VERIFY(canvas().grab().toImage() != before);
    const QString text = sliceText(m_view->model(), over);
    QVERIFY(text.contains(QStringLiteral("s1.B.m0")));
    QVERIFY(text.contains(QStringLiteral("backward")));
    QVERIFY(text.contains(QStringLiteral("micro-batch 0")));
    QVERIFY(!text.contains(QStringLiteral("measured /")));
    trainFake();
    const QString both = sliceText(m_view->model(), slice("s1.B.m0"));
    QVERIFY2(both.contains(QStringLiteral("measured / predicted: 1.50")), qPrintable(both));
}

void TestTimelineView::wheelAndKeysZoomAndPan()
{
    const double whole = canvas().viewport().axis().span();
    const QPoint at(600, 100);
    const double under = canvas().viewport().axis().toTime(at.x() - TimelinePainter::kGutter);
    wheel(240, Qt::ControlModifier, at);
    QVERIFY(canvas().viewport().axis().span() < whole);
    QVERIFY(std::abs(canvas().viewport().axis().toTime(at.x() - TimelinePainter::kGutter) - under) < whole / 1000);
    const double begin = canvas().viewport().axis().begin();
    wheel(-120, Qt::ShiftModifier, at);
    QVERIFY(canvas().viewport().axis().begin() > begin);
    key(Qt::Key_A);
    QVERIFY(canvas().viewport().axis().begin() < canvas().viewport().axis().boundsEnd());
    const double zoomed = canvas().viewport().axis().span();
    key(Qt::Key_W);
    QVERIFY(canvas().viewport().axis().span() < zoomed);
    key(Qt::Key_S);
    key(Qt::Key_D);
    key(Qt::Key_Home);
    QVERIFY(canvas().viewport().axis().showsAll());
    m_view->resize(1100, 260);
    QCOMPARE(canvas().viewport().scroll(), 0);
    wheel(-120, {}, at);
    QVERIFY(canvas().viewport().scroll() > 0);
}

void TestTimelineView::focusAndPreviousView()
{
    m_state->selectTask("s0.B.m5");
    key(Qt::Key_F);
    const double near = canvas().viewport().axis().span();
    QVERIFY(!canvas().viewport().axis().showsAll());
    QVERIFY(canvas().viewport().boxOf(slice("s0.B.m5")).width() > 200);
    key(Qt::Key_F); // again
    QVERIFY(canvas().viewport().axis().showsAll());
    key(Qt::Key_Backspace);
    QVERIFY(std::abs(canvas().viewport().axis().span() - near) < 2);
    QTest::mouseDClick(&canvas(), Qt::LeftButton, {}, canvas().viewport().boxOf(slice("s0.B.m5")).center());
    QVERIFY(!canvas().viewport().axis().showsAll());
}

void TestTimelineView::dragMeasuresARange()
{
    const QRect from = canvas().viewport().boxOf(slice("s0.F.m0"));
    const QRect to = canvas().viewport().boxOf(slice("s0.F.m2"));
    QTest::mousePress(&canvas(), Qt::LeftButton, {}, QPoint(from.left() + 1, from.top() + 5));
    QTest::mouseMove(&canvas(), QPoint((from.left() + to.right()) / 2, from.top() + 5));
    QTest::mouseMove(&canvas(), QPoint(to.right() - 2, from.top() + 5));
    QTest::mouseRelease(&canvas(), Qt::LeftButton, {}, QPoint(to.right() - 2, from.top() + 5));
    const auto range = m_state->selection().time;
    QVERIFY(range.has_value());
    const TimelineModel &model = m_view->model();
    const auto totals = model.totals({range->begin, range->end}, false);
    QVERIFY(totals.count >= 3);
    // By hand: every record that overlaps the range.
    std::int64_t count = 0;
    for (const auto &record : m_state->simulation()->trace.records)
        count += record.start < range->end && record.start + record.duration > range->begin;
    QCOMPARE(totals.count, count);
    QVERIFY(m_state->selection().task.empty()); // a drag is no click
}

void TestTimelineView::stepsAlongRowAndMicroBatch()
{
    m_state->selectTask("s0.F.m0");
    key(Qt::Key_Period);
    QCOMPARE(m_state->selection().task, std::string("s0.F.m1"));
    key(Qt::Key_Comma);
    QCOMPARE(m_state->selection().task, std::string("s0.F.m0"));
    key(Qt::Key_BracketRight);
    const std::string next = m_state->selection().task;
    QVERIFY(next != "s0.F.m0");
    QVERIFY(QByteArray::fromStdString(next).endsWith(".m0"));
    key(Qt::Key_BracketLeft);
    QCOMPARE(m_state->selection().task, std::string("s0.F.m0"));
}

void TestTimelineView::searchFindsHiddenTasks()
{
    m_state->selectTask("s0.F.m0");
    key(Qt::Key_F); // far away from what is looked for
    auto *field = m_view->findChild<QLineEdit *>();
    key(Qt::Key_Slash);
    QTest::keyClicks(field, QStringLiteral("s3.b.M7"));
    QCOMPARE(m_state->selection().task, std::string("s3.B.m7"));
    const QRect box = canvas().viewport().boxOf(slice("s3.B.m7"));
    QVERIFY(canvas().rect().intersects(box));
    field->setText(QStringLiteral("s0.F"));
    QCOMPARE(m_state->selection().task, std::string("s0.F.m0"));
    QTest::keyClick(field, Qt::Key_Return);
    QCOMPARE(m_state->selection().task, std::string("s0.F.m1"));
    field->setText(QStringLiteral("no such task"));
    QVERIFY2(m_view->footerText().startsWith(QStringLiteral("no task \"no such task\"")),
             qPrintable(m_view->footerText()));
    field->setText(QStringLiteral("s0.F.m3"));
    QVERIFY2(m_view->footerText().startsWith(QStringLiteral("task 1 of ")), qPrintable(m_view->footerText()));
    QTest::keyClick(field, Qt::Key_Escape);
    QVERIFY(canvas().hasFocus()); // Enter and Escape of the search leave it to the keys of the picture
    QCOMPARE(m_state->selection().task, std::string("s0.F.m3"));
    field->clear();
    QVERIFY(m_view->footerText().startsWith(QStringLiteral("predicted")));
}

void TestTimelineView::searchFollowsThePlan()
{
    auto *field = m_view->findChild<QLineEdit *>();
    field->setText(QStringLiteral("s1.F"));
    QTest::keyClick(field, Qt::Key_Return); // the second hit
    QVERIFY2(m_view->footerText().startsWith(QStringLiteral("task 2 of 8")), qPrintable(m_view->footerText()));
    PlanRequest request;
    request.planner = "data-parallel";
    request.globalBatch = 8;
    QVERIFY(m_state->runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(m_view->footerText().startsWith(QStringLiteral("no task \"s1.F\"")), 20'000);
    m_state->undoStack()->undo();
    QTRY_VERIFY_WITH_TIMEOUT(m_view->footerText().startsWith(QStringLiteral("task ")), 20'000);
    QVERIFY2(m_view->footerText().contains(QStringLiteral(" of 8 ")), qPrintable(m_view->footerText()));
    QTest::keyClick(field, Qt::Key_Return);
    QVERIFY(QByteArray::fromStdString(m_state->selection().task).startsWith("s1.F.m"));
    trainFake(); // measured slices are found, too
    QTRY_VERIFY2(m_view->footerText().contains(QStringLiteral(" of 32 ")), qPrintable(m_view->footerText()));
}

void TestTimelineView::marks()
{
    key(Qt::Key_M);
    QCOMPARE(canvas().overlay().marks().size(), std::size_t(1));
    canvas().addMark(QStringLiteral("here"));
    QCOMPARE(canvas().overlay().marks().back().name, QStringLiteral("here"));
    key(Qt::Key_Delete);
    QCOMPARE(canvas().overlay().marks().size(), std::size_t(1));
}

void TestTimelineView::measuredRowsLieUnderPredictedOnes()
{
    trainFake();
    const TimelineModel &model = m_view->model();
    QCOMPARE(model.steps(), 3);
    QCOMPARE(model.groups().size(), std::size_t(4)); // the same devices
    const auto predicted = slice("s2.F.m4");
    const auto measured = model.counterpart(predicted);
    QVERIFY(measured.has_value());
    QVERIFY(measured->measured);
    QCOMPARE(model.task(*measured).id, std::string("s2.F.m4"));
    QCOMPARE(model.record(*measured).step, model.anchorStep());
    QCOMPARE(model.record(*measured).duration, model.record(predicted).duration * 3 / 2);
    QCOMPARE(*model.counterpart(*measured), predicted);
    QVERIFY(canvas().viewport().boxOf(*measured).top() > canvas().viewport().boxOf(predicted).top());
    // The prediction begins where the anchor step does.
    QCOMPARE(model.step(model.anchorStep()).begin, model.offset() + m_state->simulation()->trace.begin());
}

void TestTimelineView::aRunOfAnotherModelIsNotCompared()
{
    trainFake();
    QTRY_VERIFY2(m_view->footerText().contains(QStringLiteral("× predicted")), qPrintable(m_view->footerText()));
    QVERIFY(m_state->loadModel(QStringLiteral("zoo:mlp")));
    m_state->whenLoaded([this] {
        PlanRequest request;
        request.planner = "data-parallel";
        request.globalBatch = 8;
        m_state->runPlanner(request);
    });
    QTRY_VERIFY_WITH_TIMEOUT(
        m_state->document() && m_state->document()->plan.modelName == "mlp" && m_state->simulationCurrent(), 20'000);
    QVERIFY(!m_state->runIsOfDocument());
    QVERIFY2(m_view->footerText().contains(QStringLiteral("measured trace of gpt-nano")),
             qPrintable(m_view->footerText()));
    QVERIFY(!m_view->model().hasMeasured());
}

/// Another plan of the same model on the same cluster is another plan, too.
void TestTimelineView::aRunLiesBesideItsOwnPrediction()
{
    trainFake();
    auto *whose = m_view->findChild<QComboBox *>();
    QVERIFY(whose && !whose->isVisible());
    const double predicted = m_state->simulation()->report.iterationSeconds;
    QVERIFY(m_state->editPlan(QStringLiteral("recompute"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            stage.recompute = plan::Recompute::Full;
    }));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    QVERIFY(m_state->simulation()->report.iterationSeconds > predicted);
    QVERIFY(whose->isVisible());
    QVERIFY(!m_view->model().hasMeasured()); // the edited plan is shown
    QVERIFY2(!m_view->footerText().contains(QStringLiteral("× predicted")), qPrintable(m_view->footerText()));

    QTest::keyClick(whose, Qt::Key_Down); // the measured plan
    QVERIFY(m_view->model().hasMeasured());
    QVERIFY2(m_view->footerText().contains(QStringLiteral("measured trace of gpt-nano")),
             qPrintable(m_view->footerText()));
    QVERIFY2(m_view->footerText().contains(QStringLiteral("1.50 × predicted")), qPrintable(m_view->footerText()));
    const auto task = slice("s1.B.m0");
    QCOMPARE(m_view->model().record(*m_view->model().counterpart(task)).duration,
             m_view->model().record(task).duration * 3 / 2);
    QVERIFY(!m_view->model().find("s1.R.m0", {}).has_value()); // of the edited plan

    m_state->undoStack()->undo();
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    QVERIFY(!whose->isVisible());
    QVERIFY2(m_view->footerText().contains(QStringLiteral("1.50 × predicted")), qPrintable(m_view->footerText()));
}

/// Replicas that are averaged every fourth step: the last whole round is laid beside the predicted one, step by step.
void TestTimelineView::aRoundLiesBesideItsPrediction()
{
    QVERIFY(testing::planWithAverages(*m_state));
    const TimelineModel &model = m_view->model();
    const auto &report = m_state->simulation()->report;
    QVERIFY(std::abs(model.predictedIdle(model.groups()[0]) - (1 - report.devices[0].busyFraction)) < 1e-9);
    agent::TrainRequest request;
    request.settings.steps = 14; // three rounds, and a half
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
    QCOMPARE(model.roundSteps(), 4);
    QCOMPARE(model.anchorStep(), 8);
    QTRY_VERIFY2(m_view->footerText().contains(QStringLiteral("measured steps 8 to 11: ")),
                 qPrintable(m_view->footerText()));
    QVERIFY2(m_view->footerText().contains(QStringLiteral("(1.50 × predicted)")), qPrintable(m_view->footerText()));
    for (const char *task : {"s0.M.b0", "s0.AR.b0", "s0.F.m0"}) {
        const auto predicted = slice(task);
        const auto measured = model.counterpart(predicted);
        QVERIFY2(measured && measured->measured, task);
        QCOMPARE(model.record(*measured).step, 8 + model.record(predicted).step);
        QCOMPARE(model.record(*measured).duration, model.record(predicted).duration * 3 / 2);
        QCOMPARE(*model.counterpart(*measured), predicted);
    }
    QVERIFY(model.round(8).followed);
    averagesAreMarked();
    // Another round by the box.
    auto *box = m_view->findChild<QSpinBox *>();
    QTRY_VERIFY(box->isVisible());
    QCOMPARE(box->singleStep(), 4);
    box->setValue(6);
    QCOMPARE(model.anchorStep(), 4);
    QCOMPARE(box->value(), 4);
    QVERIFY2(box->text().startsWith(QStringLiteral("Steps 4–7")), qPrintable(box->text()));
}

/// Those of the averages that its round begins, three steps later; lines say where steps begin. An opened trace is
/// shown at its last whole round.
void TestTimelineView::aPredictionHasItsMerges()
{
    QVERIFY(testing::planWithAverages(*m_state, "dasgd,local_steps=4,delay=3"));
    const TimelineModel &model = m_view->model();
    const auto averages = model.averages(model.rows().front(), {model.begin(), model.end()});
    const auto whole = [](const TimelineModel::Average &average) { return average.snapshot && average.merge; };
    QVERIFY(std::ranges::count_if(averages, whole) > 0);
    QVERIFY(std::ranges::none_of(averages, [](const auto &average) { return average.snapshot && !average.merge; }));
    const auto steps = model.stepBegins({model.begin(), model.end()});
    QVERIFY(steps.size() > 4 && steps[4].step == 4);
    canvas().viewport().showAll();
    const auto isLine = [&](const QImage &picture, std::int64_t time) {
        const auto x = static_cast<int>(canvas().viewport().axis().toPixel(static_cast<double>(time)));
        return picture.pixelColor(TimelinePainter::kGutter + x, picture.height() - 40) == theme().border;
    };
    QVERIFY(isLine(canvas().grab().toImage(), steps[2].time));

    agent::TrainRequest request;
    request.settings.steps = 14;
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("trace.pltrace"));
    QVERIFY(trace::writeTrace(m_state->measured(), path.toStdString()));
    QVERIFY(m_state->openTrace({path}));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->measuredPath(), path, 20'000);
    QCOMPARE(model.anchorStep(), 8);
    const trace::Window round = model.round(8).window;
    const TimeAxis &axis = canvas().viewport().axis();
    QVERIFY(axis.begin() <= static_cast<double>(round.begin) && axis.end() >= static_cast<double>(round.end));
    QVERIFY(axis.span() < 2 * static_cast<double>(round.end - round.begin));
    const auto shown = model.stepBegins(round);
    QCOMPARE(shown.front().step, 8);
    QVERIFY(isLine(canvas().grab().toImage(), shown[1].time));
}

/// Each from its snapshot to its merge. The first merge is of a round before, the last snapshot is not merged.
void TestTimelineView::averagesAreMarked()
{
    const TimelineModel &model = m_view->model();
    const trace::Trace &trace = m_state->measured();
    std::map<std::string, std::vector<std::int64_t>> times; // of rank 0, by task
    for (const trace::Record &record : trace.records) {
        const trace::TaskInfo &task = trace.tasks[static_cast<std::size_t>(record.task)];
        if (record.rank == 0 && task.id.ends_with(".b0"))
            times[task.id].push_back(record.start + (task.kind == trace::Kind::Snapshot ? record.duration : 0));
    }
    const std::vector<std::int64_t> &snapshots = times.at("s0.SN.b0");
    const std::vector<std::int64_t> &merges = times.at("s0.M.b0");
    QVERIFY(snapshots.size() > 1 && !merges.empty());
    const auto row = std::find_if(model.rows().begin(), model.rows().end(),
                                  [](const TimelineModel::Row &r) { return r.measured && r.computes; });
    const std::vector<TimelineModel::Average> averages = model.averages(*row, {model.begin(), model.end()});
    QVERIFY(merges[0] < snapshots[0]);
    QVERIFY(!averages[0].snapshot);
    QCOMPARE(*averages[0].merge, merges[0]);
    for (std::size_t i = 0; i < snapshots.size(); ++i) {
        const TimelineModel::Average &average = averages[i + 1];
        QCOMPARE(*average.snapshot, snapshots[i]);
        QCOMPARE(average.merge.has_value(), i + 1 < merges.size());
        if (average.merge)
            QCOMPARE(*average.merge, merges[i + 1]);
    }
    TimelineViewport &viewport = canvas().viewport();
    viewport.showAll();
    const int x = TimelinePainter::kGutter + static_cast<int>(viewport.axis().toPixel(static_cast<double>(merges[0])));
    const int foot = TimelinePainter::kRuler + row->y - viewport.scroll() + row->height;
    QCOMPARE(canvas().grab().toImage().pixelColor(x, foot - 1), theme().text);
}

/// Three measured rounds like @p simulation's, whose versions end at @p ends: where they have too many lines for the
/// room, those of the predicted round do not stand for them.
void TestTimelineView::versionsOfOneClock(const simulate::Simulation &simulation, const std::vector<std::int64_t> &ends)
{
    constexpr int kRounds = 3;
    TimelineModel model;
    trace::Trace measured = simulation.trace;
    measured.records.clear();
    std::int64_t end = 0;
    std::int32_t steps = 0;
    for (const trace::Record &record : simulation.trace.records) {
        end = std::max(end, record.start + record.duration);
        steps = std::max(steps, record.step + 1);
    }
    for (int round = 0; round < kRounds; ++round)
        for (trace::Record record : simulation.trace.records) {
            record.start += round * end;
            record.step += round * steps;
            measured.records.push_back(record);
        }
    model.setPredicted(m_state->simulation(), {});
    model.resetMeasured(measured);
    QVERIFY(model.hasServer(true) && model.hasServer(false));

    const int width = 10 * static_cast<int>(ends.size()); // room for twice as many
    QImage drawn(TimelinePainter::kGutter + width, 400, QImage::Format_RGB32);
    QColor ink = theme().text;
    ink.setAlpha(110);
    QImage dot(1, 1, drawn.format());
    dot.fill(theme().base);
    QPainter(&dot).fillRect(0, 0, 1, 1, ink);
    const auto linesUntil = [&](std::int64_t last) {
        TimelineScene scene;
        scene.model = &model;
        scene.area = {TimelinePainter::kGutter, TimelinePainter::kRuler, width, 400 - TimelinePainter::kRuler};
        scene.axis.setBounds(0, kRounds * end);
        scene.axis.setPixels(width);
        scene.axis.show(0, static_cast<double>(last), 0);
        QPainter painter(&drawn);
        TimelinePainter().paint(painter, scene, QFont());
        const int gap = TimelinePainter::kRuler + model.groups()[1].y - 3;
        int lines = 0;
        for (int x = TimelinePainter::kGutter; x < drawn.width(); ++x)
            lines += drawn.pixelColor(x, gap) == dot.pixelColor(0, 0) ? 1 : 0;
        return lines;
    };
    QVERIFY(linesUntil(end) > 0);
    QCOMPARE(linesUntil(kRounds * end), 0);
}

/// Where a parameter server has a version ready, a line goes through all rows.
void TestTimelineView::versionsAreLines()
{
    const TimelineModel &model = m_view->model();
    QVERIFY(!model.hasServer(false)); // the sample has none
    QVERIFY(model.versions(false, {model.begin(), model.end()}, 1000)->empty());
    m_state->loadModel(QStringLiteral("zoo:rnn"));
    m_state->loadCluster(QStringLiteral("local:2"));
    bool loaded = false;
    m_state->whenLoaded([&loaded] { loaded = true; });
    QTRY_VERIFY_WITH_TIMEOUT(loaded, 20'000);
    PlanRequest request;
    request.planner = "admm";
    request.globalBatch = 1198;
    request.options = {{"workers", "2"}, {"parallel", "asynchronous"}, {"barrier", "1"}, {"delay", "4"}};
    QVERIFY(m_state->runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->document() && m_state->simulationCurrent(), 20'000);
    QTRY_VERIFY(!model.versions(false, {model.begin(), model.end()}, 100'000)->empty());
    QVERIFY(model.hasServer(false) && !model.hasServer(true));
    const trace::Trace &trace = m_state->simulation()->trace;
    std::vector<std::int64_t> ends;
    for (const trace::Record &record : trace.records)
        if (trace.tasks[static_cast<std::size_t>(record.task)].id == "S")
            ends.push_back(record.start + record.duration);
    std::ranges::sort(ends);
    const auto lines = model.versions(false, {model.begin(), model.end() + 1}, ends.size());
    QVERIFY(lines && *lines == ends);
    QVERIFY(!model.versions(false, {model.begin(), model.end() + 1}, ends.size() - 1)); // too many
    QVERIFY(ends.size() > 6);
    TimelineViewport &viewport = canvas().viewport();
    viewport.focus(TimeRange{0, ends[6]}, std::nullopt);
    const int x = TimelinePainter::kGutter + static_cast<int>(viewport.axis().toPixel(static_cast<double>(ends[0])));
    const QImage picture = canvas().grab().toImage();
    const int gap = TimelinePainter::kRuler + model.groups()[1].y - viewport.scroll() - 3; // between two devices
    QVERIFY(picture.pixelColor(x, gap) != picture.pixelColor(x - 4, gap));
    versionsOfOneClock(*m_state->simulation(), ends);
    if (const QByteArray file = qgetenv("PLANLOOM_PICTURE"); !file.isEmpty())
        QVERIFY(m_view->grab().save(QString::fromUtf8(file)));
}

/// Steps before the one where a run went on have no records: they cannot be chosen.
void TestTimelineView::aResumedRunBeginsWhereItWentOn()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("resumed.pltrace"));
    trace::Trace trace = m_state->simulation()->trace;
    trace.plan = plan::fingerprint(*m_state->document());
    trace.clock = "wall";
    const std::vector<trace::Record> step = trace.records;
    const std::int64_t length =
        std::ranges::max(step, {}, [](const trace::Record &r) { return r.start + r.duration; }).start + 1'000'000'000;
    trace.records.clear();
    for (const int number : {40, 41, 43}) { // the records of 42 are lost
        for (trace::Record record : step) {
            record.step = number;
            record.start += (number - 40) * length;
            trace.records.push_back(record);
        }
    }
    QVERIFY(trace::writeTrace(trace, path.toStdString()));
    QVERIFY(m_state->openTrace({path}));
    QTRY_VERIFY_WITH_TIMEOUT(m_view->model().hasMeasured(), 20'000);
    QCOMPARE(m_view->model().firstStep(), 40);
    auto *box = m_view->findChild<QSpinBox *>();
    QTRY_VERIFY(box->isVisible());
    QCOMPARE(box->minimum(), 40);
    box->setValue(10);
    QCOMPARE(m_view->model().anchorStep(), 40);
    QVERIFY2(m_view->footerText().contains(QStringLiteral("step 40: ")), qPrintable(m_view->footerText()));
    box->setValue(42);
    QVERIFY2(m_view->footerText().contains(QStringLiteral("no records of step 42")), qPrintable(m_view->footerText()));
}

void TestTimelineView::aSimulatorsTraceIsNotMeasured()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("p.pltrace"));
    trace::Trace trace = m_state->simulation()->trace;
    trace.plan = plan::fingerprint(*m_state->document());
    QVERIFY(trace::writeTrace(trace, path.toStdString()));
    QVERIFY(m_state->openTrace({path}));
    QTRY_VERIFY_WITH_TIMEOUT(m_view->model().hasMeasured(), 20'000);
    QVERIFY2(m_view->footerText().contains(QStringLiteral("simulated step 0")), qPrintable(m_view->footerText()));
    QVERIFY2(!m_view->footerText().contains(QStringLiteral("measured")), qPrintable(m_view->footerText()));
    const QString text = sliceText(m_view->model(), *m_view->model().counterpart(slice("s1.B.m0")));
    QVERIFY2(text.contains(QStringLiteral("simulated / predicted: 1.00")), qPrintable(text));
}

void TestTimelineView::aRunThatReportsTooMuchKeepsTheNewest()
{
    constexpr int kPieces = 32; // three million records are kept
    Flood::Valve valve;
    m_state->setClientFactory([&]() -> Result<std::unique_ptr<agent::Client>> {
        return std::unique_ptr<agent::Client>(std::make_unique<Flood>(valve));
    });
    QVERIFY(m_state->startRun({}));
    std::size_t most = 0; // records that an event takes over
    connect(m_state.get(), &StudioState::measuredAppended, this,
            [&](std::size_t first) { most = std::max(most, m_state->measured().records.size() - first); });
    std::shared_ptr<const trace::Trace> full; // that the first records go from
    connect(m_state.get(), &StudioState::measuredAppended, this, [&] {
        if (!full && m_state->measured().records.size() > 3'000'000)
            full = m_state->sharedMeasured();
    });
    const auto trace = [&]() -> const trace::Trace & { return m_state->measured(); }; // another one by and by
    for (int piece = 1; piece <= kPieces; ++piece) {
        valve.asked = piece;
        QVERIFY(QTest::qWaitFor(
            [&] {
                return static_cast<std::int64_t>(trace().records.size()) + trace().dropped == piece * Flood::kPiece + 7;
            },
            20'000));
    }
    QVERIFY(trace().dropped > 1'000'000);
    QVERIFY2(most > 0 && most < Flood::kPiece / 2, qPrintable(QString::number(most)));
    QVERIFY(full && full.get() != &trace());
    QCOMPARE(full->records.front().start, std::int64_t(0)); // as it was when it was shared
    for (std::size_t k = 0; k < trace().records.size(); k += 1000)
        QCOMPARE(trace().records[k].start, trace().records.front().start + static_cast<std::int64_t>(k) * 1000);
    const TimelineModel &model = m_view->model();
    const trace::LevelOfDetail *lod = nullptr;
    QTRY_VERIFY((lod = &model.traceIndex(true).lod())->size() == trace().records.size());
    QCOMPARE(lod->begin(), trace().records.front().start);
    QCOMPARE(lod->end(), (kPieces * Flood::kPiece - 1) * 1000 + 900);
    QCOMPARE(model.dropped(), trace().dropped);
    valve.asked = kPieces + 1; // and it goes on from there
    QTRY_COMPARE(model.traceIndex(true).lod().end(), ((kPieces + 1) * Flood::kPiece - 1) * 1000 + 900);
    valve.ended = true;
    QTRY_VERIFY(!m_state->run().active());
}

/// The end of a client is told twice: as a state, and when it returns. By then the next run may be under way.
void TestTimelineView::anEndThatIsLateDoesNotEndTheNextRun()
{
    Flood::Valve first, second;
    Flood::Valve *valve = &first;
    m_state->setClientFactory([&]() -> Result<std::unique_ptr<agent::Client>> {
        return std::unique_ptr<agent::Client>(std::make_unique<Flood>(*valve));
    });
    QVERIFY(m_state->startRun({}));
    first.asked = 1;
    QTRY_COMPARE(m_state->measured().records.size(), std::size_t(Flood::kPiece));
    first.saysFinished = true;
    QTRY_VERIFY(!m_state->run().active());
    first.ended = true; // it returns while the next one is started
    valve = &second;
    QVERIFY(m_state->startRun({}));
    second.asked = 2;
    QTRY_COMPARE(m_state->measured().records.size(), std::size_t(2 * Flood::kPiece));
    QVERIFY(m_state->run().active());
    second.ended = true;
    QTRY_VERIFY(!m_state->run().active());
    QCOMPARE(m_state->run().phase, RunData::Phase::Finished);
}

/// What a run reports behind more records than an event takes is shown behind these.
void TestTimelineView::aRunEndsBehindItsRecords()
{
    Flood::Valve valve;
    valve.asked = 5;
    valve.endsAfter = 5;
    m_state->setClientFactory([&]() -> Result<std::unique_ptr<agent::Client>> {
        return std::unique_ptr<agent::Client>(std::make_unique<Flood>(valve));
    });
    QVERIFY(m_state->startRun({}));
    bool grewLater = false;
    connect(m_state.get(), &StudioState::measuredAppended, this,
            [&] { grewLater = grewLater || !m_state->run().active(); });
    QTRY_VERIFY(!m_state->run().active());
    QCOMPARE(m_state->measured().records.size(), std::size_t(5 * Flood::kPiece));
    QVERIFY(!grewLater);
}

void TestTimelineView::aTraceWithoutItsPlanSaysWhatItIs()
{
    QTemporaryDir folder;
    const QString unnamed = folder.filePath(QStringLiteral("unnamed.pltrace"));
    const QString named = folder.filePath(QStringLiteral("named.pltrace"));
    const QString plan = folder.filePath(QStringLiteral("theirs.json"));
    trace::Trace trace = m_state->simulation()->trace;
    QVERIFY(trace::writeTrace(trace, unnamed.toStdString()));
    trace.plan = plan::fingerprint(*m_state->document());
    QVERIFY(trace::writeTrace(trace, named.toStdString()));

    StudioState state;
    TimelineView view(&state);
    view.resize(1000, 400);
    view.show();
    const auto *open = view.findChild<QPushButton *>();
    QVERIFY(state.openTrace({unnamed}));
    QTRY_VERIFY_WITH_TIMEOUT(view.model().hasMeasured(), 20'000);
    QVERIFY2(view.footerText().contains(QStringLiteral("simulated trace of 4 devices, 4 stages, 8 micro-batches, "
                                                       "1 step; it does not say of which plan")),
             qPrintable(view.footerText()));
    QVERIFY(!open->isVisible());

    QVERIFY(state.openTrace({named}));
    QTRY_VERIFY_WITH_TIMEOUT(state.measuredOrigin().lacksPlan(), 20'000);
    QVERIFY2(view.footerText().contains(QStringLiteral("1 step; open its plan to compare")),
             qPrintable(view.footerText()));
    QVERIFY(open->isVisible());
    QSignalSpy asked(&view, &TimelineView::planOfTraceAsked);
    QTest::mouseClick(view.findChild<QPushButton *>(), Qt::LeftButton);
    QCOMPARE(asked.size(), 1);

    // Found beside the trace, whatever its name, and once it is opened.
    QVERIFY(plan::writePlan(*m_state->document(), plan.toStdString()));
    QVERIFY(state.openPlan(plan));
    QTRY_VERIFY_WITH_TIMEOUT(state.measuredIsOfDocument(), 20'000);
    QVERIFY(!open->isVisible());
    StudioState other;
    QVERIFY(other.openTrace({named}));
    QTRY_VERIFY_WITH_TIMEOUT(other.measuredOrigin().simulation, 20'000);
    QVERIFY(other.measuredOrigin().name.startsWith(QStringLiteral("gpt-nano")));
}

void TestTimelineView::theLegendIsWholeInANarrowView()
{
    const auto *legend = m_view->findChild<Legend *>();
    m_view->resize(460, 600);
    QCoreApplication::processEvents();
    QVERIFY(legend->width() < legend->sizeHint().width());
    QCOMPARE(legend->height(), legend->heightForWidth(legend->width()));
    QVERIFY(legend->texts().contains(QStringLiteral("forward")));
    QVERIFY(!legend->texts().contains(QStringLiteral("recompute"))); // the plan has none
}

void TestTimelineView::startsInTheTableDiffer()
{
    trainFake();
    for (QAction *action : m_view->commands())
        if (action->text().contains(QStringLiteral("table")))
            action->trigger();
    const TableModel &rows = *m_view->findChild<DataTable *>(QStringLiteral("slices"))->tableModel();
    QString last;
    for (int row = 0; row < rows.rowCount(); ++row) {
        const auto &cells = rows.row(row);
        if (cells[0].text != QStringLiteral("s0.F.m1") && cells[0].text != QStringLiteral("s0.F.m2"))
            continue;
        QVERIFY2(cells[4].text != last, qPrintable(last)); // neighbours
        QVERIFY2(cells[4].text.endsWith(QStringLiteral(" ms")), qPrintable(cells[4].text));
        if (cells[3].text.startsWith(QStringLiteral("predicted")))
            QVERIFY2(cells[3].text.contains(QStringLiteral("from the start of step 1")), qPrintable(cells[3].text));
        last = cells[4].text;
    }
    QVERIFY(!last.isEmpty());
}

void TestTimelineView::anOpenedTraceIsComparedByALaterStep()
{
    trainFake();
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("trace.pltrace"));
    QVERIFY(trace::writeTrace(m_state->measured(), path.toStdString()));
    StudioState state;
    TimelineView view(&state);
    QVERIFY(state.openTrace({path}));
    QTRY_COMPARE_WITH_TIMEOUT(view.model().steps(), 3, 20'000);
    QCOMPARE(view.model().anchorStep(), 1);
    QVERIFY2(view.footerText().contains(QStringLiteral("measured step 1")), qPrintable(view.footerText()));
    QCOMPARE(view.findChild<QSpinBox *>()->text(), QStringLiteral("Step 1 (0–2)")); // counted from 0
}

void TestTimelineView::tableShowsTheSame()
{
    QAction *asTable = nullptr;
    for (QAction *action : m_view->commands()) {
        if (action->text().contains(QStringLiteral("table")))
            asTable = action;
    }
    QVERIFY(asTable);
    asTable->trigger();
    auto *table = m_view->findChild<DataTable *>(QStringLiteral("slices"));
    QCOMPARE(static_cast<std::size_t>(table->tableModel()->rowCount()), m_state->simulation()->trace.records.size());
    table->selectRow(3);
    QCOMPARE(m_state->selection().task,
             table->tableModel()->row(table->sourceRow(table->currentIndex()))[0].text.toStdString());
    QVERIFY(table->selectionAsText().contains(QString::fromStdString(m_state->selection().task)));

    asTable->trigger(); // hidden: rows would point into a timeline that changes
    QCOMPARE(table->tableModel()->rowCount(), 0);
    trainFake();
    asTable->trigger();
    QVERIFY(table->hasFocus());
    QVERIFY(static_cast<std::size_t>(table->tableModel()->rowCount()) > m_state->simulation()->trace.records.size());
}

void TestTimelineView::mergedSlicesLookDifferent()
{
    // A thousand slices of 100 ns each, side by side, in a second that is otherwise empty: one or two pixels.
    auto simulation = std::make_shared<simulate::Simulation>();
    simulation->trace.lanes = {{"compute", trace::Work::Compute, 1}};
    simulation->trace.kinds = trace::standardKinds();
    simulation->trace.ranks = {{"d0"}};
    simulation->trace.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0}};
    for (int k = 0; k < 1000; ++k)
        simulation->trace.records.push_back({500'000'000 + k * 100, 100, 0, 0, 0, 0});
    simulation->trace.records.push_back({999'000'000, 1'000'000, 0, 0, 0, 0});
    simulation->trace.records.push_back({0, 1'000'000, 0, 0, 0, 0});
    simulation->trace.sort();
    TimelineModel model;
    model.setPredicted(simulation);
    TimelineCanvas small(&model);
    small.resize(800, 120);
    small.modelChanged(false);
    const QImage picture = small.grab().toImage();
    const QRect merged = small.viewport().boxOf(*model.sliceAt(0, 500'050'000, 100'000));
    const QRect single = small.viewport().boxOf(*model.sliceAt(0, 999'500'000, 0));
    const auto column = [&](const QRect &box) { return picture.copy(QRect(box.left(), box.top(), 1, box.height())); };
    QVERIFY(column(merged) != column(single));
}

void TestTimelineView::levelsAreAsHighAsTheirShare()
{
    auto simulation = std::make_shared<simulate::Simulation>();
    trace::Trace &trace = simulation->trace;
    trace.lanes = {{"compute", trace::Work::Compute, 1}, {"power", trace::Work::Device, 1}};
    trace.kinds = trace::standardKinds();
    trace.ranks = {{"d0"}};
    trace.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0}};
    for (int level = 0; level <= 10; ++level)
        trace.tasks.push_back({"power/" + std::to_string(100 * level) + " W", trace::Kind::Other});
    trace.records = {{0, 900'000, 0, 0, 0, 0},
                     {0, 300'000, 6, 0, 0, 1},
                     {300'000, 300'000, 11, 0, 0, 1},
                     {600'000, 300'000, 1, 0, 0, 1}};
    TimelineModel model;
    model.setPredicted(simulation);
    QVERIFY(model.gauge(model.rows()[0]) == nullptr && model.gauge(model.rows()[1]) != nullptr);
    TimelineCanvas small(&model);
    small.resize(800, 120);
    small.modelChanged(false);
    const QImage picture = small.grab().toImage();
    const QColor bar = theme().ofSeries(1);
    const auto heightAt = [&](double time) { // of the bar, and of the row
        const QRect box = small.viewport().boxOf(*model.sliceAt(1, time, 0));
        int height = 0;
        for (int y = box.top(); y <= box.bottom(); ++y) // beside the text
            height += picture.pixelColor(box.left() + 3, y) == bar ? 1 : 0;
        return std::pair(height, box.height());
    };
    const auto [half, row] = heightAt(100'000);
    QVERIFY2(half >= row / 2 && half <= row / 2 + 1, qPrintable(QString("%1 of %2").arg(half).arg(row)));
    QCOMPARE(heightAt(400'000), std::pair(row, row));
    QCOMPARE(heightAt(700'000), std::pair(1, row));
    const QString text = sliceText(model, *model.sliceAt(1, 100'000, 0));
    QVERIFY2(text.startsWith(QStringLiteral("power/500 W\n")), qPrintable(text));
}

void TestTimelineView::everyThemePaints()
{
    QImage last;
    for (const auto kind : {ThemeKind::Dark, ThemeKind::HighContrast, ThemeKind::Light}) {
        applyTheme(*qApp, kind);
        const QImage picture = canvas().grab().toImage();
        QVERIFY(picture != last);
        QCOMPARE(picture.pixelColor(canvas().width() - 4, canvas().height() - 6), theme().base);
        last = picture;
    }
}

PLANLOOM_UI_MAIN(TestTimelineView)
#include "tst_timeline_view.moc"
