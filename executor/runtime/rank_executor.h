// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/training.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"
#include "executor/comm/communicator.h"
#include "executor/runtime/body_runner.h"
#include "executor/runtime/transfers.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace planloom::runtime {

/// One step, done by all ranks.
struct StepResult {
    std::int64_t step = 0;
    double loss = 0;    ///< mean over the global batch, the same on every rank
    double seconds = 0; ///< on this rank, from one agreed end of a step to the next
    double learningRate = 0;
    double gradientNorm = 0; ///< before clipping; 0 if the optimizer does not clip
};

/// Mean loss and share of right answers over the held-out samples.
struct Evaluation {
    double loss = 0;     ///< what is trained: of labels that count, or, where it is another function than their cross-entropy, of samples
    double accuracy = 0; ///< of labels that count; NaN where the model compares none with logits
    std::int64_t samples = 0;
};

struct ExecutorOptions {
    std::int64_t steps = 1;     ///< the run's, those before firstStep included
    std::int64_t firstStep = 0; ///< where a resumed run goes on
    std::int64_t seed = 1;
    plan::Optimizer optimizer;
    std::string modelFolder;                   ///< where parameters that come from files lie
    std::chrono::nanoseconds deadline = std::chrono::seconds(60); ///< no communication may stand still for longer
    const std::atomic<bool> *stop = nullptr;   ///< set by any thread, on any rank: all ranks stop after the same step
    std::function<void(const StepResult &)> onStep; ///< on the executing thread; must not block
    /// On every rank after each step, when nothing is under way: may communicate, evaluate and copy held tensors. True in `stop`, on every rank: the
    /// run ends after this step. An error ends the run.
    std::function<Status(const StepResult &, bool &stop)> afterStep;
};

/// Runs one rank of a Program: compute tasks in the rank's order as their dependencies are met, communication as soon as it is ready,
/// moved on between operators and while there is nothing to compute. Records each task once a step.
/// Program, communicator, feed and sink are borrowed and must outlive it. Thread contract: one thread, which calls everything.
class RankExecutor final : private Between {
public:
    /// Collective: all ranks call it. Allocates the arena, makes all kernels, initialises parameters. Errors: Unsupported (operator
    /// without kernel, input that nothing feeds), Failed (memory, communication), those of initialisation.
    static Result<std::unique_ptr<RankExecutor>> create(const program::Program &program, const graph::Graph &subject, comm::Communicator &communicator,
                                                        const Feed &feed, trace::Sink &sink, ExecutorOptions options);

    /// Collective. Runs the steps. Error: Failed (a peer is gone, no progress within the deadline: says which tasks wait); the caller
    /// then aborts the communicator.
    Status run();
    /// Collective. Forward only, over the held-out samples; their number must not be 0.
    Result<Evaluation> evaluate();

    /// What stays from step to step, of all stages on this rank, and where it lies now.
    [[nodiscard]] std::span<const program::Held> held() const { return m_held; }
    [[nodiscard]] std::byte *address(std::int64_t arenaOffset) { return m_arena.use(arenaOffset, 0); }
    [[nodiscard]] comm::Communicator &communicator() { return m_comm; }
    [[nodiscard]] std::chrono::nanoseconds deadline() const { return m_options.deadline; }

    /// The furthest end of any range of the arena that was used: as predicted, Rank::arenaBytes.
    [[nodiscard]] std::int64_t peakBytes() const { return m_arena.peak(); }
    /// Payload that this rank's collectives have sent in its steps so far, as Task::bytes says; what the ranks agree on besides is not in it.
    [[nodiscard]] std::int64_t collectiveBytes() const { return m_comm.bytesSent() - m_agreedBytes; }
    [[nodiscard]] std::int64_t stepsDone() const { return m_stepsDone; }
    ~RankExecutor() override = default;

private:
    enum class State : std::uint8_t { Waiting, Running, Done };

    /// A task of this rank, with whatever the loop needs of it.
    struct LocalTask {
        TaskId id;
        trace::Kind kind = trace::Kind::Other;
        std::int16_t lane = 0;
        std::int32_t microBatch = -1;
        std::int32_t body = 0;   ///< index into m_bodies
        std::int32_t bucket = -1;
        std::int32_t team = -1;
        program::Pass pass = program::Pass::Forward;
        Part part;                     ///< compute, and boxing: the operator
        std::int32_t dependencies = 0;
        std::vector<std::int32_t> successors;
    };

    RankExecutor(const program::Program &program, comm::Communicator &communicator, trace::Sink &sink, ExecutorOptions options)
        : m_program(program), m_rank(RankId(communicator.rank())), m_comm(communicator), m_sink(sink), m_options(std::move(options))
    {
    }
    Status prepare(const graph::Graph &subject, const Feed &feed);
    Status prepareBodies(const graph::Graph &subject, const Feed &feed);
    Status prepareTasks();
    Status prepareGroups();

    [[nodiscard]] std::int64_t now() const; ///< nanoseconds since the common origin
    Status runStep();
    Status agreeOnStep(StepResult &result, bool &stop);
    void compute(std::int32_t task);
    void startReady(std::int32_t task);
    void startTransfers(std::int32_t task);
    void startCollective(std::int32_t task);
    Result<comm::Request> exchange(const LocalTask &task);
    Result<comm::Request> box(trace::Kind kind, comm::Group group, std::size_t members, const Communication &what);
    void collected(const LocalTask &task);
    Status scaleGradients();
    [[nodiscard]] double learningRate() const;
    bool poll();
    bool finished(std::int32_t task);
    void finish(std::int32_t task);
    void record(const LocalTask &task, std::int64_t end);
    void betweenOperators() override;
    bool communicate(std::int32_t op, const Communication &what) override;
    Status waitWhileIdle();
    [[nodiscard]] std::string whatWaits() const;

    Status agree(std::span<float> sums, std::string_view what);
    Result<Scores> scoreOnce(std::int64_t first);
    Status exchangeOnce(trace::Kind kind, std::int32_t body);

    const program::Program &m_program;
    RankId m_rank;
    comm::Communicator &m_comm;
    trace::Sink &m_sink;
    ExecutorOptions m_options;
    Arena m_arena;
    std::vector<std::unique_ptr<BodyRunner>> m_bodies;
    std::vector<comm::Group> m_groups; ///< per team
    std::vector<std::vector<std::int32_t>> m_boxingTasks; ///< per body and operator: a task that boxes it; -1: none
    std::size_t m_scoring = 0; ///< the body that is evaluated
    std::vector<program::Held> m_held;
    std::vector<LocalTask> m_tasks;
    std::vector<std::int32_t> m_order; ///< compute tasks
    TransferTable m_transfers;
    std::vector<comm::Request> m_requests; ///< per transfer
    std::vector<comm::Request> m_collectives; ///< per task
    std::vector<std::int64_t> m_stamps;

    // One step's progress; sized once.
    std::vector<std::int32_t> m_open;   ///< per task: dependencies that are not done
    std::vector<State> m_state;
    std::vector<std::int64_t> m_started;
    std::vector<std::int32_t> m_running; ///< communication under way
    std::size_t m_done = 0;
    std::int64_t m_laneEnd[program::kLanes] = {};
    Status m_failure;                   ///< the first error of a communication call

    std::int64_t m_origin = 0; ///< of the trace, on this process's clock
    std::int64_t m_step = 0;
    double m_gradientNorm = 0;
    double m_gradientScale = 1;
    bool m_scaled = false; ///< in this step
    std::int64_t m_agreedBytes = 0; ///< sent for anything but tasks
    std::int64_t m_stepsDone = 0;
    std::int64_t m_lastProgress = 0;
};

} // namespace planloom::runtime
