// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/activity_table.h"
#include "executor/device/plugin/library.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/runtime/compute_context.h"
#include "gpu/emulated_activity.h"
#include "gpu/emulated_gpu.h"

#include <QTest>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

using namespace planloom;
using namespace planloom::test;
using cuda::Activity;

namespace {

constexpr std::int64_t kFloats = 64;

std::int64_t monotonicNow()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// A queue with memory to work on.
struct Work {
    std::unique_ptr<device::PluginDevice> device;
    std::unique_ptr<device::Queue> queue;
    std::unique_ptr<device::Event> event;
    device::Memory memory, host;

    Work()
    {
        EmulatedGpu::set({});
        device = *device::PluginDevice::open(EmulatedGpu::table(), 0);
        queue = *device->makeQueue();
        event = *device->makeEvent();
        memory = *device->allocate(device::Space::Device, 2 * kFloats * 4);
        host = *device->allocate(device::Space::Host, kFloats * 4);
    }
    void copy() const { queue->copyToDevice(memory.data(), host.data(), kFloats * 4); }
    void copyBack() const { queue->copyToHost(host.data(), memory.data(), kFloats * 4); }
    void copyWithin() const { queue->copy(memory.data(), memory.data() + kFloats * 4, kFloats * 4); }
    void add() const
    {
        auto *floats = reinterpret_cast<float *>(memory.data());
        queue->accumulate(floats, floats + kFloats, kFloats);
    }
    void fill() const { queue->fill(memory.data(), 0, kFloats * 8); }
    [[nodiscard]] bool end() const { return runtime::drain(*queue, *event, std::chrono::minutes(2)).ok(); }
};

std::vector<PlanloomActivityRecord> taken(Activity &activity)
{
    std::vector<PlanloomActivityRecord> records(1000);
    std::vector<PlanloomActivityRecord> all;
    for (std::size_t count = 1; count > 0;) {
        count = activity.take(records);
        all.insert(all.end(), records.begin(), records.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return all;
}

std::unique_ptr<Activity> opened(const Activity::Sizes &sizes = {})
{
    auto activity = Activity::open(**EmulatedActivity::provider(), sizes);
    if (!activity || !(*activity)->start(Activity::Level::Commands))
        return nullptr;
    return std::move(*activity);
}

} // namespace

/// The records of what a GPU ran, on the emulated one.
class TestActivity : public QObject {
    Q_OBJECT

private slots:
    void init() { EmulatedActivity::set({}); }
    void recordsHaveMarksAndTimes_data();
    void recordsHaveMarksAndTimes();
    void marksAreOfTheirThread();
    void threadsRecordWhileRecordsAreFetched();
    void windowsBeginAndEnd();
    void graphsAreRecordedAsAWholeOrByOperator();
    void buffersRunOut();
    void aFullQueueIsCounted();
    void lossesAreCounted();
    void refusalsSayWhy_data();
    void refusalsSayWhy();
    void oneAtATime();
    void sessionsFollowEachOther();
    void buffersOfAnEarlierSessionAreIgnored();
    void withoutDriver();
};

void TestActivity::recordsHaveMarksAndTimes_data()
{
    QTest::addColumn<qint64>("clockAhead");
    QTest::newRow("one clock") << qint64{0};
    QTest::newRow("a clock of the library's own") << qint64{3'600'000'000'000};
    QTest::newRow("one that is behind") << qint64{-5'000'000'000};
}

void TestActivity::recordsHaveMarksAndTimes()
{
    QFETCH(qint64, clockAhead);
    EmulatedActivity::Faults faults;
    faults.clockAhead = clockAhead;
    EmulatedActivity::set(faults);
    const Work work;
    const auto activity = opened();
    QVERIFY(activity);
    const std::int64_t before = monotonicNow();
    activity->mark(5);
    work.copy();
    activity->mark(7);
    work.add();
    work.fill();
    activity->mark(9);
    work.copyBack();
    work.copyWithin();
    activity->mark(0);
    work.copy();
    QVERIFY(work.end());
    const std::int64_t after = monotonicNow();
    activity->collect(true);
    std::map<std::uint64_t, std::vector<PlanloomActivityRecord>> byMark;
    const std::int64_t slack = activity->counts().uncertainty * 2;
    for (const PlanloomActivityRecord &record : taken(*activity)) {
        QVERIFY2(record.start >= before - slack && record.end <= after + slack && record.start < record.end,
                 qPrintable(QString("%1..%2 in %3..%4").arg(record.start).arg(record.end).arg(before).arg(after)));
        byMark[record.mark].push_back(record);
    }
    QCOMPARE(byMark.size(), std::size_t{3});
    QCOMPARE(byMark[9].size(), std::size_t{2});
    QCOMPARE(byMark[5].size(), std::size_t{1});
    QCOMPARE(byMark[5][0].kind, std::int32_t{PLANLOOM_COPY});
    QCOMPARE(byMark[5][0].bytes, std::int64_t{kFloats * 4});
    std::ranges::sort(byMark[7], {}, &PlanloomActivityRecord::start);
    QCOMPARE(byMark[7].size(), std::size_t{2});
    QCOMPARE(byMark[7][0].kind, std::int32_t{PLANLOOM_KERNEL});
    QCOMPARE(byMark[7][1].kind, std::int32_t{PLANLOOM_FILL});
    QCOMPARE(byMark[7][1].bytes, std::int64_t{kFloats * 8});
    QVERIFY(byMark[7][0].end <= byMark[7][1].start + slack);
    const PlanloomActivityCounts counts = activity->counts();
    QCOMPARE(counts.delivered, std::int64_t{5});
    QCOMPARE(counts.unmarked, std::int64_t{1});
    QCOMPARE(counts.dropped + counts.refused + counts.overrun + counts.untimed, std::int64_t{0});
}

void TestActivity::marksAreOfTheirThread()
{
    const Work work;
    const auto activity = opened();
    QVERIFY(activity);
    activity->mark(1);
    std::thread([&] {
        activity->mark(2);
        work.copy();
        activity->mark(0);
    }).join();
    work.add();
    activity->mark(0);
    QVERIFY(work.end());
    activity->collect(true);
    const auto records = taken(*activity);
    QCOMPARE(records.size(), std::size_t{2});
    for (const PlanloomActivityRecord &record : records)
        QCOMPARE(record.mark, std::uint64_t(record.kind == PLANLOOM_COPY ? 2 : 1));
}

void TestActivity::threadsRecordWhileRecordsAreFetched()
{
    constexpr std::uint32_t kThreads = 3;
    constexpr std::uint32_t kEach = 3000;
    const auto activity = opened();
    QVERIFY(activity);
    std::vector<PlanloomActivityRecord> all;
    {
        std::vector<std::jthread> threads;
        std::atomic<std::uint32_t> running{kThreads};
        for (std::uint64_t thread = 0; thread < kThreads; ++thread)
            threads.emplace_back([&activity, &running, thread] {
                for (std::uint64_t i = 0; i < kEach; ++i) {
                    activity->mark((i + 1) << 8 | thread);
                    const std::uint32_t call =
                        EmulatedActivity::called(cuda::ActivityKind::Copy, cuda::DriverCall::CopyAny);
                    const std::uint64_t start = EmulatedActivity::now();
                    EmulatedActivity::ran({cuda::ActivityKind::Copy, call, start, start + 1, i << 8 | thread});
                }
                activity->mark(0);
                --running;
            });
        while (running > 0) {
            activity->collect(false);
            const auto some = taken(*activity);
            all.insert(all.end(), some.begin(), some.end());
        }
    }
    activity->collect(true);
    const auto rest = taken(*activity);
    all.insert(all.end(), rest.begin(), rest.end());
    QCOMPARE(all.size(), std::size_t{kThreads * kEach});
    for (const PlanloomActivityRecord &record : all)
        QCOMPARE(static_cast<std::uint64_t>(record.bytes) + (1U << 8U), record.mark);
}

void TestActivity::windowsBeginAndEnd()
{
    const Work work;
    const auto activity = opened();
    QVERIFY(activity);
    for (int window = 0; window < 2; ++window) {
        activity->mark(1);
        work.add();
        QVERIFY(work.end());
        activity->stop();
        activity->mark(2); // between windows nothing is marked or recorded
        work.add();
        QVERIFY(work.end());
        activity->collect(true);
        const auto records = taken(*activity);
        QCOMPARE(records.size(), std::size_t{1});
        QCOMPARE(records[0].mark, std::uint64_t{1});
        QVERIFY(activity->start(Activity::Level::Commands));
    }
    activity->mark(0);
    QCOMPARE(activity->counts().unmarked, std::int64_t{0});
}

void TestActivity::graphsAreRecordedAsAWholeOrByOperator()
{
    const Work work;
    const auto activity = opened();
    QVERIFY(activity);
    activity->mark(0);
    QVERIFY(work.queue->beginCapture());
    activity->mark(3); // what commands are captured with counts from the mark of the start
    work.add();
    activity->mark(4);
    work.fill();
    activity->mark(0);
    work.add();
    const auto graph = *work.queue->endCapture();
    constexpr std::uint64_t kStart = std::uint64_t{7} << 32 | 100;
    for (const auto level : {Activity::Level::Commands, Activity::Level::Graphs, Activity::Level::Commands}) {
        QVERIFY(activity->start(level));
        for (std::uint64_t start = 0; start < 2; ++start) {
            activity->mark(kStart + 10 * start);
            work.queue->replay(*graph);
            if (level == Activity::Level::Graphs) // and nothing of commands that are given one by one
                work.add();
        }
        activity->mark(0);
        QVERIFY(work.end());
        activity->collect(true);
        std::multimap<std::uint64_t, std::int32_t> seen;
        std::multimap<std::uint64_t, std::int32_t> expected;
        for (const PlanloomActivityRecord &record : taken(*activity))
            seen.emplace(record.mark - kStart, record.kind);
        for (const std::uint64_t start : {0U, 10U}) {
            if (level == Activity::Level::Graphs) {
                expected.emplace(start, PLANLOOM_GRAPH);
                continue;
            }
            expected.emplace(start + 3, PLANLOOM_KERNEL);
            expected.emplace(start + 4, PLANLOOM_FILL);
            expected.emplace(start, PLANLOOM_KERNEL);
        }
        QCOMPARE(seen, expected);
    }
    QCOMPARE(activity->counts().unmarked, std::int64_t{0});
}

void TestActivity::buffersRunOut()
{
    const Work work;
    const auto activity = opened({.buffers = 2, .bufferBytes = 1024, .records = 4096});
    QVERIFY(activity);
    activity->mark(1);
    for (int i = 0; i < 100; ++i)
        work.add();
    QVERIFY(work.end());
    activity->collect(false);
    const std::size_t first = taken(*activity).size();
    QVERIFY(first < 100);
    PlanloomActivityCounts counts = activity->counts();
    QVERIFY(counts.refused > 0 && counts.dropped > 0);
    work.add(); // and there are buffers again
    activity->mark(0);
    QVERIFY(work.end());
    activity->collect(true);
    QCOMPARE(taken(*activity).size(), std::size_t{1});
    QVERIFY(activity->counts().delivered == static_cast<std::int64_t>(first) + 1);
}

void TestActivity::aFullQueueIsCounted()
{
    const Work work;
    const auto activity = opened({.buffers = 8, .bufferBytes = 1 << 16, .records = 10});
    QVERIFY(activity);
    activity->mark(1);
    for (int i = 0; i < 25; ++i)
        work.add();
    activity->mark(0);
    QVERIFY(work.end());
    activity->collect(true);
    QCOMPARE(taken(*activity).size(), std::size_t{10});
    QCOMPARE(activity->counts().overrun, std::int64_t{15});
}

void TestActivity::lossesAreCounted()
{
    EmulatedActivity::Faults faults;
    faults.dropEach = 5;
    faults.untimedEach = 4;
    EmulatedActivity::set(faults);
    const Work work;
    const auto activity = opened();
    QVERIFY(activity);
    activity->mark(1);
    for (int i = 0; i < 200; ++i)
        work.add();
    activity->mark(0);
    QVERIFY(work.end());
    activity->collect(true);
    const PlanloomActivityCounts before = activity->counts();
    QCOMPARE(before.dropped, std::int64_t{40});
    QCOMPARE(before.untimed, std::int64_t{40});
    QCOMPARE(taken(*activity).size(), std::size_t{120});
}

void TestActivity::refusalsSayWhy_data()
{
    QTest::addColumn<QString>("fault");
    QTest::addColumn<QString>("text");
    QTest::newRow("no library") << "missing"
                                << "libcupti.so is not installed";
    QTest::newRow("another profiler") << "other"
                                      << "another profiler uses CUPTI (CUPTI for Nsight Systems)";
    QTest::newRow("too old") << "old"
                             << "CUPTI's version 26 is too old (CUDA 12.9 has 27)";
    QTest::newRow("started by Nsight Compute") << "nsight"
                                               << "Nsight Compute: NV_COMPUTE_PROFILER_PERFWORKS_DIR is set";
    QTest::newRow("no driver") << "driver"
                               << "no driver answers";
}

void TestActivity::refusalsSayWhy()
{
    QFETCH(QString, fault);
    QFETCH(QString, text);
    EmulatedActivity::Faults faults;
    faults.missing = fault == "missing";
    faults.driverMissing = fault == "driver";
    faults.otherSubscriber = fault == "other" ? "CUPTI for Nsight Systems" : "";
    faults.version = fault == "old" ? 26 : 130001;
    EmulatedActivity::set(faults);
    const char *const variable = "NV_COMPUTE_PROFILER_PERFWORKS_DIR";
    if (fault == "nsight")
        qputenv(variable, "/opt/nvidia");
    PlanloomError why{};
    QVERIFY(EmulatedActivity::table().open(&why) == nullptr);
    qunsetenv(variable);
    QVERIFY2(QString(why.text).contains(text) && !QString(why.text).contains('\n'), why.text);
    const Work work; // the device works on
    work.add();
    QVERIFY(work.end());
    EmulatedActivity::set({});
    PlanloomActivity *again = EmulatedActivity::table().open(&why);
    QVERIFY2(again != nullptr, why.text);
    EmulatedActivity::table().close(again);
}

void TestActivity::oneAtATime()
{
    const auto first = opened();
    QVERIFY(first);
    const auto second = Activity::open(**EmulatedActivity::provider(), {});
    QVERIFY(!second && second.error().text().find("recorded already") != std::string::npos);
    const Work work; // nodes of graphs are the first one's, as before
    first->mark(0);
    QVERIFY(work.queue->beginCapture());
    first->mark(3);
    work.add();
    first->mark(0);
    const auto graph = *work.queue->endCapture();
    first->mark(100);
    work.queue->replay(*graph);
    first->mark(0);
    QVERIFY(work.end());
    first->collect(true);
    const auto records = taken(*first);
    QCOMPARE(records.size(), std::size_t{1});
    QCOMPARE(records[0].mark, std::uint64_t{103});
}

/// As in a run whose first steps are of another Program than the others.
void TestActivity::sessionsFollowEachOther()
{
    const Work work;
    for (int session = 0; session < 2; ++session) {
        const auto activity = opened();
        QVERIFY(activity);
        const std::int64_t before = monotonicNow();
        activity->mark(1);
        work.add();
        activity->mark(0);
        QVERIFY(work.end());
        activity->collect(true);
        const auto records = taken(*activity);
        QCOMPARE(records.size(), std::size_t{1});
        QVERIFY(records[0].start >= before && records[0].end <= monotonicNow());
    }
}

void TestActivity::buffersOfAnEarlierSessionAreIgnored()
{
    cuda::ActivityBuffers earlier(1, 1024);
    cuda::ActivityBuffers buffers(2, 1024);
    const std::uint8_t *left = earlier.request();
    buffers.complete(left, 64);
    const std::uint8_t *own = buffers.request();
    QVERIFY(!buffers.isWhole());
    buffers.complete(own, 32);
    std::vector<std::size_t> drained;
    buffers.drain([&](const std::uint8_t *buffer, std::size_t valid) {
        QVERIFY(buffer == own);
        drained.push_back(valid);
    });
    QCOMPARE(drained, std::vector<std::size_t>{32});
    QVERIFY(buffers.isWhole() && !earlier.isWhole());
}

void TestActivity::withoutDriver()
{
#ifdef PLANLOOM_CUDA_LIBRARY
    const auto library = device::openLibrary(PLANLOOM_CUDA_LIBRARY);
    QVERIFY2(library.ok(), library ? "" : library.error().text().c_str());
    const auto records = device::activityOf(**library);
    QVERIFY2(records.ok(), records ? "" : records.error().text().c_str());
    PlanloomError why{};
    if ((*library)->devices(&why) > 0)
        QSKIP("this machine has a GPU");
    QVERIFY((*records)->open(&why) == nullptr);
    const QString text(why.text);
    QVERIFY2(text.contains("no driver answers") || text.contains("libcupti.so is not installed"), why.text);
#else
    QSKIP("CUDA's toolkit was not found");
#endif
    QVERIFY(!device::activityOf(EmulatedGpu::table())); // is in no library
}

QTEST_GUILESS_MAIN(TestActivity)
#include "tst_activity.moc"
