// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/partial_barrier.h"
#include "engine/admm/synchronous.h"

#include <optional>

namespace planloom::admm {

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
