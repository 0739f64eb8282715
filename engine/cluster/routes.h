// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

namespace planloom::cluster {

/// Routes over @p links between @p vertexCount vertices, of which @p devices are devices. Error: BadInput where the
/// links form so large a mesh that a routing table would not be reasonable. Cost: O(vertices + links), plus O(block *
/// (block + its links)) for every block.
Result<Routes> makeRoutes(std::size_t vertexCount, std::span<const Link> links, std::span<const std::size_t> devices);

/// Calls @p visit(link, from, to) for each link of the way from vertex @p from to vertex @p to, in its order, with its
/// ends as the way has them. Returns false if there is no way. For loops over many pairs: no memory is taken.
template <class Visit>
bool walkRoute(const Routes &routes, std::span<const Link> links, std::size_t from, std::size_t to, Visit &&visit)
{
    // Within the block of vertex v, of which the other end may be the top.
    const auto walk = [&](std::size_t block, std::size_t start, std::size_t end) {
        const auto placeOf = [&](std::size_t v) {
            return static_cast<std::int32_t>(v) == routes.top[block] ? std::size_t{0}
                                                                     : static_cast<std::size_t>(routes.place[v]);
        };
        const std::size_t row = routes.table[block] + placeOf(end) * static_cast<std::size_t>(routes.size[block]);
        while (start != end) {
            const auto index = static_cast<std::size_t>(routes.nextLink[row + placeOf(start)]);
            const std::size_t next = links[index].a == start ? links[index].b : links[index].a;
            visit(index, start, next);
            start = next;
        }
    };
    thread_local std::vector<std::size_t> down; // where the way goes down, the last block first
    down.clear();
    while (from != to) {
        const std::int32_t here = routes.block[from];
        const std::int32_t there = routes.block[to];
        if (here >= 0 && here == there) {
            walk(static_cast<std::size_t>(here), from, to);
            break;
        }
        const bool up = routes.depth[from] >= routes.depth[to];
        const bool back = routes.depth[to] >= routes.depth[from];
        if ((up && here < 0) || (back && there < 0))
            return false;
        if (up) {
            const auto top = static_cast<std::size_t>(routes.top[static_cast<std::size_t>(here)]);
            walk(static_cast<std::size_t>(here), from, top);
            from = top;
        }
        if (back) {
            down.push_back(to);
            to = static_cast<std::size_t>(routes.top[static_cast<std::size_t>(there)]);
        }
    }
    for (std::size_t i = down.size(); i-- > 0;) {
        const auto block = static_cast<std::size_t>(routes.block[down[i]]);
        walk(block, static_cast<std::size_t>(routes.top[block]), down[i]);
    }
    return true;
}

/// Links from vertex @p from to vertex @p to; empty if they are equal or there is no way.
std::vector<std::size_t> routeBetween(const Routes &routes, std::span<const Link> links, std::size_t from,
                                      std::size_t to);

} // namespace planloom::cluster
