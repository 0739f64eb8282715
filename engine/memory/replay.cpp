// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/replay.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace planloom::memory {
namespace {

/// One run per object.
class Replay {
public:
    Replay(const Course &course, const Stream &stream, const CopyTimes &copies)
        : m_course(course),
          m_stream(stream),
          m_copies(copies),
          m_awaits(course.events.size(), 0),
          m_awaitedBy(course.events.size())
    {
        for (std::size_t e = 0; e < course.events.size(); ++e) {
            const Event &event = course.events[e];
            const auto await = [&](std::int32_t other) {
                m_awaitedBy[static_cast<std::size_t>(other)].push_back(e);
                ++m_awaits[e];
            };
            if (event.after >= 0)
                await(event.after);
            for (std::int32_t w = event.firstWait; w < event.lastWait; ++w)
                await(course.waits[static_cast<std::size_t>(w)]);
            if (laneOf(event) == kOperators)
                m_operators.push_back(e);
            else if (m_awaits[e] == 0)
                m_ready[laneOf(event)].push({0, e});
        }
    }

    double run()
    {
        double now = 0;
        startReady(now);
        while (!m_ends.empty()) {
            now = m_ends.top().first;
            while (!m_ends.empty() && m_ends.top().first == now) {
                const std::size_t ended = m_ends.top().second;
                m_ends.pop();
                end(ended, now);
            }
            startReady(now);
        }
        return now;
    }

private:
    static constexpr std::size_t kOperators = 0;
    static constexpr std::size_t kLanes = 3;   ///< and copies out, and in
    using At = std::pair<double, std::size_t>; ///< seconds, event
    using Earliest = std::priority_queue<At, std::vector<At>, std::greater<>>;

    static std::size_t laneOf(const Event &event)
    {
        return event.kind == Event::Kind::Out ? 1 : event.kind == Event::Kind::In ? 2 : kOperators;
    }
    [[nodiscard]] const Event &event(std::size_t e) const { return m_course.events[e]; }

    [[nodiscard]] double secondsOf(const Event &event) const
    {
        const auto subject = static_cast<std::size_t>(event.subject);
        if (laneOf(event) == kOperators)
            return m_stream.operators[subject].seconds + event.delay;
        return m_copies.seconds(event.kind == Event::Kind::Out, m_stream.storages[subject].bytes);
    }

    void end(std::size_t ended, double now)
    {
        m_busy[laneOf(event(ended))] = false;
        for (const std::size_t e : m_awaitedBy[ended])
            if (--m_awaits[e] == 0 && laneOf(event(e)) != kOperators)
                m_ready[laneOf(event(e))].push({now, e});
    }

    void startReady(double now)
    {
        if (!m_busy[kOperators] && m_next < m_operators.size() && m_awaits[m_operators[m_next]] == 0)
            start(m_operators[m_next++], now);
        for (std::size_t lane = kOperators + 1; lane < kLanes; ++lane)
            if (!m_busy[lane] && !m_ready[lane].empty()) {
                const std::size_t next = m_ready[lane].top().second;
                m_ready[lane].pop();
                start(next, now);
            }
    }

    void start(std::size_t e, double now)
    {
        m_busy[laneOf(event(e))] = true;
        m_ends.push({now + secondsOf(event(e)), e});
    }

    const Course &m_course;
    const Stream &m_stream;
    const CopyTimes &m_copies;
    std::vector<std::int32_t> m_awaits; ///< per event: how many that have not ended
    std::vector<std::vector<std::size_t>> m_awaitedBy;
    std::vector<std::size_t> m_operators; ///< in their order
    std::size_t m_next = 0;
    std::array<Earliest, kLanes> m_ready;
    std::array<bool, kLanes> m_busy{};
    Earliest m_ends;
};

} // namespace

double replaySeconds(const Course &course, const Stream &stream, const CopyTimes &copies)
{
    return Replay(course, stream, copies).run();
}

} // namespace planloom::memory
