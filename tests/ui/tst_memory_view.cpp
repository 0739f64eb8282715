// SPDX-License-Identifier: GPL-3.0-or-later
// Memory policies in the studio: knobs, decisions, tensors, budgets and waiting for copies.
#include "tests/ui/watched_main.h"

#include "ui/memory/memory_view.h"

#include "ui/memory/curve.h"
#include "ui/state/memory_budgets.h"
#include "ui/studio_fixture.h"
#include "ui/widgets/text.h"

#include <QAreaSeries>
#include <QLegendMarker>
#include <QLineSeries>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

#include <algorithm>
#include <cmath>

using namespace planloom;
using namespace planloom::ui;

class TestMemoryView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init();
    void legendsAreOfWhatIsDrawn();
    void knobsEditAllStagesAndAreUndone();
    void budgetIsSimulatedAtOnce();
    void figuresOfAnEarlierPlanAreMarked();
    void decisionsSortAndSelect();
    void tensorsSelectTheirTask();
    void budgetsAreThoseOfTheDecisions();
    void theCurveTouchesItsBudget();
    void budgetsOutliveAnotherPlan();
    void stallsAreMarked();
    void costsOfDecisionsArePoints();
    void policiesByBudget();
    void wrongBandwidthIsRefused();
    void stateOfSamplesIsABand();

private:
    /// Chooses @p name as a user does, and waits for the simulation.
    void choose(const QString &name);
    void settle();

    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<MemoryView> m_view;
    QString m_message;
};

void TestMemoryView::init()
{
    m_view.reset();
    m_state = std::make_unique<StudioState>();
    QVERIFY(testing::loadSample(*m_state));
    m_view = std::make_unique<MemoryView>(m_state.get());
    m_message.clear();
    connect(m_state.get(), &StudioState::message, this,
            [this](MessageLevel, const QString &text) { m_message = text; });
    m_view->resize(1000, 420);
    m_view->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
}

void TestMemoryView::settle() { QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 30'000); }

void TestMemoryView::choose(const QString &name)
{
    QComboBox *policy = m_view->knobs()->policy();
    policy->setCurrentIndex(policy->findText(name));
    Q_EMIT policy->activated(policy->currentIndex());
    settle();
}

/// Behind the first simulation of a plan there is no budget yet.
void TestMemoryView::legendsAreOfWhatIsDrawn()
{
    QStringList named;
    for (const QLegendMarker *marker : m_view->chart()->chart()->legend()->markers())
        if (marker->isVisible())
            named << marker->label();
    QVERIFY2(named.contains(QStringLiteral("peak")), qPrintable(named.join(QLatin1Char(','))));
    QVERIFY2(!named.contains(QStringLiteral("budget")), qPrintable(named.join(QLatin1Char(','))));
}

void TestMemoryView::knobsEditAllStagesAndAreUndone()
{
    QVERIFY(!m_state->memoryMoves());
    QVERIFY(!m_view->knobs()->budget()->isEnabled());
    QCOMPARE(m_view->bands()->rows(), 0);
    const int before = m_state->undoStack()->count();
    choose(QStringLiteral("delta"));
    QCOMPARE(m_state->undoStack()->count(), before + 1);
    for (const plan::Stage &stage : m_state->document()->plan.stages)
        QCOMPARE(stage.memory.filter, plan::MemoryFilter::Delta);
    QVERIFY(m_state->memoryMoves() && !m_state->memoryMoves()->decisions.empty());
    m_view->tabs()->setCurrentWidget(m_view->bands());
    QVERIFY(m_view->bands()->rows() > 0);
    m_view->tabs()->setCurrentWidget(m_view->decisions());
    QVERIFY(m_view->decisions()->tableModel()->rowCount() > 0);
    QVERIFY(m_view->knobs()->budget()->isEnabled());
    QCOMPARE(m_view->knobs()->budget()->value(), 60);
    m_state->undoStack()->undo();
    settle();
    QCOMPARE(m_view->knobs()->policy()->currentText(), QStringLiteral("none"));
    QVERIFY(!m_state->memoryMoves());
    QCOMPARE(m_view->decisions()->tableModel()->rowCount(), 0);
    m_state->undoStack()->redo();
    settle();
    QVERIFY(m_state->memoryMoves());
    QComboBox *clock = m_view->knobs()->clock();
    QCOMPARE(clock->currentText(), QStringLiteral("logical"));
    clock->setCurrentIndex(1);
    Q_EMIT clock->activated(1);
    settle();
    for (const plan::Stage &stage : m_state->document()->plan.stages)
        QCOMPARE(stage.memory.clock, plan::MemoryClock::Measured);
    QVERIFY(m_state->memoryMoves()); // by the logical clock
    m_state->undoStack()->undo();
    settle();
    QCOMPARE(clock->currentText(), QStringLiteral("logical"));
    QComboBox *hosted = m_view->knobs()->hosted();
    QCOMPARE(hosted->currentText(), QStringLiteral("nothing"));
    hosted->setCurrentText(QStringLiteral("both"));
    Q_EMIT hosted->activated(hosted->currentIndex());
    settle();
    for (const plan::Stage &stage : m_state->document()->plan.stages)
        QVERIFY(stage.memory.hostStates && stage.memory.hostParameters);
    QVERIFY(m_state->memoryMoves());
    QVERIFY(m_view->decisions()->tableModel()->rowCount() > 0);
    m_state->undoStack()->undo();
    settle();
    QCOMPARE(hosted->currentText(), QStringLiteral("nothing"));
}

/// While the plan cannot be simulated; the message has a budget with which it can.
void TestMemoryView::figuresOfAnEarlierPlanAreMarked()
{
    choose(QStringLiteral("delta"));
    const QString said = m_view->summary();
    m_view->knobs()->budget()->setValue(1);
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationOutdated(), 30'000);
    QVERIFY(m_view->pale());
    QCOMPARE(m_view->summary(), QStringLiteral("! Of the last plan that could be simulated: ") + said);
    const auto would = QRegularExpression(QStringLiteral("budget=(\\d+)% would do")).match(m_message);
    QVERIFY2(would.hasMatch(), qPrintable(m_message));
    m_view->knobs()->budget()->setValue(would.captured(1).toInt());
    settle();
    QVERIFY(!m_view->pale() && !m_view->summary().startsWith(QLatin1Char('!')));
}

void TestMemoryView::budgetIsSimulatedAtOnce()
{
    choose(QStringLiteral("delta"));
    const std::size_t some = m_state->memoryMoves()->decisions.size();
    const std::int64_t peak = m_state->simulation()->report.devices[0].peakBytes;
    m_view->knobs()->budget()->setValue(80);
    settle();
    QCOMPARE(m_state->document()->plan.stages[0].memory.budgetShare, 0.8);
    QVERIFY(!m_state->memoryMoves() || m_state->memoryMoves()->decisions.size() <= some);
    QVERIFY(m_state->simulation()->report.devices[0].peakBytes > peak);
    const double seconds = m_state->simulation()->report.iterationSeconds;
    m_view->knobs()->budget()->setValue(60);
    settle();
    QTest::keyClick(m_view->knobs()->bandwidth(), Qt::Key_A, Qt::ControlModifier);
    QTest::keyClicks(m_view->knobs()->bandwidth(), QStringLiteral("0.001"));
    QTest::keyClick(m_view->knobs()->bandwidth(), Qt::Key_Return);
    settle();
    QCOMPARE(m_state->document()->plan.stages[0].memory.bandwidthOut, 1e6);
    QCOMPARE(m_state->document()->plan.stages[0].memory.bandwidthIn, 1e6);
    QVERIFY(m_state->simulation()->report.iterationSeconds >= seconds);
}

void TestMemoryView::decisionsSortAndSelect()
{
    choose(QStringLiteral("delta"));
    DataTable *table = m_view->decisions();
    m_view->tabs()->setCurrentWidget(table);
    const auto &moves = *m_state->memoryMoves();
    QCOMPARE(table->tableModel()->rowCount(), static_cast<int>(moves.decisions.size()));
    constexpr int kBytes = 3;
    table->sortByColumn(kBytes, Qt::DescendingOrder);
    double last = std::numeric_limits<double>::infinity();
    for (int row = 0; row < table->model()->rowCount(); ++row) {
        const int source = table->sourceRow(table->model()->index(row, 0));
        const double bytes = *table->tableModel()->row(source)[kBytes].number;
        QVERIFY(bytes <= last);
        last = bytes;
    }
    // On the timeline's clock: when what needs the room starts.
    for (std::size_t row = 0; row < moves.decisions.size(); ++row) {
        const MemoryMoves::Decision &decision = moves.decisions[row];
        const trace::Trace &trace = m_state->simulation()->trace;
        const auto starts = std::ranges::find_if(trace.records, [&](const trace::Record &record) {
            return trace.ranks[static_cast<std::size_t>(record.rank)].device
                == m_state->cluster()->device(moves.tensors[decision.tensor].device).name
                && trace.tasks[static_cast<std::size_t>(record.task)].id == decision.room;
        });
        QVERIFY2(starts != trace.records.end(), decision.room.c_str());
        QCOMPARE(*table->tableModel()->row(static_cast<int>(row))[0].number, static_cast<double>(starts->start));
    }
    const QModelIndex first = table->model()->index(0, 1);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(first).center());
    const MemoryMoves::Decision &picked = moves.decisions[static_cast<std::size_t>(table->sourceRow(first))];
    const MemoryMoves::Tensor &tensor = moves.tensors[picked.tensor];
    QCOMPARE(m_state->selection().task, picked.task);
    QCOMPARE(m_state->selection().device, tensor.device);
    QCOMPARE(m_state->selection().layers, tensor.layers);
    QVERIFY(!tensor.layers.empty() && !tensor.name.isEmpty() && !tensor.op.isEmpty());
    const auto kinds = {picked.what.action == memory::Decision::Action::Swap ? ".CO." : ".R."};
    QVERIFY(picked.task.find(*kinds.begin()) != std::string::npos);
}

void TestMemoryView::tensorsSelectTheirTask()
{
    choose(QStringLiteral("delta"));
    TensorBands *bands = m_view->bands();
    m_view->tabs()->setCurrentWidget(bands);
    QSignalSpy spy(bands, &TensorBands::tensorPicked);
    QTest::mouseClick(bands->viewport(), Qt::LeftButton, {}, bands->rowRect(1).center());
    QCOMPARE(spy.size(), 1);
    const MemoryMoves::Tensor &tensor = m_state->memoryMoves()->tensors[bands->tensorOf(1)];
    QCOMPARE(m_state->selection().task, tensor.made);
    QVERIFY(bands->textAt(bands->rowRect(1).center()).contains(tensor.name));
    QTest::keyClick(bands, Qt::Key_Down);
    QCOMPARE(spy.size(), 2);
    QCOMPARE(spy.back()[0].value<std::size_t>(), bands->tensorOf(2));
    // One device's alone.
    const int all = bands->rows();
    m_state->selectDevice(DeviceId(1));
    QVERIFY(bands->rows() > 0 && bands->rows() < all);
    for (int row = 0; row < bands->rows(); ++row)
        QCOMPARE(m_state->memoryMoves()->tensors[bands->tensorOf(row)].device, DeviceId(1));
}

/// A plan with the same budgets in bytes decides the same.
void TestMemoryView::budgetsAreThoseOfTheDecisions()
{
    QVERIFY(memoryBudgets(*m_state->document())->empty());
    choose(QStringLiteral("delta"));
    const auto budgets = memoryBudgets(*m_state->document());
    QVERIFY2(budgets, budgets ? "" : budgets.error().text().c_str());
    QCOMPARE(budgets->size(), std::size_t{4});
    const auto shares = m_state->memoryMoves();
    QVERIFY(m_state->editPlan(QStringLiteral("in bytes"), [&](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            stage.memory.budgetBytes = budgets->at(stage.devices.front());
    }));
    settle();
    const auto bytes = m_state->memoryMoves();
    QCOMPARE(bytes->decisions.size(), shares->decisions.size());
    QVERIFY(!bytes->decisions.empty());
    for (std::size_t d = 0; d < bytes->decisions.size(); ++d)
        QVERIFY(bytes->decisions[d].what == shares->decisions[d].what);
    QCOMPARE(*memoryBudgets(*m_state->document()), *budgets);
    // No pool is fuller than its budget.
    for (const MemoryMoves::Pool &pool : bytes->pools)
        for (const MemoryMoves::PoolLevel &level : pool.levels)
            QVERIFY(level.bytes <= budgets->at(pool.device));
}

/// Above the activations of the device that is shown, whose pool is full somewhere.
void TestMemoryView::theCurveTouchesItsBudget()
{
    choose(QStringLiteral("delta"));
    QVERIFY(!m_view->budgetLine()->isVisible()); // of all devices there is none
    m_state->selectDevice(DeviceId(0));
    QTRY_VERIFY_WITH_TIMEOUT(m_view->budgetLine()->isVisible(), 30'000);
    const auto &moves = *m_state->memoryMoves();
    const MemoryMoves::Pool *pool = moves.poolOf(DeviceId(0));
    QVERIFY(pool != nullptr && moves.poolOf(DeviceId(17)) == nullptr);
    std::int64_t most = 0;
    for (const MemoryMoves::PoolLevel &level : pool->levels)
        most = std::max(most, level.bytes);
    const std::int64_t budget = memoryBudgets(*m_state->document())->at(DeviceId(0));
    const auto &points = m_state->simulation()->memory[0];
    std::int64_t least = budget; // from the edge of the activations up to the line
    for (const simulate::MemoryPoint &point : points) {
        const std::int64_t room = budget - pool->at(std::llround(point.seconds * 1e9));
        QVERIFY(room >= 0);
        least = std::min(least, room);
    }
    QCOMPARE(least, budget - most);
    // What is drawn is that room above the activations' edge.
    const Unit unit = byteUnit(static_cast<double>(m_state->simulation()->report.devices[0].peakBytes));
    const simulate::MemoryPoint &first = points.front();
    const double edge = static_cast<double>(first.persistent + first.activations) * unit.factor;
    const double room = static_cast<double>(budget - pool->at(std::llround(first.seconds * 1e9))) * unit.factor;
    QVERIFY(std::abs(m_view->budgetLine()->points().front().y() - edge - room) < 1e-6);
    choose(QStringLiteral("none"));
    QVERIFY(!m_view->budgetLine()->isVisible());
}

/// They are computed while another plan is open, and are there when theirs is open again.
void TestMemoryView::budgetsOutliveAnotherPlan()
{
    choose(QStringLiteral("delta"));
    const auto pick = [this](int index) {
        m_view->devicePicker()->setCurrentIndex(index);
        Q_EMIT m_view->devicePicker()->activated(index);
    };
    pick(1); // asks for the budgets
    QVERIFY(m_state->editPlan(QStringLiteral("more"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            stage.memory.budgetShare = 0.7;
    }));
    pick(0); // asks for none of the new plan
    settle();
    QTest::qWait(50);
    m_state->undoStack()->undo();
    settle();
    pick(1);
    QTRY_VERIFY_WITH_TIMEOUT(m_view->budgetLine()->isVisible(), 30'000);
}

void TestMemoryView::stallsAreMarked()
{
    choose(QStringLiteral("lru"));
    QVERIFY(m_state->editPlan(QStringLiteral("slow copies"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages) {
            stage.memory.director = plan::MemoryDirector::Swap;
            stage.memory.bandwidthOut = stage.memory.bandwidthIn = 1e8;
        }
    }));
    settle();
    QVERIFY(m_view->chart()->stalls().empty()); // of all devices
    const auto &stalls = m_state->memoryMoves()->stalls;
    QVERIFY(!stalls.empty());
    m_state->selectDevice(stalls.front().device);
    settle();
    QTRY_VERIFY(m_view->budgetLine()->isVisible());
    const auto marked =
        static_cast<std::size_t>(std::ranges::count(stalls, stalls.front().device, &MemoryMoves::Stall::device));
    QCOMPARE(m_view->chart()->stalls().size(), marked);
    QVERIFY2(m_view->summary().contains(QStringLiteral("for copies, in %1 places").arg(marked)),
             qPrintable(m_view->summary()));
    const QRectF mark = m_view->chart()->stallRect(0);
    QVERIFY(QRectF(m_view->chart()->viewport()->rect()).contains(mark) && mark.width() >= 1);
    QVERIFY2(m_view->chart()->textAt(mark.center().toPoint()).contains(qt(stalls.front().copy)),
             qPrintable(m_view->chart()->textAt(mark.center().toPoint())));
    QVERIFY(m_view->chart()->textAt(mark.center().toPoint() - QPoint(0, 40)).isEmpty());
    m_state->undoStack()->undo();
}

/// Below the line on which both cost the same is what director rule copies.
void TestMemoryView::costsOfDecisionsArePoints()
{
    choose(QStringLiteral("delta"));
    CopyScatter *scatter = m_view->scatter();
    m_view->tabs()->setCurrentWidget(scatter);
    const auto &moves = *m_state->memoryMoves();
    QVERIFY(scatter->points() > 0 && scatter->points() <= moves.decisions.size());
    for (std::size_t p = 0; p < scatter->points(); ++p) {
        const MemoryMoves::Decision &decision = moves.decisions[scatter->decisionOf(p)];
        QVERIFY(std::abs(decision.copySeconds / decision.againSeconds / decision.what.ratio - 1) < 1e-9);
        if (decision.what.action == memory::Decision::Action::Swap)
            QVERIFY(decision.copySeconds <= decision.againSeconds);
        QVERIFY(QRectF(scatter->rect()).contains(scatter->placeOf(p)));
    }
    QSignalSpy spy(scatter, &CopyScatter::tensorPicked);
    const QPoint place = scatter->placeOf(0).toPoint();
    QTest::mouseClick(scatter, Qt::LeftButton, {}, place);
    QCOMPARE(spy.size(), 1);
    const MemoryMoves::Tensor &tensor = moves.tensors[spy[0][0].value<std::size_t>()];
    QCOMPARE(m_state->selection().task, tensor.made);
    // The selection may show another device's points, with other axes.
    std::size_t picked = 0;
    while (picked < scatter->points()
           && moves.decisions[scatter->decisionOf(picked)].tensor != spy[0][0].value<std::size_t>())
        ++picked;
    QVERIFY(picked < scatter->points());
    const QPointF at = scatter->placeOf(picked);
    const QString text = scatter->textAt(at);
    bool named = false; // it, or another tensor of the same costs
    for (std::size_t p = 0; p < scatter->points(); ++p)
        named = named
            || ((scatter->placeOf(p) - at).manhattanLength() < 1
                && text.contains(moves.tensors[moves.decisions[scatter->decisionOf(p)].tensor].name));
    QVERIFY2(named, qPrintable(text + QStringLiteral(" without ") + tensor.name));
    m_state->selectDevice(DeviceId(1));
    for (std::size_t p = 0; p < scatter->points(); ++p)
        QCOMPARE(moves.tensors[moves.decisions[scatter->decisionOf(p)].tensor].device, DeviceId(1));
    m_state->undoStack()->undo();
    settle();
    QCOMPARE(scatter->points(), std::size_t{0});
    QVERIFY2(scatter->emptyText().contains(QStringLiteral("leaves this device")), qPrintable(scatter->emptyText()));
    QVERIFY(CopyScatter().emptyText().contains(QStringLiteral("leaves its device")));
}

/// A line and a row for each policy, once the tab is seen; a double click takes policy and budget in one edit.
void TestMemoryView::policiesByBudget()
{
    BudgetSweep &panel = *m_view->sweep();
    QVERIFY(!panel.computes() && panel.sweep().curves.empty());
    m_view->tabs()->setCurrentWidget(&panel);
    QTRY_VERIFY_WITH_TIMEOUT(!panel.computes() && !panel.sweep().curves.empty(), 120'000);
    const planners::MemorySweep sweep = panel.sweep();
    QCOMPARE(panel.lines().size(), sweep.curves.size());
    QCOMPARE(panel.table()->tableModel()->rowCount(), static_cast<int>(sweep.curves.size()));
    const double base = sweep.seconds;
    QVERIFY(std::abs(base / m_state->simulation()->report.iterationSeconds - 1) < 1e-9);
    for (std::size_t k = 0; k < sweep.curves.size(); ++k) {
        QList<QPointF> expected;
        for (const planners::MemoryCurve::Point &point : sweep.curves[k].points)
            if (point.refusal.empty())
                expected << QPointF(point.share * 100, point.overhead * 100);
        QCOMPARE(panel.lines()[k]->points(), expected);
        const auto &row = panel.table()->tableModel()->row(static_cast<int>(k));
        const bool dashed = panel.lines()[k]->pen().style() != Qt::SolidLine; // two policies of one colour
        QCOMPARE(row[0].text, panel.lines()[k]->name() + (dashed ? QStringLiteral(" ┄") : QString()));
        QCOMPARE(row[0].swatch, panel.lines()[k]->color());
        QVERIFY(!row.back().text.contains(QStringLiteral("✓"))); // the plan has no policy
    }
    panel.table()->setCurrentIndex(panel.table()->model()->index(2, 0));
    QVERIFY(panel.lines()[2]->pen().widthF() > panel.lines()[1]->pen().widthF());
    const std::size_t last = sweep.shares.size() - 1; // the largest budget
    const auto best = static_cast<int>(sweep.best(last) - sweep.curves.data());
    QVERIFY(panel.table()->tableModel()->row(best).back().text.startsWith(QStringLiteral("★ ")));
    if (const QByteArray file = qgetenv("PLANLOOM_PICTURE_BUDGETS"); !file.isEmpty())
        QVERIFY(m_view->grab().save(QString::fromUtf8(file)));

    QVERIFY(sweep.curves[0].points[last].refusal.empty());
    const double overhead = sweep.curves[0].points[last].overhead;
    const int edits = m_state->undoStack()->count();
    Q_EMIT panel.table()->activated(panel.table()->model()->index(0, static_cast<int>(last) + 1));
    QCOMPARE(m_state->undoStack()->count(), edits + 1);
    for (const plan::Stage &stage : m_state->document()->plan.stages) {
        QCOMPARE(stage.memory.filter, sweep.curves[0].filter);
        QCOMPARE(stage.memory.budgetShare, sweep.shares[last]);
    }
    settle();
    QVERIFY(std::abs(m_state->simulation()->report.iterationSeconds / base - 1 - overhead) < 1e-6);
    QTRY_VERIFY_WITH_TIMEOUT(!panel.computes(), 120'000);
    QVERIFY(panel.table()->tableModel()->row(0).back().text.contains(QStringLiteral("✓ ")));
    Q_EMIT panel.table()->activated(panel.table()->model()->index(0, static_cast<int>(last) + 1)); // it has it
    QCOMPARE(m_state->undoStack()->count(), edits + 1);
}

void TestMemoryView::wrongBandwidthIsRefused()
{
    choose(QStringLiteral("lru"));
    const auto before = m_state->document();
    for (const char *text : {"fast", "-3"}) {
        m_message.clear();
        m_view->knobs()->bandwidth()->setText(QString::fromUtf8(text));
        QTest::keyClick(m_view->knobs()->bandwidth(), Qt::Key_Return);
        QVERIFY2(m_message.contains(QStringLiteral("GB/s")), qPrintable(m_message));
        QCOMPARE(m_state->document(), before);
        QCOMPARE(m_view->knobs()->bandwidth()->text(), QStringLiteral("0"));
    }
}

/// What ADMM keeps for each sample, two duals of each hidden state and one of each output, is told from the model's.
void TestMemoryView::stateOfSamplesIsABand()
{
    const auto band = [this](const QString &name) {
        const auto all = m_view->chart()->chart()->series();
        const auto found = std::ranges::find_if(all, [&](const QAbstractSeries *one) { return one->name() == name; });
        return found == all.end() ? nullptr : qobject_cast<QAreaSeries *>(*found);
    };
    const QString name = QStringLiteral("state of samples");
    m_view->devicePicker()->setCurrentIndex(1);
    Q_EMIT m_view->devicePicker()->activated(1);
    QVERIFY(band(name) && !band(name)->isVisible());
    QVERIFY(m_state->sampleBytes().empty());
    m_state->loadModel(QStringLiteral("zoo:rnn"));
    m_state->loadCluster(QStringLiteral("local:2"));
    bool loaded = false;
    m_state->whenLoaded([&loaded] { loaded = true; });
    QTRY_VERIFY_WITH_TIMEOUT(loaded, 20'000);
    PlanRequest request;
    request.planner = "admm";
    request.globalBatch = 1198;
    request.options = {{"workers", "2"}};
    QVERIFY(m_state->runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->document() && m_state->simulationCurrent(), 20'000);
    constexpr std::int64_t kBytes = 599 * (2 * 8 * 32 + 10) * 4; // of 8 steps with 32 units, 10 classes
    QCOMPARE(m_state->sampleBytes(), (std::vector<std::int64_t>{kBytes, kBytes}));
    m_view->devicePicker()->setCurrentIndex(1);
    Q_EMIT m_view->devicePicker()->activated(1);
    QTRY_VERIFY(band(name)->isVisible());
    const QPointF top = band(name)->upperSeries()->points().front();
    const QPointF bottom = band(name)->lowerSeries()->points().front();
    const auto &first = m_state->simulation()->memory[0].front();
    const double unit = top.y() / static_cast<double>(first.persistent);
    QVERIFY(std::abs((top.y() - bottom.y()) / unit / static_cast<double>(kBytes) - 1) < 1e-9);
    QCOMPARE(band(QStringLiteral("model state"))->upperSeries(), band(name)->lowerSeries());
    if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE"); !picture.isEmpty()) {
        QTest::qWait(100); // legends are laid out
        QVERIFY(m_view->grab().save(QString::fromUtf8(picture)));
    }
}

PLANLOOM_UI_MAIN(TestMemoryView)
#include "tst_memory_view.moc"
