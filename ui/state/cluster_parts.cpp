// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/cluster_parts.h"

#include "engine/cluster/routes.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace planloom::ui {

namespace {

using cluster::Cluster;
using cluster::Link;
using cluster::Vertex;

constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

/// A cluster that is being changed.
struct ClusterParts {
    struct Point {
        Vertex vertex; ///< its device's id does not count
        std::size_t type = 0;
    };
    std::string name;
    std::vector<cluster::DeviceType> types;
    std::vector<cluster::Node> nodes; ///< their devices do not count
    std::vector<Point> points;
    std::vector<Link> links;
    bool twoLevel = false;
    cluster::TwoLevelRates rates;
};

ClusterParts takenApart(const Cluster &cluster)
{
    ClusterParts parts{cluster.name(),
                       {cluster.types().begin(), cluster.types().end()},
                       {cluster.nodes().begin(), cluster.nodes().end()},
                       {},
                       {cluster.links().begin(), cluster.links().end()},
                       cluster.commModel() == cluster::CommModel::TwoLevel,
                       cluster.twoLevel()};
    for (const Vertex &vertex : cluster.vertices())
        parts.points.push_back(
            {vertex, vertex.kind == Vertex::Kind::Device ? cluster.device(vertex.device).type : std::size_t{0}});
    return parts;
}

Result<Cluster> putTogether(const ClusterParts &parts)
{
    cluster::ClusterBuilder builder(parts.name);
    for (const cluster::DeviceType &type : parts.types)
        builder.type(type);
    for (const cluster::Node &node : parts.nodes)
        builder.node(node.name, node.cores, node.host);
    for (const ClusterParts::Point &point : parts.points) {
        if (point.vertex.kind == Vertex::Kind::Device)
            builder.device(point.vertex.node, point.type, point.vertex.name);
        else
            builder.vertex(point.vertex);
    }
    for (const Link &link : parts.links)
        builder.link(link);
    if (parts.twoLevel)
        builder.twoLevel(parts.rates);
    return std::move(builder).build();
}

/// "n0:g7" -> "n0:g8", "spine" -> "spine2": the number behind the highest of that beginning.
std::string freeName(const std::string &like, const std::set<std::string> &taken)
{
    std::size_t digits = like.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(like[digits - 1])) != 0)
        --digits;
    const std::string beginning = like.substr(0, digits);
    for (std::size_t number = digits == like.size() ? 2 : 0;; ++number) {
        if (std::string name = beginning + std::to_string(number); !taken.contains(name))
            return name;
    }
}

std::set<std::string> pointNames(const ClusterParts &parts)
{
    std::set<std::string> names;
    for (const ClusterParts::Point &point : parts.points)
        names.insert(point.vertex.name);
    return names;
}

/// Before place @p at; links follow their ends.
void insertPoint(ClusterParts &parts, std::size_t at, ClusterParts::Point point)
{
    parts.points.insert(parts.points.begin() + static_cast<std::ptrdiff_t>(at), std::move(point));
    for (Link &link : parts.links) {
        link.a += link.a >= at ? 1 : 0;
        link.b += link.b >= at ? 1 : 0;
    }
}

/// With their links.
void erasePoints(ClusterParts &parts, const std::vector<bool> &gone)
{
    std::vector<std::size_t> place(parts.points.size(), kNoPlace);
    std::vector<ClusterParts::Point> points;
    for (std::size_t v = 0; v < parts.points.size(); ++v) {
        if (gone[v])
            continue;
        place[v] = points.size();
        points.push_back(std::move(parts.points[v]));
    }
    parts.points = std::move(points);
    std::erase_if(parts.links, [&](const Link &link) { return gone[link.a] || gone[link.b]; });
    for (Link &link : parts.links) {
        link.a = place[link.a];
        link.b = place[link.b];
    }
}

void eraseNodes(ClusterParts &parts, const std::vector<bool> &gone)
{
    std::vector<bool> points;
    for (const ClusterParts::Point &point : parts.points)
        points.push_back(point.vertex.node.valid() && gone[point.vertex.node.index()]);
    erasePoints(parts, points);
    std::vector<NodeId> now(parts.nodes.size());
    std::vector<cluster::Node> nodes;
    for (std::size_t n = 0; n < parts.nodes.size(); ++n) {
        if (gone[n])
            continue;
        now[n] = NodeId(static_cast<std::int64_t>(nodes.size()));
        nodes.push_back(std::move(parts.nodes[n]));
    }
    parts.nodes = std::move(nodes);
    for (ClusterParts::Point &point : parts.points) {
        if (point.vertex.node.valid())
            point.vertex.node = now[point.vertex.node.index()];
    }
}

std::size_t firstNetwork(const ClusterParts &parts)
{
    for (std::size_t v = 0; v < parts.points.size(); ++v) {
        if (!parts.points[v].vertex.node.valid())
            return v;
    }
    return kNoPlace;
}

/// Where a node is joined to the network: its first card, else its first switch, else its first device.
std::size_t doorOf(const ClusterParts &parts, NodeId node)
{
    std::size_t door = kNoPlace;
    const auto rank = [](Vertex::Kind kind) {
        return kind == Vertex::Kind::Nic ? 0 : kind == Vertex::Kind::Switch ? 1 : 2;
    };
    for (std::size_t v = 0; v < parts.points.size(); ++v) {
        if (parts.points[v].vertex.node != node)
            continue;
        if (door == kNoPlace || rank(parts.points[v].vertex.kind) < rank(parts.points[door].vertex.kind))
            door = v;
    }
    return door;
}

/// Figures for a link between two points.
Link linkLike(const ClusterParts &parts, std::size_t a, std::size_t b)
{
    const auto kinds = [&](std::size_t x, std::size_t y) {
        return std::minmax(parts.points[x].vertex.kind, parts.points[y].vertex.kind);
    };
    for (const Link &each : parts.links) {
        if (kinds(each.a, each.b) != kinds(a, b))
            continue;
        Link link = each;
        link.a = a;
        link.b = b;
        return link;
    }
    const auto is = [&](Vertex::Kind kind) {
        return parts.points[a].vertex.kind == kind || parts.points[b].vertex.kind == kind;
    };
    const bool inside =
        parts.points[a].vertex.node.valid() && parts.points[a].vertex.node == parts.points[b].vertex.node;
    if (!inside || is(Vertex::Kind::Network))
        return {Link::Kind::Network, a, b, 12.5e9, 12.5e9, Seconds(20e-6), true}; // 100 Gb/s
    if (is(Vertex::Kind::Nic))
        return {Link::Kind::Pcie, a, b, 25e9, 25e9, Seconds(5e-6), true}; // PCIe 4.0 x16
    return {Link::Kind::NvLink, a, b, 300e9, 300e9, Seconds(5e-6), true};
}

/// A network that joins all nodes, for clusters that have none.
std::size_t addNetwork(ClusterParts &parts)
{
    const std::size_t network = parts.points.size();
    const std::set<std::string> taken = pointNames(parts);
    const std::string name = taken.contains("network") ? freeName("network", taken) : "network";
    parts.points.push_back({{Vertex::Kind::Network, name, {}, {}}, 0});
    for (std::size_t n = 0; n < parts.nodes.size(); ++n) {
        if (const std::size_t door = doorOf(parts, NodeId(static_cast<std::int64_t>(n))); door != kNoPlace)
            parts.links.push_back(linkLike(parts, door, network));
    }
    return network;
}

std::size_t typeNamed(ClusterParts &parts, const cluster::DeviceType &type)
{
    const auto found = std::find_if(parts.types.begin(), parts.types.end(),
                                    [&](const cluster::DeviceType &each) { return each.name == type.name; });
    if (found != parts.types.end())
        return static_cast<std::size_t>(found - parts.types.begin());
    parts.types.push_back(type);
    return parts.types.size() - 1;
}

/// Names of a node's parts begin with its own name, "n0:g3", unless they do not.
std::string renamed(const std::string &name, const std::string &before, const std::string &after,
                    const std::set<std::string> &taken)
{
    std::string moved = name;
    if (name.starts_with(before + ":"))
        moved = after + name.substr(before.size());
    return taken.contains(moved) ? freeName(moved, taken) : moved;
}

/// The parts of @p node of @p from, behind all others; by vertex of @p from where each is now, kNoPlace if it is not of
/// that node.
std::vector<std::size_t> addPoints(ClusterParts &parts, const Cluster &from, NodeId node)
{
    std::set<std::string> nodeNames;
    for (const cluster::Node &each : parts.nodes)
        nodeNames.insert(each.name);
    const cluster::Node &model = from.nodes()[node.index()];
    const NodeId id(static_cast<std::int64_t>(parts.nodes.size()));
    const std::string name = nodeNames.contains(model.name) ? freeName(model.name, nodeNames) : model.name;
    parts.nodes.push_back({id, name, {}, model.cores, {}});
    std::set<std::string> taken = pointNames(parts);
    std::vector<std::size_t> place(from.vertices().size(), kNoPlace);
    for (std::size_t v = 0; v < from.vertices().size(); ++v) {
        Vertex vertex = from.vertices()[v];
        if (vertex.node != node)
            continue;
        const bool device = vertex.kind == Vertex::Kind::Device;
        const std::size_t type = device ? typeNamed(parts, from.typeOf(vertex.device)) : 0;
        vertex.node = id;
        vertex.name = renamed(vertex.name, model.name, name, taken);
        taken.insert(vertex.name);
        place[v] = parts.points.size();
        parts.points.push_back({std::move(vertex), type});
    }
    return place;
}

} // namespace

Result<Cluster> withNodeOf(const Cluster &cluster, const Cluster &from, NodeId node)
{
    ClusterParts parts = takenApart(cluster);
    const bool same = &cluster == &from;
    const std::size_t before = parts.links.size();
    const auto leaves = [&](const Link &link) {
        return (from.vertices()[link.a].node == node) != (from.vertices()[link.b].node == node);
    };
    std::size_t network = firstNetwork(parts);
    if (!(same && std::any_of(from.links().begin(), from.links().end(), leaves)) && network == kNoPlace)
        network = addNetwork(parts);
    const std::vector<std::size_t> place = addPoints(parts, from, node);
    bool out = false;
    for (const Link &each : from.links()) {
        Link link = each;
        const bool a = place[each.a] != kNoPlace;
        const bool b = place[each.b] != kNoPlace;
        if (!a && !b)
            continue;
        link.a = a ? place[each.a] : same ? each.a : network;
        link.b = b ? place[each.b] : same ? each.b : network;
        out = out || a != b;
        parts.links.push_back(link);
    }
    if (!out)
        parts.links.push_back(linkLike(parts, doorOf(parts, parts.nodes.back().id), network));
    if (parts.twoLevel && parts.rates.interPointToPoint <= 0) // it had one node
        parts.rates.interPointToPoint = parts.rates.interCollective = parts.links[before].pointToPoint;
    return putTogether(parts);
}

Result<Cluster> withDeviceLike(const Cluster &cluster, DeviceId device)
{
    ClusterParts parts = takenApart(cluster);
    const std::size_t model = cluster.vertexOf(device);
    const std::size_t at = cluster.vertexOf(cluster.nodes()[cluster.device(device).node.index()].devices.back()) + 1;
    ClusterParts::Point point = parts.points[model];
    point.vertex.name = freeName(point.vertex.name, pointNames(parts));
    insertPoint(parts, at, std::move(point));
    const std::size_t links = parts.links.size();
    for (std::size_t i = 0; i < links; ++i) {
        Link link = parts.links[i];
        if (link.a != model && link.b != model) // which lies before `at`
            continue;
        (link.a == model ? link.a : link.b) = at;
        parts.links.push_back(link);
    }
    // Devices that are joined to each other only: it is one more of them.
    const bool together =
        std::all_of(parts.links.begin() + static_cast<std::ptrdiff_t>(links), parts.links.end(), [&](const Link &link) {
            const std::size_t other = link.a == at ? link.b : link.a;
            return parts.points[other].vertex.kind == Vertex::Kind::Device;
        });
    if (together)
        parts.links.push_back(linkLike(parts, model, at));
    return putTogether(parts);
}

Result<Cluster> withVertex(const Cluster &cluster, Vertex::Kind kind, NodeId node)
{
    ClusterParts parts = takenApart(cluster);
    const std::set<std::string> taken = pointNames(parts);
    const std::string own = node.valid() ? parts.nodes[node.index()].name + ":" : std::string();
    const std::string like = own
        + (kind == Vertex::Kind::Nic           ? "nic0"
               : kind == Vertex::Kind::Network ? "network"
                                               : "switch");
    std::size_t model = kNoPlace;
    for (std::size_t v = 0; v < parts.points.size() && model == kNoPlace; ++v) {
        if (kind == Vertex::Kind::Nic && parts.points[v].vertex.kind == kind && parts.points[v].vertex.node == node)
            model = v;
    }
    const std::size_t added = parts.points.size();
    parts.points.push_back({{kind, taken.contains(like) ? freeName(like, taken) : like, {}, node}, 0});
    const std::size_t links = model == kNoPlace ? 0 : parts.links.size();
    for (std::size_t i = 0; i < links; ++i) {
        Link link = parts.links[i];
        if (link.a != model && link.b != model)
            continue;
        (link.a == model ? link.a : link.b) = added;
        parts.links.push_back(link);
    }
    return putTogether(parts);
}

Result<Cluster> withLink(const Cluster &cluster, std::size_t a, std::size_t b)
{
    ClusterParts parts = takenApart(cluster);
    const auto joins = [&](const Link &link) { return (link.a == a && link.b == b) || (link.a == b && link.b == a); };
    if (std::any_of(parts.links.begin(), parts.links.end(), joins))
        return badInput("there is a link between " + parts.points[a].vertex.name + " and " + parts.points[b].vertex.name
                        + " already; change its figures instead");
    parts.links.push_back(linkLike(parts, a, b));
    return putTogether(parts);
}

Result<Cluster> withoutNodes(const Cluster &cluster, std::span<const NodeId> nodes)
{
    ClusterParts parts = takenApart(cluster);
    std::vector<bool> gone(parts.nodes.size());
    for (const NodeId node : nodes)
        gone[node.index()] = true;
    eraseNodes(parts, gone);
    return putTogether(parts);
}

Result<Cluster> withoutVertices(const Cluster &cluster, std::span<const std::size_t> vertices)
{
    ClusterParts parts = takenApart(cluster);
    std::vector<bool> gone(parts.points.size());
    for (const std::size_t vertex : vertices)
        gone[vertex] = true;
    erasePoints(parts, gone);
    std::vector<bool> empty(parts.nodes.size(), true);
    for (const ClusterParts::Point &point : parts.points) {
        if (point.vertex.kind == Vertex::Kind::Device)
            empty[point.vertex.node.index()] = false;
    }
    eraseNodes(parts, empty);
    return putTogether(parts);
}

Result<Cluster> withoutLink(const Cluster &cluster, std::size_t link)
{
    ClusterParts parts = takenApart(cluster);
    parts.links.erase(parts.links.begin() + static_cast<std::ptrdiff_t>(link));
    return putTogether(parts);
}

std::vector<DeviceId> sameDevices(const Cluster &before, const Cluster &after)
{
    std::vector<DeviceId> same;
    same.reserve(before.devices().size());
    for (const cluster::Device &device : before.devices()) {
        const std::size_t place = device.id.index(); // most often nothing has moved
        const bool here = place < after.devices().size() && after.devices()[place].name == device.name;
        same.push_back(here ? device.id : after.find(device.name));
    }
    return same;
}

Way wayBetween(const Cluster &cluster, DeviceId from, DeviceId to)
{
    if (from == to)
        return {cluster.typeOf(from).memoryBandwidth, Seconds(0)};
    Way way;
    cluster::walkRoute(cluster.routes(), cluster.links(), cluster.vertexOf(from), cluster.vertexOf(to),
                       [&](std::size_t index, std::size_t, std::size_t) {
                           const Link &link = cluster.links()[index];
                           way.latency = way.latency + link.latency;
                           if (way.bandwidth == 0 || link.pointToPoint < way.bandwidth)
                               way.bandwidth = link.pointToPoint;
                       });
    if (cluster.commModel() == cluster::CommModel::TwoLevel)
        way.bandwidth = cluster.device(from).node == cluster.device(to).node ? cluster.twoLevel().intraNode
                                                                             : cluster.twoLevel().interPointToPoint;
    return way;
}

} // namespace planloom::ui
