// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/clock.h"

#include <algorithm>

namespace planloom::simulate {
namespace {

/// Earliest first; of two at the same time the lower unit, so that runs are repeatable.
constexpr auto kLater = [](const auto &a, const auto &b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.unit > b.unit;
};

/// Writes down the starts of one rank.
class StartOrder final : public Listener {
public:
    StartOrder(const program::Program &program, RankId rank) : m_program(program), m_rank(rank) {}
    void started(TaskId id, double /*seconds*/) override
    {
        const program::Task &task = m_program.task(id);
        if (task.rank == m_rank)
            m_orders[static_cast<std::size_t>(task.lane)].push_back(id);
    }
    void ended(TaskId /*task*/, double /*seconds*/) override {}
    dispatch::LaneOrders take() { return std::move(m_orders); }

private:
    const program::Program &m_program;
    RankId m_rank;
    dispatch::LaneOrders m_orders;
};

} // namespace

Result<double> CostClock::run(Listener *listener)
{
    const auto policy = dispatch::findLanePolicy(m_program.lanePolicy);
    if (!policy)
        return policy.error();
    m_listener = listener;
    dispatch::Dispatcher dispatcher(m_program, **policy);
    m_seconds.reserve(m_program.tasks.size());
    for (const program::Task &task : m_program.tasks)
        m_seconds.push_back(task.duration.value());
    double now = 0;
    dispatcher.begin(now);
    while (const auto unit = dispatcher.next(now))
        start(*unit, dispatcher.members(*unit), now);
    while (!m_events.empty()) {
        now = m_events.front().seconds;
        while (!m_events.empty() && m_events.front().seconds == now) {
            std::pop_heap(m_events.begin(), m_events.end(), kLater);
            const Unit unit = m_events.back().unit;
            m_events.pop_back();
            if (m_listener)
                for (const TaskId task : dispatcher.members(unit))
                    m_listener->ended(task, now);
            dispatcher.ended(unit, now);
        }
        while (const auto unit = dispatcher.next(now))
            start(*unit, dispatcher.members(*unit), now);
    }
    if (!dispatcher.done())
        return stuck(dispatcher);
    return now;
}

void CostClock::start(Unit unit, std::span<const TaskId> tasks, double now)
{
    double seconds = 0;
    for (const TaskId task : tasks) {
        seconds = std::max(seconds, m_seconds[task.index()]);
        if (m_listener)
            m_listener->started(task, now);
    }
    m_events.push_back({now + seconds, unit});
    std::push_heap(m_events.begin(), m_events.end(), kLater);
}

Error CostClock::stuck(const dispatch::Dispatcher &dispatcher) const
{
    std::string names;
    int shown = 0;
    for (Unit unit = 0; unit < dispatcher.units(); ++unit) {
        if (!dispatcher.isBlocked(unit))
            continue;
        for (const TaskId task : dispatcher.members(unit))
            if (shown < 4)
                names += (shown++ ? ", " : "") + program::idOf(m_program.task(task));
    }
    return badInput("the order of tasks cannot run: " + names + (shown == 4 ? " and others" : "")
                    + " wait for each other; change the schedule's order");
}

Result<dispatch::LaneOrders> laneOrders(const program::Program &program, RankId rank)
{
    StartOrder starts(program, rank);
    if (const Result<double> seconds = CostClock(program).run(&starts); !seconds)
        return seconds.error();
    return starts.take();
}

} // namespace planloom::simulate
