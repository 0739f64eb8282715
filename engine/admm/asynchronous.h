// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/synchronous.h"

#include <optional>

namespace planloom::admm {

/// When a parameter server may make a new version of the parameters (partial barrier and bounded delay, Zhang and Kwok,
/// ICML 2014): every worker has been heard once, `barrier` of them since the last version, and no other worker is
/// `delay` versions late.
class PartialBarrier {
public:
    PartialBarrier(int workers, int barrier, int delay);

    /// Error: BadInput, no such worker, or it has arrived already and waits for its answer.
    Status arrive(int worker);
    [[nodiscard]] bool mayAdvance() const;
    /// Starts the next version; the workers that are answered, in order. Only if mayAdvance().
    std::vector<int> advance();
    /// Workers that the next version waits for and that have not arrived: never heard, or `delay` versions late.
    [[nodiscard]] std::vector<int> waitedFor() const;
    /// By worker: versions since it was last answered.
    [[nodiscard]] const std::vector<int> &ages() const { return m_ages; }

private:
    int m_barrier;
    int m_delay;
    std::vector<int> m_ages;
    std::vector<bool> m_heard;   ///< ever
    std::vector<bool> m_arrived; ///< since the last version
};

/// AP-ADMMiRNN, run again from the order in which workers arrived at the server. A worker's message takes the place of
/// its last one, so that a late message harms nothing. Deterministic: equal arrivals give equal bits.
class Asynchronous {
public:
    /// Workers begin with the given parameters. Errors: as Training::of(); BadInput, a barrier of more than all
    /// workers.
    static Result<Asynchronous> of(const Settings &settings, const Parameters &parameters, const Samples &samples,
                                   int workers);

    /// @p worker computes with the parameters that it was last given and arrives. Returns whether that made a new
    /// version. Errors: as PartialBarrier::arrive() and solve().
    Result<bool> arrive(int worker);

    [[nodiscard]] const Parameters &parameters() const { return m_training.parameters; }
    [[nodiscard]] int version() const { return m_version; }
    /// The workers that the newest version was given to; they compute with it.
    [[nodiscard]] const std::vector<int> &answered() const { return m_answered; }
    [[nodiscard]] const PartialBarrier &barrier() const { return m_barrier; }

private:
    struct Message {
        Sums in, out;
    };
    Asynchronous(Training training, PartialBarrier barrier);
    Result<Message> work(int worker);
    Status solveVersion();

    Training m_training;
    PartialBarrier m_barrier;
    std::vector<Parameters> m_pulled;            ///< by worker
    std::vector<std::optional<Message>> m_slots; ///< by worker: its last message
    std::vector<int> m_answered;
    int m_version = 0;
};

} // namespace planloom::admm
