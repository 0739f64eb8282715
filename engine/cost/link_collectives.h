// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/units.h"
#include "engine/cluster/cluster.h"
#include "engine/cost/collectives.h"

#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <vector>

namespace planloom::cost {

/// How a library carries out a collective.
enum class Algorithm : std::uint8_t {
    Ring,         ///< every member sends to the next one
    Rings,        ///< as many rings as the machines have members, each leaving them by another one
    Hierarchical, ///< reduce-scatter inside the machines, rings of counterparts between them, all-gather inside
    Tree,         ///< chains inside the machines, two binary trees over them
    Direct,       ///< every member sends to every other one
};
/// Algorithms and protocols to choose from.
enum class Ways : std::uint8_t {
    Processor, ///< those of CPUs (executor/comm): rings, whole messages
    Rings,     ///< a library's without hierarchies and trees
    Library,   ///< all
};
const char *name(Algorithm algorithm);

/// How it hands data on: the faster a message arrives, the less of the bandwidth it gets (NCCL's LL, LL128 and Simple
/// protocols).
struct Protocol {
    const char *name;
    double latency;   ///< of the links' own
    double bandwidth; ///< likewise
};

/// The fastest algorithm of a collective, and its time.
struct CollectiveCost {
    Seconds seconds;
    Algorithm algorithm = Algorithm::Ring;
    const char *protocol = "";
};

/// Cost of a collective over the links of a cluster, for any size: latencies and seconds per byte of each
/// algorithm, worked out once from the loads on the links. Groups that communicate at once share links. Of devices that
/// NVLinks join directly, without a switch, a library's rings use all links among the members together: the member with
/// the fewest counts. Making one costs O(members * links of a route), asking it O(1). Immutable.
class LinkCollectives {
public:
    /// @p groups: at least one, of two or more members each. @p partialRate: bytes a second that a ring of a group with
    /// several, but not all devices of a machine moves between machines at most, where the library reaches a port of
    /// another device through the host only; 0: as the links are.
    LinkCollectives(const cluster::Cluster &cluster, std::span<const std::vector<DeviceId>> groups, Ways ways,
                    double partialRate = 0);

    /// The fastest way. @p bytes as collectives.h counts them.
    [[nodiscard]] CollectiveCost cost(Collective kind, double bytes) const;
    /// An all-reduce done in one way; infinite where the way does not exist, such as a hierarchy of one machine.
    [[nodiscard]] Seconds allReduce(Algorithm algorithm, double bytes, const Protocol &protocol) const;

private:
    using Machines = std::vector<std::vector<DeviceId>>; ///< members of a group by machine
    struct Way {
        bool exists = false;
        double perByte = 0; ///< seconds of the busiest link for each byte that is reduced
        double latency = 0; ///< of all steps, one after the other
    };
    void makeRings(const cluster::Cluster &cluster, std::span<const Machines> groups);
    void joinLinks(const cluster::Cluster &cluster, std::span<const Machines> groups);
    void holdBack(const cluster::Cluster &cluster, std::span<const Machines> groups, double partialRate);
    void makeHierarchy(const cluster::Cluster &cluster, std::span<const Machines> groups);
    void makeDirect(const cluster::Cluster &cluster, std::span<const Machines> groups);

    double m_members = 0;
    Ways m_ways = Ways::Processor;
    Way m_ring, m_rings, m_inside, m_between, m_tree, m_direct;
    double m_treeDepth = 0; ///< steps down and up
};

/// LinkCollectives of the groups asked for so far. Thread-safe.
class LinkCache {
public:
    /// @p rings: GPUs use rings only; @p partialRate as LinkCollectives has it. To be said before anything is asked.
    void setRings(bool rings, double partialRate = 0)
    {
        m_rings = rings;
        m_partialRate = partialRate;
    }
    std::shared_ptr<const LinkCollectives> of(const cluster::Cluster &cluster,
                                              std::vector<std::vector<DeviceId>> groups) const;

private:
    bool m_rings = false;
    double m_partialRate = 0;
    mutable std::shared_mutex m_guard;
    mutable std::size_t m_keptDevices = 0; ///< in the groups that are kept
    mutable std::map<std::vector<std::vector<DeviceId>>, std::shared_ptr<const LinkCollectives>> m_kept;
};

} // namespace planloom::cost
