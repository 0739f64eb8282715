// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/backoff.h"
#include "executor/comm/communicator.h"

#include <chrono>
#include <cstdint>

/// How a process waits for another one without using up the core that a third one computes on.
namespace planloom::runtime {

/// Sleeps between two looks at what another process will send, the longer, the longer nothing has moved: an eighth of
/// @p idle nanoseconds, from 20 to 200 microseconds.
void restWhileIdle(std::int64_t idle);
std::chrono::nanoseconds restOf(std::int64_t idle);

/// The waits of a loop that tests what a communicator has under way: it sleeps until something comes, where the
/// transport wakes it (comm::Communicator::wakes), and else as restWhileIdle() does. Thread contract: the
/// communicator's.
class Rest {
public:
    /// @p comm is borrowed. @p spins: nanoseconds without progress in which it only gives way to others, so that what
    /// comes soon is taken without a sleep; they end when another one has used the core, which then has need of it.
    explicit Rest(comm::Communicator &comm, std::int64_t spins = 0) : m_comm(comm), m_spins(spins) {}
    /// Nothing has moved for @p idle nanoseconds. Returns at once where one more look is needed before a sleep.
    void idle(std::int64_t idle);
    /// The same where what comes does not wake, and at once is better than soon: as of Backoff.
    void look() { m_backoff.pause(); }
    /// Something has.
    void moved();

private:
    comm::Communicator &m_comm;
    std::int64_t m_spins;
    bool m_listens = false;
    bool m_crowded = false; ///< others have computed meanwhile
    Backoff m_backoff;      ///< of look()
};

/// Lets the calling thread's sleeps end when they are over, and not up to 50 microseconds later.
void sleepExactly();

/// Asks for short turns on a core, for a thread that many wait for and that seldom has much to do: it then gets one
/// soon after it wakes, and not when those that compute have used up theirs (2.8 ms). Linux before 6.12 gives all
/// threads equal turns.
void takeShortTurns();

} // namespace planloom::runtime
