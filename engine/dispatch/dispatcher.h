// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/lane_policy.h"
#include "engine/program/program.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace planloom::dispatch {

/// Per lane of one rank the order in which its tasks start; an empty one leaves the choice to the policy.
using LaneOrders = std::array<std::vector<TaskId>, program::kLanes>;

/// Hands out the tasks of one period of a Program: those whose dependencies have ended, on lanes that are free, in the
/// order that the lane has or that the policy chooses. A lane runs one task at a time. Tasks that start together are a
/// unit: a task alone, or, where all ranks are dispatched, all members of a group.
///
/// Everything that ended at one moment is to be reported before next() is asked at that moment; of the tasks that
/// became ready together the earliest in its stage goes first. So ranks that do the same do it at the same times,
/// whatever their numbers (engine/compile/fold.h relies on it).
///
/// Times are the caller's, in any unit. Program and policy must outlive it. Thread contract: one thread. Memory: about
/// 50 bytes a task beside the Program. Of one rank whose lanes all have orders, begin() and later calls allocate
/// nothing.
class Dispatcher {
public:
    using Unit = std::int32_t;

    /// All ranks, with the orders that the Program has.
    Dispatcher(const program::Program &program, const LanePolicy &policy);
    /// Rank @p rank alone, with @p orders in place of the Program's.
    Dispatcher(const program::Program &program, const LanePolicy &policy, RankId rank, const LaneOrders &orders);

    /// A period begins; the one before has ended, so that dependencies on earlier periods are met.
    void begin(double now);
    /// A unit that starts now: its lanes are taken. Nothing: all that is ready waits for a lane.
    std::optional<Unit> next(double now);
    /// @p unit, which next() gave, has ended.
    void ended(Unit unit, double now);

    /// True if every task of the period has ended.
    [[nodiscard]] bool done() const { return m_done == m_taskCount; }
    [[nodiscard]] std::span<const TaskId> members(Unit unit) const;
    /// True if tasks of @p unit wait for others that have not ended.
    [[nodiscard]] bool isBlocked(Unit unit) const { return m_missing[static_cast<std::size_t>(unit)] > 0; }
    [[nodiscard]] Unit units() const { return static_cast<Unit>(m_missing.size()); }

private:
    /// A unit that is ready, with the key that it is sorted by.
    struct Ready {
        double since = 0;
        double key = 0;
        Unit unit = 0;
    };

    template <class Tasks>
    void makeUnits(const Tasks &tasks, bool groups);
    template <class Tasks>
    void connect(const Tasks &tasks, const std::vector<const LaneOrders *> &orders);
    void rankUnits(const program::Rank &rank);
    void sortReady(double now);
    [[nodiscard]] std::size_t local(TaskId task) const
    {
        return m_local.empty() ? task.index() : static_cast<std::size_t>(m_local[task.index()]);
    }
    [[nodiscard]] Unit unitOf(TaskId task) const { return m_unitOf[local(task)]; }
    [[nodiscard]] std::size_t laneOf(TaskId task) const { return static_cast<std::size_t>(m_laneOf[local(task)]); }

    const program::Program &m_program;
    const LanePolicy &m_policy;
    RankId m_onlyRank;
    std::size_t m_taskCount = 0;
    std::vector<std::int32_t> m_local;          ///< per task of the Program, its number here; empty: the same
    std::vector<Unit> m_unitOf;                 ///< per task here
    std::vector<std::int32_t> m_laneOf;         ///< per task here, counted through the ranks
    Unit m_groups = 0;                          ///< units [0, m_groups) are the Program's groups
    std::vector<TaskId> m_single;               ///< the task of unit m_groups + i
    std::vector<std::int32_t> m_dependencies;   ///< per unit: of all its members, within the period
    std::vector<std::int32_t> m_successorBegin; ///< per task here, into m_successors; +1 entry
    std::vector<Unit> m_successors;
    /// Per unit, of those equally urgent: its first task's stage (upper half) and place in its rank (lower half).
    std::vector<std::int64_t> m_precedence;

    // The period's progress.
    std::vector<std::int32_t> m_missing; ///< per unit: dependencies that have not ended
    std::vector<bool> m_laneBusy;
    std::vector<std::vector<Ready>> m_waiting; ///< per lane: ready units that found it busy
    std::vector<Ready> m_ready;                ///< [m_next, end): to be tried; sorted if m_sorted
    std::size_t m_next = 0;
    bool m_sorted = true;
    std::size_t m_done = 0; ///< tasks ended
};

} // namespace planloom::dispatch
