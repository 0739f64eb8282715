// SPDX-License-Identifier: Apache-2.0
#include "engine/base/backoff.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace planloom {
namespace {

/// A switch to another thread and back takes longer; counting switches costs as much as a look.
constexpr std::chrono::nanoseconds kNoSwitch{1'000};
constexpr std::chrono::steady_clock::duration kShortest{5'000};
constexpr std::chrono::steady_clock::duration kLongest{200'000};

/// Switches away from this thread while it could have gone on, those of sched_yield() among them.
std::int64_t switchesOfThread()
{
    rusage used{};
    return ::getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nivcsw : 0;
}

} // namespace

void Backoff::pause()
{
    const auto begin = std::chrono::steady_clock::now();
    if (m_switches < 0) {
        m_switches = switchesOfThread();
        m_since = begin;
    }
    if (m_crowded) {
        std::this_thread::sleep_for(std::clamp((begin - m_since) / 32, kShortest, kLongest));
        m_crowded = false;
        m_switches = switchesOfThread();
        return;
    }
    sched_yield();
    if (std::chrono::steady_clock::now() - begin < kNoSwitch)
        return;
    const std::int64_t switches = switchesOfThread();
    m_crowded = switches != m_switches;
    m_switches = switches;
}

void Backoff::moved()
{
    m_switches = -1;
    m_crowded = false;
}

} // namespace planloom
