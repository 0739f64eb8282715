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

using Segments = std::vector<std::vector<double>>; ///< seconds, [step][segment]

/// What ranks of a core take one after the other, of as many steps as each of them has.
void addUp(Segments &all, const Segments &rank, std::size_t segments)
{
    all.resize(all.empty() ? rank.size() : std::min(all.size(), rank.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].resize(segments, 0);
        for (std::size_t k = 0; k < rank[i].size(); ++k)
            all[i][std::min(k, segments - 1)] += rank[i][k];
    }
}

/// All ranks of a core, one after the other.
struct Core {
    double expected = 0;
    Segments steps;
    Segments computed;         ///< with what is not timed
    std::vector<double> parts; ///< of each segment in a step, by medians; all together 1

    void findParts(std::size_t segments)
    {
        for (std::size_t k = 0; k < segments; ++k) {
            std::vector<double> seconds;
            for (const std::vector<double> &step : steps)
                seconds.push_back(step[k]);
            parts.push_back(median(std::move(seconds)));
        }
        const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
        for (double &part : parts)
            part = all > 0 ? part / all : 0;
    }
};

/// Of a step that took @p busy seconds, those in which no core computed: while they changed from rank to rank.
double changesOf(const std::map<int, Core> &cores, std::size_t segments, double busy)
{
    std::size_t steps = cores.begin()->second.computed.size();
    for (const auto &[index, core] : cores)
        steps = std::min(steps, core.computed.size());
    std::vector<double> computed(steps, 0);
    for (std::size_t i = 0; i < steps; ++i) {
        for (std::size_t k = 0; k < segments; ++k) {
            double longest = 0;
            for (const auto &[index, core] : cores)
                longest = std::max(longest, core.computed[i][k]);
            computed[i] += longest;
        }
    }
    return computed.empty() ? 0 : std::max(busy - median(std::move(computed)), 0.0);
}

/// Of a step of all ranks; 1 where they do not have equally many.
std::size_t segmentsOf(const std::vector<RankTimes> &ranks)
{
    std::size_t segments = 0;
    for (const RankTimes &rank : ranks) {
        if (rank.steps.empty())
            continue;
        const std::size_t own = rank.steps.front().size();
        segments = segments == 0 || segments == own ? own : 1;
    }
    return std::max<std::size_t>(segments, 1);
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
    if (device.hostAddressable() && m_rankOf.size() == program.ranks.size() && m_rankOf.size() > 1 && solvesSystems())
        m_group.emplace(static_cast<int>(m_rankOf.size()));
    if (!device.hostAddressable() || m_cores <= runtime::coresHere())
        return;
    m_cores = runtime::coresHere();
    m_stopwatch = Stopwatch::Thread;
}

/// Whether how long an operator takes depends on values that come from other ranks.
bool Measurement::solvesSystems() const
{
    return std::ranges::any_of(m_program.bodies, [](const program::Body &body) {
        return std::ranges::any_of(body.training.graph.ops(),
                                   [](const graph::Op &op) { return op.type == "CholeskySolve"; });
    });
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
    auto replica = Replica::create(m_program, m_rankOf[thread], m_subject,
                                   {&m_data, m_needs, data::SampleOrder(m_data.samples(), m_options.seed, 0), nullptr,
                                    m_program.tables.empty() ? nullptr : &m_places},
                                   m_options, m_device, m_stopwatch);
    if (!replica) {
        times.status = replica.error();
        all.leave();
    }
    if (!all.sync())
        return;
    Replica &own = **replica;
    times.steps.assign(1, std::vector<double>(own.segments()));
    if (!all.sync())
        return;
    times.inStep = (m_cores < all.ranks() || m_group) && own.segments() > 1 && segmentsOf(m_times) == own.segments();
    times.apart = m_cores == all.ranks();
    if (times.inStep && m_group)
        times.status = own.exchangeBy(m_group->end(static_cast<int>(thread)), m_program, m_rankOf);
    if (!times.status)
        all.leave();
    if (!all.sync())
        return;
    own.step(false, betweenSegments(times, all)); // runs the first-time setup of kernels, and touches the memory
    own.takeExchangeSeconds();
    if (!all.sync())
        return;
    passes(own, times, all, thread == 0, stopped);
    times.status = own.status();
    times.body = &own.body();
    times.forward = own.forward();
    times.backward = own.backward();
    times.optimizer = own.optimizer();
    times.updated = own.updated();
    times.steps = own.steps();
    times.computed = own.computed();
    times.loss = own.loss();
    times.core = static_cast<int>(thread) % m_cores;
    if (!all.sync() || m_rankOf.size() < 2 || m_stopped || m_group) // alone it has no sums of others
        return;
    std::vector<double> alone;
    for (int i = 0; i < kAlone && thread == 0; ++i)
        alone.push_back(timed(own, false, {}));
    times.alone = median(std::move(alone));
    all.sync();
}

std::function<void()> Measurement::betweenSegments(const RankTimes &times, RankThreads &all)
{
    return times.inStep ? std::function<void()>([&all] { all.sync(); }) : nullptr;
}

void Measurement::passes(Replica &replica, RankTimes &times, RankThreads &all, bool first,
                         const std::function<bool()> &stopped)
{
    const auto begin = Clock::now();
    const double longEnough = m_options.seconds * static_cast<double>(std::max<std::size_t>(replica.sizes(), 1));
    const auto often = [&](int done) {
        return m_options.repetitions > 0
            ? done >= m_options.repetitions
            : done >= kMostRepetitions || (done >= kFewestRepetitions && secondsSince(begin) > longEnough);
    };
    const std::function<void()> between = betweenSegments(times, all);
    std::vector<double> rounds;
    for (int done = 0;; ++done) {
        if (first && stopped())
            m_stopped = true;
        if (first && (m_stopped || often(done)))
            m_enough = true;
        if (times.inStep)
            all.sync(); // the others see what the first has decided
        if (m_stopped || (m_enough && (first || times.inStep || done >= kFewestRepetitions)))
            break;
        rounds.push_back(timed(replica, true, between));
    }
    times.busy = median(std::move(rounds));
}

double Measurement::timed(Replica &replica, bool record, const std::function<void()> &between)
{
    const auto begin = Clock::now();
    replica.step(record, between);
    return secondsSince(begin) - replica.takeExchangeSeconds();
}

double partsOf(const RankTimes &rank)
{
    const std::size_t steps = rank.steps.size();
    return steps > 0 ? sumOfMedians(rank.forward, steps) + sumOfMedians(rank.backward, steps) + median(rank.optimizer)
                     : 0;
}

double skewOf(const std::vector<RankTimes> &ranks, const std::vector<double> &expected)
{
    const std::size_t segments = segmentsOf(ranks);
    std::map<int, Core> cores;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (expected[r] > 0 && !ranks[r].steps.empty()) { // else nothing comes by here
            Core &core = cores[ranks[r].core];
            core.expected += expected[r];
            addUp(core.steps, ranks[r].steps, segments);
            addUp(core.computed, ranks[r].computed, segments);
        }
    }
    if (cores.empty())
        return 1;
    double expectedOfCore = 0;
    std::size_t steps = cores.begin()->second.steps.size();
    for (auto &[index, core] : cores) {
        core.findParts(segments);
        expectedOfCore += core.expected / static_cast<double>(cores.size());
        steps = std::min(steps, core.steps.size());
    }
    std::vector<double> slowest(steps, 0); // each segment on the core that takes longest for it, of what is expected
    for (std::size_t k = 0; k < segments; ++k) {
        double part = 0;
        for (const auto &[index, core] : cores)
            part += core.parts[k] / static_cast<double>(cores.size());
        for (std::size_t i = 0; i < steps; ++i) {
            double latest = 0;
            for (const auto &[index, core] : cores) {
                const double own = core.parts[k] * core.expected;
                latest = std::max(latest, own > 0 ? core.steps[i][k] / own : 0);
            }
            slowest[i] += latest * part;
        }
    }
    const auto waited = std::ranges::find_if(ranks, &RankTimes::inStep);
    const bool changed = waited != ranks.end() && !waited->apart;
    const double changes = changed ? changesOf(cores, segments, waited->busy) : 0;
    return std::max(median(std::move(slowest)) + changes / expectedOfCore, 1.0);
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
