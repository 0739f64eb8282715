// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cluster.h"

#include "engine/cluster/routes.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace planloom::cluster {
namespace {

bool positive(double value) { return std::isfinite(value) && value > 0; }

Status checkType(const DeviceType &type)
{
    if (type.name.empty())
        return badInput("a device type has no name; name it, such as V100-16GB");
    if (!type.peakFlops.contains("float32"))
        return badInput(
            fmt::format("device type {} has no peak FLOP/s for float32; give at least that one", type.name));
    for (const auto &[dtype, rate] : type.peakFlops) {
        if (!positive(rate))
            return badInput(fmt::format("device type {}: peak FLOP/s for {} is {}; it must be a positive number",
                                        type.name, dtype, rate));
    }
    if (type.memory.value() <= 0)
        return badInput(
            fmt::format("device type {}: memory is {} bytes; it must be positive", type.name, type.memory.value()));
    if (!positive(type.memoryBandwidth))
        return badInput(fmt::format("device type {}: memory bandwidth is {}; it must be a positive number of bytes/s",
                                    type.name, type.memoryBandwidth));
    return {};
}

Status checkLink(const Link &link, std::span<const Vertex> vertices)
{
    if (link.a >= vertices.size() || link.b >= vertices.size())
        return badInput("a link ends at something that does not exist");
    const std::string where = fmt::format("the link {} - {}", vertices[link.a].name, vertices[link.b].name);
    if (link.a == link.b)
        return badInput(where + " connects a thing with itself; name two ends");
    if (!positive(link.pointToPoint) || !positive(link.collective))
        return badInput(fmt::format(
            "{} has bandwidth {} (point to point) and {} (collective); both must be positive numbers of bytes/s", where,
            link.pointToPoint, link.collective));
    if (!std::isfinite(link.latency.value()) || link.latency.value() < 0)
        return badInput(
            fmt::format("{} has a latency of {:g} µs; it must be zero or more", where, link.latency.value() * 1e6));
    return {};
}

bool isMadeOf(std::string_view text, std::string_view others, std::size_t most)
{
    const auto fits = [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
            || others.find(c) != std::string_view::npos;
    };
    return !text.empty() && text.size() <= most && text.front() != '-' && std::all_of(text.begin(), text.end(), fits);
}

Status checkHost(const Node &node)
{
    const Host &host = node.host;
    if (host.address.empty() && (!host.user.empty() || host.port != 0))
        return badInput(fmt::format("node {} has a user or a port, but no address; give the address, too", node.name));
    if (!host.address.empty() && !isAddress(host.address))
        return badInput(
            fmt::format("node {}: the address '{}' is no host name and no IP address", node.name, host.address));
    if (!host.user.empty() && !isUserName(host.user))
        return badInput(fmt::format("node {}: '{}' is no user's name", node.name, host.user));
    if (host.port < 0 || host.port > kMostPort)
        return badInput(fmt::format("node {}: the port {} is not from 1 to {}", node.name, host.port, kMostPort));
    if (host.ranks < 0 || (host.ranks > 0 && static_cast<std::size_t>(host.ranks) < node.devices.size()))
        return badInput(
            fmt::format("node {} has {} slots for {} devices; give at least one for each, or leave them out", node.name,
                        host.ranks, node.devices.size()));
    return {};
}

/// Each node is a machine of its own.
Status checkHosts(std::span<const Node> nodes)
{
    std::set<std::pair<std::string_view, int>> seen;
    for (const Node &node : nodes) {
        if (Status good = checkHost(node); !good)
            return good;
        if (!node.host.address.empty() && !seen.emplace(node.host.address, node.host.port).second)
            return badInput(fmt::format("two nodes have the address {}; list the devices of a machine under one node",
                                        node.host.address));
    }
    return {};
}

Status checkNodes(std::span<const Node> nodes)
{
    for (const Node &node : nodes) {
        if (node.cores < 0)
            return badInput(
                fmt::format("node {} has {} cores; give 1 or more, or leave them out", node.name, node.cores));
        if (node.devices.empty())
            return badInput(fmt::format("node {} has no devices; leave it out", node.name));
        for (std::size_t i = 1; i < node.devices.size(); ++i) {
            if (node.devices[i].value != node.devices[i - 1].value + 1)
                return badInput(fmt::format(
                    "the devices of node {} are mixed with another node's; list each node's together", node.name));
        }
    }
    return {};
}

template <class Things>
Status checkNames(const Things &things, const char *kind)
{
    std::set<std::string_view> seen;
    for (const auto &thing : things) {
        if (thing.name.empty())
            return badInput(fmt::format("a {} has no name", kind));
        if (!seen.insert(thing.name).second)
            return badInput(fmt::format("{} is the name of more than one {}; names must differ", thing.name, kind));
    }
    return {};
}

Status checkRates(const TwoLevelRates &rates, std::size_t nodes)
{
    if (!positive(rates.intraNode))
        return badInput(
            fmt::format("the bandwidth inside a node is {}; it must be a positive number of bytes/s", rates.intraNode));
    if (nodes > 1 && (!positive(rates.interPointToPoint) || !positive(rates.interCollective)))
        return badInput(fmt::format("the bandwidth between nodes is {} (point to point) and {} (collective); both must "
                                    "be positive numbers of bytes/s",
                                    rates.interPointToPoint, rates.interCollective));
    return {};
}

/// The first vertex that is a device and cannot be reached from the first device, or vertexCount.
std::size_t firstUnreached(std::span<const Vertex> vertices, std::span<const Link> links, std::size_t start)
{
    std::vector<std::size_t> root(vertices.size());
    std::iota(root.begin(), root.end(), std::size_t{0});
    const auto find = [&root](std::size_t v) {
        while (root[v] != v) {
            root[v] = root[root[v]];
            v = root[v];
        }
        return v;
    };
    for (const Link &link : links)
        root[find(link.a)] = find(link.b);
    for (std::size_t v = 0; v < vertices.size(); ++v) {
        if (vertices[v].kind == Vertex::Kind::Device && find(v) != find(start))
            return v;
    }
    return vertices.size();
}

} // namespace

bool isAddress(std::string_view text)
{
    constexpr std::size_t kMost = 253;
    return isMadeOf(text, "._-:", kMost);
}

bool isUserName(std::string_view text)
{
    constexpr std::size_t kMost = 32;
    return isMadeOf(text, "._-", kMost);
}

DeviceId Cluster::find(std::string_view deviceName) const
{
    const auto nameOf = [this](std::int32_t id) -> const std::string & {
        return m_devices[static_cast<std::size_t>(id)].name;
    };
    const auto it = std::lower_bound(m_devicesByName.begin(), m_devicesByName.end(), deviceName,
                                     [&](std::int32_t id, std::string_view wanted) { return nameOf(id) < wanted; });
    if (it == m_devicesByName.end() || nameOf(*it) != deviceName)
        return {};
    return DeviceId(*it);
}

bool Cluster::fullDuplex() const
{
    return std::all_of(m_links.begin(), m_links.end(), [](const Link &link) { return link.fullDuplex; });
}

std::vector<std::size_t> Cluster::route(DeviceId from, DeviceId to) const
{
    return routeBetween(m_routes, m_links, vertexOf(from), vertexOf(to));
}

ClusterBuilder::ClusterBuilder(std::string name) { m_cluster.m_name = std::move(name); }

std::size_t ClusterBuilder::type(DeviceType type)
{
    m_cluster.m_types.push_back(std::move(type));
    return m_cluster.m_types.size() - 1;
}

NodeId ClusterBuilder::node(std::string name, int cores, Host host)
{
    const NodeId id(static_cast<std::int64_t>(m_cluster.m_nodes.size()));
    m_cluster.m_nodes.push_back({id, std::move(name), {}, cores, std::move(host)});
    return id;
}

DeviceId ClusterBuilder::device(NodeId node, std::size_t type, std::string name)
{
    const DeviceId id(static_cast<std::int64_t>(m_cluster.m_devices.size()));
    std::vector<DeviceId> &siblings = m_cluster.m_nodes[node.index()].devices;
    if (name.empty())
        name = fmt::format("n{}:g{}", node.value, siblings.size());
    siblings.push_back(id);
    m_cluster.m_deviceVertices.push_back(vertex({Vertex::Kind::Device, name, id, node}));
    m_cluster.m_devices.push_back({id, std::move(name), node, type});
    return id;
}

std::size_t ClusterBuilder::vertexOf(DeviceId device) const { return m_cluster.m_deviceVertices[device.index()]; }

std::size_t ClusterBuilder::vertex(Vertex vertex)
{
    m_cluster.m_vertices.push_back(std::move(vertex));
    return m_cluster.m_vertices.size() - 1;
}

void ClusterBuilder::link(Link link) { m_cluster.m_links.push_back(link); }

void ClusterBuilder::twoLevel(TwoLevelRates rates)
{
    m_cluster.m_commModel = CommModel::TwoLevel;
    m_cluster.m_twoLevel = rates;
}

Result<Cluster> ClusterBuilder::build() &&
{
    Cluster &c = m_cluster;
    if (c.m_devices.empty())
        return badInput("the cluster has no devices; give at least one node with a device");
    if (c.m_devices.size() > kMostDevices)
        return badInput(
            fmt::format("the cluster has {} devices; at most {} are supported", c.m_devices.size(), kMostDevices));
    for (const DeviceType &type : c.m_types) {
        if (Status status = checkType(type); !status)
            return status.error();
    }
    for (const Device &device : c.m_devices) {
        if (device.type >= c.m_types.size())
            return badInput(fmt::format("device {} is of a type that does not exist", device.name));
    }
    for (const Link &link : c.m_links) {
        if (Status status = checkLink(link, c.m_vertices); !status)
            return status.error();
    }
    for (const Status &status :
         {checkNames(c.m_types, "device type"), checkNames(c.m_nodes, "node"),
          checkNames(c.m_vertices, "device or switch"), checkNodes(c.m_nodes), checkHosts(c.m_nodes)}) {
        if (!status)
            return status.error();
    }
    if (c.m_commModel == CommModel::TwoLevel) {
        if (Status status = checkRates(c.m_twoLevel, c.m_nodes.size()); !status)
            return status.error();
    }
    if (const std::size_t lost = firstUnreached(c.m_vertices, c.m_links, c.m_deviceVertices[0]);
        lost < c.m_vertices.size())
        return badInput(fmt::format("device {} cannot be reached from {}; add a link or a network between them",
                                    c.m_vertices[lost].name, c.m_devices[0].name));

    auto routes = makeRoutes(c.m_vertices.size(), c.m_links, c.m_deviceVertices);
    if (!routes)
        return routes.error();
    c.m_routes = *std::move(routes);
    c.m_devicesByName.resize(c.m_devices.size());
    std::iota(c.m_devicesByName.begin(), c.m_devicesByName.end(), 0);
    std::sort(c.m_devicesByName.begin(), c.m_devicesByName.end(), [&c](std::int32_t x, std::int32_t y) {
        return c.m_devices[static_cast<std::size_t>(x)].name < c.m_devices[static_cast<std::size_t>(y)].name;
    });
    return std::move(m_cluster);
}

} // namespace planloom::cluster
