// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/walk.h"

#include "engine/memory/walker.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace planloom::memory {

std::int64_t Stream::peakBytes() const
{
    std::int64_t now = 0;
    std::int64_t most = 0;
    const auto bytesOf = [this](std::int32_t storage) { return storages[static_cast<std::size_t>(storage)].bytes; };
    for (const Operator &op : operators) {
        for (const std::int32_t output : op.outputs)
            now += bytesOf(output);
        most = std::max(most, now);
        for (const std::int32_t dead : op.dies)
            now -= bytesOf(dead);
    }
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
    limits.bandwidthOut = policy.bandwidthOut > 0 ? policy.bandwidthOut : bandwidth;
    limits.bandwidthIn = policy.bandwidthIn > 0 ? policy.bandwidthIn : bandwidth;
    limits.fixedPool = policy.limits() && policy.trigger == plan::MemoryTrigger::Before;
    return limits;
}

namespace {

using NameOf = std::function<std::string(std::int32_t)>;

/// What leaves by plan makes room for less than it has bytes, as copies take time and what is made again takes room:
/// the fastest course of several that free more and more.
template <class Choose>
Result<Course> planned(const Stream &stream, const Limits &limits, const NameOf &nameOf, const Choose &choose)
{
    const std::int64_t over = std::max<std::int64_t>(0, stream.peakBytes() - limits.budget);
    Result<Course> best = Walker(stream, limits, nameOf).run();
    for (const double more : {1.0, 1.1, 1.25, 1.5}) {
        const std::vector<Release> releases =
            choose(static_cast<std::int64_t>(std::ceil(static_cast<double>(over) * more)));
        auto course = Walker(stream, limits, nameOf).run(releases);
        if (course && (!best || course->seconds < best->seconds))
            best = std::move(course);
    }
    return best;
}

/// The fastest of knapsacks with dear and cheap copies.
Result<Course> knapsack(const Stream &stream, const Limits &limits, const NameOf &nameOf)
{
    std::optional<Result<Course>> best;
    for (const double traffic : {0.0, 0.25, 1.0}) {
        auto course = planned(stream, limits, nameOf,
                              [&](std::int64_t need) { return knapsackReleases(stream, limits, need, traffic); });
        if (!best || (course && (!*best || course->seconds < (*best)->seconds)))
            best = std::move(course);
    }
    return *std::move(best);
}

/// Of knapsacks, and of what decides step by step. The first of equal ones.
Result<Course> fastest(const Stream &stream, const Limits &limits, const NameOf &nameOf)
{
    std::optional<Result<Course>> best;
    const auto offer = [&](Result<Course> course) {
        if (!best || (course && (!*best || course->seconds < (*best)->seconds)))
            best = std::move(course);
    };
    for (const auto filter : {plan::MemoryFilter::Delta, plan::MemoryFilter::Local, plan::MemoryFilter::Dtr,
                              plan::MemoryFilter::MemoryPerSecond})
        for (const bool chain : {false, true}) {
            Limits each = limits;
            each.policy.filter = filter;
            if (chain && limits.policy.director == plan::MemoryDirector::Rule)
                each.policy.director = plan::MemoryDirector::Chain;
            else if (chain)
                continue;
            offer(Walker(stream, each, nameOf).run());
        }
    offer(knapsack(stream, limits, nameOf));
    return *std::move(best);
}

} // namespace

Result<Course> walk(const Stream &stream, const Limits &limits,
                    const std::function<std::string(std::int32_t storage)> &nameOf)
{
    if (limits.policy.filter == plan::MemoryFilter::Capuchin)
        return planned(stream, limits, nameOf,
                       [&](std::int64_t need) { return capuchinReleases(stream, limits, need); });
    if (limits.policy.filter == plan::MemoryFilter::Knapsack)
        return knapsack(stream, limits, nameOf);
    if (limits.policy.filter == plan::MemoryFilter::Ahead)
        return fastest(stream, limits, nameOf);
    return Walker(stream, limits, nameOf).run();
}

} // namespace planloom::memory
