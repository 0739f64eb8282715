// SPDX-License-Identifier: Apache-2.0
#include "engine/analysis/lateness.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace planloom::analysis {
namespace {

using trace::Record;
using trace::Trace;

/// What a member did since the collective before.
struct Since {
    std::int64_t begin = 0, end = 0;
    std::map<std::string_view, std::int64_t> byName; ///< nanoseconds
    std::int64_t busy = 0;
};

std::int64_t endOfRecord(const Record &record) { return record.start + record.duration; }

bool computes(const Trace &trace, const Record &record)
{
    const trace::TaskInfo *task = trace.task(record.task);
    const trace::Work work = task ? trace.kind(task->kind).work : trace::Work::Host;
    return work == trace::Work::Compute || work == trace::Work::Update;
}

/// Records of each rank are together: [first, last).
std::pair<std::size_t, std::size_t> recordsOf(const Trace &trace, std::int32_t rank)
{
    const auto found = std::ranges::equal_range(trace.records, rank, {}, &Record::rank);
    return {static_cast<std::size_t>(found.begin() - trace.records.begin()),
            static_cast<std::size_t>(found.end() - trace.records.begin())};
}

Since whatCameBefore(const Trace &trace, const Arrival &arrival)
{
    const auto [first, last] = recordsOf(trace, trace.records[arrival.record].rank);
    Since since{trace.begin(), arrival.at, {}, 0};
    for (std::size_t i = first; i < last; ++i) {
        const Record &record = trace.records[i];
        const trace::TaskInfo *task = trace.task(record.task);
        if (task && isCollective(trace, *task) && endOfRecord(record) <= arrival.at)
            since.begin = std::max(since.begin, endOfRecord(record));
    }
    for (std::size_t i = first; i < last; ++i) {
        const Record &record = trace.records[i];
        const std::int64_t part = std::min(endOfRecord(record), since.end) - std::max(record.start, since.begin);
        if (part <= 0 || !computes(trace, record))
            continue;
        since.byName[trace.task(record.task)->id] += part;
        since.busy += part;
    }
    return since;
}

/// The name that took longest against the median of the others, and by how much.
std::pair<std::string_view, std::int64_t> slowestName(const Since &late, const std::vector<Since> &others)
{
    std::pair<std::string_view, std::int64_t> worst;
    for (const auto &[name, time] : late.byName) {
        std::vector<std::int64_t> times;
        for (const Since &other : others) {
            const auto found = other.byName.find(name);
            times.push_back(found == other.byName.end() ? 0 : found->second);
        }
        const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
        std::ranges::nth_element(times, middle);
        if (time - *middle > worst.second)
            worst = {name, time - *middle};
    }
    return worst;
}

std::optional<std::uint32_t> longestCalled(const Trace &trace, std::int32_t rank, std::string_view name,
                                           const Since &since)
{
    std::optional<std::uint32_t> longest;
    const auto [first, last] = recordsOf(trace, rank);
    for (std::size_t i = first; i < last; ++i) {
        const Record &record = trace.records[i];
        if (endOfRecord(record) <= since.begin || record.start >= since.end || !computes(trace, record)
            || trace.task(record.task)->id != name)
            continue;
        if (!longest || record.duration > trace.records[*longest].duration)
            longest = static_cast<std::uint32_t>(i);
    }
    return longest;
}

} // namespace

LateCause causeOf(const Trace &trace, const Collectives &collectives, const Collective &collective)
{
    const auto members = collectives.arrivalsOf(collective);
    const Arrival &last = members.back();
    const Since late = whatCameBefore(trace, last);
    std::vector<Since> others;
    for (const Arrival &member : members.first(members.size() - 1))
        others.push_back(whatCameBefore(trace, member));
    const auto [name, longer] = slowestName(late, others);
    if (2 * longer >= collective.behind && longer > 0)
        return {LateCause::Why::Work, longestCalled(trace, trace.records[last.record].rank, name, late), longer};
    const auto call = trace.details.partner(last.record);
    if (call) {
        const std::int64_t early = last.at - collective.behind; // when the one before it came
        const std::int64_t behind = endOfRecord(trace.records[*call]) - early;
        if (2 * behind >= collective.behind && behind > 0)
            return {LateCause::Why::Launch, static_cast<std::uint32_t>(*call), behind};
    }
    if (longer > 0)
        return {LateCause::Why::Work, longestCalled(trace, trace.records[last.record].rank, name, late), longer};
    return {};
}

std::vector<RankLateness> latenessByRank(const Trace &trace, const Collectives &collectives)
{
    std::map<std::int32_t, RankLateness> ranks;
    for (const Collective &collective : collectives.all) {
        for (const Arrival &member : collectives.arrivalsOf(collective)) {
            RankLateness &rank = ranks[trace.records[member.record].rank];
            ++rank.collectives;
            rank.waited += member.waited;
        }
        RankLateness &last = ranks[trace.records[collectives.last(collective).record].rank];
        ++last.last;
        last.caused += collective.waited;
    }
    std::vector<RankLateness> sorted;
    for (auto &[rank, lateness] : ranks) {
        lateness.rank = rank;
        sorted.push_back(lateness);
    }
    std::ranges::stable_sort(sorted, std::greater(), &RankLateness::caused);
    return sorted;
}

} // namespace planloom::analysis
