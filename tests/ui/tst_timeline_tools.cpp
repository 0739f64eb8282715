// SPDX-License-Identifier: GPL-3.0-or-later
// The timeline's arrows, critical path, range statistics, and rows that are hidden, pinned or collapsed.
#include "tests/engine/analysis/kineto_ranks.h"
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "ui/theme/theme.h"
#include "ui/timeline/link_painter.h"
#include "ui/timeline/range_panel.h"
#include "ui/timeline/range_statistics.h"
#include "ui/timeline/slice_text.h"
#include "ui/timeline/timeline_view.h"

#include <QApplication>
#include <QFile>
#include <QPainter>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <limits>
#include <set>

using namespace planloom;
using namespace planloom::ui;

class TestTimelineTools : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { applyTheme(*qApp, ThemeKind::Light); }
    void init();
    void cleanup();
    void arrowsGoToCausesAndEffects();
    void linksOutOfSightAreStubs();
    void arrowsCrossSteps();
    void keysGoAlongDependencies();
    void aTraceWithoutCausesSaysSo();
    void launchesPointToKernels();
    void aLateRankIsFoundByOneClick();
    void criticalPathAddsUp();
    void criticalPathOfARound();
    void rangeAsATable();
    void hiddenCommunicationLiesBesideCompute();
    void rowsAreHiddenAndStayHidden();
    void pinnedRowsDoNotScroll();
    void devicesCollapse();
    void framesAreTimed();

private:
    [[nodiscard]] TimelineCanvas &canvas() { return *m_view->canvas(); }
    [[nodiscard]] TimelineModel::Slice slice(const char *task) { return *m_view->model().find(task, {}); }
    [[nodiscard]] QImage pictureOf() { return canvas().grab().toImage(); }
    void key(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) { QTest::keyClick(m_view->canvas(), key, modifiers); }
    void trainFake();

    testing::FakeRun m_run;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<TimelineView> m_view;
};

void TestTimelineTools::init()
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

void TestTimelineTools::cleanup()
{
    m_view.reset();
    m_state.reset();
}

void TestTimelineTools::trainFake()
{
    agent::TrainRequest request;
    request.settings.steps = 3;
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
}

/// A forward waits for its activations; they and the send on the device before start together.
void TestTimelineTools::arrowsGoToCausesAndEffects()
{
    const TimelineModel &model = m_view->model();
    const QImage before = pictureOf();
    m_state->selectTask("s1.RF.m2");
    const TaskLinks &links = canvas().links();
    std::vector<std::string> causes;
    for (const TaskLinks::Link &link : links.causes) {
        causes.push_back(model.task(link.from).id);
        QVERIFY(model.record(link.from).start + model.record(link.from).duration <= model.record(link.to).start);
    }
    std::vector<std::string> effects;
    for (const TaskLinks::Link &link : links.effects)
        effects.push_back(model.task(link.to).id);
    QVERIFY(std::ranges::count(causes, "s0.F.m2") == 1); // of the send, on another row
    QVERIFY(std::ranges::count(effects, "s1.F.m2") == 1);
    QCOMPARE(links.members.size(), std::size_t(1));
    QCOMPARE(model.task(links.members[0]).id, std::string("s0.SF.m2"));
    QCOMPARE(model.record(links.members[0]).start, model.record(slice("s1.RF.m2")).start);
    QVERIFY(canvas().accessibleDescription().contains(QStringLiteral("%1 causes").arg(links.causeCount)));
    // The arrow leaves the end of the forward.
    const QRect from = canvas().viewport().boxOf(slice("s0.F.m2"));
    const QRect around(from.right() - 1, from.center().y() - 2, 6, 5);
    QVERIFY(before.copy(around) != pictureOf().copy(around));
    key(Qt::Key_Escape);
    QVERIFY(canvas().links().empty());
    QCOMPARE(pictureOf(), before);
}

/// Of a slice whose neighbours are scrolled out or hidden there is a stub instead of an arrow.
void TestTimelineTools::linksOutOfSightAreStubs()
{
    const TaskLinks links = TaskLinks::of(m_view->model(), slice("s1.RF.m2"));
    QImage image(1000, 600, QImage::Format_RGB32);
    QPainter painter(&image);
    const auto drawn = [&](const TimelineScene &scene) {
        LinkPainter links_(painter, scene);
        links_.paintLinks(slice("s1.RF.m2"), links);
        return std::pair(links_.arrows(), links_.stubs());
    };
    const TimelineScene whole = canvas().viewport().scene();
    const auto [arrows, none] = drawn(whole);
    QCOMPARE(static_cast<std::size_t>(arrows), links.causes.size() + links.effects.size());
    QCOMPARE(none,
             static_cast<int>(links.causeCount > links.causes.size())
                 + static_cast<int>(links.effectCount > links.effects.size()));
    TimelineScene scrolled = whole; // the first device is above
    scrolled.scroll = m_view->model().groups()[1].y;
    const auto [fewer, stubs] = drawn(scrolled);
    QVERIFY(fewer < arrows);
    QVERIFY(stubs > none);
}

/// A merge waits for the average that began two steps before.
void TestTimelineTools::arrowsCrossSteps()
{
    QVERIFY(testing::planWithAverages(*m_state));
    agent::TrainRequest request;
    request.settings.steps = 14;
    QVERIFY(m_state->startRun(request));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->run().phase, RunData::Phase::Finished, 20'000);
    const TimelineModel &model = m_view->model();
    const auto merge = model.counterpart(slice("s0.M.b0"));
    QVERIFY(merge && model.causes(true) != nullptr);
    const TaskLinks links = TaskLinks::of(model, *merge);
    const auto average = std::ranges::find_if(links.causes, [&](const TaskLinks::Link &link) {
        return model.task(link.from).id == "s0.AR.b0";
    });
    QVERIFY(average != links.causes.end());
    QCOMPARE(model.record(average->from).step, model.record(*merge).step - 2);
    // And back.
    const TaskLinks back = TaskLinks::of(model, average->from);
    QVERIFY(std::ranges::any_of(back.effects, [&](const TaskLinks::Link &link) { return link.to == *merge; }));
}

void TestTimelineTools::keysGoAlongDependencies()
{
    m_state->selectTask("s0.F.m0");
    key(Qt::Key_BracketRight);
    QCOMPARE(m_state->selection().task, std::string("s0.SF.m0"));
    key(Qt::Key_BracketRight);
    QCOMPARE(m_state->selection().task, std::string("s1.F.m0")); // what the other end of the transfer lets start
    key(Qt::Key_BracketLeft);
    QVERIFY(m_state->selection().task == "s1.RF.m0" || m_state->selection().task == "s0.SF.m0");
    key(Qt::Key_BracketLeft);
    QCOMPARE(m_state->selection().task, std::string("s0.F.m0"));
    QSignalSpy refused(&canvas(), &TimelineCanvas::refused);
    key(Qt::Key_BracketLeft); // the first of the step
    QCOMPARE(refused.size(), 1);
    QCOMPARE(m_state->selection().task, std::string("s0.F.m0"));
    // Where the lane was busy, its predecessor is the cause.
    m_state->selectTask("s0.F.m1");
    key(Qt::Key_BracketLeft);
    QCOMPARE(m_state->selection().task, std::string("s0.F.m0"));
    key(Qt::Key_BraceRight, Qt::ShiftModifier); // along the micro-batch, as ] with Shift
    QVERIFY(QByteArray::fromStdString(m_state->selection().task).endsWith(".m0"));
}

void TestTimelineTools::aTraceWithoutCausesSaysSo()
{
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("p.pltrace"));
    QVERIFY(trace::writeTrace(m_state->simulation()->trace, path.toStdString())); // without its plan's name
    StudioState state;
    TimelineView view(&state);
    view.resize(1000, 400);
    view.show();
    QVERIFY(state.openTrace({path}));
    QTRY_VERIFY_WITH_TIMEOUT(view.model().hasMeasured(), 20'000);
    QVERIFY(view.model().causes(true) == nullptr);
    QTest::keyClick(view.canvas(), Qt::Key_C);
    QVERIFY2(view.pathSums().contains(QStringLiteral("open the plan that made it")), qPrintable(view.pathSums()));
    QVERIFY(view.canvas()->paths().empty());
    QSignalSpy refused(view.canvas(), &TimelineCanvas::refused);
    state.selectTask("s0.F.m0");
    QTest::keyClick(view.canvas(), Qt::Key_BracketRight);
    QCOMPARE(refused.size(), 1);
}

/// In a trace of another program: the call of a kernel and its operator, and the arguments in the tool tip.
void TestTimelineTools::launchesPointToKernels()
{
    QTemporaryDir folder;
    const QString path = folder.filePath("kineto.json");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(R"({"traceEvents": [
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 9, "dur": 9, "args": {"External id": 1}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10, "dur": 2, "args": {"correlation": 11, "External id": 1}},
 {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 60, "dur": 5, "args": {"correlation": 11, "External id": 1, "grid": [1, 2, 3]}}
]})");
    file.close();
    QVERIFY(m_state->openTrace({path}));
    QTRY_VERIFY(m_state->measuredFile() != nullptr);
    const auto sliceOf = [&](const char *name) { return m_view->model().find(name, {}); };
    QTRY_VERIFY(sliceOf("gemm") && sliceOf("cudaLaunchKernel") && sliceOf("aten::mm"));
    const auto gemm = *sliceOf("gemm"), launch = *sliceOf("cudaLaunchKernel"), mm = *sliceOf("aten::mm");
    m_state->selectTask("cudaLaunchKernel");
    QCOMPARE(canvas().links().effects.size(), std::size_t{1});
    QCOMPARE(canvas().links().effects[0].to, gemm);
    QCOMPARE(canvas().links().causes.size(), std::size_t{1});
    QCOMPARE(canvas().links().causes[0].from, mm);
    key(Qt::Key_BracketRight);
    QCOMPARE(m_state->selection().task, std::string("gemm"));
    QVERIFY(canvas().links().causes.size() == 1 && canvas().links().causes[0].from == launch);
    key(Qt::Key_BracketLeft);
    QCOMPARE(m_state->selection().task, std::string("cudaLaunchKernel"));
    QVERIFY(sliceText(m_view->model(), gemm).contains("grid: [1, 2, 3]"));
    QVERIFY(!sliceText(m_view->model(), mm).contains("grid"));
}

/// Four files of another program: one clock is ahead, and another rank's kernel is slower in one step.
void TestTimelineTools::aLateRankIsFoundByOneClick()
{
    const QTemporaryDir folder;
    const tests::KinetoRanks ranks;
    QStringList paths;
    for (const std::string &path : ranks.write(folder.path().toStdString()))
        paths << QString::fromStdString(path);
    QVERIFY(m_state->openTrace(paths));
    QTRY_VERIFY(m_view->model().hasMeasured() && m_state->measuredFile());
    AnalysisPanel &panel = *m_view->analysisPanel();
    QVERIFY(!panel.isVisible() && !panel.findings());
    key(Qt::Key_L);
    QVERIFY(panel.isVisible());
    QTRY_VERIFY(panel.findings() != nullptr);
    QVERIFY2(panel.clocks().contains(QStringLiteral("rank 1 is 5 ms ahead")), qPrintable(panel.clocks()));

    // One action aligns the clocks, and the same takes it back.
    QVERIFY(panel.alignButton()->isVisible());
    const trace::Record before = m_view->model().record(slice("gemm_a"));
    const auto unaligned = panel.findings();
    QTest::mouseClick(panel.alignButton(), Qt::LeftButton);
    QTRY_VERIFY(panel.findings() != unaligned);
    QVERIFY(panel.alignButton()->isVisible() && panel.alignButton()->isChecked());
    QCOMPARE(panel.clocks(), QStringLiteral("clocks are aligned"));
    const auto aligned = panel.findings();
    QVERIFY(std::abs(m_view->model().record(slice("gemm_a")).start - before.start) < 100'000);

    // A click on the first row shows what kept the rank.
    QVERIFY(panel.what() == AnalysisPanel::What::Ranks);
    const auto clickFirst = [&] {
        const QModelIndex first = panel.table()->model()->index(0, 0);
        QTest::mouseClick(panel.table()->viewport(), Qt::LeftButton, {}, panel.table()->visualRect(first).center());
        return first.data().toString();
    };
    QVERIFY(clickFirst().startsWith(QStringLiteral("rank 2")));
    QCOMPARE(m_state->selection().task, std::string("gemm_b"));
    QVERIFY2(panel.title().contains(QStringLiteral("gemm_b took")), qPrintable(panel.title()));
    QVERIFY(m_state->selection().time.has_value());
    QVERIFY(std::abs(m_state->selection().time->length() - ranks.late) < 10'000);
    QVERIFY(!canvas().overlay().lateMarks().empty());
    panel.setWhat(AnalysisPanel::What::Collectives);
    QCOMPARE(panel.table()->model()->rowCount(), 12);
    panel.setWhat(AnalysisPanel::What::Kernels);
    QCOMPARE(panel.table()->model()->rowCount(), 3);
    QVERIFY(panel.csv().find("\ngemm_a,kernel,48,") != std::string::npos);
    panel.setWhat(AnalysisPanel::What::Devices);
    QCOMPARE(panel.table()->model()->rowCount(), 5); // and all together
    QVERIFY2(panel.title().startsWith(QStringLiteral("Communication hidden 0")), qPrintable(panel.title()));

    QTest::mouseClick(panel.alignButton(), Qt::LeftButton);
    QTRY_VERIFY(panel.findings() != aligned);
    QVERIFY(panel.findings()->skew.isSkewed() && !panel.alignButton()->isChecked());
    key(Qt::Key_L);
    QVERIFY(!panel.isVisible());

    // Rows by stream: the same slices, under their streams.
    QCOMPARE(m_view->model().groups().size(), std::size_t{8});
    auto *rows = m_view->findChild<QComboBox *>(QStringLiteral("rowsBy"));
    QVERIFY(rows && rows->isEnabled());
    const std::size_t slices = m_view->model().traceIndex(true).lod().size();
    for (const auto &[by, groups] : {std::pair(1, 3), std::pair(2, 3), std::pair(0, 8)}) {
        rows->setCurrentIndex(by);
        Q_EMIT rows->activated(by);
        QTRY_COMPARE(m_view->model().groups().size(), static_cast<std::size_t>(groups));
        QCOMPARE(m_view->model().traceIndex(true).lod().size(), slices);
    }
}

void TestTimelineTools::criticalPathAddsUp()
{
    const auto check = [](const TimelinePath &path) {
        std::int64_t sum = path.waits;
        for (const TimelinePath::Sum &each : path.sums)
            sum += each.nanoseconds;
        QCOMPARE(sum, path.length);
        for (std::size_t i = 1; i < path.pieces.size(); ++i)
            QVERIFY(path.pieces[i].begin >= path.pieces[i - 1].end);
    };
    const QImage before = pictureOf();
    key(Qt::Key_C);
    QCOMPARE(canvas().paths().size(), std::size_t(1));
    check(canvas().paths()[0]);
    QCOMPARE(canvas().paths()[0].length, std::llround(m_state->simulation()->report.iterationSeconds * 1e9));
    QCOMPARE(canvas().paths()[0].waits, 0);
    QVERIFY2(m_view->pathSums().startsWith(QStringLiteral("critical path, predicted: ")),
             qPrintable(m_view->pathSums()));
    QVERIFY(m_view->pathSums().contains(QStringLiteral("waits none")));
    // What is not on it is pale, what is on it is as before.
    const TimelineModel &model = m_view->model();
    std::set<std::string> onPath;
    for (const TimelinePath::Piece &piece : canvas().paths()[0].pieces)
        onPath.insert(model.task(piece.slice).id);
    const QImage after = pictureOf();
    int pale = 0;
    for (const char *task : {"s0.F.m1", "s1.F.m0", "s2.F.m4", "s3.B.m5", "s0.B.m7", "s3.F.m2"}) {
        const QRect box = canvas().viewport().boxOf(slice(task));
        const QPoint at(box.left() + box.width() * 3 / 4, box.top() + 2); // beside the way's line
        QCOMPARE(before.pixelColor(at) == after.pixelColor(at), onPath.contains(task));
        pale += onPath.contains(task) ? 0 : 1;
    }
    QVERIFY(pale > 0 && pale < 6);
    trainFake();
    QTRY_COMPARE(canvas().paths().size(), std::size_t(2));
    QVERIFY(canvas().paths()[1].measured);
    check(canvas().paths()[1]);
    const trace::Window step = model.step(model.anchorStep());
    QCOMPARE(canvas().paths()[1].length, step.end - step.begin);
    QVERIFY2(m_view->pathSums().contains(QStringLiteral("critical path, measured: ")), qPrintable(m_view->pathSums()));
    key(Qt::Key_C);
    QVERIFY(canvas().paths().empty());
    QVERIFY(m_view->pathSums().isEmpty());
}

/// An average that is under way beside later steps is on the path of a round.
void TestTimelineTools::criticalPathOfARound()
{
    QVERIFY(testing::planWithAverages(*m_state));
    key(Qt::Key_C);
    QCOMPARE(canvas().paths().size(), std::size_t(1));
    const TimelinePath &path = canvas().paths()[0];
    QCOMPARE(path.steps, 4);
    std::int64_t sum = path.waits;
    for (const TimelinePath::Sum &each : path.sums)
        sum += each.nanoseconds;
    QCOMPARE(sum, path.length);
    const double seconds = m_state->simulation()->report.iterationSeconds * 4;
    QVERIFY(std::abs(static_cast<double>(path.length) * 1e-9 - seconds) < 1e-8);
}

void TestTimelineTools::rangeAsATable()
{
    RangePanel &panel = *m_view->rangePanel();
    QVERIFY(!panel.isVisible());
    key(Qt::Key_R);
    QVERIFY(panel.isVisible());
    QVERIFY2(panel.title().startsWith(QStringLiteral("All of the timeline")), qPrintable(panel.title()));
    const trace::Record first = m_view->model().record(slice("s0.F.m1"));
    const trace::Record last = m_view->model().record(slice("s3.F.m6"));
    const TimeRange range{first.start + first.duration / 2, last.start + last.duration / 3};
    Selection selection;
    selection.time = range;
    m_state->select(selection);
    QTRY_VERIFY(panel.title().startsWith(QStringLiteral("Range of ")));
    RangeStatistics statistics(m_view->model(), {range.begin, range.end});
    while (!statistics.add(1)) {
    }
    // By hand, record by record.
    const trace::Trace &trace = m_state->simulation()->trace;
    std::int64_t count = 0;
    for (const RangeStatistics::Entry &entry : statistics.entries()) {
        RangeStatistics::Entry own;
        own.least = std::numeric_limits<std::int64_t>::max();
        for (const trace::Record &record : trace.records) {
            const trace::TaskInfo &task = trace.tasks[static_cast<std::size_t>(record.task)];
            const std::int64_t end = record.start + record.duration;
            if (record.rank != m_view->model().groups()[entry.group].predictedRank || record.lane != entry.lane
                || record.start >= range.end || end <= range.begin
                || (!entry.whole && (task.kind != entry.kind || task.stage != entry.stage)))
                continue;
            ++own.count;
            own.busy += std::min(end, range.end) - std::max(record.start, range.begin);
            own.sum += record.duration;
            own.least = std::min(own.least, record.duration);
            own.most = std::max(own.most, record.duration);
        }
        QCOMPARE(entry.count, own.count);
        QCOMPARE(entry.busy, own.busy);
        QCOMPARE(entry.mean(), own.sum / own.count);
        QCOMPARE(entry.least, own.least);
        QCOMPARE(entry.most, own.most);
        if (entry.whole) {
            QCOMPARE(entry.idle, range.length() - entry.busy); // a lane runs one task at a time
            count += entry.count;
        }
    }
    QCOMPARE(count, m_view->model().totals({range.begin, range.end}, false).count);
    // The table, its copy and the file have a line each.
    QCOMPARE(static_cast<std::size_t>(panel.table()->tableModel()->rowCount()), statistics.entries().size());
    panel.table()->selectAll();
    const QString copy = panel.table()->selectionAsText();
    QVERIFY(copy.startsWith(QStringLiteral("Device\tClock\tLane\tKind\tStage\tCount\tBusy\tIdle\tHidden\tExposed")));
    QCOMPARE(copy.count(QLatin1Char('\n')), panel.table()->tableModel()->rowCount());
    const QStringList csv = QString::fromStdString(panel.csv()).split(QLatin1Char('\n'), Qt::SkipEmptyParts);
    QCOMPARE(csv.size(), panel.table()->tableModel()->rowCount() + 1);
    for (const QString &line : csv)
        QCOMPARE(line.count(QLatin1Char(',')), 12);
    QVERIFY(csv[1].contains(QStringLiteral(",predicted,compute,all,,")));
    // By name: each task once, with the same sum.
    panel.setByName(true);
    const TableModel &names = *panel.table()->tableModel();
    QCOMPARE(names.headers().front(), QStringLiteral("Name"));
    QCOMPARE(static_cast<std::int64_t>(names.rowCount()), count);
    double busy = 0;
    double share = 0;
    for (int row = 0; row < names.rowCount(); ++row) {
        busy += *names.row(row)[5].number;
        share += names.row(row)[2].text == QStringLiteral("compute") ? *names.row(row)[6].number : 0;
    }
    std::int64_t all = 0;
    for (const RangeStatistics::Entry &entry : statistics.entries())
        all += entry.whole ? entry.busy : 0;
    QCOMPARE(static_cast<std::int64_t>(busy), all);
    QVERIFY(std::abs(share - 1) < 1e-9);
    QCOMPARE(QString::fromStdString(panel.csv()).count(QLatin1Char('\n')), names.rowCount() + 1);
    key(Qt::Key_R);
    QVERIFY(!panel.isVisible());
}

/// Compute [0, 10) and [20, 30); communication [5, 25) has 5 + 5 of its 20 beside it.
void TestTimelineTools::hiddenCommunicationLiesBesideCompute()
{
    auto simulation = std::make_shared<simulate::Simulation>();
    trace::Trace &trace = simulation->trace;
    trace.lanes = {{"compute", trace::Work::Compute, 1}, {"collective", trace::Work::Communication, 1}};
    trace.kinds = trace::standardKinds();
    trace.ranks = {{"d0"}};
    trace.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0},
                   {"s0.B.m0", trace::Kind::Backward, 0, 0},
                   {"s0.AR.b0", trace::Kind::AllReduce, 0, -1}};
    trace.records = {{0, 10, 0, 0, 0, 0}, {20, 10, 1, 0, 0, 0}, {5, 20, 2, 0, 0, 1}};
    TimelineModel model;
    model.setPredicted(simulation);
    RangeStatistics statistics(model, {2, 28});
    QVERIFY(statistics.add(1000));
    QCOMPARE(statistics.entries().size(), std::size_t(5));
    const RangeStatistics::Entry &compute = statistics.entries()[0];
    QCOMPARE(compute.busy, 16); // 8 of each
    QCOMPARE(compute.idle, 10);
    QCOMPARE(compute.hidden, -1);
    QCOMPARE(compute.exposed(), -1);
    const RangeStatistics::Entry &reduce = statistics.entries()[4];
    QVERIFY(reduce.kind == trace::Kind::AllReduce && !reduce.whole);
    QCOMPARE(reduce.busy, 20);
    QCOMPARE(reduce.hidden, 10);
    QCOMPARE(reduce.exposed(), 10);
    QCOMPARE(statistics.entries()[3].idle, 6);
}

void TestTimelineTools::rowsAreHiddenAndStayHidden()
{
    const TimelineModel &model = m_view->model();
    const std::size_t rows = model.rows().size();
    QSignalSpy refused(&canvas(), &TimelineCanvas::refused);
    key(Qt::Key_H, Qt::ShiftModifier);
    QCOMPARE(refused.size(), 1); // all are shown
    m_state->selectTask("s1.RF.m0");
    key(Qt::Key_H);
    QCOMPARE(model.rows().size(), rows - 1);
    QVERIFY(!model.rowOf(slice("s1.RF.m0")));
    QVERIFY2(m_view->footerText().contains(QStringLiteral("1 row hidden")), qPrintable(m_view->footerText()));
    for (const RowCommand &command : rowCommands(model, model.rowOf(slice("s2.F.m0"))))
        if (command.what == RowCommand::What::HideDevice)
            canvas().choose(command.after);
    QVERIFY(!model.rowOf(slice("s2.F.m0")) && !model.rowOf(slice("s2.B.m0")));
    const std::size_t fewer = model.rows().size();
    QVERIFY(m_state->editPlan(QStringLiteral("recompute"), [](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            stage.recompute = plan::Recompute::Full;
    }));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    QCOMPARE(model.rows().size(), fewer);
    QVERIFY(!model.rowOf(slice("s2.F.m0")) && !model.rowOf(slice("s1.RF.m0")) && model.rowOf(slice("s1.R.m0")));
    key(Qt::Key_H, Qt::ShiftModifier);
    QCOMPARE(model.rows().size(), rows);
    QVERIFY(!m_view->footerText().contains(QStringLiteral("hidden")));
}

void TestTimelineTools::pinnedRowsDoNotScroll()
{
    const TimelineModel &model = m_view->model();
    m_state->selectTask("s3.F.m0");
    const std::string device(model.device(slice("s3.F.m0")));
    key(Qt::Key_P);
    QCOMPARE(std::string(model.groups()[0].device), device);
    QVERIFY(model.layout().pinnedHeight() > 0);
    QCOMPARE(model.groups().size(), std::size_t(4));
    m_view->resize(1100, 420);
    const QRect pinned = canvas().viewport().boxOf(slice("s3.F.m0"));
    const QRect other = canvas().viewport().boxOf(slice("s2.F.m0"));
    canvas().viewport().scrollBy(60);
    const int by = canvas().viewport().scroll();
    QVERIFY(by > 0 && canvas().viewport().pinned() > 0);
    QCOMPARE(canvas().viewport().boxOf(slice("s3.F.m0")), pinned);
    QCOMPARE(canvas().viewport().boxOf(slice("s2.F.m0")).top(), other.top() - by);
    QCOMPARE(pictureOf().pixelColor(pinned.topLeft() + QPoint(1, 2)),
             theme().hue(trace::standard(trace::Kind::Forward).hue));
    QTest::mouseClick(&canvas(), Qt::LeftButton, {}, pinned.center());
    QCOMPARE(m_state->selection().task, std::string("s3.F.m0"));
    // Rows that scroll do not show above them.
    QCOMPARE(canvas().viewport().rowAt(TimelinePainter::kRuler + 8), model.layout().rowAt(8));
    m_state->selectTask("s0.F.m0");
    canvas().viewport().reveal(slice("s0.F.m0"));
    QVERIFY(canvas().viewport().boxOf(slice("s0.F.m0")).top()
            >= TimelinePainter::kRuler + canvas().viewport().pinned());
    m_state->selectTask("s3.F.m0");
    key(Qt::Key_P);
    QCOMPARE(model.layout().pinnedHeight(), 0);
    QCOMPARE(std::string(model.groups()[3].device), device);
}

/// Compute lanes of a collapsed node are thin lines below one heading.
void TestTimelineTools::devicesCollapse()
{
    const TimelineModel &model = m_view->model();
    const int height = model.layout().height();
    m_state->selectTask("s1.F.m0");
    key(Qt::Key_X, Qt::ShiftModifier); // its stage
    QVERIFY(model.groups()[1].collapsed && !model.groups()[0].collapsed);
    QCOMPARE(model.groups()[1].heading, std::string("stage 1: 1 device"));
    QVERIFY(model.layout().height() < height);
    key(Qt::Key_X, Qt::ShiftModifier);
    QCOMPARE(model.layout().height(), height);
    key(Qt::Key_X);
    QCOMPARE(model.rows().size(), std::size_t(4)); // compute of four devices
    QVERIFY2(model.groups()[0].heading.ends_with(": 4 devices"), model.groups()[0].heading.c_str());
    QVERIFY(model.groups()[1].heading.empty());
    for (const TimelineModel::Row &row : model.rows())
        QCOMPARE(row.height, TimelineRows::kThinHeight);
    QCOMPARE(pictureOf().pixelColor(canvas().viewport().boxOf(slice("s0.F.m3")).center()),
             theme().hue(trace::standard(trace::Kind::Forward).hue));
    key(Qt::Key_H, Qt::ShiftModifier);
    QCOMPARE(model.layout().height(), height);
}

void TestTimelineTools::framesAreTimed()
{
    const QList<QAction *> commands = m_view->commands();
    const auto found = std::ranges::find_if(commands, [](const QAction *command) {
        return command->text() == QStringLiteral("Show how long frames take");
    });
    QVERIFY(found != commands.end());
    canvas().repaint();
    QCOMPARE(canvas().frameTimes().count(), std::size_t(0)); // nothing is measured that is not shown
    const QImage before = pictureOf();
    (*found)->trigger();
    canvas().repaint();
    canvas().repaint();
    QVERIFY(canvas().frameTimes().count() >= 2);
    QVERIFY(canvas().frameTimes().text().contains(QStringLiteral("median")));
    QVERIFY(pictureOf() != before);
    (*found)->trigger();
    QCOMPARE(canvas().frameTimes().count(), std::size_t(0));
    QCOMPARE(pictureOf(), before);

    FrameTimes times;
    for (int frame = 1; frame <= 1000; ++frame)
        times.add(frame * 1e-3);
    QCOMPARE(times.text(),
             QStringLiteral("frame 1000.0 ms · median 880.0 · 95 % within 988.0 · longest 1000.0 ms of 240"));
}

PLANLOOM_UI_MAIN(TestTimelineTools)
#include "tst_timeline_tools.moc"
