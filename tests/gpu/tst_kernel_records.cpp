// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/trace/gauges.h"
#include "executor/runtime/kernel_records.h"
#include "executor/runtime/tiny_training.h"

#include <QTest>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <tuple>

using namespace planloom;
using namespace planloom::test;
using runtime::KernelMarks;
using runtime::KernelRecords;

namespace {

/// A library that has as many records of one mark as are asked for while a window is open.
struct Endless {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t mark = 0;     ///< of the thread
    std::uint64_t recorded = 0; ///< of the records
    bool open = false, closed = false;
    bool loses = false, refuses = false, holds = false; ///< the records, windows, records back
    std::int64_t ready = 0, lost = 0;
    int collects = 0, windows = 0, ended = 0, lasts = 0, graphs = 0;
} g_library;

constexpr std::int64_t kEachTime = 30'000;

PlanloomActivityTable endlessTable()
{
    PlanloomActivityTable t{};
    t.abi = PLANLOOM_ACTIVITY_ABI;
    t.bytes = sizeof t;
    t.open = [](PlanloomError *) { return reinterpret_cast<PlanloomActivity *>(&g_library); };
    t.close = [](PlanloomActivity *) { g_library.closed = true; };
    t.start = [](PlanloomActivity *, int32_t what, PlanloomError *) {
        const std::scoped_lock lock(g_library.mutex);
        const bool open = what == PLANLOOM_RECORD_COMMANDS && !g_library.refuses;
        g_library.graphs += what == PLANLOOM_RECORD_GRAPHS ? 1 : 0;
        g_library.ended += g_library.open && !open ? 1 : 0;
        g_library.windows += open ? 1 : 0;
        g_library.open = open;
        g_library.changed.notify_all();
        return int32_t{what == PLANLOOM_RECORD_COMMANDS && g_library.refuses ? -1 : 0};
    };
    t.stop = [](PlanloomActivity *) {
        const std::scoped_lock lock(g_library.mutex);
        g_library.ended += g_library.open ? 1 : 0;
        g_library.open = false;
        g_library.changed.notify_all();
    };
    t.mark = [](PlanloomActivity *, uint64_t mark) { g_library.mark = mark; };
    t.collect = [](PlanloomActivity *, int32_t last) {
        const std::scoped_lock lock(g_library.mutex);
        (g_library.loses ? g_library.lost : g_library.ready) += g_library.open && !g_library.holds ? kEachTime : 0;
        ++g_library.collects;
        g_library.changed.notify_all();
        g_library.lasts += last;
    };
    t.take = [](PlanloomActivity *, PlanloomActivityRecord *records, int64_t most) {
        const std::scoped_lock lock(g_library.mutex);
        const std::int64_t count = std::min(most, g_library.ready);
        std::fill_n(records, count, PlanloomActivityRecord{1000, 1500, g_library.recorded, 0, PLANLOOM_KERNEL, 0});
        g_library.ready -= count;
        return count;
    };
    t.counts = [](PlanloomActivity *, PlanloomActivityCounts *counts) {
        *counts = {};
        counts->dropped = 3;
        counts->untimed = g_library.lost;
    };
    t.readings = [](PlanloomActivity *, int32_t, PlanloomReadings *readings) { *readings = {-1, -1, -1, -1}; };
    return t;
}

program::Program tinyProgram()
{
    const plan::Subject subject = tinySubject(tinyConfig(1, 1), cpus(1));
    return *compile::compilePlan(planOf(subject, {{StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}}), subject);
}

/// Marks of step after step, until @p done.
bool stepsPass(KernelMarks &marks, TaskId task, std::unique_lock<std::mutex> &lock, const std::function<bool()> &done)
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    for (std::int64_t step = 100; !done() && std::chrono::steady_clock::now() < end; ++step) {
        lock.unlock();
        {
            const runtime::MarkScope scope(&marks, marks.of(task, step));
        }
        lock.lock();
        g_library.changed.wait_for(lock, std::chrono::milliseconds(5), done);
    }
    return done();
}

TaskId forwardTask(const program::Program &program)
{
    const auto found = std::ranges::find(program.tasks, trace::Kind::Forward, &program::Task::kind);
    return TaskId(static_cast<std::int32_t>(found - program.tasks.begin()));
}

} // namespace

/// Marks and windows of a rank, against a library that is made up.
class TestKernelRecords : public QObject {
    Q_OBJECT

private slots:
    void init();
    void rowsNameTasksAndOperators();
    void windowsEndAfterTheirRecords();
    void theFirstWindowWaitsForItsRecords();
    void whatIsLostCounts();
    void refusedWindowsLeaveGraphs();
    void ringsAreKept();
    void librariesMayRefuse();
    void readingsAreSpansOfALevel();
};

void TestKernelRecords::init()
{
    g_library.mark = g_library.recorded = 0;
    g_library.open = g_library.closed = g_library.loses = g_library.refuses = g_library.holds = false;
    g_library.ready = g_library.lost = 0;
    g_library.collects = g_library.windows = g_library.ended = g_library.lasts = g_library.graphs = 0;
}

void TestKernelRecords::rowsNameTasksAndOperators()
{
    const program::Program program = tinyProgram();
    trace::Tables tables = program::traceTables(program, *cpus(1));
    const std::size_t lanes = tables.lanes.size();
    program::addKernelRows(program, tables);
    const program::KernelRows rows(program);
    QCOMPARE(tables.lane(rows.kernels()).name, std::string("kernels"));
    QCOMPARE(tables.lane(rows.copies()).name, std::string("copies"));
    QCOMPARE(tables.lanes.size(), lanes + 2 + program::kReadings.size());
    for (std::size_t i = 0; i < program.tasks.size(); ++i) {
        const program::Task &task = program.tasks[i];
        const trace::TaskInfo &other = *tables.task(rows.first(TaskId(static_cast<std::int32_t>(i))));
        QCOMPARE(other.id, program::idOf(task) + "/other");
        QVERIFY(other.kind == task.kind() && other.group == -1);
    }
    const TaskId id = forwardTask(program);
    const program::Task &task = program.task(id);
    const auto &run = *task.as<program::Compute>();
    const auto &ops = program.body(task.body).training.graph.ops();
    for (std::int32_t op = run.firstOp; op < run.lastOp; ++op)
        QCOMPARE(tables.task(rows.first(id) + 1 + op - run.firstOp)->id,
                 program::idOf(task) + "/" + ops[static_cast<std::size_t>(op)].name);
    for (std::size_t i = 0; i < program.tasks.size(); ++i) {
        const std::int32_t first = rows.first(TaskId(static_cast<std::int32_t>(i)));
        QCOMPARE(tables.task(rows.graph(first))->id, program::idOf(program.tasks[i]) + "/graph");
    }
    QCOMPARE(rows.rows(), tables.tasks.size());
    const auto level = [&](program::Reading reading, int value) { return tables.task(rows.level(reading, value))->id; };
    QCOMPARE(level(program::Reading::SmClock, 1980), std::string("SM clock/1980 MHz"));
    QCOMPARE(level(program::Reading::SmClock, 1987), std::string("SM clock/1980 MHz"));
    QCOMPARE(level(program::Reading::MemoryClock, 3201), std::string("memory clock/3200 MHz"));
    QCOMPARE(level(program::Reading::Power, 696), std::string("power/700 W"));
    QCOMPARE(level(program::Reading::Power, 0), std::string("power/0 W"));
    QCOMPARE(level(program::Reading::Temperature, 500), std::string("temperature/120 °C"));
    const std::vector<trace::Gauge> gauges = trace::gaugesOf(tables);
    QCOMPARE(gauges.size(), program::kReadings.size());
    for (std::size_t i = 0; i < gauges.size(); ++i) {
        const auto reading = static_cast<program::Reading>(i);
        const int full = program::kReadings[i].full;
        QCOMPARE(gauges[i].lane, rows.lane(reading));
        QCOMPARE(gauges[i].levels, program::kReadings[i].levels());
        QCOMPARE(gauges[i].share(rows.level(reading, 0)), 0.0);
        QCOMPARE(gauges[i].share(rows.level(reading, full / 2)), 0.5);
        QCOMPARE(gauges[i].share(rows.level(reading, full)), 1.0);
    }
}

void TestKernelRecords::windowsEndAfterTheirRecords()
{
    const program::Program program = tinyProgram();
    const TaskId task = forwardTask(program);
    const PlanloomActivityTable table = endlessTable();
    runtime::Recording recording(16);
    {
        const auto records = KernelRecords::open(table, program, RankId(3), 0, 3600, recording);
        QVERIFY(records);
        KernelMarks &marks = records->marks();
        {
            const runtime::MarkScope scope(&marks, marks.of(task, 7));
            QCOMPARE(g_library.mark, marks.current());
            marks.atOperator(2);
            g_library.recorded = g_library.mark;
            QCOMPARE(KernelMarks::rowOf(g_library.mark), program::KernelRows(program).first(task) + 3);
            const runtime::MarkScope nested(&marks, 0);
            QCOMPARE(g_library.mark, std::uint64_t{0});
        }
        QCOMPARE(g_library.mark, std::uint64_t{0});
        records->begin(400);
        std::unique_lock lock(g_library.mutex);
        const auto ended = [](int windows) { return [windows] { return g_library.ended == windows; }; };
        QVERIFY(g_library.changed.wait_for(lock, std::chrono::minutes(5), ended(1)));
        QCOMPARE(g_library.graphs, 0);
        recording.askForKernels(1e-9); // in a run under way: one that is over at once
        QVERIFY(stepsPass(marks, task, lock, ended(2))); // it opens once the steps of the first one have ended
        lock.unlock();
        records->end();
        QCOMPARE(g_library.windows, 2);
        QVERIFY(g_library.graphs >= 1 && g_library.lasts == g_library.graphs + 1);
    }
    QVERIFY(g_library.closed);
    std::vector<trace::Record> seen;
    recording.kernels()->drain(seen, 1 << 20);
    QVERIFY(!seen.empty());
    const std::int64_t total = static_cast<std::int64_t>(seen.size()) + recording.dropped() - 3;
    QVERIFY2(total >= KernelRecords::kMost && total <= KernelRecords::kMost + 3 * kEachTime,
             qPrintable(QString::number(total)));
    const trace::Record &first = seen.front();
    QCOMPARE(first.start, std::int64_t{600});
    QCOMPARE(first.duration, std::int64_t{500});
    QCOMPARE(first.task, program::KernelRows(program).first(task) + 3);
    QCOMPARE(first.step, 7);
    QCOMPARE(first.rank, 3);
    QCOMPARE(first.lane, program::KernelRows(program).kernels());
}

/// The first step may begin later than the run, when libraries load their kernels.
void TestKernelRecords::theFirstWindowWaitsForItsRecords()
{
    const program::Program program = tinyProgram();
    const PlanloomActivityTable table = endlessTable();
    runtime::Recording recording(16);
    g_library.holds = true;
    const auto records = KernelRecords::open(table, program, RankId(0), 0, 1e-9, recording);
    QVERIFY(records);
    records->begin(0);
    std::unique_lock lock(g_library.mutex);
    QVERIFY(g_library.changed.wait_for(lock, std::chrono::minutes(5), [] { return g_library.collects == 4; }));
    QCOMPARE(g_library.ended, 0);
    g_library.holds = false;
    QVERIFY(g_library.changed.wait_for(lock, std::chrono::minutes(5), [] { return g_library.ended == 1; }));
    lock.unlock();
    records->end();
}

/// A window that is asked for again goes on, and its records are counted from its begin.
void TestKernelRecords::whatIsLostCounts()
{
    const program::Program program = tinyProgram();
    const PlanloomActivityTable table = endlessTable();
    runtime::Recording recording(16);
    g_library.loses = true;
    const auto records = KernelRecords::open(table, program, RankId(0), 0, 3600, recording);
    QVERIFY(records);
    records->begin(0);
    std::unique_lock lock(g_library.mutex);
    for (int ask = 0; ask < 100'000 && g_library.ended == 0; ++ask) {
        recording.askForKernels(3600);
        g_library.changed.wait_for(lock, std::chrono::milliseconds(3));
    }
    QCOMPARE(g_library.ended, 1);
    QVERIFY(g_library.lost >= KernelRecords::kMost && g_library.lost <= KernelRecords::kMost + 2 * kEachTime);
    lock.unlock();
    records->end();
    QCOMPARE(recording.dropped(), g_library.lost + 3);
}

void TestKernelRecords::refusedWindowsLeaveGraphs()
{
    const program::Program program = tinyProgram();
    const PlanloomActivityTable table = endlessTable();
    runtime::Recording recording(16);
    g_library.refuses = true;
    const auto records = KernelRecords::open(table, program, RankId(0), 0, 3600, recording);
    QVERIFY(records);
    records->begin(0);
    QCOMPARE(g_library.graphs, 1);
    recording.askForKernels(3600);
    std::unique_lock lock(g_library.mutex);
    QVERIFY(g_library.changed.wait_for(lock, std::chrono::minutes(5), [] { return g_library.graphs == 2; }));
    lock.unlock();
    records->end();
    QCOMPARE(g_library.windows, 0);
}

/// A second session of a run writes where the first one did, and what was lost adds up.
void TestKernelRecords::ringsAreKept()
{
    const program::Program program = tinyProgram();
    const PlanloomActivityTable table = endlessTable();
    runtime::Recording recording(16);
    const trace::Ring *ring = nullptr;
    for (int session = 1; session <= 2; ++session) {
        const auto records = KernelRecords::open(table, program, RankId(0), 0, 0, recording);
        QVERIFY(records && recording.kernels() != nullptr);
        QVERIFY(ring == nullptr || ring == recording.kernels());
        ring = recording.kernels();
        records->begin(0);
        records->end();
        QCOMPARE(recording.dropped(), std::int64_t{3 * session});
    }
    QVERIFY(recording.tracesKernels());
    recording.endTracing();
    QVERIFY(!recording.tracesKernels());
}

void TestKernelRecords::librariesMayRefuse()
{
    PlanloomActivityTable table = endlessTable();
    table.open = [](PlanloomError *why) -> PlanloomActivity * {
        std::strcpy(why->text, "not today");
        return nullptr;
    };
    const program::Program program = tinyProgram();
    runtime::Recording recording(16);
    QVERIFY(!KernelRecords::open(table, program, RankId(0), 0, 1, recording));
    QVERIFY(recording.kernels() == nullptr);
    QCOMPARE(recording.dropped(), std::int64_t{0});
}

void TestKernelRecords::readingsAreSpansOfALevel()
{
    const program::Program program = tinyProgram();
    const program::KernelRows rows(program);
    runtime::Recording recording(16);
    recording.addKernels(64);
    runtime::ReadingRecords readings(rows, RankId(2), recording);
    constexpr std::int64_t kSecond = runtime::ReadingRecords::kLongest;
    readings.read({1980, -1, 344, 40}, 100);
    readings.read({1981, -1, 340, 40}, 200); // the same levels
    readings.read({1980, -1, 350, 40}, 300);
    readings.read({-1, -1, 350, 40}, 400);
    readings.read({1980, -1, 350, 40}, 100 + kSecond); // a second behind the first
    readings.end(200 + kSecond);
    std::vector<trace::Record> seen;
    recording.kernels()->drain(seen, 64);
    using program::Reading;
    const auto record = [&](Reading reading, int value, std::int64_t start, std::int64_t end) {
        return trace::Record{start, end - start, rows.level(reading, value), -1, 2, rows.lane(reading)};
    };
    const std::vector<trace::Record> expected{record(Reading::Power, 340, 100, 300),
                                              record(Reading::SmClock, 1980, 100, 400),
                                              record(Reading::Temperature, 40, 100, 100 + kSecond),
                                              record(Reading::SmClock, 1980, 100 + kSecond, 200 + kSecond),
                                              record(Reading::Power, 350, 300, 200 + kSecond),
                                              record(Reading::Temperature, 40, 100 + kSecond, 200 + kSecond)};
    const auto fields = [](const trace::Record &r) {
        return std::tuple(r.start, r.duration, r.task, r.step, r.rank, r.lane);
    };
    QVERIFY(std::ranges::equal(seen, expected, {}, fields, fields));
}

QTEST_GUILESS_MAIN(TestKernelRecords)
#include "tst_kernel_records.moc"
