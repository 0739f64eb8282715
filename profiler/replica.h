// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/comm/communicator.h"
#include "executor/runtime/stage_replica.h"
#include "profiler/profile_model.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace planloom::profiler {

/// Synthetic samples for a model: their values do not change the times, as long as every index is in range; where sums
/// over samples are solved for, the ranks exchange them (Replica::exchangeBy).
class MadeUpData final : public data::DataSet {
public:
    explicit MadeUpData(const data::Needs &needs) : m_needs(needs) {}
    [[nodiscard]] std::int64_t samples() const override { return 1 << 20; }
    void fillInput(std::int64_t sample, void *out) const override;
    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override;
    [[nodiscard]] bool joinsBatches() const override;
    void fillBatch(std::span<const std::int64_t> samples, std::span<void *const> inputs) const override;
    void fillLabels(std::int64_t sample, std::int64_t *out) const override;

private:
    data::Needs m_needs;
};

/// Places of ids in the windows of tables that are exchanged by rows: spread over them. Nothing is exchanged here.
class MadeUpPlaces final : public runtime::RowPlaces {
public:
    /// @p program must outlive it.
    explicit MadeUpPlaces(const program::Program &program) : m_program(program) {}
    [[nodiscard]] std::int32_t tableOf(std::string_view input) const override;
    [[nodiscard]] const std::string &idsOf(std::int32_t table) const override;
    void enter(std::int64_t /*step*/) override {}
    void toPlaces(std::int32_t table, std::int64_t *ids, std::int64_t count) const override;

private:
    const program::Program &m_program;
};

/// Seconds of every operator of one pass, and of the whole pass; one entry per repetition.
struct PassTimes {
    std::vector<std::vector<double>> operators; ///< [operator of the pass][repetition]
    std::vector<double> whole;
};

/// What a replica's seconds are of.
enum class Stopwatch : std::uint8_t {
    Wall,   ///< time that passes
    Thread, ///< time that the thread computes: where other ranks share its core
};

/// One rank's stage as the executor holds it, with a stopwatch at every operator's end. Inputs from other stages have
/// whatever values the buffers hold. On a device that runs commands later, a wait at every operator's end would slow
/// all of them down: steps with such waits, which say how operators compare, take turns with steps that wait at the
/// ends of passes alone. Thread contract: one thread makes it, uses it, and has set the number of OpenMP threads
/// before.
class Replica final : private runtime::PassHooks {
public:
    /// The first body of rank @p rank of @p program, which is borrowed, as @p subject and the feed's data are. Of @p
    /// options, seed, optimizer and model folder count. Errors: those of kernels, initialisers and memory.
    static Result<std::unique_ptr<Replica>> create(const program::Program &program, RankId rank,
                                                   const graph::Graph &subject, const runtime::Feed &feed,
                                                   const ProfileOptions &options, device::Device &device,
                                                   Stopwatch stopwatch);
    /// From now on the steps' collectives inside passes are made, with the other ranks of @p program, each on a thread
    /// of its own, by @p end; @p ranks: those of @p end's ranks. For bodies whose times depend on values: a system that
    /// has no solution takes no time to solve. Error: those of makeGroup.
    Status exchangeBy(std::unique_ptr<comm::Communicator> end, const program::Program &program,
                      std::span<const RankId> ranks);
    /// Seconds of collectives since the last call.
    double takeExchangeSeconds() { return std::exchange(m_exchangeSeconds, 0); }

    /// A training step without its other communication: the passes in the rank's own order, so that each finds caches
    /// and memory as in a run, then the optimizer. Of many micro-batches some are done. @p record adds to the times of
    /// their sizes and of the optimizer. Two steps on a device that runs commands later. @p between is called before
    /// each segment but the first.
    void step(bool record, const std::function<void()> &between = {});
    /// Of a step; steps() says what they are.
    [[nodiscard]] std::size_t segments() const { return m_segmentSeconds.size(); }
    /// This rank's part of the last step's loss: not finite where something made no sense in it.
    [[nodiscard]] double loss() const { return m_loss; }
    /// The first error of a step: those of runtime::StageRunner::forward and of the device.
    [[nodiscard]] const Status &status() const { return m_status; }
    /// Recorded seconds of the segments of each step: what is computed from one collective inside a body, in which
    /// ranks wait for each other, to the next, and the optimizer with the last of them.
    [[nodiscard]] const std::vector<std::vector<double>> &steps() const { return m_steps; }
    /// The same with all that a rank computes in a step: recomputation, and what lies between the parts that are timed.
    [[nodiscard]] const std::vector<std::vector<double>> &computed() const { return m_computed; }
    /// Seconds of the optimizer's steps.
    [[nodiscard]] const std::vector<double> &optimizer() const { return m_optimizer; }
    /// By samples of the slice.
    [[nodiscard]] const std::map<std::int64_t, PassTimes> &forward() const { return m_forward; }
    [[nodiscard]] const std::map<std::int64_t, PassTimes> &backward() const { return m_backward; }
    [[nodiscard]] const program::Body &body() const { return *m_bodyMade; }
    /// Sizes of the slices that come by, larger than nothing.
    [[nodiscard]] std::size_t sizes() const { return m_sizes; }
    /// Parameters that the optimizer updates.
    [[nodiscard]] std::int64_t updated() const;

private:
    /// A collective that a task of the step waits for.
    struct Inside {
        program::Task task;
        std::size_t members = 0;
        std::size_t at = 0; ///< among them
    };
    Replica(const runtime::Feed &feed, const program::Body &body, const plan::Optimizer &optimizer, Stopwatch stopwatch)
        : m_feed(feed),
          m_bodyMade(&body),
          m_how(optimizer),
          m_stopwatch(stopwatch)
    {
    }
    /// Which times a step records.
    struct Recorded {
        bool operators = false; ///< of each
        bool passes = false;    ///< of whole passes, the optimizer and the step
    };
    void chooseTasks(const program::Program &program, const program::Rank &rank);
    Status measureWaits();
    void oneStep(Recorded recorded, const std::function<void()> &between);
    void run(std::size_t task, Recorded recorded);
    void meetOthers(std::size_t task, const std::function<void()> &between);
    Status exchangeBefore(std::size_t task);
    void wait();
    [[nodiscard]] std::int64_t nanoseconds() const;
    void betweenOperators() override;
    [[nodiscard]] bool seesEachOperator() const override { return m_waitsForEach; }
    void noteOperators(const program::Task &task, std::int64_t begin);
    void notePass(std::size_t task, std::int64_t nanoseconds);
    PassTimes &timesOf(const program::Task &task);

    runtime::Feed m_feed;
    const program::Body *m_bodyMade;
    runtime::Arena m_arena;
    std::unique_ptr<device::Queue> m_queue;
    runtime::UpdateNorms m_norms;
    std::optional<runtime::StageReplica> m_stage;
    plan::Optimizer m_how;
    Stopwatch m_stopwatch;
    bool m_runsLater = false; ///< the device's commands end after the calls
    bool m_waitsForEach = false;
    std::unique_ptr<device::Event> m_event; ///< for waits
    double m_waitSeconds = 0;               ///< of a wait for a queue that has nothing to do
    std::vector<program::Task> m_tasks;     ///< of a step
    std::vector<std::size_t> m_segments;    ///< of the tasks
    std::size_t m_sizes = 0;
    std::unique_ptr<comm::Communicator> m_comm;
    std::vector<comm::Group> m_groups;         ///< per team
    std::vector<std::vector<Inside>> m_before; ///< per task, what it waits for
    double m_exchangeSeconds = 0;
    double m_loss = 0;
    Status m_status;
    std::vector<std::int64_t> m_ends; ///< of the operators of the task at hand
    double m_passSeconds[2] = {};     ///< of the forward and the backward pass at hand, so far
    std::vector<double> m_optimizer;
    std::vector<std::vector<double>> m_steps;
    std::vector<double> m_segmentSeconds; ///< of the step at hand
    std::vector<std::vector<double>> m_computed;
    std::map<std::int64_t, PassTimes> m_forward;
    std::map<std::int64_t, PassTimes> m_backward;
    std::int64_t m_step = 0;
};

} // namespace planloom::profiler
