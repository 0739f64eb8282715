// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace planloom::cluster {

/// A biconnected part of the links: no vertex of it has to be passed on every way between two others.
struct Block {
    struct Edge {
        std::size_t neighbour = 0; ///< place in the block
        std::int32_t link = -1;
    };
    std::vector<std::size_t> vertices;         ///< the one nearest the root first, the others by number
    std::vector<std::vector<Edge>> neighbours; ///< per place; of parallel links the widest, then the first
    std::size_t links = 0;
};

/// All of them; each vertex but the roots of unconnected parts has one towards its root, the vertex with most links.
struct BlockTree {
    std::vector<Block> blocks;         ///< those nearer the root first
    std::vector<std::int32_t> blockOf; ///< per vertex
};
/// Hopcroft and Tarjan's search (CACM 16(6), 1973), in O(vertices + links log links).
BlockTree blocksOf(std::size_t vertexCount, std::span<const Link> links);

/// Finds identical blocks. A block's corners are its top and the vertices with more than two links in it; the
/// rest are legs, chains between corners. Legs that join the same corners over links of equal figures can change
/// places; blocks with equal corners and legs over equal links are of a kind. Where two ways are equally good for two
/// of its ends, numbers decide between them, and nothing is taken to be alike.
class BlockKinds {
public:
    BlockKinds(std::span<const Link> links, Routes &routes);
    /// Fills in kind of the next block, role and leg of its vertices.
    void add(const Block &block, bool tie);

private:
    using Description = std::vector<std::int32_t>;
    [[nodiscard]] Description describe(const Block &block, const std::vector<std::size_t> &leg,
                                       const std::vector<std::int32_t> &corner) const;
    [[nodiscard]] std::int32_t kindOf(std::int32_t link) const { return m_linkKind[static_cast<std::size_t>(link)]; }
    std::int32_t roleOf(const std::tuple<std::int32_t, std::int32_t, std::int32_t> &role);

    Routes &m_routes;
    std::vector<std::int32_t> m_linkKind; ///< links of equal figures have the same
    std::map<Description, std::int32_t> m_kinds;
    std::map<Description, std::int32_t> m_legKinds;
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> m_roles;
};

} // namespace planloom::cluster
