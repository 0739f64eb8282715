// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/dispatch/dispatcher.h"
#include "engine/plan/training.h"
#include "engine/program/program.h"
#include "engine/run/metrics.h"
#include "engine/trace/trace.h"
#include "executor/comm/communicator.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/runtime/agreements.h"
#include "executor/runtime/averaging.h"
#include "executor/runtime/evaluation.h"
#include "executor/runtime/rank_collectives.h"
#include "executor/runtime/rank_parts.h"
#include "executor/runtime/row_exchange.h"
#include "executor/runtime/swaps.h"
#include "executor/runtime/transfers.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace planloom::runtime {

class ServedParameters;

struct ExecutorOptions {
    std::int64_t steps = 1;       ///< the run's, those before firstStep included
    std::int64_t firstStep = 0;   ///< where a resumed run goes on
    std::int64_t updatesFrom = 0; ///< step at which the optimizer begins: behind others that are trained otherwise
    std::int64_t seed = 1;
    plan::Optimizer optimizer;
    /// Squared norms of the residuals of an iteration of ADMM (admm::residualNames()); an error ends the run.
    std::function<Status(std::int64_t step, std::span<const float> squares)> onResiduals;
    std::string modelFolder;                                      ///< where parameters that come from files lie
    std::chrono::nanoseconds deadline = std::chrono::seconds(60); ///< no communication may stand still for longer
    device::Device *device = nullptr;                             ///< borrowed; nullptr: this machine's processors
    ServedParameters *served = nullptr;      ///< borrowed: of parameter servers, where the plan has any
    KernelMarks *marks = nullptr;            ///< borrowed: told which task the device's commands belong to
    VersionLink *link = nullptr;             ///< borrowed; where the Program has a parameter server
    const std::atomic<bool> *stop = nullptr; ///< set by any thread, on any rank: all ranks stop after the same step
    std::function<void(const run::StepMetrics &)> onStep; ///< on the executing thread; must not block
    /// On every rank after each step, when nothing is under way: may communicate, evaluate and copy held tensors. True
    /// in `stop`, on every rank: the run ends after this step. An error ends the run.
    std::function<Status(const run::StepMetrics &, bool &stop)> afterStep;
    /// Where steps overlap, afterStep is called after those alone of which this says so: all communication then ends
    /// first. Where rows of tables are exchanged a step later (program::Table::delays), it says before which calls of
    /// afterStep they are exchanged at once; empty: before all. Asked in order, on every rank; all answer alike. Empty:
    /// after none.
    std::function<bool(std::int64_t step)> pausesAfter;
};

/// Runs one rank of a Program: asks the dispatcher for tasks, in the order per lane that the cost clock found, gives
/// them to the device's queues and the communicator, and moves communication on between operators and while there is
/// nothing to compute. A task has ended when its lane's queue has. A lane runs one task at a time. Records each task
/// once a step, from the moment at which this rank starts it to its end; the part spent waiting for other ranks is
/// seen where all ranks' records are (trace::waits).
///
/// With a parameter server (program::ParameterServer) a step is a version of the parameters, and the rank goes on with
/// the step whose version it is given; no step has metrics, the last one is the server's to say, and afterStep is
/// called where all ranks have the same version.
///
/// Program, communicator, feed and sink are borrowed and must outlive it. Thread contract: one thread, which calls
/// everything.
class RankExecutor final : private PassHooks {
public:
    /// Collective: all ranks call it. Allocates the arena, makes all kernels, initialises parameters. Errors:
    /// Unsupported (operator without kernel, input that nothing feeds), BadInput (a Program of other ranks, or one that
    /// was compiled for another optimizer), Failed (memory, communication), those of initialisation.
    static Result<std::unique_ptr<RankExecutor>> create(const program::Program &program, const graph::Graph &subject,
                                                        comm::Communicator &communicator, const Feed &feed,
                                                        trace::Sink &sink, ExecutorOptions options);

    /// Collective. Runs the steps. Error: Failed (a peer is gone, no progress within the deadline: names the tasks that
    /// wait); the caller then aborts the communicator.
    Status run();
    /// Collective. Forward only, over the held-out samples, by the mean of parameters that replicas average; their
    /// number must not be 0. Its step is left to the caller.
    Result<run::Validation> evaluate();

    [[nodiscard]] const program::Program &program() const { return m_parts.program; }
    /// Sees to it that the optimizer's states of held() are where held() says, until the next step or evaluation: they
    /// may lie in the host tier between updates. Errors: those of Swaps::moveStates.
    Status bringStates() { return m_swaps.moveStates(false); }
    /// The persistent tensors of all stages on this rank.
    [[nodiscard]] std::span<const program::Held> held() const { return m_held; }
    /// Its optimizer's rule: what the states of held() are.
    /// True if the optimizer begins behind steps that it has not made.
    [[nodiscard]] bool beginsUpdates() const
    {
        return m_options.updatesFrom > 0 && m_options.firstStep == m_options.updatesFrom;
    }
    [[nodiscard]] const update::ConfiguredRule &updateRule() const { return m_options.optimizer.rule; }
    /// Device and memory of the rank's stages, for copies between steps.
    [[nodiscard]] ComputeContext context() { return m_parts.context(); }
    [[nodiscard]] comm::Communicator &communicator() { return m_parts.comm; }
    [[nodiscard]] std::chrono::nanoseconds deadline() const { return m_options.deadline; }

    /// The furthest end of any range of the arena that was used: as predicted, Rank::arenaBytes.
    [[nodiscard]] std::int64_t peakBytes() const { return m_parts.arena.peak(); }
    /// Payload that this rank's collectives have sent in its steps so far, by Task::bytes; the sums over all ranks
    /// besides is not in it.
    [[nodiscard]] std::int64_t collectiveBytes() const
    {
        return m_parts.comm.bytesSent() - m_bytesBesides - m_agreements.bytesSent();
    }
    /// Time zero of its records, on this machine's monotonic clock.
    [[nodiscard]] std::int64_t origin() const { return m_origin; }
    /// Before run(): of a set of processes of which the ranks are some.
    void setOrigin(std::int64_t nanoseconds) { m_origin = nanoseconds; }
    /// Collective, between steps: states of the update rule that servers have come to held(). Errors: those of
    /// ServedParameters::fetchStates.
    Status fetchStates();
    [[nodiscard]] std::int64_t stepsDone() const { return m_stepsDone; }
    /// Ends what is under way on the device before anything that it uses goes.
    ~RankExecutor() override { m_parts.queues.clear(); }

private:
    using Unit = dispatch::Dispatcher::Unit;

    /// Progress of a task, beside the Program.
    struct Progress {
        std::int64_t started = 0;
        comm::Request request;                ///< of a collective or an agreement
        bool communicates = false;            ///< messages or a collective are under way
        std::unique_ptr<device::Event> ended; ///< of its commands on the device
    };

    RankExecutor(const program::Program &program, comm::Communicator &communicator, trace::Sink &sink,
                 ExecutorOptions options)
        : m_parts{program,          RankId(communicator.rank()),
                  communicator,     options.device != nullptr ? *options.device : device::cpuDevice(),
                  options.deadline, options.marks,
                  options.link},
          m_sink(sink),
          m_options(std::move(options))
    {
    }
    Status prepare(const graph::Graph &subject, const Feed &feed);
    Status prepareBodies(const graph::Graph &subject, const Feed &feed);
    Status prepareDispatch();

    [[nodiscard]] std::int64_t now() const; ///< nanoseconds since the common origin
    Status runSteps();
    Status runStep();
    [[nodiscard]] std::int64_t nextStep() const;
    double takeOwnLoss();
    Status settleRows(bool ends);
    Status runOverlapping();
    Status runUntilDone();
    Status afterStep(const run::StepMetrics &metrics, bool &stop);
    Status readFigures(run::StepMetrics &metrics);
    void leaveSteps();
    void stepsAgreed();
    Status agreeOnTheRest();
    [[nodiscard]] std::int64_t endOfSteps() const;
    void report();
    void enterSteps(std::int64_t firstStep);
    void admit();
    void updateSummed(StageReplica &stage, BucketId bucket);
    void settleSums();
    [[nodiscard]] bool pausesAfter(std::int64_t step) const;
    [[nodiscard]] std::int64_t pauseAfter(std::int64_t step) const;
    void startReady();
    void start(Unit unit);
    Status compute(const program::Task &task, std::int64_t step);
    Status startCommunication(const program::Task &task, Unit unit);
    bool poll();
    bool finished(Unit unit);
    bool communicated(Unit unit);
    void finish(Unit unit);
    void betweenOperators() override;
    Status waitWhileIdle();
    [[nodiscard]] std::string whatWaits() const;

    [[nodiscard]] double learningRate(std::int64_t step) const;
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

    RankParts m_parts;
    trace::Sink &m_sink;
    ExecutorOptions m_options;
    std::vector<program::Held> m_held;
    Transfers m_transfers;
    Swaps m_swaps;
    RankCollectives m_collectives;
    Agreements m_agreements;
    Averaging m_averaging;
    std::optional<Feed> m_feed; ///< with the places of rows
    RowExchange m_rows;
    dispatch::LaneOrders m_orders;
    std::optional<dispatch::Dispatcher> m_dispatcher;
    std::vector<Progress> m_progress; ///< per unit
    std::vector<Unit> m_running;      ///< under way: communication, and unfinished device work
    Status m_status;                  ///< the first error of a communication call or the device

    std::int64_t m_origin = 0; ///< of the trace, on this process's clock
    std::int64_t m_step = 0;
    std::int64_t m_bytesBesides = 0; ///< sent before the first step, and between steps
    std::int64_t m_stepsDone = 0;
    std::int64_t m_lastProgress = 0;

    // Where steps overlap.
    /// A step that is not reported yet: this rank has left it, all ranks have agreed on it, or neither.
    struct Unreported {
        std::optional<std::int64_t> left; ///< when
        bool agreed = false;
        run::StepMetrics metrics;
    };
    std::deque<Unreported> m_unreported; ///< from step m_step on
    run::StepMetrics m_reported;         ///< the last ones
    std::int64_t m_left = 0;             ///< steps before this one are left
    std::int64_t m_pause = 0;            ///< no step from this one on is entered before all communication has ended
    std::int64_t m_agreeEvery = 1;       ///< steps
    std::int64_t m_agreed = 0;           ///< steps before this one are agreed on
    bool m_stop = false;                 ///< the last agreement says so
    std::int64_t m_lastLeft = 0;         ///< when the step before m_step was left
};

} // namespace planloom::runtime
