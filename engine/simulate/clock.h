// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/program/program.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace planloom::simulate {

/// Hears of every task's start and end, in time order. Called from CostClock::run only.
class Listener {
public:
    virtual ~Listener() = default;
    virtual void started(TaskId task, double seconds) = 0;
    virtual void ended(TaskId task, double seconds) = 0;
};

/// The event loop: tasks become ready when their dependencies have ended, a group when all its members are ready; compute lanes
/// keep Rank::order, the others take what became ready first. Everything that ends at one moment has ended before anything starts at that moment,
/// and of what became ready together the earliest in its stage starts first: so ranks that do the same do it at the same times, whatever their
/// numbers (fold.h relies on it). One run per object. Memory: about 50 bytes a task beside the Program.
class CostClock {
public:
    explicit CostClock(const program::Program &program);

    /// Seconds of the iteration. Error (BadInput): tasks that wait for each other for ever, some of them named.
    Result<double> run(Listener *listener);

private:
    /// What starts as one: a task alone, or all members of a group. Units [0, groups) are the groups.
    using Unit = std::int32_t;
    struct Event {
        double seconds;
        Unit unit;
    };

    /// A unit that could not start when it became ready, or has just become it.
    struct Ready {
        double since;
        Unit unit;
    };

    void countDependencies();
    void indexSuccessors();
    void rankUnits();
    [[nodiscard]] std::span<const TaskId> members(Unit unit) const;
    [[nodiscard]] Unit unitOf(TaskId task) const { return m_unitOf[task.index()]; }
    [[nodiscard]] std::size_t laneOf(TaskId task) const;
    void becomesReady(Unit unit, double now);
    void start(Unit unit, double now);
    void startReady(double now);
    void finish(const Event &event);
    [[nodiscard]] Error stuck() const;

    const program::Program &m_program;
    Listener *m_listener = nullptr;
    std::vector<Unit> m_unitOf;
    std::vector<TaskId> m_single;             ///< the task of unit groups + i
    std::vector<std::int32_t> m_missing;      ///< per unit: dependencies of all its members that have not ended
    std::vector<std::int32_t> m_successorBegin; ///< per task, into m_successors; +1 entry
    std::vector<Unit> m_successors;
    std::vector<std::int32_t> m_precedence;   ///< per unit, among those that become ready together: the first task's stage and place in its rank
    std::vector<bool> m_laneBusy;
    std::vector<std::vector<Ready>> m_waiting; ///< per lane: ready units that found it busy
    std::vector<Ready> m_ready;               ///< to be started now, if their lanes are free
    std::vector<Event> m_events;              ///< heap
    std::size_t m_done = 0;                   ///< tasks ended
    double m_now = 0;
};

} // namespace planloom::simulate
