// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/dispatcher.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace planloom::dispatch {

using program::Dependency;
using program::kLanes;

namespace {

std::vector<TaskId> allTasks(const program::Program &program)
{
    std::vector<TaskId> tasks;
    tasks.reserve(program.tasks.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t)
        tasks.emplace_back(static_cast<std::int64_t>(t));
    return tasks;
}

} // namespace

Dispatcher::Dispatcher(const program::Program &program, const LanePolicy &policy) : m_program(program), m_policy(policy)
{
    std::vector<const program::Rank *> ranks;
    std::vector<const LaneOrders *> orders;
    for (const program::Rank &rank : program.ranks) {
        ranks.push_back(&rank);
        orders.push_back(&rank.orders);
    }
    const std::vector<TaskId> tasks = allTasks(program);
    makeUnits(tasks, true);
    connect(tasks, orders);
    rankUnits(ranks);
    m_laneBusy.assign(program.ranks.size() * kLanes, false);
    m_waiting.resize(m_laneBusy.size());
}

Dispatcher::Dispatcher(const program::Program &program, const LanePolicy &policy, RankId rank, const LaneOrders &orders)
    : m_program(program),
      m_policy(policy),
      m_onlyRank(rank)
{
    const program::Rank &own = program.ranks[rank.index()];
    m_local.assign(program.tasks.size(), -1);
    for (std::size_t i = 0; i < own.tasks.size(); ++i)
        m_local[own.tasks[i].index()] = static_cast<std::int32_t>(i);
    makeUnits(own.tasks, false);
    connect(own.tasks, {&orders});
    rankUnits({&own});
    m_laneBusy.assign(kLanes, false);
    m_waiting.resize(m_laneBusy.size());
    m_ready.reserve(m_dependencies.size()); // a rank's steps allocate nothing
}

void Dispatcher::makeUnits(std::span<const TaskId> tasks, bool groups)
{
    m_taskCount = tasks.size();
    m_groups = groups ? static_cast<Unit>(m_program.groups.size()) : 0;
    m_unitOf.resize(tasks.size());
    for (const TaskId id : tasks) {
        const GroupId group = m_program.task(id).group;
        if (groups && group.valid()) {
            m_unitOf[local(id)] = group.value;
            continue;
        }
        m_unitOf[local(id)] = m_groups + static_cast<Unit>(m_single.size());
        m_single.push_back(id);
    }
}

namespace {

/// Calls take(before, task) for everything that a task of the period waits for: its dependencies, and the task in front
/// of it on a lane that has an order.
template <class Take>
void eachEdge(const program::Program &program, std::span<const TaskId> tasks,
              const std::vector<const LaneOrders *> &orders, const Take &take)
{
    for (const TaskId id : tasks)
        for (const Dependency &before : program.dependenciesOf(program.task(id)))
            if (before.stepsBack == 0)
                take(before.task, id);
    for (const LaneOrders *lanes : orders)
        for (const std::vector<TaskId> &order : *lanes)
            for (std::size_t i = 1; i < order.size(); ++i)
                take(order[i - 1], order[i]);
}

} // namespace

void Dispatcher::connect(std::span<const TaskId> tasks, const std::vector<const LaneOrders *> &orders)
{
    m_dependencies.assign(static_cast<std::size_t>(m_groups) + m_single.size(), 0);
    m_successorBegin.assign(tasks.size() + 1, 0);
    eachEdge(m_program, tasks, orders, [this](TaskId before, TaskId task) {
        ++m_dependencies[static_cast<std::size_t>(unitOf(task))];
        ++m_successorBegin[local(before) + 1];
    });
    std::partial_sum(m_successorBegin.begin(), m_successorBegin.end(), m_successorBegin.begin());
    m_successors.resize(static_cast<std::size_t>(m_successorBegin.back()));
    std::vector<std::int32_t> next(m_successorBegin.begin(), m_successorBegin.end() - 1);
    eachEdge(m_program, tasks, orders, [&](TaskId before, TaskId task) {
        m_successors[static_cast<std::size_t>(next[local(before)]++)] = unitOf(task);
    });
}

void Dispatcher::rankUnits(const std::vector<const program::Rank *> &ranks)
{
    // Places are counted through the stages, so that one number tells both.
    const auto stageOf = [this](TaskId id) {
        return static_cast<std::size_t>(std::max(0, m_program.task(id).stage.value));
    };
    std::vector<std::int32_t> stageBegin;
    for (const program::Rank *rank : ranks) {
        for (const TaskId id : rank->tasks) {
            const std::size_t after = stageOf(id) + 1;
            if (stageBegin.size() <= after)
                stageBegin.resize(after + 1, 0);
            stageBegin[after] = std::max(stageBegin[after], static_cast<std::int32_t>(rank->tasks.size()));
        }
    }
    std::partial_sum(stageBegin.begin(), stageBegin.end(), stageBegin.begin());
    m_precedence.assign(m_dependencies.size(), std::numeric_limits<std::int32_t>::max());
    for (const program::Rank *rank : ranks) {
        for (std::size_t i = 0; i < rank->tasks.size(); ++i) {
            const TaskId id = rank->tasks[i];
            std::int32_t &first = m_precedence[static_cast<std::size_t>(unitOf(id))];
            first = std::min(first, stageBegin[stageOf(id)] + static_cast<std::int32_t>(i));
        }
    }
}

std::span<const TaskId> Dispatcher::members(Unit unit) const
{
    if (unit >= m_groups)
        return {&m_single[static_cast<std::size_t>(unit - m_groups)], 1};
    return m_program.membersOf(GroupId(unit));
}

std::size_t Dispatcher::laneOf(TaskId id) const
{
    const program::Task &task = m_program.task(id);
    const std::size_t rank = m_onlyRank.valid() ? 0 : task.rank.index();
    return rank * kLanes + static_cast<std::size_t>(task.lane);
}

void Dispatcher::begin(double now)
{
    m_missing = m_dependencies;
    m_done = 0;
    m_ready.clear();
    m_next = 0;
    for (Unit unit = 0; unit < units(); ++unit)
        if (!isBlocked(unit))
            m_ready.push_back({now, 0, unit});
    m_sorted = false;
}

void Dispatcher::sortReady(double now)
{
    const auto begin = m_ready.begin() + static_cast<std::ptrdiff_t>(m_next);
    m_sorted = true;
    if (m_ready.end() - begin < 2)
        return;
    for (auto ready = begin; ready != m_ready.end(); ++ready)
        ready->key = m_policy.key(m_program.task(members(ready->unit).front()), ready->since, now);
    const auto precedence = [this](Unit unit) { return m_precedence[static_cast<std::size_t>(unit)]; };
    std::sort(begin, m_ready.end(), [&](const Ready &a, const Ready &b) {
        return std::tuple(a.key, precedence(a.unit), a.unit) < std::tuple(b.key, precedence(b.unit), b.unit);
    });
}

std::optional<Dispatcher::Unit> Dispatcher::next(double now)
{
    if (!m_sorted)
        sortReady(now);
    while (m_next < m_ready.size()) {
        const Ready ready = m_ready[m_next++];
        const auto tasks = members(ready.unit);
        const auto blocked =
            std::find_if(tasks.begin(), tasks.end(), [this](TaskId task) { return m_laneBusy[laneOf(task)]; });
        if (blocked != tasks.end()) {
            m_waiting[laneOf(*blocked)].push_back(ready);
            continue;
        }
        for (const TaskId task : tasks)
            m_laneBusy[laneOf(task)] = true;
        return ready.unit;
    }
    m_ready.clear();
    m_next = 0;
    return std::nullopt;
}

void Dispatcher::ended(Unit unit, double now)
{
    const auto tasks = members(unit);
    m_done += tasks.size();
    for (const TaskId task : tasks) {
        const std::size_t lane = laneOf(task);
        m_laneBusy[lane] = false;
        m_ready.insert(m_ready.end(), m_waiting[lane].begin(), m_waiting[lane].end());
        m_waiting[lane].clear();
        const std::size_t index = local(task);
        for (auto i = static_cast<std::size_t>(m_successorBegin[index]);
             i < static_cast<std::size_t>(m_successorBegin[index + 1]); ++i)
            if (--m_missing[static_cast<std::size_t>(m_successors[i])] == 0)
                m_ready.push_back({now, 0, m_successors[i]});
    }
    m_sorted = false;
}

} // namespace planloom::dispatch
