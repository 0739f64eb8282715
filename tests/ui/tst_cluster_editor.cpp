// SPDX-License-Identifier: GPL-3.0-or-later
// Edits of a cluster's parts, what-if questions, and the matrix of ways.
#include "ui/cluster/cluster_view.h"
#include "ui/state/cluster_edit.h"
#include "ui/state/cluster_parts.h"

#include <QComboBox>
#include <QMessageBox>
#include <QTemporaryDir>
#include <QTest>
#include <QWheelEvent>

#include <algorithm>

using namespace planloom;
using namespace planloom::ui;

namespace {

using Kind = ClusterPart::Kind;

std::shared_ptr<const cluster::Cluster> preset(const char *name)
{
    return std::make_shared<const cluster::Cluster>(*cluster::preset(name));
}

std::shared_ptr<const cluster::Cluster> large(int nodes)
{
    cluster::RegularCluster spec;
    spec.name = "large";
    spec.nodes = nodes;
    spec.perNode = 8;
    spec.type = *cluster::knownDeviceType("H100-SXM");
    spec.intraBandwidth = 370e9;
    spec.interPointToPoint = spec.interCollective = 48e9;
    return std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
}

struct Bench {
    StudioState state;
    ClusterView view{&state};
    QString message;

    explicit Bench(const char *name = nullptr)
    {
        QObject::connect(&state, &StudioState::message, &state,
                         [this](MessageLevel, const QString &text) { message = text; });
        view.resize(620, 760);
        view.show();
        view.activateWindow();
        active = QTest::qWaitForWindowActive(&view); // for keys of commands
        if (name)
            state.editCluster(QStringLiteral("sample"), preset(name));
        map()->setFocus();
    }
    bool active = false;
    [[nodiscard]] ClusterMap *map() const { return view.findChild<ClusterMap *>(); }
    [[nodiscard]] ClusterMatrix *matrix() const { return view.findChild<ClusterMatrix *>(); }
    [[nodiscard]] ClusterEditor *editor() const { return view.findChild<ClusterEditor *>(); }
    [[nodiscard]] const cluster::Cluster &cluster() const { return *state.cluster(); }
    void click(const QPointF &at) const { QTest::mouseClick(map(), Qt::LeftButton, {}, at.toPoint()); }
    /// A point of a node's box that is its own.
    void clickNode(std::int64_t node) const { click(map()->boxOfNode(NodeId(node)).topRight() + QPointF(-6, 8)); }
    /// gpt-nano on two nodes of two devices, in four stages.
    bool plan()
    {
        state.loadModel(QStringLiteral("zoo:gpt-nano"));
        bool loaded = false;
        state.whenLoaded([&loaded] { loaded = true; });
        cluster::RegularCluster spec;
        spec.name = "small";
        spec.nodes = spec.perNode = 2;
        spec.type = *cluster::knownDeviceType("V100");
        spec.intraBandwidth = 100e9;
        spec.interPointToPoint = spec.interCollective = 10e9;
        if (!QTest::qWaitFor([&] { return loaded; }, 30'000))
            return false;
        state.editCluster(QStringLiteral("small"), std::make_shared<const cluster::Cluster>(*cluster::regular(spec)));
        PlanRequest request;
        request.planner = "gpipe";
        request.globalBatch = 8;
        return state.runPlanner(request) && QTest::qWaitFor([&] { return state.simulationCurrent(); }, 30'000);
    }
};

std::size_t linksOf(const cluster::Cluster &cluster, std::size_t vertex)
{
    return static_cast<std::size_t>(
        std::count_if(cluster.links().begin(), cluster.links().end(),
                      [&](const cluster::Link &link) { return link.a == vertex || link.b == vertex; }));
}

} // namespace

class TestClusterEditor : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void nodesOfPresetsCanBeDuplicated_data();
    void nodesOfPresetsCanBeDuplicated();
    void deviceLikeAnother();
    void nodeOfAnotherCluster();
    void keysAndUndo();
    void linksByHand();
    void switchesAndCards();
    void whatHangsTogetherStays_data();
    void whatHangsTogetherStays();
    void clusterFromNothing();
    void planFollowsItsDevices();
    void goneDevicesAskForANewPlan();
    void failuresAreMarkedAndPlannedAround();
    void halvedLink();
    void nothingOfAnotherClusterStays();
    void savedClusterIsTheSource();
    void collapsedNodes();
    void matrixOfDevices();
    void matrixOfNodes_data();
    void matrixOfNodes();
    void matrixAndMapShareTheSelection();
};

// --- values

void TestClusterEditor::nodesOfPresetsCanBeDuplicated_data()
{
    QTest::addColumn<QString>("name");
    for (const std::string &name : cluster::presetNames())
        QTest::newRow(name.c_str()) << QString::fromStdString(name);
}

void TestClusterEditor::nodesOfPresetsCanBeDuplicated()
{
    QFETCH(QString, name);
    const auto before = preset(name.toUtf8().constData());
    const auto more = withNodeOf(*before, *before, before->nodes().front().id);
    QVERIFY2(more, more ? "" : more.error().text().c_str());
    const std::size_t added = before->nodes().front().devices.size();
    QCOMPARE(more->nodes().size(), before->nodes().size() + 1);
    QCOMPARE(more->devices().size(), before->devices().size() + added);
    const cluster::Node &node = more->nodes().back();
    QCOMPARE(node.devices.size(), added);
    // It is as near to the others as the first one is; inside it is the same.
    if (before->nodes().size() > 1) {
        const DeviceId other = before->nodes()[1].devices.front();
        QCOMPARE(wayBetween(*more, node.devices.front(), other).bandwidth,
                 wayBetween(*before, before->nodes().front().devices.front(), other).bandwidth);
    }
    QCOMPARE(
        wayBetween(*more, node.devices.front(), node.devices.back()).bandwidth,
        wayBetween(*before, before->nodes().front().devices.front(), before->nodes().front().devices.back()).bandwidth);
    const auto same = sameDevices(*before, *more);
    for (std::size_t d = 0; d < same.size(); ++d)
        QCOMPARE(same[d], before->devices()[d].id);
    // Without it, all is as it was, but for a network that one node alone had none of.
    const auto less = withoutNodes(*more, std::span(&node.id, 1));
    QVERIFY(less);
    if (before->nodes().size() > 1)
        QCOMPARE(cluster::toJson(*less), cluster::toJson(*before));
    QCOMPARE(less->devices().size(), before->devices().size());
}

void TestClusterEditor::deviceLikeAnother()
{
    const auto before = preset("h100-16");
    const auto more = withDeviceLike(*before, DeviceId(3));
    QVERIFY(more);
    QCOMPARE(more->nodes()[0].devices.size(), std::size_t{9});
    QCOMPARE(more->devices()[8].name, std::string("n0:g8"));
    QCOMPARE(more->devices()[9].name, before->devices()[8].name); // those behind it move
    QCOMPARE(linksOf(*more, more->vertexOf(DeviceId(8))), linksOf(*before, before->vertexOf(DeviceId(3))));
    QCOMPARE(sameDevices(*before, *more)[8], DeviceId(9));
    QCOMPARE(wayBetween(*more, DeviceId(8), DeviceId(9)).bandwidth,
             wayBetween(*before, DeviceId(3), DeviceId(8)).bandwidth);
    const std::size_t vertex = more->vertexOf(DeviceId(8));
    const auto less = withoutVertices(*more, std::span(&vertex, 1));
    QVERIFY(less);
    QCOMPARE(cluster::toJson(*less), cluster::toJson(*before));
}

void TestClusterEditor::nodeOfAnotherCluster()
{
    const auto before = preset("h100-16");
    const auto from = preset("dapple-a");
    const auto mixed = withNodeOf(*before, *from, NodeId(0));
    QVERIFY(mixed);
    QCOMPARE(mixed->types().size(), before->types().size() + 1);
    QCOMPARE(mixed->typeOf(mixed->devices().back().id).name, from->typeOf(DeviceId(0)).name);
    QVERIFY(wayBetween(*mixed, DeviceId(0), mixed->devices().back().id).bandwidth > 0);
}

// --- edits in the view

void TestClusterEditor::keysAndUndo()
{
    Bench bench("h100-16");
    const auto before = bench.state.cluster();
    bench.clickNode(1);
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Node, 1}));
    QTest::keyClick(bench.map(), Qt::Key_D, Qt::ControlModifier);
    QCOMPARE(bench.cluster().nodes().size(), std::size_t{3});
    QCOMPARE(bench.cluster().nodes().back().name, std::string("n2"));
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Node, 2}));
    const auto three = bench.state.cluster();
    QTest::keyClick(bench.map(), Qt::Key_Delete);
    QCOMPARE(cluster::toJson(bench.cluster()), cluster::toJson(*before));
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.cluster(), three);
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.cluster(), before);
    bench.state.undoStack()->redo();
    QCOMPARE(bench.state.cluster(), three);
    bench.click(bench.map()->boxOf(DeviceId(20)).center());
    QTest::keyClick(bench.map(), Qt::Key_Delete);
    QCOMPARE(bench.cluster().devices().size(), std::size_t{23});
    QVERIFY(!bench.cluster().find("n2:g4").valid());
    QTest::keyClick(bench.map(), Qt::Key_Escape);
    QTest::keyClick(bench.map(), Qt::Key_Delete);
    QVERIFY2(bench.message.startsWith(QStringLiteral("Select a device")), qPrintable(bench.message));
    QCOMPARE(bench.cluster().devices().size(), std::size_t{23});
}

void TestClusterEditor::linksByHand()
{
    Bench bench("h100-16");
    const std::size_t links = bench.cluster().links().size();
    bench.click(bench.map()->boxOf(DeviceId(0)).center());
    QTest::keyClick(bench.map(), Qt::Key_L);
    QCOMPARE(bench.map()->linkFrom(), static_cast<int>(bench.cluster().vertexOf(DeviceId(0))));
    QTest::keyClick(bench.map(), Qt::Key_Escape);
    QCOMPARE(bench.map()->linkFrom(), -1);
    QTest::keyClick(bench.map(), Qt::Key_L);
    bench.click(bench.map()->boxOf(DeviceId(5)).center());
    QCOMPARE(bench.cluster().links().size(), links + 1);
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Link, links}));
    QCOMPARE(bench.cluster().route(DeviceId(0), DeviceId(5)), std::vector<std::size_t>{links});
    // Not twice.
    QVERIFY(!bench.editor()->link(bench.cluster().vertexOf(DeviceId(5)), bench.cluster().vertexOf(DeviceId(0))));
    QVERIFY2(bench.message.contains(QStringLiteral("already")), qPrintable(bench.message));
    QTest::keyClick(bench.map(), Qt::Key_Delete);
    QCOMPARE(bench.cluster().links().size(), links);
    bench.state.undoStack()->undo();
    QCOMPARE(bench.cluster().links().size(), links + 1);
    // By keyboard alone.
    bench.state.selectDevice(DeviceId(8));
    QTest::keyClick(bench.map(), Qt::Key_L);
    QTest::keyClick(bench.map(), Qt::Key_Right);
    QTest::keyClick(bench.map(), Qt::Key_Return);
    QCOMPARE(bench.cluster().links().size(), links + 2);
    QCOMPARE(bench.cluster().links().back().b, bench.cluster().vertexOf(DeviceId(9)));
}

void TestClusterEditor::switchesAndCards()
{
    Bench bench("h100-16");
    bench.clickNode(0);
    const std::size_t vertices = bench.cluster().vertices().size();
    QVERIFY(bench.editor()->addVertex(cluster::Vertex::Kind::Nic));
    QCOMPARE(bench.cluster().vertices().size(), vertices + 1);
    QCOMPARE(bench.cluster().vertices().back().kind, cluster::Vertex::Kind::Nic);
    std::size_t card = 0;
    while (bench.cluster().vertices()[card].kind != cluster::Vertex::Kind::Nic)
        ++card;
    QCOMPARE(linksOf(bench.cluster(), vertices), linksOf(bench.cluster(), card));
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Vertex, vertices}));
    bench.click(bench.map()->boxOfVertex(vertices).center());
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Vertex, vertices}));
    QTest::keyClick(bench.map(), Qt::Key_Delete);
    QCOMPARE(bench.cluster().vertices().size(), vertices);
    bench.clickNode(1);
    QVERIFY(bench.editor()->addVertex(cluster::Vertex::Kind::Switch));
    QCOMPARE(bench.cluster().vertices().back().node, NodeId(1));
    QVERIFY(bench.editor()->addVertex(cluster::Vertex::Kind::Network));
    QVERIFY(!bench.cluster().vertices().back().node.valid());
}

void TestClusterEditor::whatHangsTogetherStays_data()
{
    QTest::addColumn<QString>("cluster");
    QTest::addColumn<int>("kind");
    QTest::addColumn<QString>("thing"); // of a vertex, or of a link's first end
    QTest::addColumn<QString>("says");
    QTest::newRow("the only switch") << "h100-8" << static_cast<int>(Kind::Vertex) << "n0:switch"
                                     << "cannot be reached";
    QTest::newRow("the only link") << "h100-8" << static_cast<int>(Kind::Link) << "n0:g3"
                                   << "cannot be reached";
    QTest::newRow("the only node") << "h100-8" << static_cast<int>(Kind::Node) << "n0"
                                   << "no devices";
}

void TestClusterEditor::whatHangsTogetherStays()
{
    QFETCH(QString, cluster);
    QFETCH(int, kind);
    QFETCH(QString, thing);
    QFETCH(QString, says);
    Bench bench(cluster.toUtf8().constData());
    ClusterPart part{static_cast<Kind>(kind), 0};
    const auto named = [&](std::size_t vertex) {
        return bench.cluster().vertices()[vertex].name == thing.toStdString();
    };
    if (part.kind == Kind::Vertex)
        while (!named(part.index))
            ++part.index;
    else if (part.kind == Kind::Link)
        while (!named(bench.cluster().links()[part.index].a) && !named(bench.cluster().links()[part.index].b))
            ++part.index;
    const auto before = bench.state.cluster();
    bench.editor()->setPart(part);
    QVERIFY(!bench.editor()->remove());
    QVERIFY2(bench.message.contains(says), qPrintable(bench.message));
    QCOMPARE(bench.state.cluster(), before);
}

void TestClusterEditor::clusterFromNothing()
{
    Bench bench;
    QVERIFY(bench.editor()->addNodeLike("h100-16"));
    QCOMPARE(bench.cluster().nodes().size(), std::size_t{1});
    QCOMPARE(bench.cluster().devices().size(), std::size_t{8});
    QVERIFY(bench.editor()->addNodeLike("h100-16"));
    QCOMPARE(bench.cluster().nodes().size(), std::size_t{2});
    QVERIFY(wayBetween(bench.cluster(), DeviceId(0), DeviceId(15)).bandwidth > 0);
    QVERIFY(!bench.editor()->addNodeLike("no-such"));
    bench.state.undoStack()->undo();
    bench.state.undoStack()->undo();
    QVERIFY(!bench.state.cluster());
}

// --- with a plan

void TestClusterEditor::planFollowsItsDevices()
{
    Bench bench;
    QVERIFY(bench.plan());
    const auto before = bench.state.document();
    QCOMPARE(before->plan.stages.size(), std::size_t{4});
    bench.state.selectDevice(DeviceId(2));
    bench.editor()->setPart({Kind::Device, 0});
    QVERIFY(bench.editor()->duplicate()); // the devices of the second node move
    QCOMPARE(bench.cluster().devices().size(), std::size_t{5});
    const auto &stages = bench.state.document()->plan.stages;
    for (std::size_t s = 0; s < 4; ++s)
        QCOMPARE(bench.cluster().device(stages[s].devices.front()).name,
                 before->subject.cluster->device(before->plan.stages[s].devices.front()).name);
    QCOMPARE(stages[2].devices.front(), DeviceId(3));
    QVERIFY(QTest::qWaitFor([&] { return bench.state.simulationCurrent(); }, 30'000));
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.document(), before);
    QCOMPARE(bench.state.cluster(), before->subject.cluster);
}

void TestClusterEditor::goneDevicesAskForANewPlan()
{
    Bench bench;
    QVERIFY(bench.plan());
    const auto before = bench.state.document();
    QVERIFY(!bench.state.editCluster(QStringLiteral("less"), preset("h100-8")));
    QVERIFY2(bench.message.contains(QStringLiteral("find a new plan")), qPrintable(bench.message));
    bench.clickNode(1);
    QTest::keyClick(bench.map(), Qt::Key_Delete);
    auto *box = bench.view.findChild<QMessageBox *>();
    QVERIFY(box && box->text().contains(QStringLiteral("find a new plan")));
    QCOMPARE(bench.state.document(), before); // nothing yet
    QTest::mouseClick(box->defaultButton(), Qt::LeftButton);
    QVERIFY(QTest::qWaitFor([&] { return bench.state.document() != before; }, 30'000));
    QCOMPARE(bench.cluster().devices().size(), std::size_t{2});
    QCOMPARE(bench.state.document()->plan.stages.size(), std::size_t{2});
    QCOMPARE(bench.state.document()->plan.planner.name, std::string("gpipe"));
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.document(), before);
    QCOMPARE(bench.cluster().devices().size(), std::size_t{4});
}

void TestClusterEditor::failuresAreMarkedAndPlannedAround()
{
    Bench bench;
    QVERIFY(bench.plan());
    const auto before = bench.state.document();
    QVERIFY(!bench.editor()->planWithoutFailed());
    QVERIFY2(bench.message.contains(QStringLiteral("Nothing is marked")), qPrintable(bench.message));
    bench.state.selectDevice(DeviceId(3));
    QTest::keyClick(bench.map(), Qt::Key_F);
    QCOMPARE(bench.editor()->failed(), (std::vector<bool>{false, false, false, true}));
    QVERIFY(bench.map()->describeDevice(DeviceId(3)).contains(QStringLiteral("failed")));
    QCOMPARE(bench.state.document(), before);
    bench.state.undoStack()->undo();
    QVERIFY(bench.editor()->failed().empty());
    bench.state.undoStack()->redo();
    QVERIFY(bench.editor()->planWithoutFailed());
    QVERIFY(QTest::qWaitFor([&] { return bench.state.document() != before; }, 30'000));
    QCOMPARE(bench.cluster().devices().size(), std::size_t{3});
    QVERIFY(!bench.cluster().find(before->subject.cluster->devices()[3].name).valid());
    QCOMPARE(bench.editor()->failed(), (std::vector<bool>{false, false, false})); // those that are left are whole
    bench.state.undoStack()->undo();
    QCOMPARE(bench.editor()->failed(), (std::vector<bool>{false, false, false, true}));
}

void TestClusterEditor::halvedLink()
{
    Bench bench;
    QVERIFY(bench.plan());
    const cluster::Link before = bench.cluster().links()[0];
    bench.map()->linkPicked(0);
    QTest::keyClick(bench.map(), Qt::Key_H);
    QCOMPARE(bench.cluster().links()[0].pointToPoint, before.pointToPoint / 2);
    QCOMPARE(bench.cluster().links()[0].collective, before.collective / 2);
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Link, 0})); // still picked
    QVERIFY(QTest::qWaitFor([&] { return bench.state.simulationCurrent(); }, 30'000));
    const auto slowed = bench.state.document();
    QVERIFY(bench.state.planOnCluster(bench.state.cluster()));
    QVERIFY(QTest::qWaitFor([&] { return bench.state.document() != slowed; }, 30'000));
    bench.state.undoStack()->undo();
    bench.state.undoStack()->undo();
    QCOMPARE(bench.cluster().links()[0].pointToPoint, before.pointToPoint);
}

/// Of a cluster that was opened while the view was out of sight: neither what is picked nor what has failed.
void TestClusterEditor::nothingOfAnotherClusterStays()
{
    Bench bench("h100-16");
    const auto open = [&](const char *source) {
        bench.state.loadCluster(QString::fromLatin1(source));
        bool loaded = false;
        bench.state.whenLoaded([&loaded] { loaded = true; });
        return QTest::qWaitFor([&] { return loaded; }, 30'000);
    };
    const auto action = [&](const QString &text) {
        const auto all = bench.editor()->actions();
        return *std::find_if(all.begin(), all.end(), [&](const QAction *each) { return each->text() == text; });
    };
    const auto last = bench.cluster().links().size() - 1;
    bench.map()->linkPicked(static_cast<int>(last));
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Link, last}));
    bench.view.hide();
    // An edit leaves it what it is.
    const double before = bench.cluster().links()[last].pointToPoint;
    action(QStringLiteral("Halve the link's bandwidth"))->trigger();
    action(QStringLiteral("Halve the link's bandwidth"))->trigger();
    QCOMPARE(bench.cluster().links()[last].pointToPoint, before / 4);
    // Another cluster has no such link.
    QVERIFY(open("local:2"));
    QCOMPARE(bench.editor()->part(), ClusterPart());
    const auto small = bench.state.cluster();
    for (QAction *each : {action(QStringLiteral("Remove")), action(QStringLiteral("Halve the link's bandwidth"))}) {
        each->trigger();
        QVERIFY2(bench.message.startsWith(QStringLiteral("Select a")), qPrintable(bench.message));
        QCOMPARE(bench.state.cluster(), small);
    }
    bench.editor()->setPart({Kind::Device, 7}); // as a view that does not know of it yet
    QCOMPARE(bench.editor()->part(), ClusterPart());
    QVERIFY(!bench.editor()->link(0, 99));

    QVERIFY(open("preset:h100-8"));
    bench.editor()->setPart({Kind::Device, 0});
    bench.editor()->toggleFailed();
    QVERIFY(!bench.editor()->failed().empty());
    QVERIFY(open("preset:h100-16")); // its devices have the same names
    QVERIFY(bench.editor()->failed().empty());
    bench.view.show();
    QVERIFY(!bench.map()->describeDevice(DeviceId(0)).contains(QStringLiteral("failed")));
}

void TestClusterEditor::savedClusterIsTheSource()
{
    const QTemporaryDir folder;
    Bench bench("h100-8");
    QVERIFY(bench.state.clusterSource().isEmpty());
    const QString path = folder.filePath(QStringLiteral("mine.json"));
    QVERIFY(bench.state.saveCluster(path));
    QCOMPARE(bench.state.clusterSource(), path);
    Bench again;
    again.state.loadCluster(path);
    QVERIFY(QTest::qWaitFor([&] { return again.state.cluster() != nullptr; }, 30'000));
    QCOMPARE(cluster::toJson(again.cluster()), cluster::toJson(bench.cluster()));
    QVERIFY(!bench.state.saveCluster(folder.filePath(QStringLiteral("none/mine.json"))));
    QVERIFY2(bench.message.contains(QStringLiteral("none")), qPrintable(bench.message));
}

// --- size

void TestClusterEditor::collapsedNodes()
{
    Bench bench("h100-16");
    ClusterMap *map = bench.map();
    const QSizeF before = map->boxOfNode(NodeId(0)).size();
    map->setFocus();
    QTest::keyClick(map, Qt::Key_C);
    QVERIFY(map->collapsed() && map->aggregated());
    QVERIFY(map->boxOfNode(NodeId(0)).height() < before.height());
    const QImage whole = map->grab().toImage();
    bench.click(map->boxOfNode(NodeId(1)).center());
    QCOMPARE(bench.editor()->part(), (ClusterPart{Kind::Node, 1}));
    QVERIFY(map->grab().toImage() != whole); // it is marked
    // While it is moved the picture goes along as it is.
    QTest::keyClick(map, Qt::Key_Escape);
    const QRectF box = map->boxOfNode(NodeId(1));
    const QRect there = box.toAlignedRect().adjusted(-4, -4, 4, 4);
    const QImage still = map->grab(there).toImage();
    QWheelEvent wheel(box.center(), map->mapToGlobal(box.center()), {}, {0, 40}, Qt::NoButton, {}, Qt::NoScrollPhase,
                      false);
    QCoreApplication::sendEvent(map, &wheel);
    QCOMPARE(map->boxOfNode(NodeId(1)).center() - box.center(), QPointF(0, 20));
    QCOMPARE(map->grab(there.translated(0, 20)).toImage(), still);
    QTest::keyClick(map, Qt::Key_C);
    QVERIFY(!map->aggregated());
    const ClusterLayout layout = layOut(*large(2048), 1.5, true);
    QCOMPARE(layout.nodes.size(), std::size_t{2048});
    // One line a node, however many there are.
    QCOMPARE(static_cast<int>(std::count(layout.first.begin(), layout.first.end(), true)), 2048);
}

void TestClusterEditor::matrixOfDevices()
{
    const auto cluster = preset("h100-16");
    const ClusterMatrixData matrix(*cluster);
    QVERIFY(!matrix.byNode());
    QCOMPARE(matrix.rows().size(), std::size_t{16});
    QCOMPARE(matrix.way(0, 0).bandwidth, cluster->typeOf(DeviceId(0)).memoryBandwidth);
    QCOMPARE(matrix.way(0, 7).bandwidth, cluster->links()[cluster->route(DeviceId(0), DeviceId(7))[0]].pointToPoint);
    QCOMPARE(matrix.way(3, 12).bandwidth, 48e9);
    QCOMPARE(matrix.way(12, 3).bandwidth, 48e9);
    Seconds latency(0);
    for (const std::size_t link : cluster->route(DeviceId(3), DeviceId(12)))
        latency = latency + cluster->links()[link].latency;
    QCOMPARE(matrix.way(3, 12).latency.value(), latency.value());
    // The rates of two levels count where communication follows from them.
    const auto two = preset("dapple-a");
    const ClusterMatrixData levels(*two);
    QCOMPARE(levels.way(0, 1).bandwidth, two->twoLevel().intraNode);
    QCOMPARE(levels.way(0, 15).bandwidth, two->twoLevel().interPointToPoint);
}

void TestClusterEditor::matrixOfNodes_data()
{
    QTest::addColumn<int>("nodes");
    QTest::addColumn<int>("rows");
    QTest::newRow("64 devices") << 8 << 64;
    QTest::newRow("72 devices") << 9 << 9;
    QTest::newRow("256 nodes") << 256 << 256;
    QTest::newRow("16,384 devices") << 2048 << 256;
    QTest::newRow("a short last row") << 300 << 150;
}

void TestClusterEditor::matrixOfNodes()
{
    QFETCH(int, nodes);
    QFETCH(int, rows);
    const auto cluster = large(nodes);
    const ClusterMatrixData matrix(*cluster);
    QCOMPARE(static_cast<int>(matrix.rows().size()), rows);
    std::size_t devices = 0;
    for (const ClusterMatrixData::Row &row : matrix.rows())
        devices += row.devices;
    QCOMPARE(devices, cluster->devices().size());
    const auto last = static_cast<std::size_t>(rows - 1);
    QCOMPARE(matrix.rowOf(cluster->devices().back().id), last);
    QCOMPARE(matrix.way(0, last).bandwidth, 48e9);
    if (rows < nodes) // a run's diagonal is between two of its nodes
        QCOMPARE(matrix.way(1, 1).bandwidth, 48e9);
    else if (matrix.byNode())
        QCOMPARE(matrix.way(1, 1).bandwidth, 370e9);
}

void TestClusterEditor::matrixAndMapShareTheSelection()
{
    Bench bench("h100-16");
    auto *tabs = bench.view.findChild<QTabWidget *>();
    tabs->setCurrentIndex(3);
    ClusterMatrix *matrix = bench.matrix();
    QVERIFY(!matrix->grab().isNull());
    QVERIFY(matrix->figures());
    QTest::mouseClick(matrix, Qt::LeftButton, {}, matrix->cellOf(2, 13).center().toPoint());
    const ClusterPart picked = bench.editor()->part();
    QCOMPARE(picked.kind, Kind::Link);
    QCOMPARE(bench.cluster().links()[picked.index].pointToPoint, 48e9); // the slowest of the way
    QVERIFY(matrix->marked(2, 13) && !matrix->marked(0, 1));
    QVERIFY(matrix->describe(2, 13).contains(QStringLiteral("48 GB/s")));
    const QImage bandwidth = matrix->grab().toImage();
    matrix->parentWidget()->findChild<QComboBox *>()->setCurrentIndex(1);
    QVERIFY(matrix->grab().toImage() != bandwidth);
    QTest::mouseClick(matrix, Qt::LeftButton, {}, matrix->cellOf(5, 5).center().toPoint());
    QCOMPARE(bench.state.selection().device, DeviceId(5));
    QTest::keyClick(matrix, Qt::Key_Down);
    QTest::keyClick(matrix, Qt::Key_Right);
    QTest::keyClick(matrix, Qt::Key_Return);
    QCOMPARE(bench.state.selection().device, DeviceId(6));
    bench.state.editCluster(QStringLiteral("other"), large(9));
    QVERIFY(!matrix->grab().isNull());
    QVERIFY(matrix->figures()->byNode());
}

QTEST_MAIN(TestClusterEditor)
#include "tst_cluster_editor.moc"
