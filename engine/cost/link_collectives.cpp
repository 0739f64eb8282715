// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/link_collectives.h"

#include "engine/cost/device_model.h"
#include "engine/cost/link_loads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

namespace planloom::cost {
namespace {

using cluster::Cluster;
using cluster::Link;

/// Members of one group by machine.
using Machines = std::vector<std::vector<DeviceId>>;

// The ratios of NCCL's tuning model (src/graph/tuning.cc, 2.8): a step of a ring takes 0.47, 1.9 or 3.4 us on NVLink
// and 2.7, 4.0 or 9.6 us over a network by its protocols LL, LL128 and Simple, which have a quarter, 0.92 and all of
// the bandwidth. A cluster's latencies are those of whole messages.
constexpr std::array<Protocol, 3> kProtocols{{{"Simple", 1, 1}, {"LL128", 0.5, 0.92}, {"LL", 0.25, 0.25}}};
/// Efficiency of trees against the bandwidth, in the same model.
constexpr double kTreeBandwidth = 0.9;
/// Pieces that data is cut into, so that one is inside a machine while another is between machines.
constexpr std::array<double, 7> kPieces{1, 2, 4, 8, 16, 32, 64};
constexpr double kNever = std::numeric_limits<double>::infinity();

Machines byMachine(const Cluster &cluster, std::vector<DeviceId> devices)
{
    std::sort(devices.begin(), devices.end());
    Machines machines;
    for (const DeviceId device : devices) {
        if (machines.empty() || cluster.device(machines.back().back()).node != cluster.device(device).node)
            machines.emplace_back();
        machines.back().push_back(device);
    }
    return machines;
}

std::size_t fewest(const Machines &machines)
{
    std::size_t least = machines.front().size();
    for (const auto &machine : machines)
        least = std::min(least, machine.size());
    return least;
}

bool alike(const Machines &machines)
{
    return std::all_of(machines.begin(), machines.end(),
                       [&](const auto &machine) { return machine.size() == machines.front().size(); });
}

std::size_t countOf(const Machines &machines)
{
    std::size_t count = 0;
    for (const auto &machine : machines)
        count += machine.size();
    return count;
}

/// One ring through all machines, entering each at its member @p rotation.
void addRing(LinkLoads &loads, const Machines &machines, std::size_t ring, std::size_t rings, double bytes)
{
    std::vector<DeviceId> order;
    for (const auto &machine : machines) {
        const std::size_t start = ring * machine.size() / rings;
        for (std::size_t i = 0; i < machine.size(); ++i)
            order.push_back(machine[(start + i) % machine.size()]);
    }
    for (std::size_t i = 0; i < order.size(); ++i)
        loads.add(order[i], order[(i + 1) % order.size()], bytes);
}

/// As many rings as machines have members: together they use each step inside a machine but one in turn, and each way
/// out once.
void addRings(LinkLoads &loads, const Machines &machines, double bytes)
{
    const std::size_t rings = fewest(machines);
    if (!alike(machines)) {
        for (std::size_t r = 0; r < rings; ++r)
            addRing(loads, machines, r, rings, bytes / static_cast<double>(rings));
        return;
    }
    const double share = bytes / static_cast<double>(rings);
    for (std::size_t m = 0; m < machines.size(); ++m) {
        const auto &next = machines[(m + 1) % machines.size()];
        for (std::size_t i = 0; i < rings; ++i) {
            if (rings > 1)
                loads.add(machines[m][i], machines[m][(i + 1) % rings], share * static_cast<double>(rings - 1));
            loads.add(machines[m][(i + rings - 1) % rings], next[i], share);
        }
    }
}

/// A ring inside each machine.
void addInside(LinkLoads &loads, const Machines &machines, double bytes)
{
    for (const auto &machine : machines)
        for (std::size_t i = 0; machine.size() > 1 && i < machine.size(); ++i)
            loads.add(machine[i], machine[(i + 1) % machine.size()], bytes);
}

/// A chain inside each machine, up and down.
void addChains(LinkLoads &loads, const Machines &machines)
{
    for (const auto &machine : machines) {
        for (std::size_t i = 0; i + 1 < machine.size(); ++i) {
            loads.add(machine[i], machine[i + 1], 1);
            loads.add(machine[i + 1], machine[i], 1);
        }
    }
}

/// A ring of counterparts for each position in the machines.
void addBetween(LinkLoads &loads, const Machines &machines, double bytes)
{
    for (std::size_t m = 0; m < machines.size(); ++m) {
        const auto &next = machines[(m + 1) % machines.size()];
        for (std::size_t i = 0; i < machines[m].size(); ++i)
            loads.add(machines[m][i], next[i], bytes);
    }
}

/// Every member sends a piece of @p bytes to every other: traffic out of a machine goes over its members' ways to the
/// next one.
void addDirect(LinkLoads &loads, const Machines &machines, double bytes)
{
    const auto all = static_cast<double>(countOf(machines));
    for (std::size_t m = 0; m < machines.size(); ++m) {
        const auto &machine = machines[m];
        const auto &next = machines[(m + 1) % machines.size()];
        const auto own = static_cast<double>(machine.size());
        for (std::size_t i = 0; i < machine.size(); ++i) {
            if (machine.size() > 1)
                loads.add(machine[i], machine[(i + 1) % machine.size()], bytes * (own - 1));
            if (machines.size() > 1)
                loads.add(machine[i], next[i % next.size()], bytes * (all - own));
        }
    }
}

/// NVLinks between the devices of a group on one machine.
struct DirectLinks {
    double leastRate = 0; ///< bytes a second of all links of one member to others; 0: they do not join all members
    double latency = 0;
};

DirectLinks directLinks(const Cluster &cluster, const std::vector<DeviceId> &members)
{
    std::vector<double> rates(members.size(), 0.0);
    std::vector<std::size_t> island(members.size()); // the first member that links lead to
    std::iota(island.begin(), island.end(), std::size_t{0});
    DirectLinks links;
    for (std::size_t i = 0; i < members.size(); ++i) {
        for (std::size_t j = i + 1; j < members.size(); ++j) {
            std::size_t steps = 0;
            const Link *last = nullptr;
            cluster::walkRoute(cluster.routes(), cluster.links(), cluster.vertexOf(members[i]),
                               cluster.vertexOf(members[j]), [&](std::size_t index, std::size_t, std::size_t) {
                                   ++steps;
                                   last = &cluster.links()[index];
                               });
            if (steps != 1 || last->kind != Link::Kind::NvLink)
                continue;
            rates[i] += last->collective;
            rates[j] += last->collective;
            links.latency = std::max(links.latency, last->latency.value());
            const auto [first, other] = std::minmax(island[i], island[j]);
            std::replace(island.begin(), island.end(), std::size_t{other}, std::size_t{first});
        }
    }
    if (std::any_of(island.begin(), island.end(), [](std::size_t first) { return first != 0; }))
        return {}; // pairs that are bridged, say: a ring of all leaves the links
    links.leastRate = *std::min_element(rates.begin(), rates.end());
    return links;
}

/// An all-reduce moves twice as much as the others.
double comparable(Collective kind, double bytes, double members)
{
    return kind == Collective::AllReduce || kind == Collective::Broadcast ? bytes : bytes * members;
}

} // namespace

const char *name(Algorithm algorithm)
{
    constexpr const char *kNames[] = {"ring", "rings", "hierarchical", "tree", "direct"};
    return kNames[static_cast<std::size_t>(algorithm)];
}

LinkCollectives::LinkCollectives(const Cluster &cluster, std::span<const std::vector<DeviceId>> groups, Ways ways,
                                 double partialRate)
    : m_ways(ways)
{
    std::vector<Machines> all;
    for (const std::vector<DeviceId> &group : groups) {
        all.push_back(byMachine(cluster, group));
        m_members = std::max(m_members, static_cast<double>(group.size()));
    }
    makeRings(cluster, all);
    if (ways == Ways::Processor)
        return;
    joinLinks(cluster, all);
    if (partialRate > 0)
        holdBack(cluster, all, partialRate);
    if (ways == Ways::Library)
        makeHierarchy(cluster, all);
    makeDirect(cluster, all);
}

void LinkCollectives::makeRings(const Cluster &cluster, std::span<const Machines> groups)
{
    // A member passes on 2 (n-1)/n of the bytes in 2 (n-1) steps.
    const double moved = 2 * (m_members - 1) / m_members;
    LinkLoads one(cluster);
    LinkLoads many(cluster);
    bool several = false;
    for (const Machines &machines : groups) {
        addRing(one, machines, 0, 1, moved);
        several = several || (machines.size() > 1 && fewest(machines) > 1);
        addRings(many, machines, moved);
    }
    const double steps = 2 * (m_members - 1);
    m_ring = {true, one.busiest(&Link::collective), steps * one.latency()};
    m_rings = {several, several ? many.busiest(&Link::collective) : 0, steps * many.latency()};
}

/// Rings over all links that join the members of a machine directly: each enters and leaves a member once, so that the
/// rate of all of them is that of the links of the member that has the least.
void LinkCollectives::joinLinks(const Cluster &cluster, std::span<const Machines> groups)
{
    double least = kNever;
    double latency = 0;
    for (const Machines &machines : groups) {
        if (machines.size() != 1)
            return;
        const DirectLinks links = directLinks(cluster, machines.front());
        least = std::min(least, links.leastRate);
        latency = std::max(latency, links.latency);
    }
    if (!(least > 0))
        return;
    const double perByte = 2 * (m_members - 1) / m_members / least;
    if (perByte < m_ring.perByte)
        m_rings = {true, perByte, 2 * (m_members - 1) * latency};
}

/// Groups with some of a machine's devices: rings enter and leave the machine by one member's port, which the others
/// reach through the host.
void LinkCollectives::holdBack(const Cluster &cluster, std::span<const Machines> groups, double partialRate)
{
    const bool partial = std::any_of(groups.begin(), groups.end(), [&](const Machines &machines) {
        return machines.size() > 1 && std::any_of(machines.begin(), machines.end(), [&](const auto &machine) {
                   const cluster::Node &node = cluster.nodes()[cluster.device(machine.front()).node.index()];
                   return machine.size() > 1 && machine.size() < node.devices.size();
               });
    });
    if (!partial)
        return;
    const double least = 2 * (m_members - 1) / m_members / partialRate;
    m_ring.perByte = std::max(m_ring.perByte, least);
    m_rings.perByte = std::max(m_rings.perByte, least);
}

void LinkCollectives::makeHierarchy(const Cluster &cluster, std::span<const Machines> groups)
{
    double machines = 0;
    double members = 0;
    for (const Machines &group : groups) {
        if (group.size() < 2 || !alike(group))
            return;
        machines = std::max(machines, static_cast<double>(group.size()));
        members = std::max(members, static_cast<double>(group.front().size()));
    }
    LinkLoads inside(cluster);
    LinkLoads between(cluster);
    LinkLoads tree(cluster);
    for (const Machines &group : groups) {
        addInside(inside, group, 2 * (members - 1) / members);
        addBetween(between, group, 2 * (machines - 1) / machines / members);
        addChains(tree, group);
        addBetween(tree, group, 2 * (machines - 1) / machines / members);
    }
    m_inside = {true, inside.busiest(&Link::collective), 2 * (members - 1) * inside.latency()};
    m_between = {true, between.busiest(&Link::collective), 2 * (machines - 1) * between.latency()};
    m_treeDepth = 2 * (std::ceil(std::log2(machines)) + members - 1);
    m_tree = {true, tree.busiest(&Link::collective) / kTreeBandwidth,
              2 * (std::ceil(std::log2(machines)) * between.latency() + (members - 1) * inside.latency())};
}

void LinkCollectives::makeDirect(const Cluster &cluster, std::span<const Machines> groups)
{
    LinkLoads loads(cluster);
    for (const Machines &machines : groups)
        addDirect(loads, machines, 1);
    m_direct = {true, loads.busiest(&Link::collective), loads.latency()};
}

Seconds LinkCollectives::allReduce(Algorithm algorithm, double bytes, const Protocol &protocol) const
{
    const double faster = 1 / protocol.bandwidth;
    const auto plain = [&](const Way &way) {
        return Seconds(way.exists ? way.perByte * bytes * faster + way.latency * protocol.latency : kNever);
    };
    switch (algorithm) {
    case Algorithm::Ring: return plain(m_ring);
    case Algorithm::Rings: return plain(m_rings);
    case Algorithm::Direct: return Seconds(kNever); // of exchanges, not reductions
    case Algorithm::Tree: {
        if (!m_tree.exists)
            return Seconds(kNever);
        // (depth + pieces - 1) steps of a piece each; this is its value at the best number of pieces.
        const double latency = m_tree.latency * protocol.latency;
        const double stream = m_tree.perByte * bytes * faster;
        return Seconds(latency + stream + 2 * std::sqrt(latency * stream * (m_treeDepth - 1) / m_treeDepth));
    }
    case Algorithm::Hierarchical: break;
    }
    if (!m_between.exists)
        return Seconds(kNever);
    const double inside = m_inside.perByte * bytes * faster;
    const double between = m_between.perByte * bytes * faster;
    double best = kNever;
    for (const double pieces : kPieces) {
        const double in = inside / pieces + m_inside.latency * protocol.latency;
        const double out = between / pieces + m_between.latency * protocol.latency;
        best = std::min(best, in + out + (pieces - 1) * std::max(in, out));
    }
    return Seconds(best);
}

CollectiveCost LinkCollectives::cost(Collective kind, double bytes) const
{
    CollectiveCost best{Seconds(kNever), Algorithm::Ring, kProtocols[0].name};
    const double reduced = comparable(kind, bytes, m_members);
    const double part = kind == Collective::AllReduce ? 1 : 0.5;
    const auto consider = [&](Seconds seconds, Algorithm algorithm, const Protocol &protocol) {
        if (seconds < best.seconds)
            best = {seconds, algorithm, protocol.name};
    };
    const bool library = m_ways != Ways::Processor;
    const bool exchange = kind == Collective::AllToAll && library;
    for (const Protocol &protocol : kProtocols) {
        if (exchange)
            consider(Seconds(m_direct.perByte * bytes / protocol.bandwidth + m_direct.latency * protocol.latency),
                     Algorithm::Direct, protocol);
        for (const Algorithm algorithm :
             {Algorithm::Ring, Algorithm::Rings, Algorithm::Hierarchical, Algorithm::Tree}) {
            const bool known = (library || algorithm == Algorithm::Ring || algorithm == Algorithm::Rings) && !exchange;
            const bool trees = kind == Collective::AllReduce || kind == Collective::Broadcast;
            if (known && (trees || algorithm != Algorithm::Tree))
                consider(allReduce(algorithm, reduced, protocol) * part, algorithm, protocol);
        }
        if (!library)
            break;
    }
    return best;
}

std::shared_ptr<const LinkCollectives> LinkCache::of(const Cluster &cluster,
                                                     std::vector<std::vector<DeviceId>> groups) const
{
    // Planners ask for the spans of a cluster and their parts; beyond so many devices in all nothing more is kept.
    constexpr std::size_t kMostKept = std::size_t{1} << 22;
    {
        const std::shared_lock lock(m_guard);
        if (const auto found = m_kept.find(groups); found != m_kept.end())
            return found->second;
    }
    const bool library = DeviceModel::of(cluster.typeOf(groups.front().front())).has_value();
    const Ways ways = !library ? Ways::Processor : m_rings ? Ways::Rings : Ways::Library;
    auto made = std::make_shared<const LinkCollectives>(cluster, groups, ways, m_partialRate);
    const std::unique_lock lock(m_guard);
    std::size_t devices = 1;
    for (const auto &group : groups)
        devices += group.size();
    if (m_keptDevices + devices <= kMostKept && m_kept.emplace(std::move(groups), made).second)
        m_keptDevices += devices;
    return made;
}

} // namespace planloom::cost
