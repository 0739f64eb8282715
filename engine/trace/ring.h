// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <atomic>
#include <memory>

namespace planloom::trace {

/// Single producer, single consumer, lock-free, fixed capacity. A full ring drops the newest record and counts it: the
/// producer never waits. Thread contract: write() from one thread, drain() from one other.
class Ring final : public Sink {
public:
    /// @p capacity is rounded up to a power of two; 32 bytes each.
    explicit Ring(std::size_t capacity);

    void write(const Record &record) noexcept override;
    [[nodiscard]] std::int64_t dropped() const noexcept override { return m_dropped.load(std::memory_order_relaxed); }

    /// Moves up to @p limit records to the end of @p out; returns how many.
    std::size_t drain(std::vector<Record> &out, std::size_t limit);

private:
    std::size_t m_mask;
    std::unique_ptr<Record[]> m_records;
    alignas(64) std::atomic<std::size_t> m_head{0}; ///< next to write
    alignas(64) std::atomic<std::size_t> m_tail{0}; ///< next to read
    std::atomic<std::int64_t> m_dropped{0};
};

} // namespace planloom::trace
