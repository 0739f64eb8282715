// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/dispatcher.h"
#include "engine/trace/trace.h"
#include "executor/runtime/compute_tasks.h"
#include "executor/runtime/rest.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace planloom::runtime {

/// Told by TaskLoop, where steps overlap.
class StepHooks {
public:
    virtual ~StepHooks() = default;
    /// Before a task is asked for: steps may have passed (Dispatcher::stepsPassed). An error ends the run.
    virtual Status beforeTask() = 0;
    /// An agreement on steps has ended.
    virtual void stepsAgreed() = 0;
};

/// Asks the dispatcher for a rank's tasks, starts them and ends them: gives them to the device's queues and the
/// communicator, and moves communication on between operators and while there is nothing to compute. A task has ended
/// when its lane's queue has. Records each task once a step. Thread contract: one thread.
class TaskLoop final : private PassHooks {
public:
    /// What it is given must outlive it.
    TaskLoop(RankParts &parts, RankCommunication &communication, const ExecutorOptions &options, trace::Sink &sink)
        : m_parts(parts),
          m_communication(communication),
          m_compute(parts, communication, options),
          m_options(options),
          m_sink(sink),
          m_rest(options.link != nullptr ? options.link->processes() : parts.comm, options.link != nullptr ? 0 : kSpins)
    {
    }

    /// Makes the dispatcher, in the order of each lane that the cost clock found. Errors: those of laneOrders and of
    /// the device.
    Status prepare();
    /// @p hooks, which must outlive it: of steps that overlap.
    void watch(StepHooks &hooks) { m_hooks = &hooks; }

    /// Runs the tasks of step @p step. Errors: those of runUntilDone.
    Status run(std::int64_t step);
    /// Until all that the dispatcher may hand out has ended. Error: Failed (a peer is gone, no progress within the
    /// deadline: names the tasks that wait).
    Status runUntilDone();

    [[nodiscard]] dispatch::Dispatcher &dispatcher() { return *m_dispatcher; }
    [[nodiscard]] ComputeTasks &compute() { return m_compute; }
    /// The first step that is not over, for messages; the deadline counts from now on.
    void enter(std::int64_t step)
    {
        m_step = step;
        m_lastProgress = m_parts.now();
    }
    void reached(std::int64_t step) { m_step = step; }

private:
    using Unit = dispatch::Dispatcher::Unit;
    /// Nanoseconds. A core that sleeps takes longer to wake than most ranks take to answer.
    static constexpr std::int64_t kSpins = 1'000'000;

    /// Progress of a task, beside the Program.
    struct Progress {
        std::int64_t started = 0;
        comm::Request request;                ///< of a collective or an agreement
        bool communicates = false;            ///< messages or a collective are under way
        std::unique_ptr<device::Event> ended; ///< of its commands on the device
    };

    void startReady();
    void start(Unit unit);
    bool poll();
    bool finished(Unit unit);
    bool communicated(Unit unit);
    void finish(Unit unit);
    void betweenOperators() override;
    Status waitWhileIdle();
    /// While it waits for other ranks. Not where something may end without a sign from one of them: on a device, and
    /// copies to the host tier.
    [[nodiscard]] bool sleeps() const
    {
        return m_options.link != nullptr
            || (m_options.sharesCores && m_parts.comm.wakes() && m_parts.device.hostAddressable()
                && m_parts.own().hostBytes == 0);
    }
    [[nodiscard]] std::string whatWaits() const;

    [[nodiscard]] std::int64_t stepOf(Unit unit) const
    {
        return m_parts.program.spansSteps() ? m_dispatcher->stepOf(unit) : m_step;
    }
    [[nodiscard]] TaskId taskOf(Unit unit) const { return m_dispatcher->members(unit).front(); }
    /// 0: nothing is marked.
    [[nodiscard]] std::uint64_t markOf(Unit unit) const
    {
        return m_parts.marks != nullptr ? m_parts.marks->of(taskOf(unit), stepOf(unit)) : 0;
    }
    [[nodiscard]] const program::Task &task(Unit unit) const { return m_parts.program.task(taskOf(unit)); }
    [[nodiscard]] Progress &progressOf(Unit unit) { return m_progress[static_cast<std::size_t>(unit)]; }
    /// Position in Rank::tasks.
    [[nodiscard]] std::size_t indexOf(Unit unit) const
    {
        return static_cast<std::size_t>(unit) % m_parts.own().tasks.size();
    }

    RankParts &m_parts;
    RankCommunication &m_communication;
    ComputeTasks m_compute;
    const ExecutorOptions &m_options;
    trace::Sink &m_sink;
    StepHooks *m_hooks = nullptr;
    dispatch::LaneOrders m_orders;
    std::optional<dispatch::Dispatcher> m_dispatcher;
    std::vector<Progress> m_progress; ///< per unit
    std::vector<Unit> m_running;      ///< under way: communication, and unfinished device work
    Status m_status;                  ///< the first error of a communication call or the device
    std::int64_t m_step = 0;
    std::int64_t m_lastProgress = 0;
    Rest m_rest;
};

} // namespace planloom::runtime
