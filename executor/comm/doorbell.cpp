// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <ctime>

namespace planloom::comm {

struct Doorbell::Line {
    std::atomic<std::uint32_t> listens;
    std::atomic<std::uint32_t> rings; ///< on which the owner sleeps
};

Doorbell::Line &Doorbell::line() const
{
    static_assert(sizeof(Line) <= kBytes && std::atomic<std::uint32_t>::is_always_lock_free);
    return *reinterpret_cast<Line *>(m_memory);
}

/// Both sides change `listens`: one of them is first. Either the owner has begun to listen before, and is woken, or it
/// sees, when it looks once more, what was put there before it was rung for.
void Doorbell::ring() const
{
    if (m_memory == nullptr || line().listens.fetch_add(0) == 0)
        return;
    line().rings.fetch_add(1);
    ::syscall(SYS_futex, &line().rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::listen(bool on)
{
    if (m_memory == nullptr)
        return;
    line().listens.exchange(on ? 1 : 0);
    m_heard = line().rings.load();
}

void Doorbell::sleep(std::chrono::nanoseconds most) const
{
    if (m_memory == nullptr)
        return;
    constexpr std::int64_t kSecond = 1'000'000'000;
    const timespec limit{static_cast<std::time_t>(most.count() / kSecond), static_cast<long>(most.count() % kSecond)};
    ::syscall(SYS_futex, &line().rings, FUTEX_WAIT, m_heard, &limit, nullptr, 0);
}

} // namespace planloom::comm
