// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/clock.h"

#include <algorithm>

namespace planloom::simulate {
namespace {

/// Earliest first; of two at the same time the lower unit, so that runs are repeatable.
constexpr auto kLater = [](const auto &a, const auto &b) { return a.seconds != b.seconds ? a.seconds > b.seconds : a.unit > b.unit; };

} // namespace

CostClock::CostClock(const program::Program &program) : m_program(program)
{
    const auto groups = static_cast<Unit>(program.groups.size());
    m_unitOf.resize(program.tasks.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
        if (program.tasks[t].group >= 0) {
            m_unitOf[t] = program.tasks[t].group;
            continue;
        }
        m_unitOf[t] = groups + static_cast<Unit>(m_single.size());
        m_single.emplace_back(static_cast<std::int64_t>(t));
    }
    m_missing.assign(program.groups.size() + m_single.size(), 0);
    m_laneBusy.assign(program.ranks.size() * program::kLanes, false);
    m_waiting.resize(m_laneBusy.size());
    countDependencies();
    indexSuccessors();
}

void CostClock::countDependencies()
{
    m_successorBegin.assign(m_program.tasks.size() + 1, 0);
    const auto count = [this](TaskId before, TaskId task) {
        ++m_missing[static_cast<std::size_t>(unitOf(task))];
        ++m_successorBegin[before.index() + 1];
    };
    for (std::size_t t = 0; t < m_program.tasks.size(); ++t)
        for (const TaskId before : m_program.dependenciesOf(m_program.tasks[t]))
            count(before, TaskId(static_cast<std::int64_t>(t)));
    for (const program::Rank &rank : m_program.ranks)
        for (std::size_t i = 1; i < rank.order.size(); ++i)
            count(rank.order[i - 1], rank.order[i]);
    for (std::size_t t = 0; t < m_program.tasks.size(); ++t)
        m_successorBegin[t + 1] += m_successorBegin[t];
}

void CostClock::indexSuccessors()
{
    m_successors.resize(static_cast<std::size_t>(m_successorBegin.back()));
    std::vector<std::int32_t> next(m_successorBegin.begin(), m_successorBegin.end() - 1);
    const auto put = [&](TaskId before, TaskId task) { m_successors[static_cast<std::size_t>(next[before.index()]++)] = unitOf(task); };
    for (std::size_t t = 0; t < m_program.tasks.size(); ++t)
        for (const TaskId before : m_program.dependenciesOf(m_program.tasks[t]))
            put(before, TaskId(static_cast<std::int64_t>(t)));
    for (const program::Rank &rank : m_program.ranks)
        for (std::size_t i = 1; i < rank.order.size(); ++i)
            put(rank.order[i - 1], rank.order[i]);
}

std::span<const TaskId> CostClock::members(Unit unit) const
{
    const auto groups = m_program.groups.size();
    const auto index = static_cast<std::size_t>(unit);
    if (index >= groups)
        return {&m_single[index - groups], 1};
    const program::Group &group = m_program.groups[index];
    return std::span(m_program.groupMembers).subspan(static_cast<std::size_t>(group.first), static_cast<std::size_t>(group.last - group.first));
}

std::size_t CostClock::laneOf(TaskId id) const
{
    const program::Task &task = m_program.task(id);
    return task.rank.index() * program::kLanes + static_cast<std::size_t>(task.lane);
}

Result<double> CostClock::run(Listener *listener)
{
    m_listener = listener;
    for (Unit unit = 0; unit < static_cast<Unit>(m_missing.size()); ++unit)
        if (m_missing[static_cast<std::size_t>(unit)] == 0)
            startOrQueue(unit, 0);
    while (!m_events.empty()) {
        std::pop_heap(m_events.begin(), m_events.end(), kLater);
        const Event event = m_events.back();
        m_events.pop_back();
        m_now = event.seconds;
        finish(event);
    }
    if (m_done != m_program.tasks.size())
        return stuck();
    return m_now;
}

void CostClock::startOrQueue(Unit unit, double now)
{
    const auto tasks = members(unit);
    for (const TaskId task : tasks) {
        const std::size_t lane = laneOf(task);
        if (m_laneBusy[lane]) {
            m_waiting[lane].push_back(unit);
            return;
        }
    }
    double seconds = 0;
    for (const TaskId task : tasks) {
        m_laneBusy[laneOf(task)] = true;
        seconds = std::max(seconds, m_program.task(task).duration.value());
        if (m_listener)
            m_listener->started(task, now);
    }
    m_events.push_back({now + seconds, unit});
    std::push_heap(m_events.begin(), m_events.end(), kLater);
}

void CostClock::finish(const Event &event)
{
    const auto tasks = members(event.unit);
    m_done += tasks.size();
    for (const TaskId task : tasks) {
        m_laneBusy[laneOf(task)] = false;
        if (m_listener)
            m_listener->ended(task, event.seconds);
    }
    // Who waited longest comes first, before what has become ready only now.
    for (const TaskId task : tasks)
        release(laneOf(task), event.seconds);
    for (const TaskId task : tasks) {
        const auto begin = static_cast<std::size_t>(m_successorBegin[task.index()]);
        const auto end = static_cast<std::size_t>(m_successorBegin[task.index() + 1]);
        for (std::size_t i = begin; i < end; ++i)
            if (--m_missing[static_cast<std::size_t>(m_successors[i])] == 0)
                startOrQueue(m_successors[i], event.seconds);
    }
}

void CostClock::release(std::size_t lane, double now)
{
    // A unit that finds another of its lanes busy queues there; the next one may still fit.
    std::vector<Unit> waiting;
    waiting.swap(m_waiting[lane]);
    for (const Unit unit : waiting) {
        if (m_laneBusy[lane])
            m_waiting[lane].push_back(unit);
        else
            startOrQueue(unit, now);
    }
}

Error CostClock::stuck() const
{
    std::string names;
    int shown = 0;
    for (std::size_t t = 0; t < m_program.tasks.size() && shown < 4; ++t) {
        if (m_missing[static_cast<std::size_t>(m_unitOf[t])] <= 0)
            continue;
        names += (shown++ ? ", " : "") + program::idOf(m_program.tasks[t]);
    }
    return badInput("the order of tasks cannot run: " + names + (shown == 4 ? " and others" : "") + " wait for each other; change the schedule's order");
}

} // namespace planloom::simulate
