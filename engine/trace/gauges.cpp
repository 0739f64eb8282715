// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/gauges.h"

#include <algorithm>
#include <string_view>

namespace planloom::trace {

double Gauge::share(std::int32_t task) const
{
    return levels < 2 ? 0 : std::clamp(static_cast<double>(task - first) / (levels - 1), 0.0, 1.0);
}

std::vector<Gauge> gaugesOf(const Tables &tables)
{
    std::vector<Gauge> gauges;
    for (std::size_t lane = 0; lane < tables.lanes.size(); ++lane)
        if (tables.lanes[lane].work == Work::Device)
            gauges.push_back({static_cast<std::int32_t>(lane)});
    for (std::size_t task = 0; task < tables.tasks.size(); ++task) {
        const std::string_view id = tables.tasks[task].id;
        for (Gauge &gauge : gauges) {
            const std::string_view name = tables.lanes[static_cast<std::size_t>(gauge.lane)].name;
            if (!id.starts_with(name) || id.size() == name.size() || id[name.size()] != '/')
                continue;
            gauge.first = gauge.levels == 0 ? static_cast<std::int32_t>(task) : gauge.first;
            ++gauge.levels;
        }
    }
    std::erase_if(gauges, [](const Gauge &gauge) { return gauge.levels == 0; });
    return gauges;
}

} // namespace planloom::trace
