// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/plan/device_text.h"
#include "engine/plan/stage_edits.h"
#include "ui/planview/layer_axis.h"
#include "ui/planview/plan_summary.h"
#include "ui/planview/stage_figures.h"
#include "ui/state/plan_shape.h"

#include <QTest>

using namespace planloom;
using namespace planloom::ui;

/// The parts of the Plan view that need no display.
class TestPlanValues : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void axisMapsLayersAndPixels();
    void axisHitsBoundaries();
    void axisZoomsAroundTheMouse();
    void deviceNames_data();
    void deviceNames();
    void wrongDeviceNames_data();
    void wrongDeviceNames();
    void capsSurviveOtherMicroBatches();
    void stagesThatShareDevicesStayTogether();
    void shapesAreShort();
    void summarySaysWhatChanged();
};

// --- geometry

void TestPlanValues::axisMapsLayersAndPixels()
{
    LayerAxis axis;
    axis.setLayers(10);
    axis.setPixels(50, 200);
    QCOMPARE(axis.x(0), 50.0);
    QCOMPARE(axis.x(10), 250.0);
    QCOMPARE(axis.layerPixels(), 20.0);
    QCOMPARE(axis.layerAt(50), std::size_t(0));
    QCOMPARE(axis.layerAt(69.9), std::size_t(0));
    QCOMPARE(axis.layerAt(70.1), std::size_t(1));
    QCOMPARE(axis.layerAt(-100), std::size_t(0));
    QCOMPARE(axis.layerAt(1000), std::size_t(9));
    QCOMPARE(axis.edgeAt(59), std::size_t(0));
    QCOMPARE(axis.edgeAt(61), std::size_t(1));
    QCOMPARE(axis.edgeAt(1000), std::size_t(10));
}

void TestPlanValues::axisHitsBoundaries()
{
    LayerAxis axis;
    axis.setLayers(10);
    axis.setPixels(0, 100);
    const std::vector<std::size_t> boundaries{3, 4, 8};
    QCOMPARE(axis.boundaryAt(30, boundaries), 0);
    QCOMPARE(axis.boundaryAt(34, boundaries), 0);
    QCOMPARE(axis.boundaryAt(36, boundaries), 1);
    QCOMPARE(axis.boundaryAt(80 + LayerAxis::kGrip, boundaries), 2);
    QCOMPARE(axis.boundaryAt(80 + LayerAxis::kGrip + 0.1, boundaries), -1);
    QCOMPARE(axis.boundaryAt(30, {}), -1);
}

void TestPlanValues::axisZoomsAroundTheMouse()
{
    LayerAxis axis;
    axis.setLayers(100);
    axis.setPixels(0, 1000);
    axis.zoom(4, 500);
    QCOMPARE(axis.x(50), 500.0);
    QCOMPARE(axis.layerPixels(), 40.0);
    QVERIFY(!axis.fitted());
    axis.pan(-1e6);
    QCOMPARE(axis.x(0), 0.0);
    QCOMPARE(axis.lastVisible(), std::size_t(25));
    axis.reveal(80);
    QVERIFY(axis.x(80) > 0 && axis.x(80) < 1000);
    axis.zoom(1e-3, 0);
    QVERIFY(axis.fitted());
    axis.zoom(1e9, 0);
    QCOMPARE(axis.layerPixels(), 1000 / LayerAxis::kLeastLayers);
}

// --- text and edits

void TestPlanValues::deviceNames_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QList<int>>("ids");
    QTest::addColumn<QString>("written");
    QTest::newRow("one") << "n0:g3" << QList<int>{3} << "n0:g3";
    QTest::newRow("run") << "n0:g0-3" << QList<int>{0, 1, 2, 3} << "n0:g0-3";
    QTest::newRow("run in full") << " n0:g0 - n0:g2 " << QList<int>{0, 1, 2} << "n0:g0-2";
    QTest::newRow("two runs") << "n0:g6-7,n1:g0-1" << QList<int>{6, 7, 8, 9} << "n0:g6-7, n1:g0-1";
    QTest::newRow("nodes alike") << "n0-1:g2-3" << QList<int>{2, 3, 10, 11} << "n0-1:g2-3";
    QTest::newRow("nodes alike, one by one") << "n0:g2-3, n1:g2-3" << QList<int>{2, 3, 10, 11} << "n0-1:g2-3";
    QTest::newRow("nodes, a device each") << "n0:g1, n1:g1" << QList<int>{1, 9} << "n0-1:g1";
    QTest::newRow("order is kept") << "n1:g1, n0:g1" << QList<int>{9, 1} << "n1:g1, n0:g1";
}

void TestPlanValues::deviceNames()
{
    QFETCH(QString, text);
    QFETCH(QList<int>, ids);
    QFETCH(QString, written);
    const auto cluster = cluster::preset("dapple-a");
    QVERIFY(cluster);
    const auto devices = plan::devicesFromText(*cluster, text.toStdString());
    QVERIFY2(devices, devices ? "" : devices.error().message.c_str());
    QList<int> got;
    for (const DeviceId device : *devices)
        got << device.value;
    QCOMPARE(got, ids);
    QCOMPARE(QString::fromStdString(plan::deviceText(*cluster, *devices)), written);
}

void TestPlanValues::wrongDeviceNames_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("says");
    QTest::newRow("empty") << ""
                           << "missing";
    QTest::newRow("two commas") << "n0:g0,,n0:g1"
                                << "missing";
    QTest::newRow("unknown") << "n7:g0"
                             << "\"n7:g0\"";
    QTest::newRow("past the end") << "n0:g6-9"
                                  << "\"n0:g8\"";
    QTest::newRow("backwards") << "n0:g3-1"
                               << "backwards";
    QTest::newRow("a node too many") << "n0-2:g0"
                                     << "\"n2:g0\"";
    QTest::newRow("two nodes") << "n0:g3-n1:g4"
                               << "no device";
}

void TestPlanValues::wrongDeviceNames()
{
    QFETCH(QString, text);
    QFETCH(QString, says);
    const auto devices = plan::devicesFromText(*cluster::preset("dapple-a"), text.toStdString());
    QVERIFY(!devices);
    QVERIFY2(QString::fromStdString(devices.error().message).contains(says), devices.error().message.c_str());
}

void TestPlanValues::capsSurviveOtherMicroBatches()
{
    plan::Plan plan;
    plan.globalBatch = 32;
    plan.microBatches = 4;
    plan.schedule.kind = plan::ScheduleKind::GPipe;
    plan.stages.resize(3);
    setWarmupCap(plan, 1, 2);
    QCOMPARE(plan::warmupDepths(plan), (std::vector<int>{4, 2, 4}));
    setMicroBatches(plan, 8);
    QCOMPARE(plan::warmupDepths(plan), (std::vector<int>{8, 2, 8}));
    QCOMPARE(warmupCap(plan, 0), 0);
    QCOMPARE(warmupCap(plan, 1), 2);
    setWarmupCap(plan, 1, 0);
    QVERIFY(plan.schedule.warmup.empty());
}

/// Two stages on each of two devices: edits keep stages on shared devices together.
void TestPlanValues::stagesThatShareDevicesStayTogether()
{
    plan::Document document;
    document.subject.cluster = std::make_shared<const cluster::Cluster>(*cluster::preset("dapple-a"));
    plan::Plan &plan = document.plan;
    plan.stages.resize(4);
    for (std::size_t s = 0; s < 4; ++s) {
        plan.stages[s].firstLayer = 2 * s;
        plan.stages[s].lastLayer = 2 * s + 2;
        plan.stages[s].devices = {DeviceId(static_cast<std::int64_t>(s % 2))};
    }
    const auto split = splitStage(document, 2, 5);
    QVERIFY(split.ok());
    QCOMPARE(split->stages.size(), std::size_t{5});
    QVERIFY(split->stages[2].devices == plan.stages[0].devices && split->stages[3].devices == plan.stages[0].devices);
    const auto merged = mergeWithNext(plan, 0);
    QVERIFY(merged.ok());
    QVERIFY(merged->stages[0].devices == plan.stages[0].devices);
    setDevices(plan, 1, {DeviceId(4), DeviceId(5)});
    QVERIFY(plan.stages[3].devices == plan.stages[1].devices);
    QVERIFY(plan.stages[2].devices == plan.stages[0].devices);
}

void TestPlanValues::shapesAreShort()
{
    plan::Plan plan;
    plan.stages.resize(64);
    for (std::int64_t s = 0; s < 64; ++s)
        plan.stages[static_cast<std::size_t>(s)].devices = {DeviceId(s)};
    QCOMPARE(shapeText(plan), QStringLiteral("pipeline, 64 stages"));
    for (plan::Stage &stage : plan.stages) {
        stage.devices.assign(16, DeviceId(0));
        stage.mesh = {1, 16};
    }
    QCOMPARE(shapeText(plan), QString::fromUtf8("64 stages × 16-way tensor"));
    plan.stages[3].mesh.clear();
    plan.stages[3].devices.resize(2);
    QCOMPARE(shapeText(plan), QStringLiteral("64 stages of 2 to 16 devices"));
    plan.stages.resize(4);
    plan.stages.erase(plan.stages.begin(), plan.stages.begin() + 2);
    QCOMPARE(shapeText(plan), QStringLiteral("16 + 2 devices"));
    plan.stages.resize(1);
    plan.stages[0].devices.assign(4, DeviceId(0));
    plan.stages[0].mesh = {2, 2};
    QCOMPARE(shapeText(plan), QString::fromUtf8("2 replicas × 2-way tensor"));
    plan.admm.emplace().timeRanges = 2;
    QCOMPARE(shapeText(plan), QString::fromUtf8("2 replicas × 2 ranges of time steps"));
    plan.stages[0].devices.resize(2);
    plan.stages[0].mesh = {1, 2};
    QCOMPARE(shapeText(plan), QStringLiteral("2 ranges of time steps"));
}

void TestPlanValues::summarySaysWhatChanged()
{
    simulate::Report before;
    before.iterationSeconds = 0.010;
    before.samplesPerSecond = 100;
    before.bubbleFraction = 0.30;
    before.fits = false;
    simulate::Report after = before;
    after.iterationSeconds = 0.011;
    after.samplesPerSecond = 90;
    after.bubbleFraction = 0.25;
    after.fits = true;
    const QString text = predictionText({}, after, before);
    for (const char *part : {"(+10.00 %)", "(−10.00 %)", "(−5.0 points)", "fits in memory (did not before)"})
        QVERIFY2(text.contains(QString::fromUtf8(part)), qPrintable(text));
    QVERIFY(predictionText({}, after, after).contains(QStringLiteral("(no change)")));
    plan::Plan plan;
    QVERIFY(estimateText(plan, after).isEmpty());
    plan.planner.name = "dapple";
    plan.estimate["iteration_seconds"] = 0.010;
    QVERIFY2(estimateText(plan, after).contains(QStringLiteral("simulator 11 ms (+10.00 %)")),
             qPrintable(estimateText(plan, after)));
    QVERIFY(!estimateText(plan, after).contains(QStringLiteral("stopped")));
    plan.estimate["stopped_early"] = 1;
    QVERIFY(estimateText(plan, after).startsWith(QStringLiteral("! search stopped early; best plan so far")));
}

QTEST_GUILESS_MAIN(TestPlanValues)
#include "tst_plan_values.moc"
