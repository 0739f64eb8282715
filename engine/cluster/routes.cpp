// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/routes.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace planloom::cluster {
namespace {

// About a second of breadth-first search and at most 150 MB of table.
constexpr std::uint64_t kMostCoreWork = 400'000'000;
constexpr std::uint64_t kMostCoreSize = 6000;

struct Edge {
    std::size_t neighbour = 0;
    std::int32_t link = -1;
};
using Adjacency = std::vector<std::vector<Edge>>;

std::size_t otherEnd(const Link &link, std::size_t vertex)
{
    return link.a == vertex ? link.b : link.a;
}

/// Neighbours of each vertex; of parallel links the widest, then the first.
Adjacency neighbours(std::size_t vertexCount, std::span<const Link> links)
{
    using Parallel = std::tuple<std::size_t, std::size_t, double, std::int32_t>;
    std::vector<Parallel> sorted;
    sorted.reserve(links.size());
    for (std::size_t i = 0; i < links.size(); ++i)
        sorted.emplace_back(std::min(links[i].a, links[i].b), std::max(links[i].a, links[i].b), -links[i].pointToPoint, static_cast<std::int32_t>(i));
    std::sort(sorted.begin(), sorted.end());
    const auto sameEnds = [](const Parallel &x, const Parallel &y) {
        return std::get<0>(x) == std::get<0>(y) && std::get<1>(x) == std::get<1>(y);
    };
    sorted.erase(std::unique(sorted.begin(), sorted.end(), sameEnds), sorted.end());
    Adjacency adjacency(vertexCount);
    for (const auto &[a, b, width, link] : sorted) {
        adjacency[a].push_back({b, link});
        adjacency[b].push_back({a, link});
    }
    return adjacency;
}

/// Cuts off leaves until none is left; fills parentLink and depth.
void cutTrees(const Adjacency &adjacency, std::span<const Link> links, Routes &routes)
{
    const std::size_t count = adjacency.size();
    std::vector<std::size_t> degree(count);
    std::vector<bool> cut(count, false);
    std::vector<std::size_t> leaves;
    for (std::size_t v = 0; v < count; ++v) {
        degree[v] = adjacency[v].size();
        if (degree[v] == 1)
            leaves.push_back(v);
    }
    for (std::size_t next = 0; next < leaves.size(); ++next) {
        const std::size_t leaf = leaves[next];
        if (degree[leaf] != 1)
            continue; // the other half of a pair went first and left it alone in the core
        for (const Edge &edge : adjacency[leaf]) {
            if (cut[edge.neighbour])
                continue;
            routes.parentLink[leaf] = edge.link;
            if (--degree[edge.neighbour] == 1)
                leaves.push_back(edge.neighbour);
        }
        cut[leaf] = true;
    }
    for (std::size_t i = leaves.size(); i-- > 0;) {
        const std::size_t leaf = leaves[i];
        if (routes.parentLink[leaf] >= 0)
            routes.depth[leaf] = routes.depth[otherEnd(links[static_cast<std::size_t>(routes.parentLink[leaf])], leaf)] + 1;
    }
}

/// Breadth-first from @p target over the core. A vertex leaves the queue after every vertex one link nearer to the target, so
/// its best width is settled by then.
void searchFrom(std::size_t target, const std::vector<std::size_t> &core, const Adjacency &adjacency, std::span<const Link> links, Routes &routes)
{
    struct Reach {
        std::int32_t distance = -1;
        double width = 0;
    };
    std::vector<Reach> reach(core.size());
    std::int32_t *next = routes.nextLink.data() + target * core.size();
    std::vector<std::size_t> queue{target};
    reach[target] = {0, 1e300};
    for (std::size_t head = 0; head < queue.size(); ++head) {
        const std::size_t nearer = queue[head];
        for (const Edge &edge : adjacency[core[nearer]]) {
            const std::int32_t place = routes.corePlace[edge.neighbour];
            if (place < 0)
                continue;
            const auto at = static_cast<std::size_t>(place);
            const double width = std::min(reach[nearer].width, links[static_cast<std::size_t>(edge.link)].pointToPoint);
            if (reach[at].distance < 0) {
                queue.push_back(at);
            } else if (reach[at].distance != reach[nearer].distance + 1 ||
                       std::tuple(-reach[at].width, next[at]) <= std::tuple(-width, edge.link)) {
                continue;
            }
            reach[at] = {reach[nearer].distance + 1, width};
            next[at] = edge.link;
        }
    }
}

} // namespace

Result<Routes> makeRoutes(std::size_t vertexCount, std::span<const Link> links)
{
    Routes routes;
    routes.parentLink.assign(vertexCount, -1);
    routes.depth.assign(vertexCount, 0);
    routes.corePlace.assign(vertexCount, -1);
    const Adjacency adjacency = neighbours(vertexCount, links);
    cutTrees(adjacency, links, routes);

    std::vector<std::size_t> core;
    std::uint64_t ends = 0;
    for (std::size_t v = 0; v < vertexCount; ++v) {
        // A vertex without links reaches nothing: it needs no place in the table.
        if (routes.parentLink[v] >= 0 || adjacency[v].empty())
            continue;
        routes.corePlace[v] = static_cast<std::int32_t>(core.size());
        core.push_back(v);
        ends += adjacency[v].size();
    }
    if (core.size() > kMostCoreSize || core.size() * (core.size() + ends) > kMostCoreWork)
        return badInput(fmt::format("{} devices and switches form one mesh with cycles, more than routes can be found for; "
                                    "connect nodes through one network vertex each",
                                    core.size()));
    routes.coreSize = core.size();
    routes.nextLink.assign(core.size() * core.size(), -1);
    for (std::size_t target = 0; target < core.size(); ++target)
        searchFrom(target, core, adjacency, links, routes);
    return routes;
}

std::vector<std::size_t> routeBetween(const Routes &routes, std::span<const Link> links, std::size_t from, std::size_t to)
{
    std::vector<std::size_t> up;
    std::vector<std::size_t> down; // from the far end
    const auto climb = [&](std::size_t &vertex, std::vector<std::size_t> &path) {
        const auto link = static_cast<std::size_t>(routes.parentLink[vertex]);
        path.push_back(link);
        vertex = otherEnd(links[link], vertex);
    };
    while (routes.depth[from] > routes.depth[to])
        climb(from, up);
    while (routes.depth[to] > routes.depth[from])
        climb(to, down);
    while (from != to && routes.depth[from] > 0) {
        climb(from, up);
        climb(to, down);
    }
    if (from != to && (routes.corePlace[from] < 0 || routes.corePlace[to] < 0))
        return {};
    while (from != to) {
        const std::size_t row = static_cast<std::size_t>(routes.corePlace[to]) * routes.coreSize;
        const std::int32_t link = routes.nextLink[row + static_cast<std::size_t>(routes.corePlace[from])];
        if (link < 0)
            return {};
        up.push_back(static_cast<std::size_t>(link));
        from = otherEnd(links[static_cast<std::size_t>(link)], from);
    }
    up.insert(up.end(), down.rbegin(), down.rend());
    return up;
}

} // namespace planloom::cluster
