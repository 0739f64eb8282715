// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/activity_abi.h"
#include "executor/runtime/kernel_marks.h"
#include "executor/runtime/reading_records.h"
#include "executor/runtime/recording.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace planloom::runtime {

/// Records of what a rank's GPU runs, from the library into the rank's trace: always of graphs as a whole, and of every
/// command for windows of time. A window begins with the run, and its time with the first record in it, or when
/// Recording is asked for one. A thread fetches records every 50 ms. It ends a window early after kMost records, those
/// that were lost included: CUPTI's memory on the device is limited, and comes back when nothing is recorded: after a
/// window until the steps that it saw have ended. Every 200 ms it reads the device's clocks, power and temperature.
///
/// Thread contract: one thread, which is also the one that gives the commands.
class KernelRecords {
public:
    static constexpr std::int64_t kMost = 200'000;

    /// Before the device is opened. nullptr, with one line in the log that says why, where there will be no records; it
    /// is a warning if @p seconds is not 0, the length of a window that begins with the run.
    /// @p device: the rank's, by its number in the device table.
    static std::unique_ptr<KernelRecords> open(const PlanloomActivityTable &table, const program::Program &program,
                                               RankId rank, int device, double seconds, Recording &recording);
    ~KernelRecords();
    KernelRecords(const KernelRecords &) = delete;
    KernelRecords &operator=(const KernelRecords &) = delete;

    [[nodiscard]] KernelMarks &marks() { return m_marks; }
    /// The run begins. @p origin: of the trace, on this machine's monotonic clock.
    void begin(std::int64_t origin);
    /// All commands have ended: fetches the rest and writes a line to the log with what was recorded and lost.
    void end();
    [[nodiscard]] PlanloomActivityCounts counts() const;

private:
    KernelRecords(const PlanloomActivityTable &table, PlanloomActivity &activity, const program::Program &program,
                  RankId rank, int device, double seconds, Recording &recording);
    void loop(const std::stop_token &ended);
    bool record(std::int32_t what);
    void openWindow(double seconds);
    static std::chrono::steady_clock::time_point timeIn(double seconds);
    void closeWindow();
    void goOnWithGraphs();
    [[nodiscard]] std::int64_t recorded() const;
    void fetch(bool last);
    void readDevice();
    [[nodiscard]] trace::Record toTrace(const PlanloomActivityRecord &record) const;
    [[nodiscard]] std::string report(const PlanloomActivityCounts &counts) const;

    const PlanloomActivityTable &m_table;
    PlanloomActivity &m_activity;
    program::KernelRows m_rows;
    KernelMarks m_marks;
    RankId m_rank;
    int m_device;
    double m_seconds; ///< of the window at the beginning; 0: none
    double m_length = 0; ///< seconds of the window that is open
    Recording &m_recording;
    std::int64_t m_origin = 0;
    std::int64_t m_kernels = 0, m_copies = 0, m_graphs = 0;
    bool m_open = false;                              ///< a window
    bool m_waits = false;                             ///< it, for its first record: its time has not begun
    std::chrono::steady_clock::time_point m_closesAt; ///< it
    std::int64_t m_before = 0;                        ///< recorded() when it began
    std::int32_t m_stepsUnderWay;                     ///< steps that may be under way at the same time
    std::optional<std::int32_t> m_endsAtStep;         ///< of a window that is over: what it saw has ended by then
    ReadingRecords m_readings;
    std::chrono::steady_clock::time_point m_readAt{}; ///< them
    std::int64_t m_lost = 0;                          ///< that Recording has been told of
    std::jthread m_thread;                            ///< last: it uses all of the above
};

} // namespace planloom::runtime
