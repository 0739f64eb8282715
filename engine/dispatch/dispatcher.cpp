// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/dispatcher.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>

namespace planloom::dispatch {

using program::Dependency;
using program::kLanes;

namespace {

/// The fastest rank is at most openSteps + 1 steps ahead of the slowest one, and what is open lies between them.
std::int64_t windowOf(const program::Program &program) { return program.openSteps + 2; }

} // namespace

Dispatcher::Dispatcher(const program::Program &program, const LanePolicy &policy, Steps steps)
    : m_program(program),
      m_policy(policy),
      m_window(steps == Steps::Many ? windowOf(program) : 1)
{
    std::vector<const Orders *> orders;
    std::vector<const program::Rank *> ranks;
    for (const program::Rank &rank : program.ranks) {
        orders.push_back(&rank.orders);
        ranks.push_back(&rank);
    }
    const auto tasks = std::views::iota(std::int64_t{0}, static_cast<std::int64_t>(program.tasks.size()))
        | std::views::transform([](std::int64_t index) { return TaskId(index); });
    makeUnits(tasks, true);
    connect(tasks, orders);
    for (const program::Rank &rank : program.ranks)
        rankUnits(rank);
    m_laneBusy.assign(program.ranks.size() * kLanes, false);
    m_waiting.resize(m_laneBusy.size());
    if (steps == Steps::Many)
        makeWindow(ranks, orders);
}

Dispatcher::Dispatcher(const program::Program &program, const LanePolicy &policy, RankId rank, const LaneOrders &orders,
                       Steps steps)
    : m_program(program),
      m_policy(policy),
      m_onlyRank(rank),
      m_window(steps == Steps::Many ? windowOf(program) : 1)
{
    const program::Rank &own = program.ranks[rank.index()];
    m_local.assign(program.tasks.size(), -1);
    for (std::size_t i = 0; i < own.tasks.size(); ++i)
        m_local[own.tasks[i].index()] = static_cast<std::int32_t>(i);
    makeUnits(own.tasks, false);
    connect(own.tasks, {&orders.tasks});
    rankUnits(own);
    m_laneBusy.assign(kLanes, false);
    m_waiting.resize(m_laneBusy.size());
    if (steps == Steps::Many)
        makeWindow({&own}, {&orders.tasks});
    reachBack(orders);
    m_ready.reserve(m_dependencies.size() * static_cast<std::size_t>(m_window)); // a rank's steps allocate nothing
}

/// Units, and how many edges begin and end where: all that one walk over the tasks can tell.
template <class Tasks>
void Dispatcher::makeUnits(const Tasks &tasks, bool groups)
{
    m_taskCount = std::size(tasks);
    m_groups = groups ? static_cast<Unit>(m_program.groups.size()) : 0;
    m_unitOf.resize(m_taskCount);
    m_laneOf.resize(m_taskCount);
    m_dependencies.reserve(m_taskCount);
    m_dependencies.assign(static_cast<std::size_t>(m_groups), 0);
    m_single.reserve(m_taskCount);
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
void Dispatcher::connect(const Tasks &tasks, const std::vector<const Orders *> &orders)
{
    const auto eachBehind = [this, &orders](const auto &take) {
        if (m_window > 1)
            return; // whose turn it is on a lane depends on the step
        for (const Orders *lanes : orders)
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
    m_perStep = static_cast<Unit>(m_dependencies.size());
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

/// A slot for every step that may be under way, and what ranks and lanes are at.
void Dispatcher::makeWindow(const std::vector<const program::Rank *> &ranks, const std::vector<const Orders *> &orders)
{
    for (const program::Rank *rank : ranks) {
        m_ranks.push_back({rank->tasks, 0, 0, {}});
        for (const TaskId task : rank->tasks)
            ++m_dependencies[static_cast<std::size_t>(unitOf(task))];
    }
    for (const Orders *lanes : orders)
        for (const std::vector<TaskId> &order : *lanes) {
            m_turns.emplace_back();
            m_turns.back().order = order.empty() ? nullptr : &order;
        }
    m_slots.resize(static_cast<std::size_t>(m_window));
    m_missing.resize(m_dependencies.size() * m_slots.size());
    m_atDoor.reserve(m_ranks.size());
}

void Dispatcher::reachBack(const LaneOrders &orders)
{
    for (std::size_t lane = 0; lane < m_turns.size(); ++lane) {
        const std::vector<std::int32_t> &back = orders.stepsBack[lane];
        if (back.empty())
            continue;
        m_turns[lane].stepsBack = &back;
        m_turns[lane].reach = *std::max_element(back.begin(), back.end());
    }
}

bool Dispatcher::isBlocked(Unit unit) const
{
    const std::int32_t missing = m_missing[static_cast<std::size_t>(unit)];
    if (m_window == 1)
        return missing > 0;
    const auto entries = static_cast<std::int32_t>(members(unit).size());
    return missing > 0 && missing <= m_dependencies[static_cast<std::size_t>(unit % m_perStep)] - entries;
}

// --- Steps -----------------------------------------------------------------------------------------------------------

void Dispatcher::begin(double now, std::int64_t firstStep, std::int64_t endStep)
{
    m_done = 0;
    m_ready.clear();
    m_next = 0;
    m_sorted = false;
    if (m_window > 1) {
        m_endStep = endStep;
        beginSteps(now, firstStep);
        return;
    }
    m_missing = m_dependencies;
    for (Unit unit = 0; unit < units(); ++unit)
        if (!isBlocked(unit))
            add(unit, now);
}

void Dispatcher::beginSteps(double now, std::int64_t firstStep)
{
    m_passed = m_firstStep = firstStep;
    m_closedAt = std::numeric_limits<std::int64_t>::max();
    m_open = 0;
    m_laneBusy.assign(m_laneBusy.size(), false);
    for (auto &waiting : m_waiting)
        waiting.clear();
    for (std::int64_t step = firstStep; step < firstStep + m_window; ++step)
        clearSlot(step);
    for (Turn &turn : m_turns) {
        turn.step = firstStep;
        turn.place = 0;
    }
    m_atDoor.clear();
    for (std::size_t r = 0; r < m_ranks.size(); ++r) {
        m_ranks[r] = {m_ranks[r].tasks, firstStep - 1, 0, {}};
        m_atDoor.push_back(r);
    }
    enterAll(now);
}

void Dispatcher::clearSlot(std::int64_t step)
{
    const std::size_t slot = slotOf(step);
    m_slots[slot] = {step, m_taskCount, 0};
    std::copy(m_dependencies.begin(), m_dependencies.end(),
              m_missing.begin() + static_cast<std::ptrdiff_t>(slot * m_dependencies.size()));
}

void Dispatcher::admit(std::int64_t endStep, double now)
{
    m_endStep = endStep;
    enterAll(now);
}

void Dispatcher::close()
{
    m_closedAt = m_endStep;
    for (auto &waiting : m_waiting) {
        m_ready.insert(m_ready.end(), waiting.begin(), waiting.end());
        waiting.clear();
    }
    m_sorted = false;
}

bool Dispatcher::mayEnter(const RankProgress &rank) const
{
    const std::int64_t step = rank.step + 1;
    if (step >= m_endStep || m_slots[slotOf(step)].step != step)
        return false;
    return std::none_of(rank.open.begin(), rank.open.end(),
                        [&](const Open &open) { return open.step + m_program.openSteps < step; });
}

bool Dispatcher::allEnded(std::int64_t step) const
{
    return m_passed >= step && std::all_of(m_ranks.begin(), m_ranks.end(), [&](const RankProgress &rank) {
               return std::all_of(rank.open.begin(), rank.open.end(),
                                  [&](const Open &open) { return open.step >= step; });
           });
}

void Dispatcher::enterAll(double now)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < m_atDoor.size();) {
            RankProgress &rank = m_ranks[m_atDoor[i]];
            if (!mayEnter(rank)) {
                ++i;
                continue;
            }
            moved = true;
            enter(rank, now);
            if (rank.left > 0)
                m_atDoor.erase(m_atDoor.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    m_sorted = false;
}

void Dispatcher::enter(RankProgress &rank, double now)
{
    const std::size_t slot = slotOf(++rank.step);
    const Unit base = static_cast<Unit>(slot) * m_perStep;
    for (const TaskId id : rank.tasks) {
        const program::Task &task = m_program.task(id);
        if (!m_program.runsIn(task, rank.step))
            continue;
        for (const Dependency &before : m_program.dependenciesOf(task)) {
            const auto open = std::find_if(rank.open.begin(), rank.open.end(), [&](const Open &candidate) {
                return before.stepsBack > 0 && candidate.task == before.task
                    && candidate.step == rank.step - before.stepsBack;
            });
            if (open == rank.open.end())
                continue;
            open->waiters.push_back(base + unitOf(id));
            ++m_missing[static_cast<std::size_t>(base + unitOf(id))];
        }
    }
    for (const TaskId id : rank.tasks) {
        const program::Task &task = m_program.task(id);
        if (!m_program.runsIn(task, rank.step)) {
            releaseSuccessors(id, slot, now);
            --m_slots[slot].left;
            continue;
        }
        if (m_program.staysOpen(task)) {
            rank.open.push_back({id, rank.step, {}});
            ++m_open;
        } else {
            ++rank.left;
        }
        release(base + unitOf(id), now);
    }
    if (rank.left == 0)
        pass(slot);
    if (m_slots[slot].left == 0)
        clearSlot(rank.step + m_window);
}

void Dispatcher::pass(std::size_t slot)
{
    if (++m_slots[slot].passed == m_ranks.size())
        m_passed = m_slots[slot].step + 1;
}

void Dispatcher::endedInStep(TaskId task, std::size_t slot, double now)
{
    const std::size_t r = laneOf(task) / kLanes;
    RankProgress &rank = m_ranks[r];
    const std::int64_t step = m_slots[slot].step;
    if (m_program.staysOpen(m_program.task(task))) {
        const auto open = std::find_if(rank.open.begin(), rank.open.end(), [&](const Open &candidate) {
            return candidate.task == task && candidate.step == step;
        });
        for (const Unit waiter : open->waiters)
            release(waiter, now);
        rank.open.erase(open);
        --m_open;
    } else if (--rank.left == 0) {
        m_atDoor.push_back(r);
        pass(slot);
    }
    if (--m_slots[slot].left == 0)
        clearSlot(step + m_window);
}

/// On a lane that has an order, true if all that comes before @p task of @p step has started or does not run.
bool Dispatcher::isTurn(TaskId task, std::int64_t step)
{
    Turn &turn = m_turns[laneOf(task)];
    if (turn.order == nullptr)
        return true;
    const std::vector<TaskId> &order = *turn.order;
    while (turn.step <= step + turn.reach) {
        for (; turn.place < order.size(); ++turn.place) {
            const std::int64_t of = turn.stepOfPlace();
            if (of >= m_firstStep && of < m_closedAt && m_program.runsIn(m_program.task(order[turn.place]), of))
                return of == step && order[turn.place] == task;
        }
        turn.place = 0;
        ++turn.step;
    }
    return false;
}

void Dispatcher::sortReady(double now)
{
    const auto begin = m_ready.begin() + static_cast<std::ptrdiff_t>(m_next);
    m_sorted = true;
    if (m_ready.end() - begin < 2)
        return;
    for (auto ready = begin; ready != m_ready.end(); ++ready)
        ready->key = m_policy.key(m_program.task(members(ready->unit).front()), ready->since, now);
    std::sort(begin, m_ready.end());
}

std::optional<Dispatcher::Unit> Dispatcher::next(double now)
{
    if (!m_sorted)
        sortReady(now);
    while (m_next < m_ready.size()) {
        const Ready ready = m_ready[m_next++];
        const auto tasks = members(ready.unit);
        const auto blocked = std::find_if(tasks.begin(), tasks.end(), [&](TaskId task) {
            return m_laneBusy[laneOf(task)] || (m_window > 1 && !isTurn(task, stepOf(ready.unit)));
        });
        if (blocked != tasks.end()) {
            m_waiting[laneOf(*blocked)].push_back(ready);
            continue;
        }
        for (const TaskId task : tasks) {
            m_laneBusy[laneOf(task)] = true;
            if (m_window > 1)
                ++m_turns[laneOf(task)].place;
        }
        return ready.unit;
    }
    m_ready.clear();
    m_next = 0;
    return std::nullopt;
}

void Dispatcher::releaseSuccessors(TaskId task, std::size_t slot, double now)
{
    const Unit base = static_cast<Unit>(slot) * m_perStep;
    const std::size_t index = local(task);
    for (auto i = static_cast<std::size_t>(m_successorBegin[index]);
         i < static_cast<std::size_t>(m_successorBegin[index + 1]); ++i)
        release(base + m_successors[i], now);
}

void Dispatcher::ended(Unit unit, double now)
{
    const std::size_t slot = m_window == 1 ? 0 : slotOf(unit);
    const auto tasks = members(unit);
    m_done += tasks.size();
    for (const TaskId task : tasks) {
        const std::size_t lane = laneOf(task);
        m_laneBusy[lane] = false;
        if (!m_waiting[lane].empty()) {
            m_ready.insert(m_ready.end(), m_waiting[lane].begin(), m_waiting[lane].end());
            m_waiting[lane].clear();
        }
        releaseSuccessors(task, slot, now);
        if (m_window > 1)
            endedInStep(task, slot, now);
    }
    m_sorted = false;
    if (m_window > 1)
        enterAll(now);
}

} // namespace planloom::dispatch
