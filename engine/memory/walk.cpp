// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/walk.h"

#include "engine/memory/replay.h"
#include "engine/memory/staying.h"
#include "engine/memory/walker.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace planloom::memory {

std::vector<std::int64_t> Stream::aliveBytes() const
{
    std::vector<std::int64_t> alive;
    alive.reserve(operators.size());
    std::vector<bool> came(storages.size(), false); // hosted ones
    std::int64_t now = 0;
    for (const Operator &op : operators) {
        for (const std::int32_t input : op.inputs) {
            const auto i = static_cast<std::size_t>(input);
            if (storages[i].hosted && !came[i]) {
                came[i] = true;
                now += storages[i].bytes;
            }
        }
        for (const std::int32_t output : op.outputs)
            now += storages[static_cast<std::size_t>(output)].bytes;
        alive.push_back(now);
        for (const std::int32_t dead : op.dies)
            now -= storages[static_cast<std::size_t>(dead)].bytes;
    }
    return alive;
}

std::int64_t Stream::peakBytes() const
{
    std::int64_t most = 0;
    for (const std::int64_t alive : aliveBytes())
        most = std::max(most, alive);
    return most;
}

double Stream::seconds() const
{
    double sum = 0;
    for (const Operator &op : operators)
        sum += op.seconds;
    return sum;
}

Limits limitsOf(const plan::Memory &policy, const Stream &stream, double bandwidth)
{
    Limits limits;
    limits.policy = policy;
    limits.budget = policy.budgetBytes > 0
        ? policy.budgetBytes
        : static_cast<std::int64_t>(std::floor(static_cast<double>(stream.peakBytes()) * policy.budgetShare));
    limits.copies.bandwidthOut = policy.bandwidthOut > 0 ? policy.bandwidthOut : bandwidth;
    limits.copies.bandwidthIn = policy.bandwidthIn > 0 ? policy.bandwidthIn : bandwidth;
    limits.copies.latency = policy.latency;
    limits.fixedPool = policy.limits() && policy.trigger == plan::MemoryTrigger::Before;
    return limits;
}

namespace {

using NameOf = std::function<std::string(std::int32_t)>;

/// The fastest of the courses that it is offered: by their own clock, or @p replays them; the first of equal ones, or
/// the first error.
class Fastest {
public:
    Fastest(const Stream &stream, const Limits &limits, bool replays)
        : m_stream(stream),
          m_limits(limits),
          m_replays(replays)
    {
    }

    void offer(Result<Course> course)
    {
        const double seconds = course ? secondsOf(*course) : 0;
        if (m_best && (!course || (*m_best && seconds >= m_seconds)))
            return;
        m_best = std::move(course);
        m_seconds = seconds;
    }
    [[nodiscard]] Result<Course> take() { return *std::move(m_best); }

private:
    [[nodiscard]] double secondsOf(const Course &course) const
    {
        return m_replays ? replaySeconds(course, m_stream, m_limits.copies) : course.seconds;
    }

    const Stream &m_stream;
    const Limits &m_limits;
    bool m_replays;
    std::optional<Result<Course>> m_best;
    double m_seconds = 0;
};

/// What leaves by plan makes room for less than it has bytes, as copies take time and what is made again takes room:
/// several courses that free more and more.
template <class Choose>
void offerPlanned(Fastest &fastest, const Stream &stream, const Limits &limits, const NameOf &nameOf,
                  const Choose &choose)
{
    const std::int64_t over = std::max<std::int64_t>(0, stream.peakBytes() - limits.budget);
    fastest.offer(Walker(stream, limits, nameOf).run());
    for (const double more : {1.0, 1.1, 1.25, 1.5}) {
        const std::vector<Release> releases =
            choose(static_cast<std::int64_t>(std::ceil(static_cast<double>(over) * more)));
        fastest.offer(Walker(stream, limits, nameOf).run(releases));
    }
}

/// Knapsacks with dear and cheap copies.
void offerKnapsacks(Fastest &fastest, const Stream &stream, const Limits &limits, const NameOf &nameOf)
{
    for (const double traffic : {0.0, 0.25, 1.0})
        offerPlanned(fastest, stream, limits, nameOf,
                     [&](std::int64_t need) { return knapsackReleases(stream, limits, need, traffic); });
}

/// What decides step by step.
void offerFilters(Fastest &fastest, const Stream &stream, const Limits &limits, const NameOf &nameOf)
{
    for (const auto filter : {plan::MemoryFilter::Delta, plan::MemoryFilter::Local, plan::MemoryFilter::Dtr,
                              plan::MemoryFilter::MemoryPerSecond})
        for (const bool chain : {false, true}) {
            Limits each = limits;
            each.policy.filter = filter;
            if (chain && limits.policy.director == plan::MemoryDirector::Rule)
                each.policy.director = plan::MemoryDirector::Chain;
            else if (chain)
                continue;
            fastest.offer(Walker(stream, each, nameOf).run());
        }
}

bool neverLeaves(const Course &course) { return course.decisions.empty() && course.events.size() > 0; }

/// A course in which nothing leaves, where the budget has the bytes of all: with best fit, else with places for the
/// whole stream, as holes are fewer then. A budget of all (100 %) has room for the holes of these, too: without a
/// policy they would be there as well. None: something has to leave.
std::optional<Course> stayingCourse(const Stream &stream, const Limits &limits, const NameOf &nameOf)
{
    if (!limits.policy.limits() || stream.peakBytes() > limits.budget)
        return std::nullopt;
    if (auto fits = Walker(stream, limits, nameOf).run(); fits && neverLeaves(*fits))
        return *std::move(fits);
    const auto places = stayingPlaces(stream);
    const bool isOfAll = limits.policy.budgetBytes == 0 && limits.policy.budgetShare >= 1;
    if (places && (places->bytes <= limits.budget || isOfAll)) {
        Limits whole = limits;
        whole.budget = std::max(limits.budget, places->bytes);
        if (auto planned = Walker(stream, whole, nameOf, places->offsets).run(); planned && neverLeaves(*planned))
            return *std::move(planned);
    }
    if (!isOfAll)
        return std::nullopt;
    Limits endless = limits;
    endless.fixedPool = false;
    auto spread = Walker(stream, endless, nameOf).run();
    return spread && neverLeaves(*spread) ? std::optional(*std::move(spread)) : std::nullopt;
}

} // namespace

Result<Course> walk(const Stream &stream, const Limits &limits,
                    const std::function<std::string(std::int32_t storage)> &nameOf)
{
    if (auto staying = stayingCourse(stream, limits, nameOf))
        return *std::move(staying);
    const bool isAhead = limits.policy.filter == plan::MemoryFilter::Ahead;
    Fastest fastest(stream, limits, isAhead && limits.policy.overlaps);
    if (isAhead)
        offerFilters(fastest, stream, limits, nameOf);
    if (isAhead || limits.policy.filter == plan::MemoryFilter::Knapsack) {
        offerKnapsacks(fastest, stream, limits, nameOf);
        return fastest.take();
    }
    if (limits.policy.filter == plan::MemoryFilter::Capuchin) {
        offerPlanned(fastest, stream, limits, nameOf,
                     [&](std::int64_t need) { return capuchinReleases(stream, limits, need); });
        return fastest.take();
    }
    return Walker(stream, limits, nameOf).run();
}

} // namespace planloom::memory
