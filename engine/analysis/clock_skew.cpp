// SPDX-License-Identifier: Apache-2.0
#include "engine/analysis/clock_skew.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

namespace planloom::analysis {
namespace {

using trace::Record;
using trace::Trace;

/// Of the second clock against the first one.
struct PairSkew {
    std::size_t first = 0, second = 0;
    std::int64_t ahead = 0;
    double error = 0;
    std::int64_t count = 0;
};

std::vector<RankClock> clocksOf(const Trace &trace)
{
    std::vector<RankClock> clocks;
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
        const std::string &device = trace.ranks[rank].device;
        const std::size_t colon = device.find(": ");
        const std::string name = colon == std::string::npos ? std::string() : device.substr(0, colon);
        auto found = std::ranges::find(clocks, name, &RankClock::name);
        if (found == clocks.end())
            found = clocks.insert(clocks.end(), RankClock{.name = name});
        found->ranks.push_back(static_cast<std::int32_t>(rank));
    }
    return clocks;
}

PairSkew skewOfPair(std::pair<std::size_t, std::size_t> clocks, std::vector<std::int64_t> differences)
{
    const auto median = [&differences] {
        const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
        std::ranges::nth_element(differences, middle);
        return *middle;
    };
    const auto count = static_cast<std::int64_t>(differences.size());
    const std::int64_t ahead = median();
    for (std::int64_t &each : differences)
        each = std::abs(each - ahead);
    constexpr double kOfMedian = 1.2533; // sqrt(pi / 2)
    constexpr double kOfDeviation = 1.4826;
    constexpr double kLeast = 100; // nanoseconds: of one or two collectives, and of clocks that tick coarsely
    const double error =
        kOfMedian * kOfDeviation * static_cast<double>(median()) / std::sqrt(static_cast<double>(count));
    return {clocks.first, clocks.second, ahead, std::max(error, kLeast), count};
}

} // namespace

std::int64_t ClockSkew::largest() const
{
    std::int64_t least = 0, most = 0;
    for (const RankClock &clock : clocks) {
        least = std::min(least, clock.ahead);
        most = std::max(most, clock.ahead);
    }
    return most - least;
}

bool ClockSkew::isSkewed() const
{
    constexpr double kMicrosecond = 1000;
    return std::ranges::any_of(clocks, [](const RankClock &clock) {
        return clock.known && std::abs(static_cast<double>(clock.ahead)) > 3 * clock.error + kMicrosecond;
    });
}

ClockSkew clockSkew(const Trace &trace, const Collectives &collectives)
{
    ClockSkew skew{clocksOf(trace)};
    if (skew.clocks.empty())
        return skew;
    skew.clocks.front().known = true;
    if (skew.clocks.size() == 1) // members by the square would be too many where a program runs on thousands
        return skew;
    std::vector<std::size_t> clockOfRank(trace.ranks.size());
    for (std::size_t c = 0; c < skew.clocks.size(); ++c)
        for (const std::int32_t rank : skew.clocks[c].ranks)
            clockOfRank[static_cast<std::size_t>(rank)] = c;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int64_t>> differences;
    for (const Collective &collective : collectives.all) {
        const auto members = collectives.arrivalsOf(collective);
        for (std::size_t i = 0; i < members.size(); ++i) {
            for (std::size_t j = i + 1; j < members.size(); ++j) {
                const Record &a = trace.records[members[i].record];
                const Record &b = trace.records[members[j].record];
                const std::size_t of[] = {clockOfRank[static_cast<std::size_t>(a.rank)],
                                          clockOfRank[static_cast<std::size_t>(b.rank)]};
                const std::int64_t apart = b.start + b.duration - a.start - a.duration;
                if (of[0] != of[1])
                    differences[std::minmax(of[0], of[1])].push_back(of[0] < of[1] ? apart : -apart);
            }
        }
    }
    std::vector<PairSkew> pairs;
    for (auto &[clocks, apart] : differences)
        pairs.push_back(skewOfPair(clocks, std::move(apart)));
    std::ranges::stable_sort(pairs, {}, &PairSkew::error);
    for (bool grown = true; grown;) { // Prim: the surest pair that reaches a new clock
        grown = false;
        for (const PairSkew &pair : pairs) {
            if (skew.clocks[pair.first].known == skew.clocks[pair.second].known)
                continue;
            const bool forward = skew.clocks[pair.first].known;
            const RankClock &from = skew.clocks[forward ? pair.first : pair.second];
            RankClock &to = skew.clocks[forward ? pair.second : pair.first];
            to.ahead = from.ahead + (forward ? pair.ahead : -pair.ahead);
            to.error = std::hypot(from.error, pair.error);
            to.collectives = pair.count;
            to.known = grown = true;
            break;
        }
    }
    return skew;
}

Trace aligned(const Trace &trace, const ClockSkew &skew)
{
    Trace made = trace;
    std::vector<std::int64_t> ahead(trace.ranks.size());
    for (const RankClock &clock : skew.clocks)
        for (const std::int32_t rank : clock.ranks)
            ahead[static_cast<std::size_t>(rank)] = clock.ahead;
    for (Record &record : made.records)
        record.start -= ahead[static_cast<std::size_t>(record.rank)];
    const std::int64_t begin = made.begin();
    for (Record &record : made.records)
        record.start -= begin;
    return made;
}

} // namespace planloom::analysis
