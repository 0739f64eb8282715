// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/swaps.h"

#include "engine/base/backoff.h"
#include "engine/base/statistics.h"

#include <chrono>
#include <utility>
#include <vector>

namespace planloom::runtime {

/// One direction: a thread that does the copies that it is handed.
class Swaps::Copier {
public:
    Copier(bool out, HostTier &tier) : m_out(out), m_tier(tier), m_thread([this] { work(); }) {}
    ~Copier() { hand(State::Ends); }
    Copier(const Copier &) = delete;
    Copier &operator=(const Copier &) = delete;

    void start(std::byte *device, std::int64_t host, std::int64_t bytes)
    {
        m_device = device;
        m_host = host;
        m_bytes = bytes;
        hand(State::Busy);
    }
    Result<bool> test()
    {
        if (m_state.load(std::memory_order_acquire) == State::Busy)
            return false;
        if (!m_status)
            return m_status.error();
        return true;
    }

private:
    enum class State : int { Idle, Busy, Ends };

    void hand(State state)
    {
        m_state.store(state, std::memory_order_release);
        m_state.notify_one();
    }

    void work()
    {
        while (true) {
            m_state.wait(State::Idle, std::memory_order_acquire);
            if (m_state.load(std::memory_order_acquire) == State::Ends)
                return;
            m_status = m_tier.copy(m_out, m_device, m_host, m_bytes, m_buffer);
            State busy = State::Busy;
            m_state.compare_exchange_strong(busy, State::Idle, std::memory_order_acq_rel);
        }
    }

    bool m_out;
    HostTier &m_tier;
    std::byte *m_device = nullptr;
    std::int64_t m_host = 0;
    std::int64_t m_bytes = 0;
    HostTier::Buffer m_buffer;
    Status m_status;
    std::atomic<State> m_state = State::Idle;
    std::jthread m_thread; ///< the last member: it stops before the others go
};

Swaps::Threads::Threads() = default;
Swaps::Threads::~Threads() = default;
Swaps::Swaps() = default;
Swaps::~Swaps() = default;

Status Swaps::prepare(RankParts &parts)
{
    m_parts = &parts;
    if (parts.own().hostBytes == 0 || !parts.device.hostAddressable())
        return {};
    m_threads = std::make_unique<Threads>();
    for (const bool out : {false, true})
        m_threads->copiers[out ? 1 : 0] = std::make_unique<Copier>(out, parts.host);
    return {};
}

void Swaps::start(const program::Task &task, const program::Swap &swap)
{
    begin(swap.out, m_parts->program.body(task.body), m_parts->program.copyOf(swap));
}

void Swaps::begin(bool out, const program::Body &body, const program::HostCopy &copy)
{
    const program::Pool &pool = body.pools[static_cast<std::size_t>(program::Area::Pool)];
    std::byte *device = m_parts->arena.use(pool.begin + copy.place, copy.bytes);
    if (m_threads)
        return m_threads->copiers[out ? 1 : 0]->start(device, copy.host, copy.bytes);
    device::Queue &queue = m_parts->queue(out ? program::Lane::CopyOut : program::Lane::CopyIn);
    if (out)
        queue.copyToHost(m_parts->host.memory(copy.host), device, copy.bytes);
    else
        queue.copyToDevice(device, m_parts->host.memory(copy.host), copy.bytes);
}

Status Swaps::moveStates(bool out)
{
    const program::Rank &own = m_parts->own();
    if (own.hostedStates.bytes == 0)
        return {};
    begin(out, m_parts->program.body(own.bodies.front()), own.hostedStates);
    return finish(out);
}

/// Waits for a copy between steps.
Status Swaps::finish(bool out)
{
    const auto end = std::chrono::steady_clock::now() + m_parts->deadline;
    for (Backoff backoff; m_threads; backoff.pause()) {
        const Result<bool> done = test(out);
        if (!done)
            return done.error();
        if (*done)
            return {};
        if (std::chrono::steady_clock::now() > end)
            return failed("a copy to or from the host tier between two steps did not end within the deadline; give the "
                          "memory policy another host_tier");
    }
    return m_parts->drain(out ? program::Lane::CopyOut : program::Lane::CopyIn);
}

Result<double> Swaps::measure(const program::Task &task, bool out)
{
    constexpr int kTimes = 5;
    const program::HostCopy &copy = m_parts->program.copyOf(*task.as<program::Swap>());
    std::vector<double> seconds;
    for (int time = 0; time < kTimes; ++time) {
        const std::int64_t begun = monotonicNanoseconds();
        begin(out, m_parts->program.body(task.body), copy);
        if (const Status done = finish(out); !done)
            return done.error();
        seconds.push_back(static_cast<double>(monotonicNanoseconds() - begun) * 1e-9);
    }
    return median(std::move(seconds));
}

Result<bool> Swaps::test(bool out) { return m_threads ? m_threads->copiers[out ? 1 : 0]->test() : Result<bool>(true); }

} // namespace planloom::runtime
