// SPDX-License-Identifier: Apache-2.0
#include "planners/common/balance.h"
#include "planners/dapple/search.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace planloom::planners::dapple {
namespace {

using Cuts = std::vector<std::size_t>;

/// Devices in the order in which @p first, or another allowed policy where it has no answer, hands them out one by one.
std::vector<DeviceId> deviceOrder(const Search &search, Placement first, std::size_t count)
{
    std::vector<Placement> policies{first};
    for (const Placement other : search.settings.placements)
        policies.push_back(other);
    Occupancy occupancy(*search.scorer.subject().cluster);
    std::vector<DeviceId> order;
    while (order.size() < count) {
        const auto choices = occupancy.choices(policies, 1, search.settings.scatter);
        const std::vector<DeviceId> next{choices.empty() ? occupancy.freeDevices().front() : choices.front().front()};
        occupancy.take(next);
        order.push_back(next.front());
    }
    return order;
}

Spans spansOf(const Search &search, const std::vector<DeviceId> &order, const Cuts &cuts)
{
    Spans spans;
    for (std::size_t i = 0; i < order.size(); ++i)
        spans.push_back({i == 0 ? 0 : cuts[i - 1], i < cuts.size() ? cuts[i] : search.layers(), {order[i]}});
    return spans;
}

/// Ways to cut @p items into @p parts, or more than @p enough.
std::size_t waysToCut(std::size_t items, std::size_t parts, std::size_t enough)
{
    std::size_t ways = 1;
    for (std::size_t k = 1; k < parts && ways <= enough; ++k)
        ways = ways * (items - k) / k;
    return ways;
}

/// The next set of increasing cuts in lexicographic order; false after the last.
bool nextCuts(Cuts &cuts, std::size_t items)
{
    for (std::size_t i = cuts.size(); i-- > 0;) {
        if (cuts[i] + (cuts.size() - i) >= items)
            continue;
        ++cuts[i];
        for (std::size_t k = i + 1; k < cuts.size(); ++k)
            cuts[k] = cuts[k - 1] + 1;
        return true;
    }
    return false;
}

void offerAll(Search &search, const std::vector<DeviceId> &order)
{
    Cuts cuts(order.size() - 1);
    std::iota(cuts.begin(), cuts.end(), 1);
    do
        search.offer(spansOf(search, order, cuts));
    while (search.goOn(0.5, "straight pipelines") && nextCuts(cuts, search.layers()));
}

/// Runs of neighbouring cuts moved one place to the left or right, without emptying a stage: one layer goes from
/// a stage to another, with the stages between them shifted. Runs of one cut only where there are more than kMostRuns
/// cuts.
std::vector<Cuts> neighbours(const Cuts &cuts, std::size_t items)
{
    constexpr std::size_t kMostRuns = 24;
    std::vector<Cuts> all;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        const std::size_t below = i == 0 ? 0 : cuts[i - 1];
        for (std::size_t j = i; j < (cuts.size() > kMostRuns ? i + 1 : cuts.size()); ++j) {
            const std::size_t above = j + 1 < cuts.size() ? cuts[j + 1] : items;
            for (const bool right : {false, true}) {
                if (right ? cuts[j] + 1 >= above : cuts[i] - 1 <= below)
                    continue;
                all.push_back(cuts);
                for (std::size_t k = i; k <= j; ++k)
                    all.back()[k] = right ? cuts[k] + 1 : cuts[k] - 1;
            }
        }
    }
    return all;
}

/// Moves runs of cuts by one layer as long as that is better.
void improve(Search &search, const std::vector<DeviceId> &order, Cuts cuts)
{
    Spans spans = spansOf(search, order, cuts);
    auto current = search.scorer.score(spans);
    if (!current)
        return;
    search.pool.offer(*current);
    bool moved = true;
    while (moved) {
        moved = false;
        for (const Cuts &next : neighbours(cuts, search.layers())) {
            if (!search.goOn(0.5, "straight pipelines"))
                return;
            auto scored = search.scorer.score(spansOf(search, order, next), current->objective);
            if (!scored)
                continue;
            search.pool.offer(*scored);
            if (!search.pool.better(scored->objective, scored->spans, current->objective, current->spans))
                continue;
            cuts = next;
            current = std::move(scored);
            moved = true;
            break;
        }
    }
}

void searchOrder(Search &search, const std::vector<DeviceId> &order)
{
    if (waysToCut(search.layers(), order.size(), kExhaustiveCuts) <= kExhaustiveCuts) {
        offerAll(search, order);
        return;
    }
    const auto cost = [&](std::size_t index, std::size_t first, std::size_t last) {
        if (!search.settings.keep.allows(first, last, 1))
            return std::numeric_limits<double>::infinity();
        const Span before{0, first, {order[index == 0 ? 0 : index - 1]}};
        return search.scorer.load({first, last, {order[index]}}, index == 0 ? nullptr : &before);
    };
    const Cuts cuts = balancedCuts(search.layers(), order.size(), cost);
    if (cuts.front() > 0) // else there is no way that keeps what is kept
        improve(search, order, cuts);
}

} // namespace

void searchStraight(Search &search)
{
    std::size_t stages = std::min(search.settings.keep.mostStages(search.layers()), search.devices());
    if (search.settings.maxStages > 0)
        stages = std::min(stages, search.settings.maxStages);
    if (stages < 2)
        return;
    std::vector<std::vector<DeviceId>> orders;
    for (const Placement placement : search.settings.placements) {
        auto order = deviceOrder(search, placement, stages);
        if (std::find(orders.begin(), orders.end(), order) == orders.end())
            orders.push_back(std::move(order));
    }
    for (const std::vector<DeviceId> &order : orders) {
        if (!search.goOn(0.1, "straight pipelines"))
            return;
        searchOrder(search, order);
    }
}

} // namespace planloom::planners::dapple
