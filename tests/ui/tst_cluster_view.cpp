// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/watched_main.h"

#include "ui/cluster/cluster_settings_dialog.h"
#include "ui/cluster/cluster_view.h"

#include "ui/state/cluster_edit.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFile>
#include <QImage>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>
#include <map>

using namespace planloom;
using namespace planloom::ui;

namespace {

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
        view.resize(520, 760);
        view.show();
        if (name)
            state.editCluster(QStringLiteral("sample"), preset(name));
    }
    [[nodiscard]] ClusterMap *map() const { return view.findChild<ClusterMap *>(); }
    [[nodiscard]] ClusterInspector *inspector() const { return view.findChild<ClusterInspector *>(); }
    /// Writes into a field of the inspector as a user does.
    void write(const QString &field, const QString &text) const
    {
        QLineEdit *edit = inspector()->field(field);
        QVERIFY2(edit, qPrintable(field));
        edit->setFocus();
        edit->selectAll();
        QTest::keyClicks(edit, text);
        QTest::keyClick(edit, Qt::Key_Return);
    }
    /// A plan over the cluster, so that edits of it can be undone.
    bool plan()
    {
        state.loadModel(QStringLiteral("zoo:gpt-nano"));
        state.loadCluster(QStringLiteral("preset:dapple-a"));
        bool loaded = false;
        state.whenLoaded([&loaded] { loaded = true; });
        if (!QTest::qWaitFor([&] { return loaded && state.subject(); }, 30'000))
            return false;
        PlanRequest request;
        request.planner = "gpipe";
        request.globalBatch = 8;
        return state.runPlanner(request) && QTest::qWaitFor([&] { return state.simulationCurrent(); }, 30'000);
    }
};

} // namespace

class TestClusterView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void layoutIsTidy_data();
    void layoutIsTidy();
    void rebuiltClusterIsTheSame_data();
    void rebuiltClusterIsTheSame();
    void distanceToALine();
    void clickSelectsTheDevice();
    void clickOnALinkShowsItsFigures();
    void arrowsWalk();
    void memoryEditIsUndoable();
    void wrongFiguresAreRefused_data();
    void wrongFiguresAreRefused();
    void linkEditChangesAllAlike();
    void duplexIsAClick();
    void ratesOfTwoLevels();
    void zoomAndFit();
    void thousandDevices();
    void tablesFollowTheSelection();
    void asksForTheTypeOfGpus();
    void asksForWhatSlurmLeavesOpen();
};

// --- values

void TestClusterView::layoutIsTidy_data()
{
    QTest::addColumn<QString>("name");
    for (const std::string &name : cluster::presetNames())
        QTest::newRow(name.c_str()) << QString::fromStdString(name);
}

void TestClusterView::layoutIsTidy()
{
    QFETCH(QString, name);
    const auto cluster = preset(name.toUtf8().constData());
    for (const double aspect : {0.4, 1.0, 3.0}) {
        const ClusterLayout layout = layOut(*cluster, aspect);
        QCOMPARE(layout.links.size(), cluster->links().size());
        const ClusterLayout again = layOut(*cluster, aspect);
        QCOMPARE(again.vertices, layout.vertices);
        std::map<NodeId, std::vector<std::size_t>> insideOf; // nodes lie apart: see below
        for (std::size_t v = 0; v < layout.vertices.size(); ++v) {
            const QRectF &box = layout.vertices[v];
            QVERIFY(!box.isEmpty());
            QVERIFY(layout.bounds.contains(box));
            const NodeId node = cluster->vertices()[v].node;
            if (node.valid())
                QVERIFY(layout.nodes[node.index()].contains(box));
            for (const std::size_t w : insideOf[node])
                QVERIFY2(!box.intersects(layout.vertices[w]), cluster->vertices()[v].name.c_str());
            for (std::size_t n = 0; n < layout.nodes.size() && !node.valid(); ++n)
                QVERIFY2(!box.intersects(layout.nodes[n]), cluster->vertices()[v].name.c_str());
            insideOf[node].push_back(v);
        }
        for (std::size_t n = 0; n < layout.nodes.size(); ++n) {
            for (std::size_t m = 0; m < n; ++m)
                QVERIFY(!layout.nodes[n].intersects(layout.nodes[m]));
        }
    }
}

void TestClusterView::rebuiltClusterIsTheSame_data() { layoutIsTidy_data(); }

void TestClusterView::rebuiltClusterIsTheSame()
{
    QFETCH(QString, name);
    const auto cluster = preset(name.toUtf8().constData());
    const auto same = withType(*cluster, 0, cluster->types()[0]);
    QVERIFY(same);
    QCOMPARE(cluster::toJson(*same), cluster::toJson(*cluster));
    const std::vector<std::size_t> first{0};
    const auto halved = withLinks(*cluster, first, [](cluster::Link &link) { link.pointToPoint /= 2; });
    QVERIFY(halved);
    QCOMPARE(halved->links()[0].pointToPoint, cluster->links()[0].pointToPoint / 2);
    QVERIFY(cluster::toJson(*halved) != cluster::toJson(*cluster));
    // How a machine is reached stays, too.
    QByteArray text = QByteArray::fromStdString(cluster::toJson(*cluster));
    text.replace(text.indexOf("\"nodes\":[{"), 10, R"("nodes":[{"address":"gpu1","user":"ada","port":2222,)");
    const auto reached = cluster::clusterFromJson(text.toStdString());
    QVERIFY2(reached, reached ? "" : reached.error().text().c_str());
    QCOMPARE(reached->nodes()[0].host.port, 2222);
    const auto kept = withType(*reached, 0, reached->types()[0]);
    QVERIFY(kept);
    QVERIFY(kept->nodes()[0].host == reached->nodes()[0].host);
}

void TestClusterView::distanceToALine()
{
    const QPolygonF line{{0, 0}, {10, 0}, {10, 10}};
    QCOMPARE(distance(line, {5, 3}), 3.0);
    QCOMPARE(distance(line, {13, 14}), 5.0);
    QCOMPARE(distance(line, {10, 5}), 0.0);
    QVERIFY(distance({}, {0, 0}) > 1e9);
}

// --- map

void TestClusterView::clickSelectsTheDevice()
{
    Bench bench("dapple-a");
    QTest::mouseClick(bench.map(), Qt::LeftButton, {}, bench.map()->boxOf(DeviceId(11)).center().toPoint());
    QCOMPARE(bench.state.selection().device, DeviceId(11));
    QVERIFY(bench.inspector()->field(QStringLiteral("Memory")));
    QVERIFY(bench.map()->accessibleDescription().contains(QStringLiteral("n1:g3")));
    QTest::keyClick(bench.map(), Qt::Key_Escape);
    QVERIFY(!bench.state.selection().device.valid());
}

void TestClusterView::clickOnALinkShowsItsFigures()
{
    Bench bench("h100-16");
    const std::size_t link = 2; // n0:nic0 to the network
    QTest::mouseClick(bench.map(), Qt::LeftButton, {}, bench.map()->handleOf(link).toPoint());
    QLineEdit *bandwidth = bench.inspector()->field(QStringLiteral("Point to point"));
    QVERIFY(bandwidth);
    QCOMPARE(bandwidth->text(), QStringLiteral("48"));
    QVERIFY(bench.map()->describeLink(link).contains(QStringLiteral("48 GB/s")));
}

void TestClusterView::arrowsWalk()
{
    Bench bench("h100-8");
    QTest::keyClick(bench.map(), Qt::Key_Right);
    QCOMPARE(bench.state.selection().device, DeviceId(0));
    QTest::keyClick(bench.map(), Qt::Key_Right);
    QTest::keyClick(bench.map(), Qt::Key_Right);
    QCOMPARE(bench.state.selection().device, DeviceId(2));
    QTest::keyClick(bench.map(), Qt::Key_Left);
    QCOMPARE(bench.state.selection().device, DeviceId(1));
    QTest::keyClick(bench.map(), Qt::Key_Up); // nothing above
    QCOMPARE(bench.state.selection().device, DeviceId(1));
}

// --- edits

void TestClusterView::memoryEditIsUndoable()
{
    Bench bench;
    QVERIFY(bench.plan());
    bench.state.selectDevice(DeviceId(3));
    const auto before = bench.state.cluster();
    const int commands = bench.state.undoStack()->count();
    bench.write(QStringLiteral("Memory"), QStringLiteral("4"));
    QVERIFY2(bench.message.isEmpty(), qPrintable(bench.message));
    QCOMPARE(bench.state.cluster()->typeOf(DeviceId(3)).memory, Bytes(4LL << 30));
    QCOMPARE(bench.state.document()->subject.cluster, bench.state.cluster());
    QCOMPARE(bench.state.undoStack()->count(), commands + 1);
    QCOMPARE(bench.inspector()->field(QStringLiteral("Memory"))->text(), QStringLiteral("4"));
    bench.state.undoStack()->undo();
    QCOMPARE(bench.state.cluster(), before);
    QVERIFY(bench.inspector()->field(QStringLiteral("Memory"))->text() != QStringLiteral("4"));
}

void TestClusterView::wrongFiguresAreRefused_data()
{
    QTest::addColumn<QString>("field");
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("says");
    QTest::newRow("negative memory") << "Memory"
                                     << "-1"
                                     << "memory";
    QTest::newRow("no memory") << "Memory"
                               << "0"
                               << "must be positive";
    QTest::newRow("too much memory") << "Memory"
                                     << "1e300"
                                     << "must be positive";
    QTest::newRow("no bandwidth") << "Memory bandwidth"
                                  << "0"
                                  << "memory bandwidth";
    QTest::newRow("infinite rate") << "Peak float32"
                                   << "inf"
                                   << "float32";
    QTest::newRow("words") << "Peak float32"
                           << "fast"
                           << "not a number";
}

void TestClusterView::wrongFiguresAreRefused()
{
    QFETCH(QString, field);
    QFETCH(QString, text);
    QFETCH(QString, says);
    Bench bench("h100-8");
    bench.state.selectDevice(DeviceId(0));
    const auto before = bench.state.cluster();
    const QString shown = bench.inspector()->field(field)->text();
    bench.write(field, text);
    QVERIFY2(bench.message.contains(says), qPrintable(bench.message));
    QCOMPARE(bench.state.cluster(), before);
    QCOMPARE(bench.inspector()->field(field)->text(), shown);
}

void TestClusterView::linkEditChangesAllAlike()
{
    Bench bench("h100-16");
    bench.map()->linkPicked(2);
    bench.write(QStringLiteral("Point to point"), QStringLiteral("24"));
    int changed = 0;
    for (const cluster::Link &link : bench.state.cluster()->links())
        changed += link.pointToPoint == 24e9 ? 1 : 0;
    QCOMPARE(changed, 16);
    auto *alike = bench.inspector()->findChild<QCheckBox *>(QString(), Qt::FindDirectChildrenOnly);
    QVERIFY(alike && alike->isVisible());
    alike->setChecked(false);
    bench.write(QStringLiteral("Latency"), QStringLiteral("9"));
    changed = 0;
    for (const cluster::Link &link : bench.state.cluster()->links())
        changed += link.latency == Seconds(9e-6) ? 1 : 0;
    QCOMPARE(changed, 1);
    bench.write(QStringLiteral("Collective"), QStringLiteral("0"));
    QVERIFY2(bench.message.contains(QStringLiteral("must be positive")), qPrintable(bench.message));
}

void TestClusterView::duplexIsAClick()
{
    Bench bench("h100-8");
    bench.map()->linkPicked(0);
    auto *duplex = bench.inspector()->findChild<QCheckBox *>(QStringLiteral("Full duplex"));
    QVERIFY(duplex && duplex->isChecked());
    QTest::mouseClick(duplex, Qt::LeftButton, {}, QPoint(8, duplex->height() / 2));
    QVERIFY(!bench.state.cluster()->links()[0].fullDuplex);
    QVERIFY(!bench.state.cluster()->fullDuplex());
}

void TestClusterView::ratesOfTwoLevels()
{
    Bench bench("dapple-a");
    bench.write(QStringLiteral("Between nodes"), QStringLiteral("2.5"));
    QCOMPARE(bench.state.cluster()->twoLevel().interPointToPoint, 2.5e9);
    bench.write(QStringLiteral("Inside a node"), QStringLiteral("-3"));
    QVERIFY2(bench.message.contains(QStringLiteral("inside a node")), qPrintable(bench.message));
}

// --- size

void TestClusterView::zoomAndFit()
{
    Bench bench("dapple-a");
    ClusterMap *map = bench.map();
    const double fitted = map->scale();
    const QPointF place = map->boxOf(DeviceId(4)).center();
    QWheelEvent wheel(place, map->mapToGlobal(place), {}, {0, 240}, Qt::NoButton, Qt::ControlModifier,
                      Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(map, &wheel);
    QVERIFY(map->scale() > fitted * 1.3);
    const QPointF moved = map->boxOf(DeviceId(4)).center() - place;
    QVERIFY(moved.manhattanLength() < 1);
    QTest::mousePress(map, Qt::LeftButton, {}, QPoint(20, 60));
    QTest::mouseMove(map, QPoint(60, 90));
    QTest::mouseRelease(map, Qt::LeftButton, {}, QPoint(60, 90));
    QVERIFY((map->boxOf(DeviceId(4)).center() - place - QPointF(40, 30)).manhattanLength() < 1.5);
    QTest::keyClick(map, Qt::Key_Space);
    QCOMPARE(map->scale(), fitted);
}

void TestClusterView::thousandDevices()
{
    Bench bench;
    bench.view.resize(320, 420);
    QVERIFY(bench.state.editCluster(QStringLiteral("large"), large(128)));
    ClusterMap *map = bench.map();
    QVERIFY(map->aggregated());
    const QImage small = map->grab().toImage();
    QVERIFY(!small.isNull());
    // A node that is too small for its devices selects its first one.
    QTest::mouseClick(map, Qt::LeftButton, {}, map->boxOf(DeviceId(8 * 77 + 3)).center().toPoint());
    QCOMPARE(bench.state.selection().device, DeviceId(8 * 77));
    const QPointF place = map->boxOf(DeviceId(8 * 77)).center();
    for (int notch = 0; notch < 12; ++notch) {
        QWheelEvent wheel(place, map->mapToGlobal(place), {}, {0, 120}, Qt::NoButton, Qt::ControlModifier,
                          Qt::NoScrollPhase, false);
        QCoreApplication::sendEvent(map, &wheel);
    }
    QVERIFY(!map->aggregated());
    QTest::mouseClick(map, Qt::LeftButton, {}, map->boxOf(DeviceId(8 * 77 + 1)).center().toPoint());
    QCOMPARE(bench.state.selection().device, DeviceId(8 * 77 + 1));
}

void TestClusterView::tablesFollowTheSelection()
{
    Bench bench;
    QVERIFY(bench.plan());
    auto *tabs = bench.view.findChild<QTabWidget *>();
    tabs->setCurrentIndex(1);
    auto *devices = static_cast<DataTable *>(tabs->widget(1));
    QCOMPARE(devices->model()->rowCount(), 16);
    bench.state.selectDevice(DeviceId(2));
    QCOMPARE(devices->currentIndex().row(), 2);
    QCOMPARE(devices->model()->index(2, 1).data().toString(), QString::number(bench.state.selection().stage.value));
    tabs->setCurrentIndex(2);
    auto *links = static_cast<DataTable *>(tabs->widget(2));
    QCOMPARE(links->model()->rowCount(), static_cast<int>(bench.state.cluster()->links().size()));
    links->setCurrentIndex(links->model()->index(5, 0));
    QVERIFY(bench.inspector()->field(QStringLiteral("Collective")));
}

namespace {

/// Opens @p text as a file, which leaves something open, and returns the dialog that asks for it.
ClusterSettingsDialog *openIncomplete(Bench &bench, const QTemporaryDir &folder, const char *name, const char *text)
{
    QFile file(folder.filePath(QString::fromLatin1(name)));
    if (!file.open(QIODevice::WriteOnly) || file.write(text) < 0)
        return nullptr;
    file.close();
    bench.state.open(file.fileName());
    ClusterSettingsDialog *dialog = nullptr;
    const bool asked = QTest::qWaitFor(
        [&] { return (dialog = bench.view.findChild<ClusterSettingsDialog *>()) && dialog->isVisible(); }, 30'000);
    return asked ? dialog : nullptr;
}

QPushButton *openButton(const ClusterSettingsDialog *dialog)
{
    return dialog->findChild<QDialogButtonBox *>()->button(QDialogButtonBox::Open);
}

} // namespace

void TestClusterView::asksForTheTypeOfGpus()
{
    const QTemporaryDir folder;
    Bench bench;
    auto *dialog = openIncomplete(bench, folder, "matrix.txt", "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n");
    QVERIFY(dialog);
    QVERIFY2(bench.message.contains(QStringLiteral("does not name the type of GPU0")), qPrintable(bench.message));
    auto *types = dialog->findChild<QComboBox *>(QStringLiteral("gpu"));
    QVERIFY(types && !openButton(dialog)->isEnabled());
    QCOMPARE(types->findText(QStringLiteral("CPU")), -1);
    types->setFocus();
    QTest::keyClicks(types, QStringLiteral("A100-80"));
    QCOMPARE(types->currentText(), QStringLiteral("A100-80GB"));
    QTest::mouseClick(openButton(dialog), Qt::LeftButton);
    QVERIFY(QTest::qWaitFor([&] { return bench.state.cluster() != nullptr; }, 30'000));
    QCOMPARE(bench.state.cluster()->types()[0].name, std::string("A100-80GB"));
    QVERIFY(bench.state.clusterSource().endsWith(QStringLiteral("matrix.txt,gpu=A100-80GB")));
    // What the session remembers opens without a question.
    Bench again;
    QVERIFY(again.state.open(bench.state.clusterSource()));
    QVERIFY(QTest::qWaitFor([&] { return again.state.cluster() != nullptr; }, 30'000));
    QVERIFY(!again.view.findChild<ClusterSettingsDialog *>());
}

void TestClusterView::asksForWhatSlurmLeavesOpen()
{
    const QTemporaryDir folder;
    Bench bench;
    auto *dialog = openIncomplete(bench, folder, "topology.conf", "SwitchName=leaf Nodes=n[01-02]\n");
    QVERIFY(dialog);
    dialog->findChild<QComboBox *>(QStringLiteral("gpu"))->setCurrentText(QStringLiteral("H100-SXM"));
    dialog->findChild<QSpinBox *>(QStringLiteral("gpus"))->setValue(4);
    QVERIFY(!openButton(dialog)->isEnabled());
    auto *rate = dialog->findChild<QLineEdit *>(QStringLiteral("network"));
    QTest::keyClicks(rate, QStringLiteral("50 apples"));
    QVERIFY(!openButton(dialog)->isEnabled());
    rate->clear();
    QTest::keyClicks(rate, QStringLiteral("400 Gb/s"));
    QVERIFY(openButton(dialog)->isEnabled());
    QTest::mouseClick(openButton(dialog), Qt::LeftButton);
    QVERIFY(QTest::qWaitFor([&] { return bench.state.cluster() != nullptr; }, 30'000));
    QCOMPARE(bench.state.cluster()->devices().size(), std::size_t{8});
    QVERIFY(bench.state.clusterSource().endsWith(QStringLiteral(",gpu=H100-SXM,gpus=4,network=400 Gb/s")));
    QVERIFY(QTest::qWaitFor([&] { return !bench.view.findChild<ClusterSettingsDialog *>(); }, 30'000)); // closed: gone
}

PLANLOOM_UI_MAIN(TestClusterView)
#include "tst_cluster_view.moc"
