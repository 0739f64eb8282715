// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/search.h"

namespace planloom::planners::dapple {

bool Search::goOn(double fraction, std::string_view what)
{
    if (stopped)
        return false;
    progress.report(begin + (end - begin) * fraction, what);
    stopped = progress.stopped();
    return !stopped;
}

void Search::offer(const Spans &spans)
{
    if (auto scored = scorer.score(spans, pool.bound()))
        pool.offer(*std::move(scored));
}

std::vector<std::vector<DeviceId>> Search::choices(const Occupancy &occupancy, std::size_t count) const
{
    return occupancy.choices(settings.placements, count, settings.scatter);
}

void searchDataParallel(Search &search)
{
    if (search.goOn(0, "data parallel"))
        search.offer({{0, search.layers(), Occupancy(*search.scorer.subject().cluster).freeDevices()}});
}

void searchTwoStage(Search &search)
{
    if (!search.allows(2))
        return;
    const Occupancy empty(*search.scorer.subject().cluster);
    for (std::size_t count = 1; count < search.devices(); ++count) {
        for (const std::vector<DeviceId> &first : search.choices(empty, count)) {
            Occupancy after = empty;
            after.take(first);
            const std::vector<DeviceId> second = after.freeDevices();
            for (std::size_t cut = 1; cut < search.layers(); ++cut) {
                if (!search.goOn(static_cast<double>(count) / static_cast<double>(search.devices()), "two stages"))
                    return;
                search.offer({{0, cut, first}, {cut, search.layers(), second}});
            }
        }
    }
}

} // namespace planloom::planners::dapple
