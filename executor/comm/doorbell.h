// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace planloom::comm {

/// Wakes a process that waits for others of its machine: a line of memory that they share. A rank that has put
/// something where the owner looks rings; while the owner does not listen, that costs one atomic operation. The owner
/// listens, looks once more, and sleeps. Plain value; one without memory never rings, and its sleep ends at once.
/// Thread contract: listen() and sleep() from the owner's thread, ring() from any.
class Doorbell {
public:
    static constexpr std::int64_t kBytes = 64; ///< zeros at first, on a cache line

    Doorbell() = default;
    explicit Doorbell(std::byte *memory) : m_memory(memory) {}

    [[nodiscard]] explicit operator bool() const { return m_memory != nullptr; }
    void ring() const;
    /// What rings from here on ends the next sleep(); false: nothing does.
    void listen(bool on);
    void sleep(std::chrono::nanoseconds most) const;

private:
    struct Line;
    [[nodiscard]] Line &line() const;

    std::byte *m_memory = nullptr;
    std::uint32_t m_heard = 0;
};

} // namespace planloom::comm
