// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/sums.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <string>

namespace planloom::admm {

/// A training in progress. Samples are split over the workers; with one of them this is the algorithm without
/// parallelism.
struct Training {
    Method method;
    Parameters parameters;
    std::vector<Worker> workers;

    /// Splits the samples into @p workers runs of nearly equal length. Errors: as Method::of(); BadInput, fewer samples
    /// than workers.
    static Result<Training> of(const Settings &settings, const Parameters &parameters, const Samples &samples,
                               int workers);
};

/// Told the block after each update: "o", "c", "V", "h3" (of step 3, from 1), "a3", "b", "W", "U", "VC", "UWB",
/// "duals".
using AfterUpdate = std::function<void(const std::string &block)>;

/// One iteration: restart, backward, forward, duals. SP-ADMMiRNN where there are several workers: all sums are
/// exchanged, three times in the exact form, ten times in the linearised one. Error: BadInput, a system without a
/// Cholesky factor.
inline Status iterate(Training &training, const AfterUpdate &after = {});

/// The parts of an iteration that lie between two exchanges; what an asynchronous worker does.
inline Status sweepBackward(Worker &worker, const Parameters &parameters, const Method &method,
                            const AfterUpdate &after = {});
inline Status sweepForward(Worker &worker, const Parameters &parameters, const Method &method,
                           const AfterUpdate &after = {});

namespace synchronous {

inline void tell(const AfterUpdate &after, const std::string &block)
{
    if (after)
        after(block);
}

inline std::string blockName(char letter, int step) { return fmt::format("{}{}", letter, step + 1); }

inline void outputs(Training &training, const AfterUpdate &after)
{
    for (Worker &worker : training.workers)
        updateOutput(worker, training.parameters, training.method);
    tell(after, "o");
}

template <class Add>
auto summed(const std::vector<Worker> &workers, Add &&of)
{
    auto sum = of(workers.front());
    for (std::size_t k = 1; k < workers.size(); ++k)
        sum += of(workers[k]);
    return sum;
}

/// One shared block after another, each with the others' new values.
inline void stepShared(Training &training, std::initializer_list<std::pair<Shared, const char *>> blocks,
                       const AfterUpdate &after)
{
    for (const auto &[block, name] : blocks) {
        const Step step = summed(training.workers, [&, each = block](const Worker &worker) {
            return stepOf(each, worker, training.parameters, training.method);
        });
        takeStep(block, step, training.method.settings, training.parameters);
        tell(after, name);
    }
}

inline Status solveOut(Training &training, const AfterUpdate &after)
{
    const Sums sums = summed(training.workers, [&](const Worker &worker) { return sumsOut(worker, training.method); });
    Settings settings = training.method.settings;
    settings.proximal = 0; // of versions, which the synchronous form has not
    auto packed = solve(sums, settings, packedOut(training.parameters));
    if (!packed)
        return packed.error();
    unpackOut(*packed, training.parameters);
    tell(after, "VC");
    return {};
}

inline Status solveIn(Training &training, const AfterUpdate &after)
{
    const Sums sums = summed(training.workers, [&](const Worker &worker) { return sumsIn(worker, training.method); });
    Settings settings = training.method.settings;
    settings.proximal = 0;
    auto packed = solve(sums, settings, packedIn(training.parameters));
    if (!packed)
        return packed.error();
    unpackIn(*packed, training.parameters);
    tell(after, "UWB");
    return {};
}

using Sweep = Status (*)(Worker &, const Parameters &, const Method &, const AfterUpdate &);

inline Status sweepAll(Training &training, Sweep sweep, const AfterUpdate &after)
{
    // Updates are told when all workers have made them: with several, at the end.
    const bool single = training.workers.size() == 1;
    for (Worker &worker : training.workers)
        if (const Status done = sweep(worker, training.parameters, training.method, single ? after : AfterUpdate());
            !done)
            return done;
    if (!single)
        tell(after, "sweep");
    return {};
}

inline Status iterateExact(Training &training, const AfterUpdate &after)
{
    outputs(training, after);
    if (const Status done = solveOut(training, after); !done)
        return done;
    if (const Status done = sweepAll(training, sweepBackward, after); !done)
        return done;
    if (const Status done = solveIn(training, after); !done)
        return done;
    if (const Status done = sweepAll(training, sweepForward, after); !done)
        return done;
    if (const Status done = solveOut(training, after); !done)
        return done;
    outputs(training, after);
    return {};
}

inline Status iterateLinearised(Training &training, const AfterUpdate &after)
{
    outputs(training, after);
    stepShared(training, {{Shared::C, "c"}, {Shared::V, "V"}}, after);
    if (const Status done = sweepAll(training, sweepBackward, after); !done)
        return done;
    stepShared(training, {{Shared::B, "b"}, {Shared::W, "W"}, {Shared::U, "U"}}, after);
    stepShared(training, {{Shared::U, "U"}, {Shared::W, "W"}, {Shared::B, "b"}}, after);
    if (const Status done = sweepAll(training, sweepForward, after); !done)
        return done;
    stepShared(training, {{Shared::V, "V"}, {Shared::C, "c"}}, after);
    outputs(training, after);
    return {};
}

} // namespace synchronous

inline Result<Training> Training::of(const Settings &settings, const Parameters &parameters, const Samples &samples,
                                     int workers)
{
    auto method = Method::of(settings, samples.steps());
    if (!method)
        return method.error();
    const Eigen::Index count = samples.count();
    if (workers < 1 || count < workers)
        return badInput(fmt::format("{} samples cannot be split over {} workers; use fewer workers", count, workers));
    Training training{*std::move(method), parameters, {}};
    for (int k = 0; k < workers; ++k) {
        const Eigen::Index first = count * k / workers;
        training.workers.emplace_back(samples.slice(first, count * (k + 1) / workers - first), parameters);
    }
    if (!settings.restart) // else every iteration begins so
        for (Worker &worker : training.workers)
            restart(worker, parameters);
    return training;
}

inline Status iterate(Training &training, const AfterUpdate &after)
{
    if (training.method.settings.restart)
        for (Worker &worker : training.workers)
            restart(worker, training.parameters);
    const bool exact = training.method.settings.subproblems == Subproblems::Exact;
    if (const Status done =
            exact ? synchronous::iterateExact(training, after) : synchronous::iterateLinearised(training, after);
        !done)
        return done;
    for (Worker &worker : training.workers)
        updateDuals(worker, training.parameters, training.method);
    synchronous::tell(after, "duals");
    return {};
}

inline Status sweepBackward(Worker &worker, const Parameters &parameters, const Method &method,
                            const AfterUpdate &after)
{
    const int last = worker.samples.steps() - 1;
    const bool interleaved = method.settings.order == Order::Interleaved;
    for (int t = last; t >= 0; --t) {
        if (const Status done = updateHidden(worker, parameters, method, t); !done)
            return done;
        synchronous::tell(after, synchronous::blockName('h', t));
        if (!interleaved)
            continue;
        updateInput(worker, parameters, method, t);
        synchronous::tell(after, synchronous::blockName('a', t));
    }
    for (int t = last; !interleaved && t >= 0; --t) {
        updateInput(worker, parameters, method, t);
        synchronous::tell(after, synchronous::blockName('a', t));
    }
    return {};
}

inline Status sweepForward(Worker &worker, const Parameters &parameters, const Method &method, const AfterUpdate &after)
{
    const int steps = worker.samples.steps();
    const bool interleaved = method.settings.order == Order::Interleaved;
    for (int t = 0; !interleaved && t < steps; ++t) {
        updateInput(worker, parameters, method, t);
        synchronous::tell(after, synchronous::blockName('a', t));
    }
    for (int t = 0; t < steps; ++t) {
        if (interleaved) {
            updateInput(worker, parameters, method, t);
            synchronous::tell(after, synchronous::blockName('a', t));
        }
        if (const Status done = updateHidden(worker, parameters, method, t); !done)
            return done;
        synchronous::tell(after, synchronous::blockName('h', t));
    }
    return {};
}

} // namespace planloom::admm
