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
/// keep Rank::order, the others take what became ready first (ties: lowest task). One run per object. Memory: about 40 bytes a
/// task beside the Program.
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

    void countDependencies();
    void indexSuccessors();
    [[nodiscard]] std::span<const TaskId> members(Unit unit) const;
    [[nodiscard]] Unit unitOf(TaskId task) const { return m_unitOf[task.index()]; }
    [[nodiscard]] std::size_t laneOf(TaskId task) const;
    void startOrQueue(Unit unit, double now);
    void finish(const Event &event);
    void release(std::size_t lane, double now);
    [[nodiscard]] Error stuck() const;

    const program::Program &m_program;
    Listener *m_listener = nullptr;
    std::vector<Unit> m_unitOf;
    std::vector<TaskId> m_single;             ///< the task of unit groups + i
    std::vector<std::int32_t> m_missing;      ///< per unit: dependencies of all its members that have not ended
    std::vector<std::int32_t> m_successorBegin; ///< per task, into m_successors; +1 entry
    std::vector<Unit> m_successors;
    std::vector<bool> m_laneBusy;
    std::vector<std::vector<Unit>> m_waiting; ///< per lane: ready units that found it busy, oldest first
    std::vector<Event> m_events;              ///< heap
    std::size_t m_done = 0;                   ///< tasks ended
    double m_now = 0;
};

} // namespace planloom::simulate
