// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace planloom {

/// The pauses of a loop that looks for something again and again. While the thread has its core alone it looks at once;
/// when other threads have used the core, it sleeps once before it looks again.
///
/// No loop may call sched_yield() without an end instead. Linux 6.18 counts each call as a whole turn of 1
/// to 3 ms: the virtual run time of two threads that yielded to each other went on by 1,190 s a second, and nothing
/// else that was ready on the machine, the kernel's own threads among it, got a core for a minute.
class Backoff {
public:
    /// @p turns of other threads on the core, of less than 15 microseconds each, that lead to a sleep; a longer one
    /// does by itself. Where ranks of one core wait for the same small messages, a sleep after each turn doubles what
    /// these take; 32 turns cost nothing. More of them keep others from the core.
    explicit Backoff(int turns = 1) : m_turns(turns) {}
    /// Less than a microsecond if the core is this thread's alone; else a thirty-second of the time since it began to
    /// look, 5 to 50 microseconds, and as long as the thread's timer slack beyond that (50 microseconds, if nothing was
    /// set).
    void pause();
    /// Other threads have used the core: the next pause is a sleep.
    [[nodiscard]] bool crowded() const { return m_crowded; }
    /// What was looked for is there.
    void moved();

private:
    std::chrono::steady_clock::time_point m_since; ///< of the first pause since moved()
    int m_turns;
    int m_looks = 0;
    std::int64_t m_switches = -1; ///< of this thread, against its will; -1: not counted since moved()
    bool m_crowded = false;
};

} // namespace planloom
