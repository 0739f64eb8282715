// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rest.h"

#include "executor/runtime/clock.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace planloom::runtime {

namespace {

/// The kernel's struct sched_attr in its first version, which the C library has no declaration of.
struct SchedulingAttributes {
    std::uint32_t size;
    std::uint32_t policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime; ///< of a turn, nanoseconds
    std::uint64_t deadline;
    std::uint64_t period;
};

constexpr std::int64_t kTurnOfAnother = 15'000; ///< longer than others take who only look, nanoseconds

} // namespace

std::chrono::nanoseconds restOf(std::int64_t idle)
{
    constexpr std::int64_t kShortest = 20'000;
    constexpr std::int64_t kLongest = 200'000;
    return std::chrono::nanoseconds(std::clamp(idle / 8, kShortest, kLongest));
}

void restWhileIdle(std::int64_t idle) { std::this_thread::sleep_for(restOf(idle)); }

void Rest::idle(std::int64_t idle)
{
    if (idle < m_spins && !m_crowded) {
        const std::int64_t begin = monotonicNanoseconds();
        sched_yield();
        m_crowded = monotonicNanoseconds() - begin > kTurnOfAnother;
        return;
    }
    if (!m_comm.wakes()) {
        restWhileIdle(idle);
        return;
    }
    if (m_listens)
        m_comm.sleep(restOf(idle));
    m_comm.listen(true);
    m_listens = true;
}

void Rest::moved()
{
    if (m_listens)
        m_comm.listen(false);
    m_listens = false;
    m_crowded = false;
    m_backoff.moved();
}

void sleepExactly()
{
    constexpr unsigned long kSlack = 1'000; // nanoseconds
    ::prctl(PR_SET_TIMERSLACK, kSlack);
}

void takeShortTurns()
{
    constexpr std::uint64_t kTurn = 100'000; // the shortest that Linux gives
    constexpr std::uint32_t kOrdinary = 0;   // SCHED_OTHER
    SchedulingAttributes own{};
    if (::syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0 || own.policy != kOrdinary)
        return;
    own.size = sizeof own;
    own.runtime = kTurn;
    ::syscall(SYS_sched_setattr, 0, &own, 0);
}

} // namespace planloom::runtime
