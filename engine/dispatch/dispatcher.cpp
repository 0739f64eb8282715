// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/dispatcher.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <tuple>

namespace planloom::dispatch {

using program::Dependency;
using program::kLanes;

Dispatcher::Dispatcher(const program::Program &program, const LanePolicy &policy) : m_program(program), m_policy(policy)
{
    std::vector<const LaneOrders *> orders;
    for (const program::Rank &rank : program.ranks)
        orders.push_back(&rank.orders);
    const auto tasks = std::views::iota(std::int64_t{0}, static_cast<std::int64_t>(program.tasks.size()))
        | std::views::transform([](std::int64_t index) { return TaskId(index); });
    makeUnits(tasks, true);
    connect(tasks, orders);
    for (const program::Rank &rank : program.ranks)
        rankUnits(rank);
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
    rankUnits(own);
    m_laneBusy.assign(kLanes, false);
    m_waiting.resize(m_laneBusy.size());
    m_ready.reserve(m_dependencies.size()); // a rank's steps allocate nothing
}

/// Units, and how many edges begin and end where: all that one walk over the tasks can tell.
template <class Tasks>
void Dispatcher::makeUnits(const Tasks &tasks, bool groups)
{
    m_taskCount = std::size(tasks);
    m_groups = groups ? static_cast<Unit>(m_program.groups.size()) : 0;
    m_unitOf.resize(m_taskCount);
    m_laneOf.resize(m_taskCount);
    m_dependencies.assign(static_cast<std::size_t>(m_groups), 0);
    m_successorBegin.assign(m_taskCount + 1, 0);
    for (const TaskId id : tasks) {
        const program::Task &task = m_program.task(id);
        const std::int32_t rank = m_onlyRank.valid() ? 0 : task.rank.value;
        m_laneOf[local(id)] = rank * kLanes + static_cast<std::int32_t>(task.lane);
        const bool grouped = groups && task.group.valid();
        const Unit unit = grouped ? task.group.value : m_groups + static_cast<Unit>(m_single.size());
        m_unitOf[local(id)] = unit;
        if (!grouped) {
            m_single.push_back(id);
            m_dependencies.push_back(0);
        }
        for (const Dependency &before : m_program.dependenciesOf(task)) {
            if (before.stepsBack != 0)
                continue;
            ++m_dependencies[static_cast<std::size_t>(unit)];
            ++m_successorBegin[local(before.task) + 1];
        }
    }
}

/// The successors of each task: those that depend on it, and the one behind it on a lane that has an order.
template <class Tasks>
void Dispatcher::connect(const Tasks &tasks, const std::vector<const LaneOrders *> &orders)
{
    const auto eachBehind = [&orders](const auto &take) {
        for (const LaneOrders *lanes : orders)
            for (const std::vector<TaskId> &order : *lanes)
                for (std::size_t i = 1; i < order.size(); ++i)
                    take(order[i - 1], order[i]);
    };
    eachBehind([this](TaskId before, TaskId task) {
        ++m_dependencies[static_cast<std::size_t>(unitOf(task))];
        ++m_successorBegin[local(before) + 1];
    });
    std::partial_sum(m_successorBegin.begin(), m_successorBegin.end(), m_successorBegin.begin());
    m_successors.resize(static_cast<std::size_t>(m_successorBegin.back()));
    std::vector<std::int32_t> next(m_successorBegin.begin(), m_successorBegin.end() - 1);
    const auto put = [&](TaskId before, TaskId task) {
        m_successors[static_cast<std::size_t>(next[local(before)]++)] = unitOf(task);
    };
    for (const TaskId id : tasks)
        for (const Dependency &before : m_program.dependenciesOf(m_program.task(id)))
            if (before.stepsBack == 0)
                put(before.task, id);
    eachBehind(put);
    m_precedence.assign(m_dependencies.size(), std::numeric_limits<std::int64_t>::max());
}

void Dispatcher::rankUnits(const program::Rank &rank)
{
    constexpr int kPlaceBits = 32;
    for (std::size_t i = 0; i < rank.tasks.size(); ++i) {
        const TaskId id = rank.tasks[i];
        const std::int64_t stage = std::max(0, m_program.task(id).stage.value);
        std::int64_t &first = m_precedence[static_cast<std::size_t>(unitOf(id))];
        first = std::min(first, stage << kPlaceBits | static_cast<std::int64_t>(i));
    }
}

std::span<const TaskId> Dispatcher::members(Unit unit) const
{
    if (unit >= m_groups)
        return {&m_single[static_cast<std::size_t>(unit - m_groups)], 1};
    return m_program.membersOf(GroupId(unit));
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
