// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/blocks.h"

#include <algorithm>
#include <array>
#include <utility>

namespace planloom::cluster {
namespace {

struct Edge {
    std::size_t neighbour = 0;
    std::int32_t link = -1;
};
using Adjacency = std::vector<std::vector<Edge>>;

/// Neighbours of each vertex; of parallel links the widest, then the first.
Adjacency neighbours(std::size_t vertexCount, std::span<const Link> links)
{
    using Parallel = std::tuple<std::size_t, std::size_t, double, std::int32_t>;
    std::vector<Parallel> sorted;
    sorted.reserve(links.size());
    for (std::size_t i = 0; i < links.size(); ++i)
        sorted.emplace_back(std::min(links[i].a, links[i].b), std::max(links[i].a, links[i].b), -links[i].pointToPoint,
                            static_cast<std::int32_t>(i));
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

/// Depth-first; a block is complete when the search leaves a vertex that reaches nothing above its parent.
class Search {
public:
    Search(std::size_t vertexCount, std::span<const Link> links)
        : m_links(links),
          m_adjacency(neighbours(vertexCount, links)),
          m_number(vertexCount, -1),
          m_low(vertexCount, -1),
          m_place(vertexCount, 0)
    {
        m_tree.blockOf.assign(vertexCount, -1);
    }

    BlockTree run()
    {
        std::vector<std::size_t> starts(m_adjacency.size());
        for (std::size_t v = 0; v < starts.size(); ++v)
            starts[v] = v;
        std::stable_sort(starts.begin(), starts.end(), [this](std::size_t a, std::size_t b) {
            return m_adjacency[a].size() > m_adjacency[b].size();
        });
        for (const std::size_t start : starts)
            if (m_number[start] < 0)
                from(start);
        // Blocks end from the leaves up.
        std::reverse(m_tree.blocks.begin(), m_tree.blocks.end());
        for (std::size_t b = 0; b < m_tree.blocks.size(); ++b)
            for (std::size_t i = 1; i < m_tree.blocks[b].vertices.size(); ++i)
                m_tree.blockOf[m_tree.blocks[b].vertices[i]] = static_cast<std::int32_t>(b);
        return std::move(m_tree);
    }

private:
    struct Visit {
        std::size_t vertex = 0;
        std::size_t parent = 0;
        std::size_t next = 0; ///< among its neighbours
    };

    void from(std::size_t start)
    {
        std::vector<Visit> path{{start, start, 0}};
        m_number[start] = m_low[start] = m_count++;
        while (!path.empty()) {
            Visit &here = path.back();
            if (here.next == m_adjacency[here.vertex].size()) {
                leave(here);
                path.pop_back();
                continue;
            }
            const Edge edge = m_adjacency[here.vertex][here.next++];
            if (edge.neighbour == here.parent)
                continue;
            if (m_number[edge.neighbour] < 0) {
                m_open.push_back(edge.link);
                m_number[edge.neighbour] = m_low[edge.neighbour] = m_count++;
                path.push_back({edge.neighbour, here.vertex, 0});
            } else if (m_number[edge.neighbour] < m_number[here.vertex]) {
                m_open.push_back(edge.link);
                m_low[here.vertex] = std::min(m_low[here.vertex], m_number[edge.neighbour]);
            }
        }
    }

    void leave(const Visit &visit)
    {
        const auto [vertex, parent, next] = visit;
        if (vertex == parent)
            return;
        m_low[parent] = std::min(m_low[parent], m_low[vertex]);
        if (m_low[vertex] >= m_number[parent])
            close(vertex, parent);
    }

    /// The block of the links that were opened since the search went from @p top to @p vertex.
    void close(std::size_t vertex, std::size_t top)
    {
        Block block;
        std::vector<std::int32_t> links;
        for (bool first = false; !first; m_open.pop_back()) {
            const std::int32_t link = m_open.back();
            const auto [a, b] = ends(link);
            first = (a == top && b == vertex) || (a == vertex && b == top);
            links.push_back(link);
            block.vertices.insert(block.vertices.end(), {a, b});
        }
        std::sort(block.vertices.begin(), block.vertices.end());
        block.vertices.erase(std::unique(block.vertices.begin(), block.vertices.end()), block.vertices.end());
        std::erase(block.vertices, top);
        block.vertices.insert(block.vertices.begin(), top);
        for (std::size_t i = 0; i < block.vertices.size(); ++i)
            m_place[block.vertices[i]] = i;
        std::sort(links.begin(), links.end());
        block.links = links.size();
        block.neighbours.resize(block.vertices.size());
        for (const std::int32_t link : links) {
            const auto [a, b] = ends(link);
            block.neighbours[m_place[a]].push_back({m_place[b], link});
            block.neighbours[m_place[b]].push_back({m_place[a], link});
        }
        m_tree.blocks.push_back(std::move(block));
    }

    [[nodiscard]] std::pair<std::size_t, std::size_t> ends(std::int32_t link) const
    {
        return {m_links[static_cast<std::size_t>(link)].a, m_links[static_cast<std::size_t>(link)].b};
    }

    std::span<const Link> m_links;
    Adjacency m_adjacency;
    std::vector<std::int32_t> m_number; ///< per vertex, in the order of the search
    std::vector<std::int32_t> m_low;    ///< per vertex: the lowest number linked to it or to its descendants
    std::vector<std::size_t> m_place;
    std::int32_t m_count = 0;
    std::vector<std::int32_t> m_open; ///< links of blocks that are not complete
    BlockTree m_tree;
};

std::vector<std::int32_t> kindsOf(std::span<const Link> links)
{
    std::map<std::tuple<double, double, double, bool>, std::int32_t> kinds;
    std::vector<std::int32_t> kindOf;
    kindOf.reserve(links.size());
    for (const Link &link : links)
        kindOf.push_back(kinds
                             .try_emplace({link.pointToPoint, link.collective, link.latency.value(), link.fullDuplex},
                                          static_cast<std::int32_t>(kinds.size()))
                             .first->second);
    return kindOf;
}

/// The chain of vertices that are no corners and that @p start is an end of; from a vertex between, its half.
std::vector<std::size_t> chainFrom(const Block &block, std::size_t start, const std::vector<std::int32_t> &corner,
                                   std::vector<bool> &seen)
{
    std::vector<std::size_t> chain;
    for (bool more = true; more;) {
        chain.push_back(start);
        seen[start] = true;
        more = false;
        for (const Block::Edge &edge : block.neighbours[start]) {
            if (corner[edge.neighbour] < 0 && !seen[edge.neighbour] && !more) {
                more = true;
                start = edge.neighbour;
            }
        }
    }
    return chain;
}

} // namespace

BlockTree blocksOf(std::size_t vertexCount, std::span<const Link> links) { return Search(vertexCount, links).run(); }

BlockKinds::BlockKinds(std::span<const Link> links, Routes &routes) : m_routes(routes), m_linkKind(kindsOf(links)) {}

std::int32_t BlockKinds::roleOf(const std::tuple<std::int32_t, std::int32_t, std::int32_t> &role)
{
    return m_roles.try_emplace(role, static_cast<std::int32_t>(m_roles.size())).first->second;
}

/// The links of a leg from its first vertex on, corners by their numbers.
BlockKinds::Description BlockKinds::describe(const Block &block, const std::vector<std::size_t> &leg,
                                             const std::vector<std::int32_t> &corner) const
{
    Description description;
    for (std::size_t i = 0; i < leg.size(); ++i) {
        Description corners;
        for (const Block::Edge &edge : block.neighbours[leg[i]])
            if (corner[edge.neighbour] >= 0)
                corners.push_back(corner[edge.neighbour] * static_cast<std::int32_t>(m_linkKind.size())
                                  + kindOf(edge.link));
        std::sort(corners.begin(), corners.end());
        description.push_back(static_cast<std::int32_t>(corners.size()));
        description.insert(description.end(), corners.begin(), corners.end());
        for (const Block::Edge &edge : block.neighbours[leg[i]])
            if (i + 1 < leg.size() && edge.neighbour == leg[i + 1])
                description.push_back(kindOf(edge.link));
    }
    return description;
}

void BlockKinds::add(const Block &block, bool tie)
{
    const std::size_t size = block.vertices.size();
    std::vector<std::int32_t> corner(size, -1);
    std::int32_t corners = 0;
    for (std::size_t i = 0; i < size; ++i)
        if (i == 0 || tie || block.neighbours[i].size() > 2)
            corner[i] = corners++;
    Description description{corners,
                            tie ? static_cast<std::int32_t>(m_routes.kind.size()) : -1}; // with its own kind of ties
    std::vector<std::array<std::int32_t, 3>> between;
    for (std::size_t i = 0; i < size; ++i)
        for (const Block::Edge &edge : block.neighbours[i])
            if (corner[i] >= 0 && corner[edge.neighbour] > corner[i])
                between.push_back({corner[i], corner[edge.neighbour], kindOf(edge.link)});
    std::sort(between.begin(), between.end());
    for (const auto &link : between)
        description.insert(description.end(), link.begin(), link.end());
    for (std::size_t i = 0; i < size; ++i)
        if (corner[i] >= 0 && i > 0)
            m_routes.role[block.vertices[i]] = roleOf({corner[i], -1, -1});

    std::vector<bool> seen(size, false);
    std::vector<std::int32_t> legs;
    for (std::size_t i = 0; i < size; ++i) {
        if (corner[i] >= 0 || seen[i])
            continue;
        // Up to one end, then all the way to the other.
        std::vector<bool> scratch = seen;
        std::vector<std::size_t> leg = chainFrom(block, chainFrom(block, i, corner, scratch).back(), corner, seen);
        Description there = describe(block, leg, corner);
        std::reverse(leg.begin(), leg.end());
        Description back = describe(block, leg, corner);
        if (there < back) {
            std::reverse(leg.begin(), leg.end());
            back = std::move(there);
        }
        legs.push_back(
            m_legKinds.try_emplace(std::move(back), static_cast<std::int32_t>(m_legKinds.size())).first->second);
        for (std::size_t place = 0; place < leg.size(); ++place) {
            m_routes.role[block.vertices[leg[place]]] = roleOf({-1, legs.back(), static_cast<std::int32_t>(place)});
            m_routes.leg[block.vertices[leg[place]]] = m_routes.legs;
        }
        ++m_routes.legs;
    }
    std::sort(legs.begin(), legs.end());
    description.insert(description.end(), legs.begin(), legs.end());
    m_routes.kind.push_back(
        m_kinds.try_emplace(std::move(description), static_cast<std::int32_t>(m_kinds.size())).first->second);
}

} // namespace planloom::cluster
