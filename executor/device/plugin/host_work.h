// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"
#include "executor/device/plugin/abi.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace planloom::device {

/// A range of device memory that host work reads, writes, or both.
struct StagedRange {
    void *device = nullptr;  ///< nullptr: the argument is left out
    std::int64_t offset = 0; ///< in the staging block
    std::int64_t bytes = 0;
    bool reads = true;
    bool writes = false;
};

/// Where the ranges of one piece of work lie in the staging block, one behind the other.
class StagingLayout {
public:
    /// The range's offset.
    std::int64_t add(std::int64_t bytes)
    {
        const std::int64_t offset = m_bytes;
        m_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
        return offset;
    }
    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }

private:
    static constexpr std::int64_t kAlignment = 64;
    std::int64_t m_bytes = 0;
};

/// Work of a device's queues that the host does: in the queue's order, on a thread of the library, in one staging block
/// of the host that all pieces of work share, one after the other. Correct, and slow: every range is copied there and
/// back.
///
/// Thread contract: of one thread at a time, as the queues; reserve() may be called by others.
class HostWork {
public:
    /// What is to be done: work(how, staging).
    struct Task {
        void (*work)(const Task &task, std::byte *staging) = nullptr;
        void *object = nullptr;
        Mode mode = Mode::Run;
        bool draws = false;
        Draw draw = {};
        UpdateStep step = {};
        ScoredRows rows = {};
        void *result = nullptr; ///< on the host
    };

    HostWork(const PlanloomDeviceTable &table, PlanloomDevice *device) : m_table(table), m_device(device) {}
    ~HostWork();
    HostWork(const HostWork &) = delete;
    HostWork &operator=(const HostWork &) = delete;

    /// Makes the staging block at least as large; before the first step. Notes @p what under hostOperators(). Errors:
    /// Failed (memory).
    Status reserve(std::int64_t bytes, const std::string &what);
    /// Gives the copies and @p task to @p queue. Waits while kMostPending pieces of work are under way.
    void give(PlanloomQueue *queue, const Task &task, std::span<const StagedRange> ranges);

    /// What is computed on the host: operator types, update rules and their number.
    [[nodiscard]] std::map<std::string, std::int64_t> listed() const;

private:
    static constexpr std::size_t kMostPending = 256;

    struct Slot {
        HostWork *owner = nullptr;
        Task task;
        std::byte *staging = nullptr;
    };
    static void runSlot(void *slot);

    const PlanloomDeviceTable &m_table;
    PlanloomDevice *m_device;
    PlanloomEvent *m_free = nullptr;                            ///< the staging block is, from here on
    std::vector<std::pair<std::byte *, std::int64_t>> m_blocks; ///< the last one is used
    std::array<Slot, kMostPending> m_slots{};
    std::uint64_t m_given = 0;
    std::atomic<std::uint64_t> m_done{0};
    int m_threads = 0; ///< OpenMP's, of the thread that made this
    mutable std::mutex m_mutex;
    std::map<std::string, std::int64_t> m_listed;
};

} // namespace planloom::device
