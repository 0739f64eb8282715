// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"

#include <chrono>
#include <ctime>

namespace planloom::bench {

/// Seconds since it was made, of the clock on the wall or of processor time on all cores, which does not mind what else
/// runs on the machine.
class Watch {
public:
    enum class Clock { Wall, Processor };
    explicit Watch(Clock clock) : m_clock(clock) {}
    [[nodiscard]] double seconds() const
    {
        if (m_clock == Clock::Processor)
            return static_cast<double>(std::clock() - m_processor) / CLOCKS_PER_SEC;
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_wall).count();
    }

private:
    Clock m_clock;
    std::clock_t m_processor = std::clock();
    std::chrono::steady_clock::time_point m_wall = std::chrono::steady_clock::now();
};

/// Stops a search after some seconds.
class Deadline final : public Progress {
public:
    Deadline(Watch::Clock clock, double seconds) : m_watch(clock), m_seconds(seconds) {}
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override { return m_watch.seconds() >= m_seconds; }

private:
    Watch m_watch;
    double m_seconds;
};

} // namespace planloom::bench
