// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/watched_main.h"

#include "ui/planview/plan_view.h"

#include "engine/plan/stage_edits.h"
#include "ui/planview/stage_figures.h"
#include "ui/planview/stage_table.h"

#include <QSignalSpy>
#include <QTest>
#include <QToolTip>

#include <cmath>

using namespace planloom;
using namespace planloom::ui;

namespace {

constexpr std::size_t kFirstCut = 6;

/// gpt2 on eight devices in two stages of four, 8 micro-batches of 4.
plan::Plan twoStages(const plan::Subject &subject)
{
    plan::Plan plan;
    plan.modelName = subject.graph->name();
    plan.modelSource = subject.modelSource;
    plan.clusterName = subject.cluster->name();
    plan.planner.name = "manual";
    plan.globalBatch = 32;
    plan.microBatches = 8;
    plan.schedule.kind = plan::ScheduleKind::DappleA;
    plan.stages.resize(2);
    plan.stages[0].name = "stage0";
    plan.stages[0].lastLayer = kFirstCut;
    plan.stages[1].name = "stage1";
    plan.stages[1].firstLayer = kFirstCut;
    plan.stages[1].lastLayer = subject.layers().size();
    for (int d = 0; d < 8; ++d)
        plan.stages[d < 4 ? 0 : 1].devices.push_back(DeviceId(d));
    return plan;
}

/// A plan view on a simulated plan, in a window, and the last message of the state.
struct Bench {
    StudioState state;
    std::unique_ptr<PlanView> view;
    QString message;

    Bench()
    {
        QObject::connect(&state, &StudioState::message, &state,
                         [this](MessageLevel, const QString &text) { message = text; });
        view = std::make_unique<PlanView>(&state);
        view->resize(1200, 420);
        view->show();
        state.loadModel(QStringLiteral("zoo:gpt2"));
        state.loadCluster(QStringLiteral("preset:h100-8"));
        bool loaded = false;
        state.whenLoaded([&loaded] { loaded = true; });
        ready = QTest::qWaitFor([&] { return loaded && state.subject(); }, 30'000)
            && state.replacePlan(QStringLiteral("sample"), twoStages(*state.subject())) && simulated();
        state.undoStack()->clear();
    }
    bool simulated()
    {
        return QTest::qWaitFor([this] { return state.simulationCurrent(); }, 30'000);
    }
    [[nodiscard]] const plan::Plan &plan() const { return state.document()->plan; }
    [[nodiscard]] LayerBars *bars() const { return view->findChild<LayerBars *>(); }
    [[nodiscard]] DataTable *table(const QString &name = QStringLiteral("Stages of the plan")) const
    {
        for (DataTable *each : view->findChildren<DataTable *>()) {
            if (each->accessibleName() == name)
                return each;
        }
        return nullptr;
    }
    /// Writes into a cell as a user does: double click, text, Enter.
    void write(int row, StageColumn column, const QString &text) const
    {
        write(table(), row, static_cast<int>(column), text);
    }
    static void write(DataTable *stages, int row, int column, const QString &text)
    {
        const QModelIndex index = stages->model()->index(row, column);
        stages->scrollTo(index);
        stages->setCurrentIndex(index);
        stages->edit(index);
        auto *editor = stages->viewport()->findChild<QLineEdit *>();
        QVERIFY(editor);
        editor->selectAll();
        QTest::keyClicks(editor, text);
        QTest::keyClick(editor, Qt::Key_Return);
        QCoreApplication::processEvents(); // the table takes it over when the key has been dealt with
        QCoreApplication::sendPostedEvents(
            nullptr, QEvent::DeferredDelete); // or the next one would write into an editor that is closed
    }
    /// Presses the mouse on a boundary and lets it go before @p layer.
    void drag(int boundary, std::size_t layer, QString *preview = nullptr) const
    {
        LayerBars *widget = bars();
        const int y = widget->height() / 2;
        const auto pixel = [&](std::size_t at) {
            return QPoint(static_cast<int>(std::round(widget->axis().x(static_cast<double>(at)))), y);
        };
        const QPoint from = pixel(plan().stages[static_cast<std::size_t>(boundary)].lastLayer);
        const QPoint to = pixel(layer);
        QTest::mousePress(widget, Qt::LeftButton, {}, from);
        QTest::mouseMove(widget, (from + to) / 2);
        QTest::mouseMove(widget, to);
        if (preview)
            *preview = widget->previewText();
        QTest::mouseRelease(widget, Qt::LeftButton, {}, to);
    }
    bool ready = false;
};

} // namespace

class TestPlanView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void figuresAddUp();
    void draggedBoundaryIsOneCommand();
    void figuresFollowADrag();
    void aDragStopsAtTheLastLegalLayer();
    void escapeEndsTheDrag();
    void keysMoveTheBoundary();
    void tabWalksOverBoundaries();
    void doubleClickSplitsAndDeleteMerges();
    void splitNeedsADevice();
    void tableEdits_data();
    void tableEdits();
    void refusedTableEdits_data();
    void refusedTableEdits();
    void openEditorDoesNotOutliveTheView();
    void recomputeIsAClick();
    void selectionIsLinked();
    void controlsEditAndAreReset();
    void theExchangeIsShownAndEdited();
    void stagesAreNoLongerThanTheIteration();
    void alternativeIsTaken();
    void annotationsAreWritten();
    void planningAgainFollowsAnnotations();
    void whyIsToldAfterEveryEdit();
    void theSelectionFollowsItsStage();
    void tensorPartsAreMegatrons();
    void precisionAndDecayAreEdited();
    void interleavingWithOneStageADeviceIsSaid();

private:
    static int rowOf(DataTable *table, const QString &scope);
};

int TestPlanView::rowOf(DataTable *table, const QString &scope)
{
    for (int row = 0; row < table->model()->rowCount(); ++row)
        if (table->model()->index(row, 0).data().toString() == scope)
            return row;
    return -1;
}

void TestPlanView::figuresAddUp()
{
    Bench bench;
    QVERIFY(bench.ready);
    const plan::Document &document = *bench.state.document();
    const auto figures = layerFigures(document);
    double sum = 0;
    for (std::size_t k = 0; k < kFirstCut; ++k)
        sum += figures[k].seconds;
    QVERIFY(sum > 0);
    QVERIFY(std::abs(sum / stageSeconds(document, 0, 0, kFirstCut) - 1) < 1e-9);
    const auto moved = secondsWithBoundary(document, 0, kFirstCut + 1);
    QVERIFY(std::abs(moved[0] / (sum + stageSeconds(document, 0, kFirstCut, kFirstCut + 1)) - 1) < 1e-9);
    const std::size_t half = balancedCut(document, 1);
    QVERIFY(half > kFirstCut && half < figures.size());
}

// --- boundaries

void TestPlanView::draggedBoundaryIsOneCommand()
{
    Bench bench;
    QVERIFY(bench.ready);
    QString preview;
    bench.drag(0, kFirstCut + 2, &preview);
    QVERIFY2(preview.contains(QStringLiteral("slowest stage")), qPrintable(preview));
    QCOMPARE(bench.plan().stages[0].lastLayer, kFirstCut + 2);
    QCOMPARE(bench.plan().stages[1].firstLayer, kFirstCut + 2);
    QCOMPARE(bench.state.undoStack()->count(), 1);
    QVERIFY(bench.bars()->previewText().isEmpty());
    bench.state.undoStack()->undo();
    QCOMPARE(bench.plan().stages[0].lastLayer, kFirstCut);
    bench.state.undoStack()->redo();
    QCOMPARE(bench.plan().stages[0].lastLayer, kFirstCut + 2);
}

void TestPlanView::figuresFollowADrag()
{
    Bench bench;
    QVERIFY(bench.ready);
    QTRY_VERIFY(bench.state.simulationCurrent());
    const auto document = bench.state.document();
    const double before = bench.state.simulation()->report.iterationSeconds;
    LayerBars *bars = bench.bars();
    const auto pixel = [&](std::size_t layer) {
        return QPoint(static_cast<int>(std::round(bars->axis().x(static_cast<double>(layer)))), bars->height() / 2);
    };
    QTest::mousePress(bars, Qt::LeftButton, {}, pixel(kFirstCut));
    for (const std::size_t layer : {kFirstCut + 1, kFirstCut + 2}) { // twice: a trial upon a trial
        QTest::mouseMove(bars, pixel(layer));
        QCOMPARE(bench.plan().stages[0].lastLayer, layer);
        QTRY_VERIFY(bench.state.simulationCurrent());
        QVERIFY(bench.state.simulation()->report.iterationSeconds != before);
        QVERIFY(bench.state.previousReport());
        QCOMPARE(bench.state.previousReport()->iterationSeconds, before);
        QVERIFY(!bars->previewText().isEmpty());
        QCOMPARE(bench.state.undoStack()->count(), 0);
    }
    QTest::keyClick(bars, Qt::Key_Escape);
    QCOMPARE(bench.state.document(), document);
    QCOMPARE(bench.state.undoStack()->count(), 0);
    QTest::mouseRelease(bars, Qt::LeftButton, {}, pixel(kFirstCut + 2));
    QCOMPARE(bench.state.document(), document);

    bench.drag(0, kFirstCut + 2);
    QCOMPARE(bench.state.undoStack()->count(), 1);
    QTRY_VERIFY(bench.state.simulationCurrent());
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.document(), document);
    QVERIFY(!bench.state.keepTrial(QStringLiteral("none")));
}

void TestPlanView::aDragStopsAtTheLastLegalLayer()
{
    Bench bench;
    QVERIFY(bench.ready);
    QString preview;
    bench.message.clear();
    bench.drag(0, 0, &preview); // in front of the first layer
    QVERIFY(!preview.isEmpty());
    QVERIFY2(bench.message.isEmpty(), qPrintable(bench.message));
    QCOMPARE(bench.plan().stages[0].lastLayer, std::size_t(1));
    QCOMPARE(bench.state.undoStack()->count(), 1);
    bench.drag(0, bench.state.document()->subject.layers().size());
    QCOMPARE(bench.plan().stages[0].lastLayer, bench.plan().stages[1].lastLayer - 1);
    QVERIFY2(bench.message.isEmpty(), qPrintable(bench.message));
}

void TestPlanView::escapeEndsTheDrag()
{
    Bench bench;
    QVERIFY(bench.ready);
    LayerBars *bars = bench.bars();
    const QPoint at(static_cast<int>(std::round(bars->axis().x(kFirstCut))), bars->height() / 2);
    QTest::mousePress(bars, Qt::LeftButton, {}, at);
    QTest::mouseMove(bars, at + QPoint(80, 0));
    QVERIFY(!bars->previewText().isEmpty());
    QTest::keyClick(bars, Qt::Key_Escape);
    QTest::mouseRelease(bars, Qt::LeftButton, {}, at + QPoint(80, 0));
    QCOMPARE(bench.plan().stages[0].lastLayer, kFirstCut);
    QCOMPARE(bench.state.undoStack()->count(), 0);
}

void TestPlanView::keysMoveTheBoundary()
{
    Bench bench;
    QVERIFY(bench.ready);
    LayerBars *bars = bench.bars();
    QTest::keyClick(bars, Qt::Key_BracketRight);
    QCOMPARE(bars->currentBoundary(), 0);
    QTest::keyClick(bars, Qt::Key_Right);
    QCOMPARE(bench.plan().stages[0].lastLayer, kFirstCut + 1);
    QTest::keyClick(bars, Qt::Key_Left, Qt::ShiftModifier);
    QCOMPARE(bench.plan().stages[0].lastLayer, kFirstCut - 4);
    QCOMPARE(bench.state.undoStack()->count(), 2);
    QVERIFY(bars->accessibleDescription().contains(QStringLiteral("before layer %1").arg(kFirstCut - 4)));
    QTest::keyClick(bars, Qt::Key_Left, Qt::ShiftModifier); // stops before layer 1
    QCOMPARE(bench.plan().stages[0].lastLayer, std::size_t(1));
    QTest::keyClick(bars, Qt::Key_Left);
    QVERIFY2(bench.message.isEmpty(), qPrintable(bench.message));
    QCOMPARE(bench.state.undoStack()->count(), 3);
    QTest::keyClick(bars, Qt::Key_Escape);
    QCOMPARE(bars->currentBoundary(), -1);
}

void TestPlanView::tabWalksOverBoundaries()
{
    Bench bench;
    QVERIFY(bench.ready);
    QVERIFY(bench.view->split(1, kFirstCut + 3));
    LayerBars *bars = bench.bars();
    bench.view->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(bench.view.get()));
    bench.table()->setFocus();
    bars->setFocus(Qt::TabFocusReason);
    QCOMPARE(bars->currentBoundary(), 0);
    QTest::keyClick(bars, Qt::Key_Tab);
    QCOMPARE(bars->currentBoundary(), 1);
    QVERIFY(bars->hasFocus());
    QTest::keyClick(bars, Qt::Key_Tab);
    QVERIFY(!bars->hasFocus());
}

void TestPlanView::doubleClickSplitsAndDeleteMerges()
{
    Bench bench;
    QVERIFY(bench.ready);
    LayerBars *bars = bench.bars();
    const QPoint at(static_cast<int>(std::round(bars->axis().x(3))), bars->height() / 2);
    QTest::mouseDClick(bars, Qt::LeftButton, {}, at);
    QCOMPARE(bench.plan().stages.size(), std::size_t(3));
    QCOMPARE(bench.plan().stages[0].lastLayer, std::size_t(3));
    QCOMPARE(bench.plan().stages[0].devices, (std::vector<DeviceId>{DeviceId(0), DeviceId(1)}));
    QCOMPARE(bench.plan().stages[1].devices, (std::vector<DeviceId>{DeviceId(2), DeviceId(3)}));
    QCOMPARE(bench.plan().stages[2].name, std::string("stage2"));
    bars->setCurrentBoundary(0);
    QTest::keyClick(bars, Qt::Key_Delete);
    QCOMPARE(bench.plan().stages.size(), std::size_t(2));
    QCOMPARE(bench.plan().stages[0].devices.size(), std::size_t(4));
    QCOMPARE(bench.plan().stages[0].lastLayer, kFirstCut);
    QCOMPARE(bench.state.undoStack()->count(), 2);
    QVERIFY(!bench.view->merge(1));
    QVERIFY(bench.message.contains(QStringLiteral("last stage")));
}

void TestPlanView::splitNeedsADevice()
{
    Bench bench;
    QVERIFY(bench.ready);
    QVERIFY(bench.state.editPlan(QStringLiteral("one device"),
                                 [](plan::Plan &plan) { setDevices(plan, 0, {DeviceId(0)}); }));
    QVERIFY(bench.view->split(0, 2)); // takes the first idle one
    QCOMPARE(bench.plan().stages[1].devices, std::vector<DeviceId>{DeviceId(1)});
    QVERIFY(bench.state.editPlan(QStringLiteral("rest"), [](plan::Plan &plan) {
        setDevices(plan, 2, {DeviceId(2), DeviceId(3), DeviceId(4), DeviceId(5), DeviceId(6), DeviceId(7)});
        setMicroBatches(plan, 4);
    }));
    QVERIFY(!bench.view->split(1, 4));
    QVERIFY2(bench.message.contains(QStringLiteral("no idle one")), qPrintable(bench.message));
}

// --- table

void TestPlanView::tableEdits_data()
{
    QTest::addColumn<int>("column");
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("shows");
    QTest::newRow("name") << int(StageColumn::Name) << "encoder"
                          << "encoder";
    QTest::newRow("layers") << int(StageColumn::Layers) << "0-8" << QStringLiteral("0 – 8");
    QTest::newRow("devices") << int(StageColumn::Devices) << "n0:g2-3"
                             << "n0:g2-3";
    QTest::newRow("replicas") << int(StageColumn::Replicas) << "2"
                              << "2";
    QTest::newRow("cap") << int(StageColumn::WarmUp) << "1"
                         << "1 (cap)";
    QTest::newRow("ZeRO") << int(StageColumn::Zero) << "2"
                          << "2";
    QTest::newRow("tensor parts") << int(StageColumn::Tensor) << "2"
                                  << "2";
    QTest::newRow("sharding") << int(StageColumn::Sharding) << "h/0/mlp/*=S(0)"
                              << "h/0/mlp/* = S(0)";
}

void TestPlanView::tableEdits()
{
    QFETCH(int, column);
    QFETCH(QString, text);
    QFETCH(QString, shows);
    Bench bench;
    QVERIFY(bench.ready);
    const QModelIndex index = bench.table()->model()->index(0, column);
    const QString before = index.data().toString();
    bench.write(0, static_cast<StageColumn>(column), text);
    QCOMPARE(index.data().toString(), shows);
    QCOMPARE(bench.state.undoStack()->count(), 1);
    QVERIFY2(bench.message.isEmpty(), qPrintable(bench.message));
    bench.state.undoStack()->undo();
    QCOMPARE(index.data().toString(), before);
}

void TestPlanView::refusedTableEdits_data()
{
    QTest::addColumn<int>("column");
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("says");
    QTest::newRow("no range") << int(StageColumn::Layers) << "all"
                              << "not a range of layers";
    QTest::newRow("begins late") << int(StageColumn::Layers) << "1-5"
                                 << "begins at layer 0";
    QTest::newRow("takes everything") << int(StageColumn::Layers) << "0-99"
                                      << "layers";
    QTest::newRow("unknown device") << int(StageColumn::Devices) << "n9:g0"
                                    << "there is no device";
    QTest::newRow("device of another stage") << int(StageColumn::Devices) << "n0:g0-4"
                                             << "n0:g4";
    QTest::newRow("no replica") << int(StageColumn::Replicas) << "0"
                                << "at least one";
    QTest::newRow("too many") << int(StageColumn::Replicas) << "5"
                              << "idle";
    QTest::newRow("warm-up") << int(StageColumn::WarmUp) << "-2"
                             << "warm-up";
    QTest::newRow("no ZeRO level") << int(StageColumn::Zero) << "4"
                                   << "no ZeRO level 4";
    QTest::newRow("no number") << int(StageColumn::Zero) << "all"
                               << "not a ZeRO level";
    QTest::newRow("no divisor") << int(StageColumn::Tensor) << "3"
                                << "cannot be replicas of 3 each";
    QTest::newRow("no parts") << int(StageColumn::Tensor) << "0"
                              << "not a number of tensor parts";
    QTest::newRow("no sharding") << int(StageColumn::Sharding) << "S(0)"
                                 << "is no sharding";
    QTest::newRow("unknown tensor") << int(StageColumn::Sharding) << "nothing = S(0)"
                                    << "does not have";
}

void TestPlanView::refusedTableEdits()
{
    QFETCH(int, column);
    QFETCH(QString, text);
    QFETCH(QString, says);
    Bench bench;
    QVERIFY(bench.ready);
    const auto before = bench.state.document();
    bench.write(0, static_cast<StageColumn>(column), text);
    QVERIFY2(bench.message.contains(says), qPrintable(bench.message));
    QTRY_COMPARE(QToolTip::text(), bench.message); // at the cell
    QCOMPARE(bench.state.document(), before);
    QCOMPARE(bench.state.undoStack()->count(), 0);
}

void TestPlanView::openEditorDoesNotOutliveTheView()
{
    Bench bench;
    QVERIFY(bench.ready);
    DataTable *stages = bench.table();
    stages->edit(stages->model()->index(0, static_cast<int>(StageColumn::Name)));
    auto *editor = stages->viewport()->findChild<QLineEdit *>();
    QVERIFY(editor);
    QTest::keyClicks(editor, QStringLiteral("half wri"));
    bench.view.reset();
    QCOMPARE(bench.plan().stages[0].name, std::string("stage0"));
}

void TestPlanView::recomputeIsAClick()
{
    Bench bench;
    QVERIFY(bench.ready);
    DataTable *table = bench.table();
    table->resizeColumnsToContents();
    const QModelIndex index = table->model()->index(1, static_cast<int>(StageColumn::Recompute));
    table->scrollTo(index);
    const QRect cell = table->visualRect(index);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, QPoint(cell.left() + 12, cell.center().y()));
    QCOMPARE(bench.plan().stages[1].recompute, plan::Recompute::Full);
    QCOMPARE(index.data(Qt::CheckStateRole).toInt(), int(Qt::Checked));
    bench.state.undoStack()->undo();
    QCOMPARE(bench.plan().stages[1].recompute, plan::Recompute::None);
}

void TestPlanView::selectionIsLinked()
{
    Bench bench;
    QVERIFY(bench.ready);
    LayerBars *bars = bench.bars();
    const auto pixel = [bars](double layer) { return static_cast<int>(std::round(bars->axis().x(layer))); };
    QTest::mouseClick(bars, Qt::LeftButton, {}, QPoint(pixel(8.5), 20));
    QCOMPARE(bench.state.selection().stage, StageId(1));
    QCOMPARE(bench.state.selection().layers.first, kFirstCut);
    QCOMPARE(bench.table()->currentIndex().row(), 1);
    QTest::mouseClick(bars, Qt::LeftButton, {}, QPoint(pixel(2.5), bars->height() / 2));
    QCOMPARE(bench.state.selection().layers, (LayerRange{2, 3}));
    QCOMPARE(bench.state.selection().stage, StageId(0));
    QCOMPARE(bench.table()->currentIndex().row(), 0);
}

// --- the whole plan

void TestPlanView::controlsEditAndAreReset()
{
    Bench bench;
    QVERIFY(bench.ready);
    QSpinBox *microBatches = nullptr;
    for (QSpinBox *each : bench.view->findChildren<QSpinBox *>()) {
        if (each->accessibleName() == QStringLiteral("Micro-batches"))
            microBatches = each;
    }
    QVERIFY(microBatches);
    QCOMPARE(microBatches->value(), 8);
    microBatches->setValue(4);
    QCOMPARE(bench.plan().microBatches, 4);
    microBatches->setValue(64); // more than samples
    QVERIFY2(bench.message.contains(QStringLiteral("more than the 32 samples")), qPrintable(bench.message));
    QCOMPARE(microBatches->value(), 4);
    QCOMPARE(bench.state.undoStack()->count(), 1);
    auto *schedule = bench.view->findChildren<QComboBox *>().front();
    schedule->setCurrentText(QStringLiteral("gpipe"));
    QCOMPARE(bench.plan().schedule.kind, plan::ScheduleKind::GPipe);
    bench.state.undoStack()->undo();
    QCOMPARE(schedule->currentText(), QStringLiteral("dapple-a"));
}

/// The exchange between replicas stands among the plan's figures, as --exchange has it.
void TestPlanView::theExchangeIsShownAndEdited()
{
    Bench bench;
    QVERIFY(bench.ready);
    QLineEdit *exchange = nullptr;
    for (QLineEdit *each : bench.view->findChildren<QLineEdit *>())
        if (each->accessibleName() == QStringLiteral("Exchange"))
            exchange = each;
    QVERIFY(exchange);
    QCOMPARE(exchange->text(), QStringLiteral("all-reduce"));
    QVERIFY(exchange->toolTip().contains(QStringLiteral("dasgd: ")));
    const auto write = [&](const QString &text) {
        exchange->setFocus();
        exchange->selectAll();
        QTest::keyClicks(exchange, text);
        QTest::keyClick(exchange, Qt::Key_Return);
    };
    write(QStringLiteral("dasgd,local_steps=8,delay=4"));
    QVERIFY(bench.plan().exchange.averages());
    QCOMPARE(bench.plan().exchange.averaging.localSteps, std::int64_t{8});
    QVERIFY(exchange->text().startsWith(QStringLiteral("dasgd,local_steps=8,delay=4,")));
    QCOMPARE(bench.state.undoStack()->count(), 1);
    write(QStringLiteral("dasgd,delay=9"));
    QVERIFY2(bench.message.contains(QStringLiteral("delay from 0 to local_steps")), qPrintable(bench.message));
    QVERIFY(exchange->text().startsWith(QStringLiteral("dasgd,local_steps=8,delay=4,")));
    QCOMPARE(bench.state.undoStack()->count(), 1);
    bench.state.undoStack()->undo();
    QCOMPARE(exchange->text(), QStringLiteral("all-reduce"));
}

/// Devices that share a replica's work take that much less time each: no stage is longer than the iteration.
void TestPlanView::stagesAreNoLongerThanTheIteration()
{
    Bench bench;
    QVERIFY(bench.ready);
    const double alone = stageSeconds(*bench.state.document(), 0, 0, kFirstCut);
    plan::Plan plan = bench.plan();
    plan.microBatches = 1;
    for (plan::Stage &stage : plan.stages)
        stage.mesh = {1, 4};
    QVERIFY(bench.state.replacePlan(QStringLiteral("tensor parallel"), plan));
    QVERIFY(bench.simulated());
    const double shared = stageSeconds(*bench.state.document(), 0, 0, kFirstCut);
    QVERIFY(shared > 0);
    const double iteration = bench.state.simulation()->report.iterationSeconds;
    QVERIFY2(shared < iteration, qPrintable(QString("%1 of %2").arg(shared).arg(iteration)));
    plan.stages[0].mesh.clear();
    plan.stages[0].devices.resize(1);
    QVERIFY(bench.state.replacePlan(QStringLiteral("one device"), plan));
    QVERIFY(std::abs(stageSeconds(*bench.state.document(), 0, 0, kFirstCut) / shared - 4) < 1e-9);
    QVERIFY(alone > 0);
}

void TestPlanView::alternativeIsTaken()
{
    Bench bench;
    QVERIFY(bench.ready);
    PlanRequest request;
    request.planner = "dapple";
    request.globalBatch = 32;
    QVERIFY(bench.state.runPlanner(request));
    QVERIFY(
        QTest::qWaitFor([&] { return !bench.state.planJob()->running() && bench.state.simulationCurrent(); }, 60'000));
    QVERIFY(!bench.state.alternatives().empty());
    DataTable *alternatives = bench.view->alternatives()->table();
    bench.view->findChild<QTabWidget *>()->setCurrentWidget(bench.view->alternatives());
    QCOMPARE(alternatives->model()->rowCount(), static_cast<int>(bench.state.alternatives().size()));
    const auto before = bench.state.document();
    Q_EMIT alternatives->activated(alternatives->model()->index(0, 1));
    QVERIFY(bench.state.document() != before);
    QCOMPARE(plan::notation(bench.plan()), plan::notation(bench.state.alternatives()[0].plan));
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.document(), before);
}

void TestPlanView::annotationsAreWritten()
{
    Bench bench;
    QVERIFY(bench.ready);
    bench.view->findChild<QTabWidget *>()->setCurrentIndex(2);
    DataTable *table = bench.table(QStringLiteral("Annotations of scopes"));
    QVERIFY(table);
    const int row = rowOf(table, QStringLiteral("h/3"));
    QVERIFY(row >= 0);
    QVERIFY(rowOf(table, QStringLiteral("*")) >= 0 && rowOf(table, QStringLiteral("h")) >= 0);
    const int strategy = static_cast<int>(AnnotationColumn::Strategy);
    Bench::write(table, row, strategy, QStringLiteral("split:4"));
    QCOMPARE(bench.plan().annotations, (std::vector<plan::Annotation>{{"h/3", plan::Annotation::Kind::Split, 4}}));
    QCOMPARE(bench.state.undoStack()->undoText(), QStringLiteral("Annotate h/3 as split:4"));
    QVERIFY(table->model()
                ->index(row, static_cast<int>(AnnotationColumn::InThePlan))
                .data()
                .toString()
                .contains(QStringLiteral("plan again")));
    // Refused: nested, and what is no strategy. The plan stays as it is.
    Bench::write(table, rowOf(table, QStringLiteral("h")), strategy, QStringLiteral("replicate:2"));
    QVERIFY2(bench.message.contains(QStringLiteral("do not nest")), qPrintable(bench.message));
    Bench::write(table, row, strategy, QStringLiteral("shred:4"));
    QVERIFY2(bench.message.contains(QStringLiteral("SCOPE=split:4")), qPrintable(bench.message));
    QCOMPARE(bench.plan().annotations.size(), std::size_t(1));
    // Two replicas: as the stage of four is.
    Bench::write(table, row, strategy, QStringLiteral("replicate:2"));
    QCOMPARE(table->model()->index(row, static_cast<int>(AnnotationColumn::InThePlan)).data().toString(),
             QStringLiteral("stage 0"));
    Bench::write(table, row, strategy, QStringLiteral(" ")); // nothing but a blank
    QVERIFY(bench.plan().annotations.empty());
    bench.state.undoStack()->undo();
    bench.state.undoStack()->undo();
    QCOMPARE(bench.plan().annotations, (std::vector<plan::Annotation>{{"h/3", plan::Annotation::Kind::Split, 4}}));
    bench.state.undoStack()->undo();
    QVERIFY(bench.plan().annotations.empty());
}

void TestPlanView::planningAgainFollowsAnnotations()
{
    Bench bench;
    QVERIFY(bench.ready);
    QAction *again = nullptr;
    for (QAction *action : bench.view->commands())
        if (action->text() == QStringLiteral("Plan again as annotated"))
            again = action;
    QVERIFY(again);
    again->trigger();
    QVERIFY2(bench.message.contains(QStringLiteral("There are no annotations")), qPrintable(bench.message));
    QVERIFY(editAnnotation(bench.state, "embedding..h/5", QStringLiteral("split:4")));
    QVERIFY(editAnnotation(bench.state, "h/6..h/11", QStringLiteral("split:4")));
    const auto annotations = bench.plan().annotations;
    again->trigger();
    QVERIFY(QTest::qWaitFor([&] { return bench.plan().planner.name == "whale"; }, 60'000));
    QCOMPARE(bench.plan().annotations, annotations);
    QCOMPARE(bench.plan().stages.size(), std::size_t(2));
    QCOMPARE(bench.plan().stages[1].mesh, (std::vector<int>{1, 4}));
    bench.state.undoStack()->undo();
    QCOMPARE(bench.plan().planner.name, std::string("manual"));
    QCOMPARE(bench.plan().annotations, annotations);
}

void TestPlanView::whyIsToldAfterEveryEdit()
{
    Bench bench;
    QVERIFY(bench.ready);
    DataTable *table = bench.table(QStringLiteral("Time and memory by stage"));
    QVERIFY(table);
    bench.view->findChild<QTabWidget *>()->setCurrentWidget(table->parentWidget());
    QLabel *text = nullptr;
    for (QLabel *label : bench.view->findChildren<QLabel *>())
        if (label->accessibleName() == QStringLiteral("Limiting factor of the plan"))
            text = label;
    QVERIFY(text && text->text().contains(QStringLiteral("Limited by")));
    QCOMPARE(table->model()->rowCount(), 2);
    const QString idle = table->model()->index(1, 10).data().toString();
    QVERIFY(bench.view->moveBoundaryTo(0, kFirstCut + 3));
    QVERIFY(text->text().contains(QStringLiteral("Available after the simulation")));
    QVERIFY(bench.simulated());
    QVERIFY(table->model()->index(1, 10).data().toString() != idle);
    table->setCurrentIndex(table->model()->index(1, 0));
    QCOMPARE(bench.state.selection().stage, StageId(1));
}

/// After its boundary moves, after undo, and when another plan has no such stage.
void TestPlanView::theSelectionFollowsItsStage()
{
    Bench bench;
    QVERIFY(bench.ready);
    bench.state.selectStage(StageId(1));
    const std::size_t layers = bench.state.document()->subject.layers().size();
    QCOMPARE(bench.state.selection().layers, (LayerRange{kFirstCut, layers}));
    QSignalSpy spy(&bench.state, &StudioState::selectionChanged);
    bench.drag(0, kFirstCut + 2);
    QCOMPARE(bench.state.selection().layers, (LayerRange{kFirstCut + 2, layers}));
    QCOMPARE(spy.size(), 2); // with each move of the mouse, and not again when the button is let go
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.selection().layers, (LayerRange{kFirstCut, layers}));
    // A device keeps the stage that lies on it.
    QVERIFY(bench.state.editPlan(QStringLiteral("a sample for each of 8 replicas"),
                                 [](plan::Plan &plan) { plan.microBatches = 4; }));
    bench.state.selectDevice(DeviceId(5));
    QCOMPARE(bench.state.selection().stage, StageId(1));
    QVERIFY(bench.view->merge(0));
    QCOMPARE(bench.state.selection().stage, StageId(0));
    QCOMPARE(bench.state.selection().device, DeviceId(5));
    QCOMPARE(bench.state.selection().layers, (LayerRange{0, layers}));
    bench.state.undoStack()->undo();
    bench.state.selectStage(StageId(1));
    QVERIFY(bench.view->merge(0));
    QVERIFY(!bench.state.selection().stage.valid() && bench.state.selection().layers.empty());
    // A layer that was picked stays, and is of the stage that has it now.
    bench.state.undoStack()->undo();
    Selection layer;
    layer.stage = StageId(0);
    layer.layers = {kFirstCut - 1, kFirstCut};
    bench.state.select(layer);
    bench.drag(0, kFirstCut - 2);
    QCOMPARE(bench.state.selection().layers, layer.layers);
    QCOMPARE(bench.state.selection().stage, StageId(1));
}

/// What the planner of the same name as the dialog's field makes.
void TestPlanView::tensorPartsAreMegatrons()
{
    Bench bench;
    QVERIFY(bench.ready);
    const double whole = bench.state.simulation()->report.iterationSeconds;
    for (const int stage : {0, 1}) // which share the table of tokens
        bench.write(stage, StageColumn::Tensor, QStringLiteral("4"));
    QCOMPARE(bench.plan().stages[0].mesh, (std::vector<int>{1, 4}));
    QVERIFY(!bench.plan().stages[0].shardings.empty());
    QVERIFY(bench.simulated());
    QVERIFY(bench.state.simulation()->report.iterationSeconds != whole);
    for (const int stage : {0, 1})
        bench.write(stage, StageColumn::Tensor, QStringLiteral("1"));
    QVERIFY(bench.plan().stages[0].mesh.empty() && bench.plan().stages[0].shardings.empty());
    QVERIFY(bench.simulated());
    QCOMPARE(bench.state.simulation()->report.iterationSeconds, whole);
}

void TestPlanView::precisionAndDecayAreEdited()
{
    Bench bench;
    QVERIFY(bench.ready);
    const auto field = [&]<class Field>(const QString &name, Field *) -> Field * {
        for (Field *each : bench.view->findChildren<Field *>())
            if (each->accessibleName() == name)
                return each;
        return nullptr;
    };
    auto *precision = field(QStringLiteral("Precision"), static_cast<QComboBox *>(nullptr));
    QVERIFY(precision);
    const double before = bench.state.simulation()->report.iterationSeconds;
    precision->setCurrentIndex(1);
    QCOMPARE(bench.plan().precision, plan::Precision::BFloat16);
    QVERIFY(bench.simulated());
    QVERIFY(bench.state.simulation()->report.iterationSeconds < before);
    bench.state.undoStack()->undo();
    QCOMPARE(precision->currentIndex(), 0);
    QVERIFY(bench.simulated());
    QCOMPARE(bench.state.simulation()->report.iterationSeconds, before);

    auto *decay = field(QStringLiteral("Weight decay"), static_cast<QLineEdit *>(nullptr));
    QVERIFY(decay);
    QCOMPARE(decay->text(), QStringLiteral("0.01"));
    const auto write = [&](const QString &text) {
        decay->selectAll();
        QTest::keyClicks(decay, text);
        QTest::keyClick(decay, Qt::Key_Return);
    };
    write(QStringLiteral("0.1"));
    QCOMPARE(bench.plan().optimizer.weightDecay, 0.1);
    bench.state.undoStack()->undo();
    QCOMPARE(decay->text(), QStringLiteral("0.01"));
    const auto document = bench.state.document();
    bench.message.clear();
    write(QStringLiteral("much"));
    QVERIFY2(bench.message.contains(QStringLiteral("not a number")), qPrintable(bench.message));
    QTRY_COMPARE(QToolTip::text(), bench.message);
    QCOMPARE(bench.state.document(), document);
    QCOMPARE(decay->text(), QStringLiteral("0.01"));

    auto *spare = field(QStringLiteral("Spare biases and norms"), static_cast<QCheckBox *>(nullptr));
    QVERIFY(spare && !spare->isChecked());
    spare->click();
    QCOMPARE(bench.plan().optimizer.groups.size(), std::size_t(1));
    QCOMPARE(bench.plan().optimizer.groups.front().match.c_str(), "rank<2");
    bench.state.undoStack()->undo();
    QVERIFY(!spare->isChecked() && bench.plan().optimizer.groups.empty());
}

void TestPlanView::interleavingWithOneStageADeviceIsSaid()
{
    Bench bench;
    QVERIFY(bench.ready);
    QComboBox *schedule = nullptr;
    for (QComboBox *each : bench.view->findChildren<QComboBox *>())
        if (each->accessibleName() == QStringLiteral("Schedule"))
            schedule = each;
    QVERIFY(schedule);
    const QString words = QStringLiteral("only one stage on each device");
    bench.message.clear();
    schedule->setCurrentIndex(static_cast<int>(plan::ScheduleKind::Interleaved1F1B));
    QVERIFY2(bench.message.contains(words), qPrintable(bench.message));
    QVERIFY2(schedule->toolTip().contains(words), qPrintable(schedule->toolTip()));
    QVERIFY(bench.simulated());
    const double interleaved = bench.state.simulation()->report.iterationSeconds;
    bench.message.clear();
    schedule->setCurrentIndex(static_cast<int>(plan::ScheduleKind::OneF1B));
    QVERIFY2(bench.message.isEmpty() && !schedule->toolTip().contains(words), qPrintable(bench.message));
    QVERIFY(bench.simulated());
    QCOMPARE(bench.state.simulation()->report.iterationSeconds, interleaved); // it is true
}

PLANLOOM_UI_MAIN(TestPlanView)
#include "tst_plan_view.moc"
