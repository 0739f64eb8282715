// SPDX-License-Identifier: GPL-3.0-or-later
// What is in use on a device at a moment: the table, the addresses, the values under the mouse, and old figures.
#include "tests/ui/watched_main.h"

#include "ui/memory/live_table.h"
#include "ui/memory/snapshot_device.h"
#include "ui/memory/snapshot_window.h"
#include "ui/memory/curve.h"
#include "ui/memory/memory_view.h"
#include "ui/studio_fixture.h"
#include "ui/widgets/text.h"

#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>

using namespace planloom;
using namespace planloom::ui;

class TestLivePanel : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init();
    void theTableSumsUpToTheCurve();
    void aClickInTheChartPicksAMoment();
    void theMouseShowsValues();
    void rowsAreCopiedWithTheirHeaders();
    void aRowSelectsItsTask();
    void addressesAreAMap();
    void manyBuffersAreDrawnTogether();
    void anotherPlanIsComputedAgain();
    void whatCannotBeSimulatedIsPale();
    void aSnapshotIsAMapOfAddresses();
    void snapshotsOpenedAtOnceAreAllShown();

private:
    void settle();
    [[nodiscard]] std::int64_t sumOfRows() const;
    [[nodiscard]] LivePanel *live() const { return m_view->live(); }

    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<MemoryView> m_view;
};

void TestLivePanel::init()
{
    m_view.reset();
    m_state = std::make_unique<StudioState>();
    QVERIFY(testing::loadSample(*m_state));
    m_view = std::make_unique<MemoryView>(m_state.get());
    m_view->resize(1100, 460);
    m_view->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
    m_view->tabs()->setCurrentWidget(live());
    settle();
}

void TestLivePanel::settle()
{
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent() && live()->live() && !live()->computes(), 60'000);
}

std::int64_t TestLivePanel::sumOfRows() const
{
    constexpr int kBytes = 3; // column
    std::int64_t sum = 0;
    for (int row = 0; row < live()->table()->tableModel()->rowCount(); ++row)
        sum += live()->table()->tableModel()->row(row)[kBytes].text.toLongLong();
    return sum;
}

/// Of the device with the largest peak first, then of one that is picked; to the byte.
void TestLivePanel::theTableSumsUpToTheCurve()
{
    QCOMPARE(live()->table()->tableModel()->headers()[3], QStringLiteral("Bytes"));
    const auto &memory = m_state->simulation()->memory;
    std::int64_t most = 0;
    for (const auto &points : memory)
        most = std::max(most, peakOf(points)->total());
    QCOMPARE(sumOfRows(), most);
    QVERIFY2(live()->text().startsWith(QStringLiteral("Peak at ")), qPrintable(live()->text()));
    QVERIFY2(live()->text().contains(bytesText(most)), qPrintable(live()->text()));
    m_state->selectDevice(DeviceId(1));
    settle();
    QTRY_COMPARE(live()->live()->rank, std::size_t(1));
    QCOMPARE(sumOfRows(), peakOf(memory[1])->total());
    for (std::size_t p = 0; p < memory[1].size(); p += 1 + memory[1].size() / 7) {
        live()->pin(memory[1][p].seconds);
        QCOMPARE(sumOfRows(), memory[1][p].total());
        QVERIFY2(live()->text().startsWith(QStringLiteral("At ")), qPrintable(live()->text()));
    }
    live()->toPeak();
    QVERIFY(live()->atPeak());
}

void TestLivePanel::aClickInTheChartPicksAMoment()
{
    m_state->selectDevice(DeviceId(0));
    settle();
    m_view->tabs()->setCurrentWidget(m_view->table());
    MemoryChart *chart = m_view->chart();
    QCoreApplication::processEvents();
    QVERIFY(!chart->momentShown());
    const auto &points = m_state->simulation()->memory[0];
    const double factor = timeUnit(periodSeconds(*m_state->simulation())).factor;
    const double wanted = points[points.size() / 3].seconds;
    const QPoint place = chart->placeOf(wanted * factor, chart->y()->max() / 2).toPoint();
    QTest::mouseClick(chart->viewport(), Qt::LeftButton, {}, place);
    QVERIFY(chart->momentShown() && !live()->atPeak());
    QVERIFY(std::abs(live()->moment() - wanted) < periodSeconds(*m_state->simulation()) / 50);
    QCOMPARE(m_view->tabs()->currentWidget(), static_cast<QWidget *>(live()));
    const auto after =
        std::find_if(points.begin(), points.end(), [&](const auto &point) { return point.seconds > live()->moment(); });
    QCOMPARE(sumOfRows(), std::prev(after)->total());
}

void TestLivePanel::theMouseShowsValues()
{
    m_state->selectDevice(DeviceId(0));
    settle();
    MemoryChart *chart = m_view->chart();
    QCoreApplication::processEvents();
    const double x = chart->x()->max() / 2;
    QTest::mouseMove(chart->viewport(), chart->placeOf(x, chart->y()->max() / 2).toPoint());
    QTRY_VERIFY(!chart->hoverText().isEmpty());
    QVERIFY2(chart->hoverText().contains(QStringLiteral("model state")), qPrintable(chart->hoverText()));
    const auto &points = m_state->simulation()->memory[0];
    QVERIFY2(m_view->valuesAt(points.back().seconds).contains(bytesText(points.back().total())),
             qPrintable(m_view->valuesAt(points.back().seconds)));
    // The table follows, and goes back to the peak with the mouse.
    QTRY_VERIFY2(live()->text().startsWith(QStringLiteral("At ")), qPrintable(live()->text()));
    QEvent leave(QEvent::Leave);
    QApplication::sendEvent(chart->viewport(), &leave);
    QVERIFY(chart->hoverText().isEmpty());
    QTRY_VERIFY2(live()->text().startsWith(QStringLiteral("Peak at ")), qPrintable(live()->text()));
    // Of all devices each has a line.
    m_view->devicePicker()->setCurrentIndex(0);
    Q_EMIT m_view->devicePicker()->activated(0);
    QVERIFY2(m_view->valuesAt(0).contains(qt(m_state->simulation()->report.devices[0].id)),
             qPrintable(m_view->valuesAt(0)));
}

void TestLivePanel::rowsAreCopiedWithTheirHeaders()
{
    DataTable *table = live()->table();
    table->selectAll();
    QTest::keyClick(table, Qt::Key_C, Qt::ControlModifier);
    const QStringList lines = QGuiApplication::clipboard()->text().split(QLatin1Char('\n'));
    QCOMPARE(lines.size(), static_cast<qsizetype>(live()->rows().size()) + 1);
    const QStringList headers = lines.front().split(QLatin1Char('\t'));
    const auto bytes = headers.indexOf(QStringLiteral("Bytes"));
    QVERIFY(bytes >= 0 && headers.contains(QStringLiteral("Last used")));
    std::int64_t sum = 0;
    for (const QString &line : lines.mid(1))
        sum += line.split(QLatin1Char('\t'))[bytes].toLongLong();
    QCOMPARE(sum, sumOfRows());
}

void TestLivePanel::aRowSelectsItsTask()
{
    m_state->selectDevice(DeviceId(0));
    settle();
    const simulate::LiveMemory &memory = live()->live()->memory;
    const auto activation = std::find_if(live()->rows().begin(), live()->rows().end(), [&](std::size_t block) {
        return memory.blocks[block].kind == simulate::BlockKind::Activation && memory.blocks[block].made.valid();
    });
    QVERIFY(activation != live()->rows().end());
    const auto row = static_cast<int>(activation - live()->rows().begin());
    DataTable *table = live()->table();
    QModelIndex index;
    for (int r = 0; r < table->model()->rowCount(); ++r)
        if (table->sourceRow(table->model()->index(r, 0)) == row)
            index = table->model()->index(r, 0);
    table->scrollTo(index);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(index).center());
    QCOMPARE(m_state->selection().task, live()->live()->taskOf(memory.blocks[*activation].made));
    QVERIFY(!m_state->selection().layers.empty());
    QCOMPARE(m_state->selection().device, DeviceId(0));
    // A parameter is no task's; its layer is selected.
    const auto parameter = std::find_if(live()->rows().begin(), live()->rows().end(), [&](std::size_t block) {
        return memory.blocks[block].kind == simulate::BlockKind::Parameter;
    });
    QVERIFY(parameter != live()->rows().end());
    Q_EMIT table->rowPicked(static_cast<int>(parameter - live()->rows().begin()));
    QVERIFY(m_state->selection().task.empty());
    QCOMPARE(m_state->selection().layers,
             layersOfTensor(m_state->document()->subject, memory.nameOf(memory.blocks[*parameter].name)));
}

void TestLivePanel::addressesAreAMap()
{
    m_state->selectDevice(DeviceId(0));
    AddressMap *map = live()->map();
    m_view->tabs()->setCurrentWidget(map);
    settle();
    QTRY_VERIFY(map->live() == live()->live() && map->live());
    QVERIFY(!map->grab().isNull());
    QVERIFY(map->painted() > 0);
    const simulate::LiveMemory &memory = map->live()->memory;
    // The largest buffer that does not stay: its rectangle is where it can be picked.
    std::size_t largest = memory.blocks.size();
    for (std::size_t b = 0; b < memory.blocks.size(); ++b) {
        const bool passes = memory.blocks[b].end <= memory.endSeconds && memory.blocks[b].offset >= 0;
        if (passes && (largest == memory.blocks.size() || memory.blocks[b].bytes > memory.blocks[largest].bytes))
            largest = b;
    }
    QVERIFY(largest < memory.blocks.size());
    const QPointF center = map->rectOf(largest).center();
    const auto found = map->blockAt(center);
    QVERIFY(found);
    QVERIFY2(map->textAt(center).contains(qt(memory.nameOf(memory.blocks[*found].name))),
             qPrintable(map->textAt(center)));
    QSignalSpy spy(map, &AddressMap::blockPicked);
    QTest::mouseClick(map, Qt::LeftButton, {}, center.toPoint());
    QCOMPARE(spy.size(), 1);
    QVERIFY(!live()->atPeak());
    QVERIFY(live()->moment() >= memory.blocks[*found].begin && live()->moment() < memory.blocks[*found].end);
    // Zooming in shows less of more, and 0 all again.
    const QRectF before = map->rectOf(largest);
    QTest::keyClick(map, Qt::Key_Plus);
    QVERIFY(map->rectOf(largest).isEmpty() || map->rectOf(largest).height() > before.height());
    QTest::keyClick(map, Qt::Key_0);
    QCOMPARE(map->rectOf(largest), before);
    if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE_ADDRESSES"); !picture.isEmpty())
        QVERIFY(m_view->grab().save(QString::fromUtf8(picture)));
}

/// On a low widget hundreds of buffers are a few rectangles.
void TestLivePanel::manyBuffersAreDrawnTogether()
{
    m_state->selectDevice(DeviceId(0));
    settle();
    AddressMap map;
    map.set(live()->live());
    map.resize(600, 900);
    QVERIFY(!map.grab().isNull());
    const int many = map.painted();
    map.resize(600, 130);
    QVERIFY(!map.grab().isNull());
    QVERIFY2(map.painted() < many, qPrintable(QStringLiteral("%1 of %2").arg(map.painted()).arg(many)));
    QVERIFY(static_cast<std::size_t>(many) <= live()->live()->memory.blocks.size());
}

void TestLivePanel::anotherPlanIsComputedAgain()
{
    const auto before = live()->live();
    QVERIFY(m_state->editPlan(QStringLiteral("recompute"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            stage.recompute = plan::Recompute::Full;
    }));
    settle();
    QTRY_VERIFY_WITH_TIMEOUT(live()->live() != before, 30'000);
    std::int64_t most = 0;
    for (const auto &points : m_state->simulation()->memory)
        most = std::max(most, peakOf(points)->total());
    QCOMPARE(sumOfRows(), most);
}

/// A budget in which nothing can run: the curves of the plan before stay, pale, until there are others.
void TestLivePanel::whatCannotBeSimulatedIsPale()
{
    QVERIFY(!m_view->pale() && !m_state->simulationOutdated());
    const auto veiled = [this](QWidget *over) {
        const auto veils = over->findChildren<Veil *>(Qt::FindDirectChildrenOnly);
        return !veils.isEmpty() && veils.front()->isVisibleTo(over);
    };
    QVERIFY(!veiled(m_view->chart()));
    QVERIFY(m_state->editPlan(QStringLiteral("no room"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages) {
            stage.memory.filter = plan::MemoryFilter::Delta;
            stage.memory.budgetBytes = 1;
        }
    }));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationOutdated(), 30'000);
    QVERIFY(m_view->pale());
    for (QWidget *each : std::initializer_list<QWidget *>{m_view->chart(), m_view->table(), live()->table(),
                                                          live()->map(), m_view->decisions(), m_view->bands()})
        QVERIFY2(veiled(each), qPrintable(each->accessibleName()));
    m_state->undoStack()->undo();
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 30'000);
    QVERIFY(!m_view->pale() && !veiled(m_view->chart()));
    settle();
    QTRY_VERIFY(!veiled(live()->table()));
}

/// Two segments, the second one taken later and given back; a block from before, one that stays, one that is freed.
void TestLivePanel::aSnapshotIsAMapOfAddresses()
{
    using trace::Allocations;
    using Action = Allocations::Action;
    auto made = std::make_shared<Allocations>();
    made->texts = {"forward", "/job/model.py"};
    made->frames = {{0, 1, 12}, {0, 1, 30}};
    made->stackBegin = {0, 1, 2};
    made->stackFrames = {0, 1};
    const std::uint64_t first = 0x7f0000000000, second = first + (std::uint64_t{1} << 30);
    made->segments = {{first, 4096, 0, 0, 0, 0, 3, false, false}};
    made->blocks = {{first, 1024, 1000, 0, Allocations::State::InUse},
                    {first + 1024, 512, 512, 1, Allocations::State::InUse},
                    {first + 1536, 2560, 0, -1, Allocations::State::Free}};
    made->events = {{{0, second, 2048, -1, Action::SegmentTaken},
                     {1000, second, 2000, 1, Action::Allocate},
                     {2000, first + 1024, 512, 1, Action::Allocate},
                     {3000, second, 2000, -1, Action::FreeCompleted},
                     {4000, second, 2048, -1, Action::SegmentGiven}}};
    const LiveDevice live = snapshotDevice(*made, 0);
    QCOMPARE(live.memory.arenaBytes, 4096 + 2048);
    const auto kinds = [&](double seconds) {
        QStringList found;
        for (const std::size_t at : live.memory.at(seconds)) {
            const simulate::LiveBlock &block = live.memory.blocks[at];
            found << QStringLiteral("%1@%2+%3").arg(kindText(live, block.kind)).arg(block.offset).arg(block.bytes);
        }
        found.sort();
        return found;
    };
    QCOMPARE(kinds(2.5e-6),
             (QStringList{QStringLiteral("allocated and freed@4096+2048"),
                          QStringLiteral("held since before the history@0+1024"), QStringLiteral("kept@1024+512")}));
    QCOMPARE(kinds(4.05e-6),
             (QStringList{QStringLiteral("held since before the history@0+1024"), QStringLiteral("kept@1024+512"),
                          QStringLiteral("not held by the allocator@4096+2048")}));
    QCOMPARE(live.memory.holesAt(4.05e-6).size(), std::size_t{1}); // free in the first segment
    QCOMPARE(live.memory.holesAt(4.05e-6)[0].bytes(), 2560);

    NoProgress none;
    SnapshotWindow window(QStringLiteral("job.pickle"), shownDevices(*made, none));
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QVERIFY2(window.summary().contains(QStringLiteral("fragmented 2.50 KiB")), qPrintable(window.summary()));
    QVERIFY(window.map()->grab().toImage() != QImage() && window.map()->painted() >= 4);
    const auto row = [&](int column) { return window.table()->model()->index(0, column).data().toString(); };
    QCOMPARE(row(3), QStringLiteral("forward, /job/model.py:30")); // at the peak
    window.showMoment(4.05e-6);
    QCOMPARE(row(3), QStringLiteral("forward, /job/model.py:12"));
    QCOMPARE(row(0), QStringLiteral("1.00 KiB"));

    QTest::keyClick(window.listedPicker(), Qt::Key_Down); // never freed: not the block from before the history
    QCOMPARE(window.table()->model()->rowCount(), 1);
    QCOMPARE(row(0), QStringLiteral("512 B"));
    QCOMPARE(row(5), QStringLiteral("forward, /job/model.py:30"));
    QTest::keyClick(window.listedPicker(), Qt::Key_Down); // bytes x time: 1 KiB all the time, the other line half of it
    QCOMPARE(window.table()->model()->rowCount(), 2);
    QCOMPARE(row(4), QStringLiteral("forward, /job/model.py:30")); // 2 KiB for 2 us and 512 B for 2.08 us
    QCOMPARE(row(2), QStringLiteral("2"));
    window.showMoment(1e-6); // stays in the list that was chosen
    QCOMPARE(row(4), QStringLiteral("forward, /job/model.py:30"));
}

/// Each in a window of its own, with all that is drawn of every device worked out.
void TestLivePanel::snapshotsOpenedAtOnceAreAllShown()
{
    // A list of segments of 100 bytes, of which 60 are in use: what pickle.dumps writes with protocol 2.
    const auto text = [](const QByteArray &words) {
        return QByteArray("X") + char(words.size()) + QByteArray(3, '\0') + words;
    };
    const auto segment = [&](int device) {
        const QByteArray block = "}(" + text("size") + "K\x3c" + text("state") + text("active_allocated") + "u";
        return "}(" + text("device") + "K" + char(device) + text("total_size") + "Kd" + text("blocks") + "](" + block
            + "e" + "u";
    };
    const QTemporaryDir folder;
    LoadQueue queue;
    QWidget parent;
    for (const char *name : {"a.pickle", "b.pickle", "c.pickle"}) {
        const QString path = folder.filePath(QString::fromLatin1(name));
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write("\x80\x02](" + segment(0) + segment(1) + "e.");
        file.close();
        QVERIFY(isSnapshotFile(path));
        openSnapshot(m_state.get(), queue, path, &parent);
    }
    QTRY_COMPARE(parent.findChildren<SnapshotWindow *>().size(), 3);
    QStringList titles;
    for (SnapshotWindow *window : parent.findChildren<SnapshotWindow *>()) {
        titles << window->windowTitle();
        QCOMPARE(window->devicePicker()->count(), 2);
        const auto before = window->map()->live();
        window->devicePicker()->setCurrentIndex(1);
        QVERIFY(window->map()->live() != before);
        QVERIFY2(window->summary().contains(QStringLiteral("60 B in use")), qPrintable(window->summary()));
        window->devicePicker()->setCurrentIndex(0);
        QCOMPARE(window->map()->live(), before); // nothing is worked out again
    }
    titles.sort();
    QCOMPARE(titles,
             (QStringList{QStringLiteral("Memory snapshot a.pickle"), QStringLiteral("Memory snapshot b.pickle"),
                          QStringLiteral("Memory snapshot c.pickle")}));
}

PLANLOOM_UI_MAIN(TestLivePanel)
#include "tst_live_panel.moc"
