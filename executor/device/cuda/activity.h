// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/device/cuda/activity_api.h"
#include "executor/device/plugin/activity_abi.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace planloom::cuda {

/// Buffers that are handed to CUPTI and come back filled: of fixed number and size, allocated and touched once. Any
/// thread may take and give; none waits for another.
class ActivityBuffers {
public:
    static constexpr std::size_t kMost = 64;
    /// @p count: at most kMost. @p bytes: of each.
    ActivityBuffers(std::size_t count, std::size_t bytes);

    /// A free one; nullptr: none is left, which is counted.
    std::uint8_t *request();
    /// One that has @p valid bytes of records.
    void complete(const std::uint8_t *buffer, std::size_t valid);
    /// Calls f(buffer, valid bytes) for all that are complete, and frees them. One thread.
    template <class F>
    void drain(F f)
    {
        for (std::uint64_t full = m_full.exchange(0, std::memory_order_acquire); full != 0; full &= full - 1) {
            const auto i = static_cast<std::size_t>(__builtin_ctzll(full));
            f(at(i), m_valid[i]);
            m_free.fetch_or(std::uint64_t{1} << i, std::memory_order_release);
        }
    }
    [[nodiscard]] std::size_t bytes() const { return m_bytes; }
    /// Whether all have come back.
    [[nodiscard]] bool isWhole() const;
    [[nodiscard]] std::int64_t refused() const { return m_refused.load(std::memory_order_relaxed); }

private:
    std::uint8_t *at(std::size_t index) { return reinterpret_cast<std::uint8_t *>(m_memory.data()) + index * m_bytes; }

    std::size_t m_bytes;
    std::uint64_t m_all; ///< a bit each
    std::vector<std::uint64_t> m_memory;
    std::size_t m_valid[kMost] = {};
    std::atomic<std::uint64_t> m_free;
    std::atomic<std::uint64_t> m_full{0};
    std::atomic<std::int64_t> m_refused{0};
};

/// Error (Failed): a profiler started this process and needs CUPTI for itself; it is named. To be asked before CUPTI is
/// opened, as profilers have a copy of their own in the process.
Status isFreeOfProfilers();

/// What the GPUs of this process ran, by CUPTI: kernels, copies and fills with their times on CLOCK_MONOTONIC and the
/// mark of the task that they belong to.
///
/// A mark is a number of the thread that gives the commands. CUPTI tells the correlation of each call of the driver
/// when it begins, on its thread: it is noted with the thread's mark, and records of what the call started have it.
/// (CUPTI's own external correlations come with records of calls alone, and none come of calls that are enabled one by
/// one in a context that was made while none was.) Commands of a graph all have the correlation of its start: what
/// tells them apart is the number of their node, which is noted with the mark of its thread when the graph is captured,
/// and again when it is instantiated.
///
/// After open() nothing is allocated but for nodes of new graphs. Thread contract: activity_abi.h.
class Activity {
public:
    struct Sizes {
        std::size_t buffers = ActivityBuffers::kMost;
        std::size_t bufferBytes = std::size_t{256} << 10; ///< about 1,000 kernels: they come back often
        std::size_t records = std::size_t{1} << 17;       ///< that wait to be taken
    };
    /// The only one of the process. @p api must outlive the process's use of CUPTI. Errors: Unsupported (a version that
    /// is too old), Failed (another profiler has CUPTI, which is named; no driver).
    static Result<std::unique_ptr<Activity>> open(const ActivityApi &api, const Sizes &sizes);
    ~Activity();
    Activity(const Activity &) = delete;
    Activity &operator=(const Activity &) = delete;

    enum class Level : std::uint8_t { Off, Graphs = PLANLOOM_RECORD_GRAPHS, Commands = PLANLOOM_RECORD_COMMANDS };
    /// Errors: Failed (CUPTI refuses; nothing is recorded).
    Status start(Level level);
    void stop();
    void mark(std::uint64_t mark);
    /// As long as it lives, graphs may be instantiated. CUPTI 13.0 crashes where a graph is to be recorded as a whole
    /// that was instantiated while graphs were not. For any thread, whether there is an Activity or not.
    class Instantiation {
    public:
        Instantiation();
        ~Instantiation();
        Instantiation(const Instantiation &) = delete;
        Instantiation &operator=(const Instantiation &) = delete;

    private:
        std::unique_lock<std::mutex> m_lock; ///< of the level
        const ActivityApi *m_enabled = nullptr;
    };
    void collect(bool last);
    /// Up to records.size(); how many.
    std::size_t take(std::span<PlanloomActivityRecord> records);
    [[nodiscard]] PlanloomActivityCounts counts() const;
    [[nodiscard]] PlanloomReadings readings(std::int32_t device) const { return m_api.readings(device); }

private:
    /// Written by the threads that give commands, read by the one that collects.
    struct Mark {
        std::atomic<std::uint64_t> mark{0};
        std::atomic<std::uint32_t> correlation{0}; ///< 0 while it is written
    };
    /// Correlations are consecutive: a mark is overwritten after so many calls.
    static constexpr std::size_t kMarks = std::size_t{1} << 17;

    Activity(const ActivityApi &api, const Sizes &sizes);
    Status subscribe();
    Status prepare();
    Status enable(Level level);
    void disable();
    int watchCalls(Level level);
    static const ActivityWatcher kWatcher;
    void noteNode(std::uint64_t node, std::uint64_t original, std::uint64_t mark);
    void noteCall(std::uint32_t correlation, std::uint64_t mark);
    [[nodiscard]] std::uint64_t markOfNode(std::uint64_t node);
    [[nodiscard]] std::uint64_t markOfCall(std::uint32_t correlation) const;
    Error failure(const char *what, int error) const;
    void compareClocks();
    void read(std::uint8_t *buffer, std::size_t valid);
    void read(const ActivityHead &record);
    template <class Record>
    void found(const Record &record, std::int32_t kind, std::uint64_t bytes, std::uint64_t node);

    const ActivityApi &m_api;
    std::unique_ptr<ActivityBuffers> m_buffers;
    std::size_t m_most;
    void *m_subscriber = nullptr;
    std::mutex m_levelMutex; ///< guards the level
    Level m_level = Level::Off;
    std::mutex m_nodesMutex;                                  ///< guards m_nodes; nothing is called with it
    std::unordered_map<std::uint64_t, std::uint64_t> m_nodes; ///< marks, of those that have one
    std::vector<Mark> m_marks;                                ///< by correlation modulo kMarks
    std::vector<PlanloomActivityRecord> m_ready;
    std::size_t m_taken = 0;
    std::int64_t m_offset = 0; ///< to CUPTI's clock from CLOCK_MONOTONIC
    PlanloomActivityCounts m_counts{};
};

} // namespace planloom::cuda
