// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace planloom {

/// The pauses of a loop that looks for something again and again. On a core that ranks were pinned to together it
/// sleeps between any two looks. Else it looks at once while the thread has its core alone; when other threads have
/// used the core, it sleeps once before it looks again.
///
/// No loop may call sched_yield() without an end instead. Linux 6.18 counts each call as a whole turn of 1 to 3 ms.
/// Two threads that yielded to each other let virtual run time go on by 1,190 s a second, and nothing else that was
/// ready on the machine, the kernel's own threads among it, got a core for a minute. And a thread whose turns are used
/// up waits when it has something to do: of four ranks on two cores, behind a network, one step in five took twice as
/// long, as what a rank waited for stood there for a turn of 4 ms, in which the other rank of its core only looked.
class Backoff {
public:
    /// The calling thread's core is one that ranks share, from now on, or it is not.
    static void setCoreIsShared(bool shared);
    [[nodiscard]] static bool coreIsShared();

    /// Less than a microsecond if the core is this thread's alone; else a thirty-second of the time since it began to
    /// look, 5 (on a core that ranks share, 20) to 50 microseconds, and as long as the thread's timer slack beyond that
    /// (50 microseconds, if nothing was set).
    void pause();
    /// Other threads have used the core: the next pause is a sleep.
    [[nodiscard]] bool crowded() const { return m_crowded; }
    /// What was looked for is there.
    void moved();

private:
    std::chrono::steady_clock::time_point m_since; ///< of the first pause since moved()
    int m_looks = 0;
    std::int64_t m_switches = -1; ///< of this thread, against its will; -1: not counted since moved()
    bool m_crowded = false;
};

} // namespace planloom
