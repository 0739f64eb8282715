// SPDX-License-Identifier: Apache-2.0
#include "engine/base/backoff.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace planloom {
namespace {

/// A yield that finds no other thread takes 0.36 microseconds, and counting switches 0.29: they are counted behind a
/// longer one, and now and then, in case two switches are that fast somewhere.
constexpr std::chrono::nanoseconds kNoSwitch{1'000};
constexpr int kLooksPerCount = 16;
constexpr std::chrono::nanoseconds kTurnOfAnother{15'000}; ///< longer than others take who only look
constexpr int kShareOfWait = 32;                           ///< by so much a sleep makes a wait longer, at most
constexpr std::chrono::steady_clock::duration kShortest{5'000};
constexpr std::chrono::steady_clock::duration kShortestShared{20'000}; ///< 10 to 40 make no difference that is seen
constexpr std::chrono::steady_clock::duration kLongest{50'000};

thread_local bool coreOfThreadIsShared = false;

/// Switches away from this thread while it could have gone on, those of sched_yield() among them.
std::int64_t switchesOfThread()
{
    rusage used{};
    return ::getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nivcsw : 0;
}

} // namespace

void Backoff::setCoreIsShared(bool shared) { coreOfThreadIsShared = shared; }

bool Backoff::coreIsShared() { return coreOfThreadIsShared; }

void Backoff::pause()
{
    const auto begin = std::chrono::steady_clock::now();
    if (m_switches < 0) {
        m_switches = switchesOfThread();
        m_since = begin;
    }
    const auto sleep = [&](std::chrono::steady_clock::duration shortest) {
        std::this_thread::sleep_for(std::clamp((begin - m_since) / kShareOfWait, shortest, kLongest));
    };
    if (coreOfThreadIsShared) {
        sleep(kShortestShared);
        return;
    }
    if (m_crowded) {
        sleep(kShortest);
        m_crowded = false;
        m_switches = switchesOfThread();
        return;
    }
    sched_yield();
    const auto turn = std::chrono::steady_clock::now() - begin;
    if (turn < kNoSwitch && ++m_looks % kLooksPerCount != 0)
        return;
    m_crowded = turn > kTurnOfAnother || switchesOfThread() != m_switches;
}

void Backoff::moved()
{
    m_switches = -1;
    m_crowded = false;
}

} // namespace planloom
