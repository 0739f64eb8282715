// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/routes.h"

#include "engine/cluster/blocks.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::cluster {
namespace {

// About a second of breadth-first search and at most 150 MB of table.
constexpr std::uint64_t kMostWork = 400'000'000;
constexpr std::uint64_t kMostBlockSize = 6000;

/// Breadth-first from @p target over @p block. A vertex leaves the queue after every vertex one link nearer to the
/// target, so its best width is settled by then. Returns true if for one of the places @p ends two ways were equally
/// good: which of them is taken then hangs on the links' numbers.
bool searchFrom(std::size_t target, const Block &block, std::span<const Link> links,
                const std::vector<std::size_t> &ends, std::int32_t *next)
{
    struct Reach {
        std::int32_t distance = -1;
        double width = 0;
        bool tied = false;
    };
    std::vector<Reach> reach(block.vertices.size());
    std::vector<std::size_t> queue{target};
    reach[target] = {0, 1e300, false};
    for (std::size_t head = 0; head < queue.size(); ++head) {
        const std::size_t nearer = queue[head];
        for (const Block::Edge &edge : block.neighbours[nearer]) {
            Reach &at = reach[edge.neighbour];
            const double width = std::min(reach[nearer].width, links[static_cast<std::size_t>(edge.link)].pointToPoint);
            if (at.distance < 0)
                queue.push_back(edge.neighbour);
            else if (at.distance != reach[nearer].distance + 1 || width < at.width)
                continue;
            const bool tie = at.distance >= 0 && width == at.width;
            at.tied = tie || reach[nearer].tied;
            if (tie && next[edge.neighbour] <= edge.link)
                continue;
            at.distance = reach[nearer].distance + 1;
            at.width = width;
            next[edge.neighbour] = edge.link;
        }
    }
    return std::any_of(ends.begin(), ends.end(), [&reach](std::size_t place) { return reach[place].tied; });
}

/// Where ways through blocks begin and end: at devices, and where blocks meet.
std::vector<bool> endsOf(const BlockTree &tree, std::span<const std::size_t> devices)
{
    std::vector<bool> ends(tree.blockOf.size(), false);
    for (const std::size_t device : devices)
        ends[device] = true;
    for (const Block &block : tree.blocks)
        ends[block.vertices.front()] = true;
    return ends;
}

} // namespace

Result<Routes> makeRoutes(std::size_t vertexCount, std::span<const Link> links, std::span<const std::size_t> devices)
{
    const BlockTree tree = blocksOf(vertexCount, links);
    const std::vector<bool> isEnd = endsOf(tree, devices);
    Routes routes;
    routes.block = tree.blockOf;
    routes.depth.assign(vertexCount, 0);
    routes.place.assign(vertexCount, 0);
    routes.role.assign(vertexCount, -1);
    routes.leg.assign(vertexCount, -1);
    for (const Block &block : tree.blocks) { // those nearer the root come first
        for (std::size_t i = 1; i < block.vertices.size(); ++i) {
            routes.depth[block.vertices[i]] = routes.depth[block.vertices.front()] + 1;
            routes.place[block.vertices[i]] = static_cast<std::int32_t>(i);
        }
    }
    BlockKinds kinds(links, routes);
    std::uint64_t work = 0;
    for (const Block &block : tree.blocks) {
        const std::size_t size = block.vertices.size();
        work += size * (size + block.links);
        if (size > kMostBlockSize || work > kMostWork)
            return badInput(
                fmt::format("{} devices and switches form one mesh with cycles, more than routes can be found for; "
                            "connect nodes through one network vertex each",
                            size));
        routes.top.push_back(static_cast<std::int32_t>(block.vertices.front()));
        routes.size.push_back(static_cast<std::int32_t>(size));
        routes.table.push_back(routes.nextLink.size());
        routes.nextLink.resize(routes.nextLink.size() + size * size, -1);
        std::vector<std::size_t> ends;
        for (std::size_t i = 0; i < size; ++i)
            if (isEnd[block.vertices[i]])
                ends.push_back(i);
        bool tie = false;
        for (std::size_t target = 0; target < size; ++target) {
            const bool tied =
                searchFrom(target, block, links, ends, routes.nextLink.data() + routes.table.back() + target * size);
            tie = tie || (tied && isEnd[block.vertices[target]]);
        }
        kinds.add(block, tie);
    }
    return routes;
}

std::vector<std::size_t> routeBetween(const Routes &routes, std::span<const Link> links, std::size_t from,
                                      std::size_t to)
{
    std::vector<std::size_t> route;
    if (!walkRoute(routes, links, from, to,
                   [&route](std::size_t link, std::size_t, std::size_t) { route.push_back(link); }))
        return {};
    return route;
}

} // namespace planloom::cluster
