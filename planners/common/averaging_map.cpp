// SPDX-License-Identifier: Apache-2.0
#include "planners/common/averaging_map.h"

#include "planners/common/counted.h"

#include <fmt/format.h>

#include <algorithm>

namespace planloom::planners {
namespace {

std::vector<std::int64_t> withOwn(std::vector<std::int64_t> all, std::int64_t own)
{
    const auto place = std::ranges::lower_bound(all, own);
    if (place == all.end() || *place != own)
        all.insert(place, own);
    return all;
}

} // namespace

const AveragingCell *AveragingMap::at(std::int64_t localSteps, std::int64_t delay) const
{
    const auto found = std::ranges::find_if(cells, [&](const AveragingCell &cell) {
        return cell.localSteps == localSteps && cell.delay == delay;
    });
    return found == cells.end() ? nullptr : &*found;
}

const AveragingCell *AveragingMap::best() const
{
    constexpr double kNoticed = 1 - 1e-6;
    const AveragingCell *best = nullptr;
    for (const std::int64_t delay : delays)
        for (const std::int64_t localSteps : rounds) {
            const AveragingCell *cell = at(localSteps, delay);
            if (cell != nullptr && cell->hasSeconds()
                && (best == nullptr || cell->effectiveSeconds() < kNoticed * best->effectiveSeconds()))
                best = cell;
        }
    return best;
}

Result<AveragingMap> averagingMap(const plan::Plan &plan, const plan::Subject &subject, Progress &progress)
{
    const plan::DelayedAveraging &own = plan.exchange.averaging;
    AveragingMap map;
    map.rounds = withOwn({1, 2, 4, 8, 16}, own.localSteps);
    map.delays = withOwn({0, 1, 2, 3, 4, 6, 8, 12, 16}, own.delay);
    for (const std::int64_t localSteps : map.rounds)
        for (const std::int64_t delay : map.delays)
            if (delay <= localSteps)
                map.cells.push_back({localSteps, delay, 0, 0, 0, {}});
    Counted counted(progress, 1 + map.cells.size());
    if (!counted.next("as planned"))
        return cancelled();
    const auto times = averagingTimes(plan, subject);
    if (!times)
        return times.error();
    for (AveragingCell &cell : map.cells) {
        if (!counted.next(fmt::format("rounds of {}, delay {}", cell.localSteps, cell.delay)))
            return cancelled();
        plan::Plan tried = plan;
        plan::DelayedAveraging &averaging = tried.exchange.averaging;
        averaging.localSteps = cell.localSteps;
        averaging.delay = cell.delay;
        cell.effectiveShare = averaging.effectiveShare();
        const auto seconds = stepSeconds(tried, subject);
        if (!seconds) {
            cell.refusal = seconds.error().text();
            continue;
        }
        cell.seconds = *seconds;
        cell.hiddenShare = times->hiddenShare(*seconds, averaging);
    }
    return map;
}

} // namespace planloom::planners
