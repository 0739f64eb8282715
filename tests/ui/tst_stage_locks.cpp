// SPDX-License-Identifier: GPL-3.0-or-later
// Stages and boundaries that planning again keeps.
#include "ui/planview/plan_view.h"
#include "ui/planview/stage_locks.h"
#include "ui/planview/stage_table.h"

#include "tests/ui/studio_fixture.h"

#include <QTest>

using namespace planloom;
using namespace planloom::ui;

namespace {

/// gpt-nano in four stages on four devices, in a plan view.
struct Bench {
    StudioState state;
    PlanView view{&state};
    QString message;
    bool ready = false;

    Bench()
    {
        QObject::connect(&state, &StudioState::message, &state,
                         [this](MessageLevel, const QString &text) { message = text; });
        view.resize(1200, 420);
        view.show();
        ready = testing::loadSample(state);
    }
    [[nodiscard]] const plan::Plan &plan() const { return state.document()->plan; }
    [[nodiscard]] LayerBars *bars() const { return view.findChild<LayerBars *>(); }
    [[nodiscard]] planners::KeptStages locks() const { return locksOf(*state.document()); }
    [[nodiscard]] bool planned(const StudioState::DocumentPtr &before)
    {
        return QTest::qWaitFor([&] { return state.document() != before && state.simulationCurrent(); }, 30'000);
    }
};

} // namespace

class TestStageLocks : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void tickKeepsAStage();
    void keyKeepsABoundary();
    void editedStagesAreFree();
    void planningKeepsThem();
    void otherPlannersAreReplaced();
    void nothingToKeep();
};

void TestStageLocks::tickKeepsAStage()
{
    Bench bench;
    QVERIFY(bench.ready);
    auto *table = bench.view.findChildren<DataTable *>().front();
    for (DataTable *each : bench.view.findChildren<DataTable *>())
        if (each->accessibleName() == QStringLiteral("Stages of the plan"))
            table = each;
    const QModelIndex index = table->model()->index(1, static_cast<int>(StageColumn::Keep));
    QCOMPARE(index.data(Qt::CheckStateRole).toInt(), int(Qt::Unchecked));
    table->scrollTo(index);
    const QRect cell = table->visualRect(index);
    const QImage before = bench.bars()->grab().toImage();
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, QPoint(cell.left() + 12, cell.center().y()));
    const plan::Stage &stage = bench.plan().stages[1];
    QCOMPARE(bench.locks().runs, (std::vector<planners::KeptStages::Run>{{stage.firstLayer, stage.lastLayer, 1}}));
    QCOMPARE(index.data(Qt::CheckStateRole).toInt(), int(Qt::Checked));
    QVERIFY(bench.bars()->grab().toImage() != before);
    // Its boundaries are kept with it.
    QVERIFY(!toggleBoundaryLock(bench.state, 0));
    QVERIFY2(bench.message.contains(QStringLiteral("kept with its stage")), qPrintable(bench.message));
    // It is in the file.
    const auto again = plan::documentFromJson(plan::toJson(*bench.state.document()));
    QVERIFY(again);
    QCOMPARE(locksOf(*again), bench.locks());
    bench.state.undoStack()->undo();
    QVERIFY(bench.locks().empty());
}

void TestStageLocks::keyKeepsABoundary()
{
    Bench bench;
    QVERIFY(bench.ready);
    bench.bars()->setCurrentBoundary(1);
    QTest::keyClick(bench.bars(), Qt::Key_K);
    QCOMPARE(bench.locks().cuts, std::vector<std::size_t>{bench.plan().stages[2].firstLayer});
    QTest::keyClick(bench.bars(), Qt::Key_K);
    QVERIFY(bench.locks().empty());
    QVERIFY(!bench.plan().planner.options.contains(planners::kKeepOption));
    // Without a boundary it is the selected stage.
    bench.bars()->setCurrentBoundary(-1);
    bench.state.selectStage(StageId(3));
    QTest::keyClick(bench.bars(), Qt::Key_K);
    QCOMPARE(bench.locks().runs.size(), std::size_t{1});
    QCOMPARE(bench.locks().runs[0].first, bench.plan().stages[3].firstLayer);
}

void TestStageLocks::editedStagesAreFree()
{
    Bench bench;
    QVERIFY(bench.ready);
    QVERIFY(toggleStageLock(bench.state, 0));
    QVERIFY(toggleBoundaryLock(bench.state, 2));
    const std::size_t layer = bench.plan().stages[1].firstLayer;
    const bool longer = bench.plan().stages[1].lastLayer - layer > 1;
    QVERIFY(editStage(bench.state, 0, StageColumn::Layers, QStringLiteral("0-%1").arg(longer ? layer : layer - 2)));
    QVERIFY(bench.locks().runs.empty());
    QCOMPARE(bench.locks().cuts.size(), std::size_t{1});
    bench.state.undoStack()->undo();
    QCOMPARE(bench.locks().runs.size(), std::size_t{1});
}

void TestStageLocks::planningKeepsThem()
{
    Bench bench;
    QVERIFY(bench.ready);
    // A boundary that no planner would choose.
    const std::size_t layers = bench.state.document()->subject.layers().size();
    QVERIFY(bench.state.editPlan(QStringLiteral("odd"), [&](plan::Plan &plan) {
        for (std::size_t s = 0; s < 4; ++s) {
            plan.stages[s].firstLayer = s == 0 ? 0 : layers - 4 + s;
            plan.stages[s].lastLayer = layers - 3 + s;
        }
    }));
    QVERIFY(toggleStageLock(bench.state, 0));
    const auto before = bench.state.document();
    QVERIFY(planWithLocks(bench.state));
    QVERIFY(bench.planned(before));
    QCOMPARE(bench.plan().planner.name, std::string("gpipe"));
    QCOMPARE(bench.plan().stages[0].lastLayer, layers - 3);
    QCOMPARE(bench.locks().runs.size(), std::size_t{1}); // for the next time
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.document(), before);
}

void TestStageLocks::otherPlannersAreReplaced()
{
    Bench bench;
    QVERIFY(bench.ready);
    PlanRequest request;
    request.planner = "pipedream";
    request.globalBatch = 8;
    auto before = bench.state.document();
    QVERIFY(bench.state.runPlanner(request));
    QVERIFY(bench.planned(before));
    if (bench.plan().stages.size() < 2)
        QVERIFY(bench.state.replacePlan(QStringLiteral("pipeline"), [&] {
            plan::Plan plan = before->plan;
            plan.planner.name = "pipedream";
            return plan;
        }()));
    QVERIFY(toggleBoundaryLock(bench.state, 0));
    const std::size_t cut = bench.plan().stages[1].firstLayer;
    before = bench.state.document();
    QVERIFY(planWithLocks(bench.state));
    QVERIFY2(bench.message.contains(QStringLiteral("auto")) && bench.message.contains(QStringLiteral("gpipe")),
             qPrintable(bench.message));
    QVERIFY(bench.planned(before));
    QCOMPARE(bench.plan().planner.name, std::string("auto"));
    QVERIFY(std::any_of(bench.plan().stages.begin(), bench.plan().stages.end(),
                        [cut](const plan::Stage &stage) { return stage.firstLayer == cut; }));
}

void TestStageLocks::nothingToKeep()
{
    Bench bench;
    QVERIFY(bench.ready);
    QVERIFY(!planWithLocks(bench.state));
    QVERIFY2(bench.message.contains(QStringLiteral("Nothing is kept")), qPrintable(bench.message));
    QVERIFY(!toggleBoundaryLock(bench.state, 3)); // behind the last stage
    StudioState none;
    QVERIFY(!toggleStageLock(none, 0));
}

QTEST_MAIN(TestStageLocks)
#include "tst_stage_locks.moc"
