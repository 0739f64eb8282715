// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/dispatch/dispatcher.h"
#include "engine/program/program.h"
#include "engine/simulate/shared_cores.h"

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace planloom::simulate {

/// Hears of every task's start and end, in time order. Called from CostClock::run only.
class Listener {
public:
    virtual ~Listener() = default;
    /// What follows belongs to this step of the period, from 0, or to one of the next period: from
    /// Program::periodSteps on. Not called for a Program that does not span steps.
    virtual void inStep(std::int64_t /*step*/) {}
    virtual void started(TaskId task, double seconds) = 0;
    virtual void ended(TaskId task, double seconds) = 0;
};

/// The event loop over a Program: starts the tasks that the dispatcher hands out, a group when all its members are
/// ready and their lanes are free, and ends it when its duration is over; ranks that share a processor core
/// (program::Rank::core) compute and communicate the slower for it. Everything that ends at one moment has ended before
/// anything starts at that moment. One run per object.
class CostClock {
public:
    explicit CostClock(const program::Program &program) : m_program(program), m_cores(program) {}

    /// Seconds of Program::periodSteps steps in the long run. A Program that spans steps runs from its first steady
    /// step on until its periods end equally far apart (after kMostPeriods, their mean is taken); @p listener hears of
    /// the last one, from 0 on, of what it leaves open to the end, and of what begins of the next one meanwhile, at
    /// least its first task and the merges of the averages that the last one began. Errors: NotFound (the Program's
    /// lane policy), BadInput (tasks that wait for each other for ever, some of them named).
    Result<double> run(Listener *listener);
    /// Seconds of one step in which every task runs once.
    Result<double> runOnce(Listener *listener);
    /// True if run() found its periods to be equally long.
    [[nodiscard]] bool isPeriodic() const { return m_periodic; }

    static constexpr int kMostPeriods = 64;

private:
    using Unit = dispatch::Dispatcher::Unit;
    struct Event {
        double seconds;
        Unit unit;
    };

    Result<const dispatch::LanePolicy *> prepare();
    template <class Between>
    double work(dispatch::Dispatcher &dispatcher, Between between);
    void start(const dispatch::Dispatcher &dispatcher, Unit unit, double now);
    void end(dispatch::Dispatcher &dispatcher, Unit unit, double now);
    void followAverage(TaskId task, std::int64_t step);
    void tell(const dispatch::Dispatcher &dispatcher, Unit unit, double now, bool ends);
    Result<double> runPeriods(dispatch::Dispatcher &dispatcher);
    [[nodiscard]] Error stuck(const dispatch::Dispatcher &dispatcher) const;

    const program::Program &m_program;
    Listener *m_listener = nullptr;
    std::optional<std::int64_t> m_heardFrom; ///< the listener hears of the period that begins with this step alone
    std::optional<double> m_origin;          ///< its time 0, once something of it has started
    std::optional<Unit> m_next;              ///< the first that started of the next one
    bool m_nextHeard = false;                ///< it has ended
    std::set<std::pair<RankId, BucketId>> m_averages; ///< that began in the period heard of and are not merged
    bool m_periodic = false;
    std::vector<double> m_seconds; ///< per task, side by side: a task's other figures stay out of the cache
    std::vector<Event> m_events;   ///< heap
    SharedCores m_cores;           ///< what ends there is no event
};

/// The order in which the tasks of each lane start on @p rank, by the cost clock: in a step in which all run, or, where
/// steps that are all alike overlap, while one follows the other. Ranks that obey it never wait for each other for
/// ever. Errors: those of CostClock::run. Cost: that of a simulation.
Result<dispatch::LaneOrders> laneOrders(const program::Program &program, RankId rank);

} // namespace planloom::simulate
