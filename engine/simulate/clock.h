// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/dispatch/dispatcher.h"
#include "engine/program/program.h"

#include <vector>

namespace planloom::simulate {

/// Hears of every task's start and end, in time order. Called from CostClock::run only.
class Listener {
public:
    virtual ~Listener() = default;
    virtual void started(TaskId task, double seconds) = 0;
    virtual void ended(TaskId task, double seconds) = 0;
};

/// The event loop over one period: starts the tasks that the dispatcher hands out, a group when all its members are
/// ready and their lanes are free, and ends it when its duration is over. Everything that ends at one moment has ended
/// before anything starts at that moment. One run per object.
class CostClock {
public:
    explicit CostClock(const program::Program &program) : m_program(program) {}

    /// Seconds of the period. Errors: NotFound (the Program's lane policy), BadInput (tasks that wait for each other
    /// for ever, some of them named).
    Result<double> run(Listener *listener);

private:
    using Unit = dispatch::Dispatcher::Unit;
    struct Event {
        double seconds;
        Unit unit;
    };

    void start(Unit unit, std::span<const TaskId> tasks, double now);
    [[nodiscard]] Error stuck(const dispatch::Dispatcher &dispatcher) const;

    const program::Program &m_program;
    Listener *m_listener = nullptr;
    std::vector<double> m_seconds; ///< per task, side by side: a task's other figures stay out of the cache
    std::vector<Event> m_events;   ///< heap
};

/// The order in which the tasks of each lane start on @p rank, by the cost clock. Ranks that obey it never wait for
/// each other for ever. Errors: those of CostClock::run. Cost: that of a simulation.
Result<dispatch::LaneOrders> laneOrders(const program::Program &program, RankId rank);

} // namespace planloom::simulate
