// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/clock.h"

#include <algorithm>
#include <limits>
#include <tuple>

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
    rankUnits();
}

void CostClock::rankUnits()
{
    // Places are counted through the stages, so that one number tells both.
    std::vector<std::int32_t> place(m_program.tasks.size());
    std::vector<std::int32_t> stageBegin;
    for (const program::Rank &rank : m_program.ranks) {
        for (std::size_t i = 0; i < rank.tasks.size(); ++i) {
            place[rank.tasks[i].index()] = static_cast<std::int32_t>(i);
            const auto after = static_cast<std::size_t>(std::max(0, m_program.task(rank.tasks[i]).stage.value) + 1);
            if (stageBegin.size() <= after)
                stageBegin.resize(after + 1, 0);
            stageBegin[after] = std::max(stageBegin[after], static_cast<std::int32_t>(rank.tasks.size()));
        }
    }
    for (std::size_t s = 1; s < stageBegin.size(); ++s)
        stageBegin[s] += stageBegin[s - 1];
    m_precedence.assign(m_missing.size(), std::numeric_limits<std::int32_t>::max());
    for (std::size_t t = 0; t < m_program.tasks.size(); ++t) {
        const auto stage = static_cast<std::size_t>(std::max(0, m_program.tasks[t].stage.value));
        std::int32_t &first = m_precedence[static_cast<std::size_t>(m_unitOf[t])];
        first = std::min(first, stageBegin[stage] + place[t]);
    }
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
            becomesReady(unit, 0);
    startReady(0);
    while (!m_events.empty()) {
        m_now = m_events.front().seconds;
        while (!m_events.empty() && m_events.front().seconds == m_now) {
            std::pop_heap(m_events.begin(), m_events.end(), kLater);
            const Event event = m_events.back();
            m_events.pop_back();
            finish(event);
        }
        startReady(m_now);
    }
    if (m_done != m_program.tasks.size())
        return stuck();
    return m_now;
}

void CostClock::becomesReady(Unit unit, double now) { m_ready.push_back({now, unit}); }

void CostClock::start(Unit unit, double now)
{
    double seconds = 0;
    for (const TaskId task : members(unit)) {
        m_laneBusy[laneOf(task)] = true;
        seconds = std::max(seconds, m_program.task(task).duration.value());
        if (m_listener)
            m_listener->started(task, now);
    }
    m_events.push_back({now + seconds, unit});
    std::push_heap(m_events.begin(), m_events.end(), kLater);
}

/// Starts what is ready, the longest waiting first, as far as lanes are free.
void CostClock::startReady(double now)
{
    const auto precedence = [this](Unit unit) { return m_precedence[static_cast<std::size_t>(unit)]; };
    if (m_ready.size() > 1)
        std::sort(m_ready.begin(), m_ready.end(), [&](const Ready &a, const Ready &b) {
            return std::tuple(a.since, precedence(a.unit), a.unit) < std::tuple(b.since, precedence(b.unit), b.unit);
        });
    for (const Ready &ready : m_ready) {
        const auto tasks = members(ready.unit);
        const auto blocked = std::find_if(tasks.begin(), tasks.end(), [this](TaskId task) { return m_laneBusy[laneOf(task)]; });
        if (blocked == tasks.end())
            start(ready.unit, now);
        else
            m_waiting[laneOf(*blocked)].push_back(ready);
    }
    m_ready.clear();
}

void CostClock::finish(const Event &event)
{
    const auto tasks = members(event.unit);
    m_done += tasks.size();
    for (const TaskId task : tasks) {
        const std::size_t lane = laneOf(task);
        m_laneBusy[lane] = false;
        if (m_listener)
            m_listener->ended(task, event.seconds);
        m_ready.insert(m_ready.end(), m_waiting[lane].begin(), m_waiting[lane].end());
        m_waiting[lane].clear();
        const auto begin = static_cast<std::size_t>(m_successorBegin[task.index()]);
        const auto end = static_cast<std::size_t>(m_successorBegin[task.index() + 1]);
        for (std::size_t i = begin; i < end; ++i)
            if (--m_missing[static_cast<std::size_t>(m_successors[i])] == 0)
                becomesReady(m_successors[i], event.seconds);
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
