// SPDX-License-Identifier: Apache-2.0
#include "profiler/measurement.h"

#include "engine/base/statistics.h"
#include "executor/runtime/affinity.h"
#include "profiler/rank_threads.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace planloom::profiler {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFewestRepetitions = 3;
constexpr int kMostRepetitions = 300;
constexpr int kAlone = 3; ///< steps while the others are idle

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Seconds of all passes of @p pass in one of @p steps, by their medians.
double sumOfMedians(const RankTimes::BySamples &pass, std::size_t steps)
{
    double sum = 0;
    for (const auto &[samples, times] : pass)
        sum += median(times.whole) * static_cast<double>(times.whole.size()) / static_cast<double>(steps);
    return sum;
}

} // namespace

Measurement::Measurement(const program::Program &program, std::vector<RankId> ranks, const graph::Graph &subject,
                         const data::Needs &needs, const ProfileOptions &options, device::Device &device)
    : m_program(program),
      m_rankOf(std::move(ranks)),
      m_subject(subject),
      m_needs(needs),
      m_options(options),
      m_device(device),
      m_data(needs),
      m_places(program),
      m_times(m_rankOf.size()),
      m_cores(static_cast<int>(m_rankOf.size()))
{
    if (!device.hostAddressable() || m_cores <= runtime::coresHere())
        return;
    m_cores = runtime::coresHere();
    m_stopwatch = Stopwatch::Thread;
}

Status Measurement::run(const std::function<bool()> &stopped)
{
    RankThreads::run(static_cast<int>(m_rankOf.size()), m_options.threads,
                     [&](int thread, RankThreads &all) { measure(static_cast<std::size_t>(thread), all, stopped); });
    for (const RankTimes &times : m_times) {
        if (!times.status)
            return times.status;
    }
    return m_stopped ? Status(cancelled()) : Status();
}

void Measurement::measure(std::size_t thread, RankThreads &all, const std::function<bool()> &stopped)
{
    RankTimes &times = m_times[thread];
    auto replica =
        Replica::create(m_program, m_rankOf[thread], m_subject,
                        {&m_data, m_needs, data::SampleOrder(m_data.samples(), m_options.seed, 0), nullptr, &m_places},
                        m_options, m_device, m_stopwatch);
    if (!replica) {
        times.status = replica.error();
        all.leave();
    }
    if (!all.sync())
        return;
    Replica &own = **replica;
    own.step(false); // runs the first-time setup of kernels, and touches the memory
    if (!all.sync())
        return;
    passes(own, times, thread == 0, stopped);
    times.status = own.status();
    times.body = &own.body();
    times.forward = own.forward();
    times.backward = own.backward();
    times.optimizer = own.optimizer();
    times.updated = own.updated();
    times.steps = own.steps();
    times.core = static_cast<int>(thread) % m_cores;
    if (!all.sync() || m_rankOf.size() < 2 || m_stopped)
        return;
    std::vector<double> alone;
    for (int i = 0; i < kAlone && thread == 0; ++i)
        alone.push_back(timed(own, false));
    times.alone = median(std::move(alone));
    all.sync();
}

void Measurement::passes(Replica &replica, RankTimes &times, bool first, const std::function<bool()> &stopped)
{
    const auto begin = Clock::now();
    const double longEnough = m_options.seconds * static_cast<double>(std::max<std::size_t>(replica.sizes(), 1));
    std::vector<double> rounds;
    for (int done = 0; !m_enough || done < kFewestRepetitions; ++done) {
        const bool often = m_options.repetitions > 0
            ? done >= m_options.repetitions
            : done >= kMostRepetitions || (done >= kFewestRepetitions && secondsSince(begin) > longEnough);
        if (first && stopped())
            m_stopped = true;
        if (m_stopped || (first && often)) {
            m_enough = true;
            break;
        }
        rounds.push_back(timed(replica, true));
    }
    times.busy = median(std::move(rounds));
}

double Measurement::timed(Replica &replica, bool record)
{
    const auto begin = Clock::now();
    replica.step(record);
    return secondsSince(begin);
}

double partsOf(const RankTimes &rank)
{
    const std::size_t steps = rank.steps.size();
    return steps > 0 ? sumOfMedians(rank.forward, steps) + sumOfMedians(rank.backward, steps) + median(rank.optimizer)
                     : 0;
}

double skewOf(const std::vector<RankTimes> &ranks, const std::vector<double> &expected)
{
    struct Core {
        double expected = 0;
        std::vector<double> steps; ///< of all its ranks
    };
    std::map<int, Core> cores;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        const std::vector<double> &steps = ranks[r].steps;
        if (!(expected[r] > 0) || steps.empty())
            continue; // nothing comes by here
        Core &core = cores[ranks[r].core];
        core.expected += expected[r];
        core.steps.resize(core.steps.empty() ? steps.size() : std::min(core.steps.size(), steps.size()), 0);
        for (std::size_t i = 0; i < core.steps.size(); ++i)
            core.steps[i] += steps[i];
    }
    std::vector<double> slowest; // of all cores, per step
    for (const auto &[index, core] : cores) {
        slowest.resize(slowest.empty() ? core.steps.size() : std::min(slowest.size(), core.steps.size()), 0);
        for (std::size_t i = 0; i < slowest.size(); ++i)
            slowest[i] = std::max(slowest[i], core.steps[i] / core.expected);
    }
    return std::max(median(std::move(slowest)), 1.0);
}

std::vector<double> medianOperators(const std::vector<RankTimes> &ranks, RankTimes::BySamples RankTimes::*pass,
                                    std::int64_t samples)
{
    std::vector<double> whole;
    std::vector<std::vector<double>> each;
    for (const RankTimes &rank : ranks) {
        const auto measured = (rank.*pass).find(samples);
        if (measured == (rank.*pass).end())
            continue;
        const PassTimes &times = measured->second;
        whole.insert(whole.end(), times.whole.begin(), times.whole.end());
        each.resize(std::max(each.size(), times.operators.size()));
        for (std::size_t i = 0; i < times.operators.size(); ++i)
            each[i].insert(each[i].end(), times.operators[i].begin(), times.operators[i].end());
    }
    std::vector<double> operators;
    for (std::vector<double> &values : each)
        operators.push_back(median(std::move(values)));
    const double sum = std::accumulate(operators.begin(), operators.end(), 0.0);
    for (double &seconds : operators)
        seconds *= sum > 0 ? median(whole) / sum : 1;
    return operators;
}

} // namespace planloom::profiler
