// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/lane_policy.h"
#include "engine/program/program.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace planloom::dispatch {

/// Per lane of one rank the order in which its tasks start; an empty one leaves the choice to the policy.
struct LaneOrders {
    std::array<std::vector<TaskId>, program::kLanes> tasks;
    /// Steps::Many, per task of a lane: in the turn of step s the task starts that belongs to step s - stepsBack, as
    /// what stays open may start behind tasks of a later step. Empty: none does.
    std::array<std::vector<std::int32_t>, program::kLanes> stepsBack;

    [[nodiscard]] std::vector<TaskId> &operator[](std::size_t lane) { return tasks[lane]; }
    [[nodiscard]] const std::vector<TaskId> &operator[](std::size_t lane) const { return tasks[lane]; }
    friend bool operator==(const LaneOrders &, const LaneOrders &) = default;
};

/// What a dispatcher hands out.
enum class Steps : std::uint8_t {
    One,  ///< a single step in which every task runs once; dependencies on earlier steps are met
    Many, ///< step after step, the tasks that run in each; every rank goes on to its next step on its own
};

/// Hands out the tasks of a Program: those whose dependencies have ended, on lanes that are free, in the order that the
/// lane has or that the policy chooses. A lane runs one task at a time. Tasks that start together are a unit: a task
/// alone, or, where all ranks are dispatched, all members of a group; with Steps::Many, in one step.
///
/// With Steps::Many a rank enters a step when all its tasks of the one before have ended, but for those that stay open
/// (program::Cadence): they have Program::openSteps more steps. A task that does not run in a step is passed by: who
/// depends on it does not wait, and on its lane the next one follows the one before.
///
/// Everything that ended at one moment is to be reported before next() is asked at that moment; of the tasks that
/// became ready together the earliest in its stage goes first. So ranks that do the same do it at the same times,
/// whatever their numbers (engine/compile/fold.h relies on it).
///
/// Times are the caller's, in any unit. Program and policy must outlive it. Thread contract: one thread. Memory: about
/// 50 bytes a task beside the Program, and 4 bytes a unit for each step that may be under way at once. Of one rank
/// whose lanes all have orders, begin() and later calls allocate nothing but for tasks that stay open.
class Dispatcher {
public:
    using Unit = std::int32_t;

    /// All ranks, with the orders that the Program has.
    Dispatcher(const program::Program &program, const LanePolicy &policy, Steps steps = Steps::One);
    /// Rank @p rank alone, with @p orders in place of the Program's.
    Dispatcher(const program::Program &program, const LanePolicy &policy, RankId rank, const LaneOrders &orders,
               Steps steps = Steps::One);

    /// With Steps::One a step begins; the one before has ended. With Steps::Many all begins anew: ranks enter
    /// @p firstStep, and steps before @p endStep as far as they come.
    void begin(double now, std::int64_t firstStep = 0, std::int64_t endStep = std::numeric_limits<std::int64_t>::max());
    /// Steps::Many: ranks may enter steps before @p endStep from now on.
    void admit(std::int64_t endStep, double now);
    /// Steps::Many: no more steps are admitted until all begins anew, so that tasks which stand behind those of later
    /// steps on their lane wait for these no longer.
    void close();
    /// A unit that starts now: its lanes are taken. Nothing: all that is ready waits for a lane.
    std::optional<Unit> next(double now);
    /// @p unit, which next() gave, has ended.
    void ended(Unit unit, double now);

    /// True if every task has ended: of the step, or of all steps before endStep, what stays open included.
    [[nodiscard]] bool done() const
    {
        return m_window == 1 ? m_done == m_taskCount : m_passed == m_endStep && m_open == 0;
    }
    /// Steps::Many: true if every task of the steps before @p step has ended.
    [[nodiscard]] bool allEnded(std::int64_t step) const;
    /// The steps before this one have ended on all ranks, but for what stays open.
    [[nodiscard]] std::int64_t stepsPassed() const { return m_passed; }
    [[nodiscard]] std::int64_t stepOf(Unit unit) const { return m_window == 1 ? 0 : m_slots[slotOf(unit)].step; }
    [[nodiscard]] std::span<const TaskId> members(Unit unit) const
    {
        const Unit inStep = m_window == 1 ? unit : unit % m_perStep;
        if (inStep >= m_groups)
            return {&m_single[static_cast<std::size_t>(inStep - m_groups)], 1};
        return m_program.membersOf(GroupId(inStep));
    }
    /// True if tasks of @p unit wait for others that have not ended.
    [[nodiscard]] bool isBlocked(Unit unit) const;
    /// Of all steps that may be under way at once.
    [[nodiscard]] Unit units() const { return m_perStep * static_cast<Unit>(m_window); }

private:
    /// A unit that is ready, with what it is sorted by: the policy's key, then the step, then the precedence.
    struct Ready {
        double since = 0;
        double key = 0;
        std::int64_t step = 0;
        std::int64_t precedence = 0;
        Unit unit = 0;
        friend bool operator<(const Ready &a, const Ready &b)
        {
            if (a.key != b.key)
                return a.key < b.key;
            if (a.step != b.step)
                return a.step < b.step;
            return a.precedence != b.precedence ? a.precedence < b.precedence : a.unit < b.unit;
        }
    };

    // --- Steps::Many: what a rank, a step and a lane are at. ---
    /// A task that stays open, from its rank's entry into the step until it has ended.
    struct Open {
        TaskId task;
        std::int64_t step = 0;
        std::vector<Unit> waiters; ///< of later steps
    };
    struct RankProgress {
        std::span<const TaskId> tasks;
        std::int64_t step = 0; ///< that it is in
        std::size_t left = 0;  ///< tasks of it that have not ended, without those that stay open
        std::vector<Open> open;
    };
    /// Counters of the units of one step; steps take them in turn.
    struct Slot {
        std::int64_t step = 0;
        std::size_t left = 0;   ///< tasks that have not ended, of all ranks
        std::size_t passed = 0; ///< ranks that wait for nothing of it but for what stays open
    };
    /// The next task of a lane that has an order.
    struct Turn {
        const std::vector<TaskId> *order = nullptr;           ///< null: the policy chooses
        const std::vector<std::int32_t> *stepsBack = nullptr; ///< null: all 0
        std::int64_t reach = 0;                               ///< the largest of these
        std::int64_t step = 0;
        std::size_t place = 0;
        [[nodiscard]] std::int64_t stepOfPlace() const
        {
            return stepsBack == nullptr ? step : step - (*stepsBack)[place];
        }
    };
    using Orders = std::array<std::vector<TaskId>, program::kLanes>;

    template <class Tasks>
    void makeUnits(const Tasks &tasks, bool groups);
    template <class Tasks>
    void connect(const Tasks &tasks, const std::vector<const Orders *> &orders);
    void rankUnits(const program::Rank &rank);
    void makeWindow(const std::vector<const program::Rank *> &ranks, const std::vector<const Orders *> &orders);
    void reachBack(const LaneOrders &orders);
    void beginSteps(double now, std::int64_t firstStep);
    void clearSlot(std::int64_t step);
    void enter(RankProgress &rank, double now);
    void enterAll(double now);
    [[nodiscard]] bool mayEnter(const RankProgress &rank) const;
    void endedInStep(TaskId task, std::size_t slot, double now);
    void pass(std::size_t slot);
    [[nodiscard]] bool isTurn(TaskId task, std::int64_t step);
    void releaseSuccessors(TaskId task, std::size_t slot, double now);
    void release(Unit unit, double now)
    {
        if (--m_missing[static_cast<std::size_t>(unit)] == 0)
            add(unit, now);
    }
    void add(Unit unit, double now)
    {
        const Unit inStep = m_window == 1 ? unit : unit % m_perStep;
        m_ready.push_back({now, now, stepOf(unit), m_precedence[static_cast<std::size_t>(inStep)], unit});
    }
    void sortReady(double now);
    [[nodiscard]] std::size_t local(TaskId task) const
    {
        return m_local.empty() ? task.index() : static_cast<std::size_t>(m_local[task.index()]);
    }
    [[nodiscard]] Unit unitOf(TaskId task) const { return m_unitOf[local(task)]; }
    [[nodiscard]] std::size_t laneOf(TaskId task) const { return static_cast<std::size_t>(m_laneOf[local(task)]); }
    [[nodiscard]] std::size_t slotOf(Unit unit) const { return static_cast<std::size_t>(unit / m_perStep); }
    [[nodiscard]] std::size_t slotOf(std::int64_t step) const { return static_cast<std::size_t>(step % m_window); }

    const program::Program &m_program;
    const LanePolicy &m_policy;
    RankId m_onlyRank;
    std::size_t m_taskCount = 0;
    std::vector<std::int32_t> m_local;        ///< per task of the Program, its number here; empty: the same
    std::vector<Unit> m_unitOf;               ///< per task here
    std::vector<std::int32_t> m_laneOf;       ///< per task here, counted through the ranks
    Unit m_groups = 0;                        ///< units [0, m_groups) are the Program's groups
    Unit m_perStep = 0;                       ///< those of one step; of the step in slot s, unit u is s * m_perStep + u
    std::int64_t m_window = 1;                ///< steps that may be under way at once
    std::vector<TaskId> m_single;             ///< the task of unit m_groups + i
    std::vector<std::int32_t> m_dependencies; ///< per unit: of all its members, within the step; with Steps::Many also
                                              ///< that each member's rank is in the step
    std::vector<std::int32_t> m_successorBegin; ///< per task here, into m_successors; +1 entry
    std::vector<Unit> m_successors;
    /// Per unit, of those equally urgent: its first task's stage (upper half) and place in its rank (lower half).
    std::vector<std::int64_t> m_precedence;

    // Progress.
    std::vector<std::int32_t> m_missing;       ///< per unit: dependencies that have not ended
    std::vector<std::uint8_t> m_laneBusy;      ///< bool
    std::vector<std::vector<Ready>> m_waiting; ///< per lane: ready units that found it busy
    std::vector<Ready> m_ready;                ///< [m_next, end): to be tried; sorted if m_sorted
    std::size_t m_next = 0;
    bool m_sorted = true;
    std::size_t m_done = 0; ///< tasks ended

    // Of Steps::Many.
    std::vector<RankProgress> m_ranks;
    std::vector<Slot> m_slots;
    std::vector<Turn> m_turns;         ///< per lane
    std::vector<std::size_t> m_atDoor; ///< ranks that have passed their step
    std::int64_t m_passed = 0;
    std::int64_t m_firstStep = 0;
    std::int64_t m_endStep = 0;
    std::int64_t m_closedAt = 0; ///< the first step that is not entered before all begins anew
    std::size_t m_open = 0;      ///< tasks that stay open, entered and not ended
};

} // namespace planloom::dispatch
