// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/manifest.h"
#include "executor/checkpoint/shard.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace planloom::checkpoint {

/// Where and how checkpoints are written.
struct WriterOptions {
    std::string runDir; ///< the same folder on all ranks
    int rank = 0;
    int world = 1;
    std::int64_t lease = 0; ///< epoch of the worker group's lease, on all ranks
    int keep = 2;           ///< newest checkpoints that stay; 0: all
    /// On rank 0's writing thread, before a checkpoint of @p step exists: stores other data that must be durable by
    /// then. May take its time, until
    /// @p giveUp. Where it fails there is no checkpoint.
    std::function<Status(std::int64_t step, const std::stop_token &giveUp)> beforePublish = {};
};

/// A rank's contribution to the sum over all ranks after each step. Whole numbers, so that sums are exact.
struct Votes {
    float ready = 0;
    float failures = 0;
};

/// Writes checkpoints while training goes on. The ranks agree without waiting for a disk: at each step boundary every
/// rank gives its votes(), the runtime sums them over all ranks (together with the loss), and every rank calls agree()
/// with the sums. Because all see the same sums in the same order, all are in the same phase at every boundary:
///
///     Idle --begin()--> Writing --all ready--> Publishing --rank 0 ready--> Idle (Published)
///                          \------ any failure ------\-> Discarding --all ready--> Idle (Failed)
///
/// begin() only copies (that is the stall), and writes what no memory has (Piece::read); a thread of each rank writes
/// the rest of its shard, and rank 0's then publishes. While a checkpoint is in the making idle() is false and the next
/// one has to wait for a later boundary. Thread contract: one thread; it starts its own writing thread.
class CheckpointWriter {
public:
    /// Allocates a copy of this rank's pieces, whose data must stay in place. Rank 0 also removes unfinished folders of
    /// earlier worker groups. Errors: those of Shard::create, Io.
    static Result<std::unique_ptr<CheckpointWriter>> create(std::vector<Piece> pieces, WriterOptions options);
    CheckpointWriter(const CheckpointWriter &) = delete;
    CheckpointWriter &operator=(const CheckpointWriter &) = delete;
    /// Gives up the checkpoint in progress.
    ~CheckpointWriter();

    /// The same on all ranks at the same boundary.
    [[nodiscard]] bool idle() const { return m_phase == Phase::Idle; }
    /// Copies the pieces and starts writing them. Only while idle(), on all ranks at the same boundary.
    void begin(const TrainingState &state);

    [[nodiscard]] Votes votes() const;
    enum class Outcome : std::uint8_t { Nothing, Published, Failed };
    /// @p sums of all ranks' votes. Published or Failed is returned once per checkpoint, on all ranks at the same
    /// boundary.
    Outcome agree(Votes sums);

    /// The step of the checkpoint that is in the making or was agreed upon last.
    [[nodiscard]] std::int64_t step() const { return m_head.state.step; }
    /// Why this rank failed; empty if it did not (another rank knows then).
    [[nodiscard]] std::string failure() const;
    [[nodiscard]] std::int64_t bytes() const { return m_shard->bytes(); }
    /// Seconds for which the last begin() kept training waiting, and the writing took on this rank.
    [[nodiscard]] double stallSeconds() const { return m_stallSeconds; }
    [[nodiscard]] double writeSeconds() const;

private:
    enum class Phase : std::uint8_t { Idle, Writing, Publishing, Discarding };
    enum class Job : std::uint8_t { None, Write, Publish, Discard };

    explicit CheckpointWriter(WriterOptions options)
        : m_options(std::move(options)),
          m_lease(Lease::of(m_options.runDir, m_options.lease))
    {
    }
    void start(Job job);
    void work(const std::stop_token &stop);
    Status perform(Job job, const std::stop_token &stop);
    [[nodiscard]] std::string folder() const;

    const WriterOptions m_options;
    const Lease m_lease;
    std::unique_ptr<Shard> m_shard;
    Manifest m_head; ///< changed by begin() only, while the thread has nothing to do
    Phase m_phase = Phase::Idle;
    double m_stallSeconds = 0;

    mutable std::mutex m_mutex; ///< guards the members below
    std::condition_variable_any m_wake;
    std::vector<Job> m_jobs; ///< first is the one at hand
    std::optional<Error> m_error;
    double m_writeSeconds = 0;
    std::stop_source m_giveUp; ///< of the writing at hand
    std::jthread m_thread;     ///< last: it ends before anything that it uses
};

} // namespace planloom::checkpoint
