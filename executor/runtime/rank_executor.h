// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/measured_times.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/runtime/evaluation.h"
#include "executor/runtime/executor_options.h"
#include "executor/runtime/overlapping_steps.h"
#include "executor/runtime/rank_communication.h"
#include "executor/runtime/task_loop.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace planloom::runtime {

/// Runs one rank of a Program: makes all that its tasks need, and goes from step to step; TaskLoop runs the tasks, and
/// OverlappingSteps the steps of a Program that spans them. A lane runs one task at a time. Each task is recorded once
/// a step, from the moment at which this rank starts it to its end; the part spent waiting for other ranks is seen
/// where all ranks' records are (trace::waits).
///
/// With a parameter server (program::ParameterServer) a step is a version of the parameters, and the rank goes on with
/// the step whose version it is given; no step has metrics, the last one is the server's to say, and afterStep is
/// called where all ranks have the same version.
///
/// Program, communicator, feed and sink are borrowed and must outlive it. Thread contract: one thread, which calls
/// everything.
class RankExecutor {
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
    Status bringStates() { return m_communication.swaps().moveStates(false); }
    /// The persistent tensors of all stages on this rank.
    [[nodiscard]] std::span<const program::PersistentTensor> persistent() const { return m_persistent; }
    /// True if the optimizer begins behind steps that it has not made.
    [[nodiscard]] bool beginsUpdates() const
    {
        return m_options.updatesFrom > 0 && m_options.firstStep == m_options.updatesFrom;
    }
    /// Its optimizer's rule: what the states of held() are.
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
        return m_parts.comm.bytesSent() - m_bytesBesides - m_communication.agreements().bytesSent();
    }
    /// After run(), with ExecutorOptions::measures: what a memory policy decides by. Makes a few copies of the largest
    /// tensor that is swapped, to the host and back; where none is, of the largest part of parameters or states that is
    /// brought for an update, which stays as it is. Errors: those of Swaps::measure.
    Result<memory::MeasuredTimes> measuredTimes();
    /// Time zero of its records, on this machine's monotonic clock.
    [[nodiscard]] std::int64_t origin() const { return m_parts.origin; }
    /// Before run(): of a set of processes of which the ranks are some.
    void setOrigin(std::int64_t nanoseconds) { m_parts.origin = nanoseconds; }
    /// Collective, between steps: states of the update rule that servers have come to held(). Errors: those of
    /// ServedParameters::fetchStates.
    Status fetchStates();
    [[nodiscard]] std::int64_t stepsDone() const { return m_overlapping ? m_overlapping->stepsDone() : m_stepsDone; }
    /// Ends what is under way on the device before anything that it uses goes.
    ~RankExecutor() { m_parts.queues.clear(); }
    RankExecutor(const RankExecutor &) = delete;
    RankExecutor &operator=(const RankExecutor &) = delete;

private:
    RankExecutor(const program::Program &program, comm::Communicator &communicator, trace::Sink &sink,
                 ExecutorOptions options)
        : m_options(std::move(options)),
          m_parts{program,
                  RankId(communicator.rank()),
                  communicator,
                  m_options.device != nullptr ? *m_options.device : device::cpuDevice(),
                  m_options.deadline,
                  m_options.marks,
                  m_options.link},
          m_communication(m_parts, m_options),
          m_loop(m_parts, m_communication, m_options, sink)
    {
    }
    Status prepare(const graph::Graph &subject, const Feed &feed);
    Status prepareBodies(const graph::Graph &subject, const Feed &feed);
    Status checkOptimizer() const;

    Status runSteps();
    Status runStep();
    [[nodiscard]] std::int64_t nextStep() const;
    double takeOwnLoss();
    Status settleRows(bool ends);
    Status afterStep(const run::StepMetrics &metrics, bool &stop);
    [[nodiscard]] const program::Task *largestCopy() const;

    ExecutorOptions m_options;
    RankParts m_parts;
    std::vector<program::PersistentTensor> m_persistent;
    std::optional<Feed> m_feed; ///< with the places of rows
    RankCommunication m_communication;
    TaskLoop m_loop;
    std::optional<OverlappingSteps> m_overlapping; ///< of a Program that spans steps
    std::int64_t m_step = 0;
    std::int64_t m_bytesBesides = 0; ///< sent before the first step, and between steps
    std::int64_t m_stepsDone = 0;
};

} // namespace planloom::runtime
