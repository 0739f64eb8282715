// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/kernel_records.h"

#include "engine/base/log.h"

#include <array>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>

namespace planloom::runtime {

namespace {

constexpr std::chrono::milliseconds kFetchEvery{50};
constexpr std::size_t kKernelRing = 1 << 17; ///< more than a fetch brings: as many as wait in the library
constexpr std::size_t kTakenAtOnce = 512;

} // namespace

std::unique_ptr<KernelRecords> KernelRecords::open(const PlanloomActivityTable &table, const program::Program &program,
                                                   RankId rank, double seconds, Recording &recording)
{
    PlanloomError why{};
    PlanloomActivity *activity = table.open(&why);
    if (activity != nullptr)
        return std::unique_ptr<KernelRecords>(new KernelRecords(table, *activity, program, rank, seconds, recording));
    log(LogLevel::Warning, fmt::format("rank {}: {}", rank.value, why.text));
    return nullptr;
}

KernelRecords::KernelRecords(const PlanloomActivityTable &table, PlanloomActivity &activity,
                             const program::Program &program, RankId rank, double seconds, Recording &recording)
    : m_table(table),
      m_activity(activity),
      m_rows(program),
      m_marks(table, activity, m_rows),
      m_rank(rank),
      m_window(seconds),
      m_recording(recording)
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
    PlanloomError why{};
    if (m_table.start(&m_activity, &why) < 0) {
        log(LogLevel::Warning, fmt::format("rank {}: {}", m_rank.value, why.text));
        return;
    }
    m_thread = std::jthread([this](const std::stop_token &ended) { loop(ended); });
}

/// After the window, too: what began in it may end later.
void KernelRecords::loop(const std::stop_token &ended)
{
    std::mutex mutex;
    std::condition_variable_any wake;
    const auto end = std::chrono::steady_clock::now() + m_window;
    bool open = true;
    while (!ended.stop_requested()) {
        {
            std::unique_lock lock(mutex);
            wake.wait_for(lock, ended, kFetchEvery, [] { return false; });
        }
        if (open && (std::chrono::steady_clock::now() >= end || m_kernels + m_copies >= kMost)) {
            m_table.stop(&m_activity);
            open = false;
        }
        fetch(false);
    }
}

void KernelRecords::end()
{
    if (!m_thread.joinable())
        return;
    m_thread.request_stop();
    m_thread.join();
    m_table.stop(&m_activity);
    fetch(true);
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
            ++(record.kind == PLANLOOM_KERNEL ? m_kernels : m_copies);
            m_recording.writeKernel(toTrace(record));
        }
    }
    const PlanloomActivityCounts now = counts();
    m_recording.setKernelsLost(now.dropped + now.untimed + now.overrun);
}

trace::Record KernelRecords::toTrace(const PlanloomActivityRecord &record) const
{
    trace::Record made;
    made.start = record.start - m_origin;
    made.duration = record.end - record.start;
    made.task = KernelMarks::rowOf(record.mark);
    made.step = KernelMarks::stepOf(record.mark);
    made.rank = m_rank.value;
    made.lane = record.kind == PLANLOOM_KERNEL ? m_rows.kernels() : m_rows.copies();
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
    std::string text = fmt::format("rank {}: {} kernels and {} copies recorded, clock within {} ns", m_rank.value,
                                   m_kernels, m_copies, counts.uncertainty);
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
