// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/activity_abi.h"
#include "executor/runtime/kernel_marks.h"
#include "executor/runtime/recording.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace planloom::runtime {

/// Records of what a rank's GPU runs, from the library into the rank's trace, for a window of time. A thread fetches
/// them every 50 ms. It ends the window early after kMost records: CUPTI's memory on the device is limited.
///
/// Thread contract: one thread, which is also the one that gives the commands.
class KernelRecords {
public:
    static constexpr std::int64_t kMost = 200'000;

    /// Before the device is opened. nullptr, with one warning that says why, where there will be no records.
    static std::unique_ptr<KernelRecords> open(const PlanloomActivityTable &table, const program::Program &program,
                                               RankId rank, double seconds, Recording &recording);
    ~KernelRecords();
    KernelRecords(const KernelRecords &) = delete;
    KernelRecords &operator=(const KernelRecords &) = delete;

    [[nodiscard]] KernelMarks &marks() { return m_marks; }
    /// The window begins. @p origin: of the trace, on this machine's monotonic clock.
    void begin(std::int64_t origin);
    /// All commands have ended: fetches the rest and writes a line to the log with what was recorded and lost.
    void end();
    [[nodiscard]] PlanloomActivityCounts counts() const;

private:
    KernelRecords(const PlanloomActivityTable &table, PlanloomActivity &activity, const program::Program &program,
                  RankId rank, double seconds, Recording &recording);
    void loop(const std::stop_token &ended);
    void fetch(bool last);
    [[nodiscard]] trace::Record toTrace(const PlanloomActivityRecord &record) const;
    [[nodiscard]] std::string report(const PlanloomActivityCounts &counts) const;

    const PlanloomActivityTable &m_table;
    PlanloomActivity &m_activity;
    program::KernelRows m_rows;
    KernelMarks m_marks;
    RankId m_rank;
    std::chrono::duration<double> m_window;
    Recording &m_recording;
    std::int64_t m_origin = 0;
    std::int64_t m_kernels = 0, m_copies = 0;
    std::jthread m_thread; ///< last: it uses all of the above
};

} // namespace planloom::runtime
