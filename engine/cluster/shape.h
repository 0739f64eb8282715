// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace planloom::cluster {

/// Tells how lists of devices lie in a cluster. Two lists get the same number only if the links that join the devices
/// of the one can be laid over those of the other, device i on device i, so that links of equal figures cover each
/// other, as do nodes, types and the order of ids. Whatever is worked out of links, routes, nodes and types is then
/// equal for both, to the last bit. (Lists that get different numbers may still be alike: within a block of links only
/// legs are taken for each other, see Routes.) Not thread-safe. Cost: O(devices * depth of the blocks), plus a look-up.
class Shapes {
public:
    explicit Shapes(const Cluster &cluster);
    std::int32_t of(std::span<const DeviceId> devices);

private:
    void describeOrder(std::span<const DeviceId> devices);
    void describeWay(std::size_t vertex);

    /// Numbers things in the order of first appearance.
    class Numbers {
    public:
        struct Number {
            std::int32_t number = 0;
            bool isNew = false;
        };
        explicit Numbers(std::size_t things) : m_numbers(things, -1) {}
        Number of(std::size_t thing)
        {
            if (m_numbers[thing] >= 0)
                return {m_numbers[thing], false};
            m_numbers[thing] = static_cast<std::int32_t>(m_seen.size());
            m_seen.push_back(thing);
            return {m_numbers[thing], true};
        }
        void forget()
        {
            for (const std::size_t thing : m_seen)
                m_numbers[thing] = -1;
            m_seen.clear();
        }

    private:
        std::vector<std::int32_t> m_numbers; ///< -1: none
        std::vector<std::size_t> m_seen;
    };

    const Cluster &m_cluster;
    Numbers m_vertex, m_node, m_block, m_leg;
    std::vector<std::int32_t> m_description;
    std::map<std::vector<std::int32_t>, std::int32_t> m_known;
};

} // namespace planloom::cluster
