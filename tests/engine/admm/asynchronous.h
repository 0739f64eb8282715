// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/partial_barrier.h"
#include "tests/engine/admm/synchronous.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

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

inline Asynchronous::Asynchronous(Training training, PartialBarrier barrier)
    : m_training(std::move(training)),
      m_barrier(std::move(barrier)),
      m_pulled(m_training.workers.size(), m_training.parameters),
      m_slots(m_training.workers.size())
{
}

inline Result<Asynchronous> Asynchronous::of(const Settings &settings, const Parameters &parameters,
                                             const Samples &samples, int workers)
{
    auto training = Training::of(settings, parameters, samples, workers);
    if (!training)
        return training.error();
    if (settings.barrier > workers)
        return badInput(fmt::format("barrier is {}, and there are {} workers; it is at most their number",
                                    settings.barrier, workers));
    if (settings.subproblems != Subproblems::Exact)
        return unsupported(
            "the linearised form exchanges sums ten times an iteration and has no asynchronous mode; choose "
            "subproblems \"exact\"");
    return Asynchronous(*std::move(training), PartialBarrier(workers, settings.barrier, settings.delay));
}

inline Result<Asynchronous::Message> Asynchronous::work(int worker)
{
    Worker &own = m_training.workers[static_cast<std::size_t>(worker)];
    const Parameters &pulled = m_pulled[static_cast<std::size_t>(worker)];
    const Method &method = m_training.method;
    if (method.settings.restart)
        restart(own, pulled);
    updateOutput(own, pulled, method);
    if (const Status done = sweepBackward(own, pulled, method); !done)
        return done.error();
    if (const Status done = sweepForward(own, pulled, method); !done)
        return done.error();
    updateOutput(own, pulled, method);
    Message message{sumsIn(own, method), sumsOut(own, method)};
    updateDuals(own, pulled, method); // of what the worker has computed with, not of the newest version
    return message;
}

inline Status Asynchronous::solveVersion()
{
    Message sum = *m_slots.front();
    for (std::size_t k = 1; k < m_slots.size(); ++k) {
        sum.in += m_slots[k]->in;
        sum.out += m_slots[k]->out;
    }
    Parameters &parameters = m_training.parameters;
    auto in = solve(sum.in, m_training.method.settings, packedIn(parameters));
    if (!in)
        return in.error();
    auto out = solve(sum.out, m_training.method.settings, packedOut(parameters));
    if (!out)
        return out.error();
    unpackIn(*in, parameters);
    unpackOut(*out, parameters);
    return {};
}

inline Result<bool> Asynchronous::arrive(int worker)
{
    if (const Status arrived = m_barrier.arrive(worker); !arrived)
        return arrived.error();
    auto message = work(worker);
    if (!message)
        return message.error();
    m_slots[static_cast<std::size_t>(worker)] = *std::move(message);
    if (!m_barrier.mayAdvance())
        return false;
    if (const Status solved = solveVersion(); !solved)
        return solved.error();
    ++m_version;
    m_answered = m_barrier.advance();
    for (const int answered : m_answered)
        m_pulled[static_cast<std::size_t>(answered)] = m_training.parameters;
    return true;
}

} // namespace planloom::admm
