// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/kernel_records.h"

#include "engine/base/log.h"
#include "executor/runtime/clock.h"

#include <array>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <utility>

namespace planloom::runtime {

namespace {

constexpr std::chrono::milliseconds kFetchEvery{50};
constexpr std::chrono::milliseconds kReadEvery{200}; ///< a reading of power is an average over 25 to 100 ms
constexpr std::size_t kKernelRing = 1 << 17;         ///< more than a fetch brings: as many as wait in the library
constexpr std::size_t kTakenAtOnce = 512;

} // namespace

std::unique_ptr<KernelRecords> KernelRecords::open(const PlanloomActivityTable &table, const program::Program &program,
                                                   RankId rank, int device, double seconds, Recording &recording)
{
    PlanloomError why{};
    PlanloomActivity *activity = table.open(&why);
    if (activity != nullptr)
        return std::unique_ptr<KernelRecords>(
            new KernelRecords(table, *activity, program, rank, device, seconds, recording));
    log(seconds > 0 ? LogLevel::Warning : LogLevel::Info, fmt::format("rank {}: {}", rank.value, why.text));
    return nullptr;
}

KernelRecords::KernelRecords(const PlanloomActivityTable &table, PlanloomActivity &activity,
                             const program::Program &program, RankId rank, int device, double seconds,
                             Recording &recording)
    : m_table(table),
      m_activity(activity),
      m_rows(program),
      m_marks(table, activity, m_rows),
      m_rank(rank),
      m_device(device),
      m_seconds(seconds),
      m_recording(recording),
      m_stepsUnderWay(program.openSteps + 1),
      m_readings(m_rows, rank, recording)
{
    m_recording.addKernels(kKernelRing);
}

KernelRecords::~KernelRecords()
{
    m_thread = {}; // joins
    m_table.close(&m_activity);
}

void KernelRecords::begin(std::int64_t origin)
{
    m_origin = origin;
    if (m_seconds > 0) {
        openWindow(m_seconds);
        m_waits = m_open;
    } else if (!record(PLANLOOM_RECORD_GRAPHS))
        return;
    m_thread = std::jthread([this](const std::stop_token &ended) { loop(ended); });
}

/// False, with a warning: the library refuses.
bool KernelRecords::record(std::int32_t what)
{
    PlanloomError why{};
    if (m_table.start(&m_activity, what, &why) >= 0)
        return true;
    log(LogLevel::Warning, fmt::format("rank {}: {}", m_rank.value, why.text));
    return false;
}

std::chrono::steady_clock::time_point KernelRecords::timeIn(double seconds)
{
    return std::chrono::steady_clock::now()
        + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

void KernelRecords::openWindow(double seconds)
{
    m_length = seconds;
    m_closesAt = timeIn(seconds);
    if (m_open)
        return;
    m_before = recorded();
    m_open = record(PLANLOOM_RECORD_COMMANDS);
    if (!m_open)
        record(PLANLOOM_RECORD_GRAPHS);
}

/// What began in a window may end, and be fetched, later. Samples may be copied for one more step.
void KernelRecords::closeWindow()
{
    m_open = m_waits = false;
    m_table.stop(&m_activity);
    m_endsAtStep = m_marks.step() + m_stepsUnderWay + 1;
}

/// Nothing is under way that was to be recorded: all of CUPTI's memory comes back.
void KernelRecords::goOnWithGraphs()
{
    fetch(true);
    m_endsAtStep.reset();
    record(PLANLOOM_RECORD_GRAPHS);
}

/// Kernels and copies, also those that were lost.
std::int64_t KernelRecords::recorded() const
{
    const PlanloomActivityCounts now = counts();
    return m_kernels + m_copies + now.dropped + now.untimed + now.overrun + now.unmarked;
}

void KernelRecords::loop(const std::stop_token &ended)
{
    std::mutex mutex;
    std::condition_variable_any wake;
    readDevice();
    while (!ended.stop_requested()) {
        {
            std::unique_lock lock(mutex);
            wake.wait_for(lock, ended, kFetchEvery, [] { return false; });
        }
        if (m_endsAtStep && m_marks.step() >= *m_endsAtStep)
            goOnWithGraphs();
        if (const double asked = m_endsAtStep ? 0 : m_recording.takeKernelsAsked(); asked > 0)
            openWindow(asked);
        const bool isOver = !m_waits && std::chrono::steady_clock::now() >= m_closesAt;
        if (m_open && (isOver || recorded() - m_before >= kMost))
            closeWindow();
        fetch(false);
        if (m_waits && m_kernels + m_copies > 0) {
            m_waits = false;
            m_closesAt = timeIn(m_length);
        }
        readDevice();
    }
}

void KernelRecords::readDevice()
{
    const auto at = std::chrono::steady_clock::now();
    if (at - m_readAt < kReadEvery)
        return;
    m_readAt = at;
    PlanloomReadings readings{-1, -1, -1, -1};
    m_table.readings(&m_activity, m_device, &readings);
    m_readings.read(readings, monotonicNanoseconds() - m_origin);
}

void KernelRecords::end()
{
    if (!m_thread.joinable())
        return;
    m_thread.request_stop();
    m_thread.join();
    m_table.stop(&m_activity);
    fetch(true);
    m_readings.end(monotonicNanoseconds() - m_origin);
    log(LogLevel::Info, report(counts()));
}

void KernelRecords::fetch(bool last)
{
    std::array<PlanloomActivityRecord, kTakenAtOnce> records;
    m_table.collect(&m_activity, last ? 1 : 0);
    for (auto count = static_cast<std::int64_t>(kTakenAtOnce); count == static_cast<std::int64_t>(kTakenAtOnce);) {
        count = m_table.take(&m_activity, records.data(), static_cast<std::int64_t>(kTakenAtOnce));
        for (std::int64_t i = 0; i < count; ++i) {
            const PlanloomActivityRecord &record = records[static_cast<std::size_t>(i)];
            ++(record.kind == PLANLOOM_KERNEL ? m_kernels : record.kind == PLANLOOM_GRAPH ? m_graphs : m_copies);
            m_recording.writeKernel(toTrace(record));
        }
    }
    const PlanloomActivityCounts now = counts();
    const std::int64_t lost = now.dropped + now.untimed + now.overrun;
    m_recording.addKernelsLost(lost - std::exchange(m_lost, lost));
}

trace::Record KernelRecords::toTrace(const PlanloomActivityRecord &record) const
{
    trace::Record made;
    made.start = record.start - m_origin;
    made.duration = record.end - record.start;
    made.task = KernelMarks::rowOf(record.mark);
    made.step = KernelMarks::stepOf(record.mark);
    made.rank = m_rank.value;
    if (record.kind == PLANLOOM_GRAPH)
        made.task = m_rows.graph(made.task);
    made.lane = record.kind == PLANLOOM_KERNEL || record.kind == PLANLOOM_GRAPH ? m_rows.kernels() : m_rows.copies();
    return made;
}

PlanloomActivityCounts KernelRecords::counts() const
{
    PlanloomActivityCounts counts{};
    m_table.counts(&m_activity, &counts);
    return counts;
}

std::string KernelRecords::report(const PlanloomActivityCounts &counts) const
{
    std::string text = fmt::format("rank {}: {} graphs, {} kernels and {} copies recorded, clock within {} ns",
                                   m_rank.value, m_graphs, m_kernels, m_copies, counts.uncertainty);
    const auto add = [&text](std::int64_t count, const char *what) {
        if (count > 0)
            text += fmt::format("; {} {}", count, what);
    };
    add(counts.dropped, "records dropped by CUPTI");
    add(counts.refused, "times no buffer was free");
    add(counts.untimed, "records without times left out");
    add(counts.overrun, "records lost because too many waited");
    add(counts.unmarked, "records of no task left out");
    return text;
}

} // namespace planloom::runtime
