// SPDX-License-Identifier: Apache-2.0
#include "profiler/link_times.h"

#include "engine/base/json_reader.h"
#include "engine/base/statistics.h"

#include <algorithm>
#include <map>

namespace planloom::profiler {
namespace {

constexpr const char *kLinksSchema = "planloom.links/1";

nlohmann::json pointsJson(const std::vector<cost::CurvePoint> &points)
{
    nlohmann::json list = nlohmann::json::array();
    for (const cost::CurvePoint &point : points)
        list.push_back({{"bytes", point.bytes}, {"seconds", point.seconds.value()}});
    return list;
}

std::vector<cost::CurvePoint> pointsFrom(JsonReader &reader)
{
    std::vector<cost::CurvePoint> points;
    reader.list("points", [&](JsonReader &entry) {
        const double bytes = entry.number("bytes"), seconds = entry.number("seconds");
        if (!(bytes > 0) || !(seconds > 0))
            entry.fail("seconds", "no time of so many bytes");
        points.push_back({bytes, Seconds(seconds)});
    });
    return points;
}

MeasuredLink linkOf(std::span<const cost::CurvePoint> points, double share)
{
    if (points.empty())
        return {};
    const auto &[bytes, seconds] = points.back();
    const Seconds latency = points.front().seconds;
    // Of one size alone it is not known which part of the time is latency.
    const double passed = points.size() > 1 && seconds > latency ? (seconds - latency).value() : seconds.value();
    return {share * bytes / passed, latency};
}

/// The figures of a cluster's machines and of their pairs, by index.
struct RouteFigures {
    std::map<int, MeasuredLink> inside;
    std::map<int, double> insideRing;
    std::map<std::pair<int, int>, MeasuredLink> between;
    double betweenRing = 0;
};

RouteFigures figuresOf(const LinkTimes &times)
{
    RouteFigures found;
    for (const PairTimes &pair : times.pairs) {
        const MeasuredLink link = ofMessages(pair.messages);
        if (pair.a == pair.b)
            found.inside[pair.a] = link;
        else
            found.between[std::minmax(pair.a, pair.b)] = link;
    }
    for (const RingTimes &ring : times.rings) {
        const double rate = ofAllReduces(ring.allReduces, ring.members).bandwidth;
        if (ring.nodes.size() == 1)
            found.insideRing[ring.nodes.front()] = rate;
        else
            found.betweenRing = rate;
    }
    return found;
}

/// Which machines the ends of a link are in; -1: none.
struct Ends {
    int a = -1;
    int b = -1;
    bool ofNic = false;

    [[nodiscard]] bool isInside() const { return a >= 0 && a == b; }
};

Ends endsOf(const cluster::Cluster &cluster, const cluster::Link &link)
{
    const auto nodeOf = [&](std::size_t index) {
        const cluster::Vertex &vertex = cluster.vertices()[index];
        const NodeId node =
            vertex.kind == cluster::Vertex::Kind::Device ? cluster.device(vertex.device).node : vertex.node;
        return node.valid() ? static_cast<int>(node.index()) : -1;
    };
    const auto isNic = [&](std::size_t index) { return cluster.vertices()[index].kind == cluster::Vertex::Kind::Nic; };
    return {nodeOf(link.a), nodeOf(link.b), isNic(link.a) || isNic(link.b)};
}

Seconds latencyInside(const cluster::Cluster &cluster, std::span<const std::size_t> route)
{
    Seconds sum;
    for (const std::size_t link : route) {
        const Ends ends = endsOf(cluster, cluster.links()[link]);
        if (ends.isInside())
            sum = sum + cluster.links()[link].latency;
    }
    return sum;
}

/// What a machine's port carries, by its pairs.
struct PortFigures {
    double bandwidth = 0;
    std::vector<double> latencies;
};

std::map<int, PortFigures> portsOf(const cluster::Cluster &nominal, const RouteFigures &measured)
{
    std::map<int, PortFigures> ports;
    for (const auto &[pair, link] : measured.between) {
        const auto device = [&](int node) { return nominal.nodes()[static_cast<std::size_t>(node)].devices.front(); };
        const std::vector<std::size_t> route = nominal.route(device(pair.first), device(pair.second));
        const Seconds left = link.latency - latencyInside(nominal, route);
        for (const int node : {pair.first, pair.second}) {
            ports[node].bandwidth = std::max(ports[node].bandwidth, link.bandwidth);
            ports[node].latencies.push_back(std::max(left.value(), 0.0) / 2);
        }
    }
    return ports;
}

void set(cluster::Link &link, double bandwidth, double ring)
{
    if (bandwidth > 0)
        link.pointToPoint = bandwidth;
    if (ring > 0)
        link.collective = ring;
}

template <class Key, class Value>
const Value *in(const std::map<Key, Value> &map, const Key &key)
{
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
}

/// @p nominal with other figures.
Result<cluster::Cluster> rebuilt(const cluster::Cluster &nominal, const std::vector<cluster::Link> &links,
                                 const cluster::TwoLevelRates &rates)
{
    cluster::ClusterBuilder builder(nominal.name());
    for (const cluster::DeviceType &type : nominal.types())
        builder.type(type);
    for (const cluster::Node &node : nominal.nodes())
        builder.node(node.name, node.cores, node.host);
    for (const cluster::Vertex &vertex : nominal.vertices()) { // devices make their own
        if (vertex.kind == cluster::Vertex::Kind::Device)
            builder.device(vertex.node, nominal.device(vertex.device).type, vertex.name);
        else
            builder.vertex(vertex);
    }
    for (const cluster::Link &link : links)
        builder.link(link);
    if (nominal.commModel() == cluster::CommModel::TwoLevel)
        builder.twoLevel(rates);
    return std::move(builder).build();
}

/// The slowest of each.
cluster::TwoLevelRates ratesOf(cluster::TwoLevelRates rates, const RouteFigures &measured)
{
    const auto slowest = [](double &rate, const auto &links) {
        for (bool first = true; const auto &[where, link] : links) {
            rate = first ? link.bandwidth : std::min(rate, link.bandwidth);
            first = false;
        }
    };
    slowest(rates.intraNode, measured.inside);
    slowest(rates.interPointToPoint, measured.between);
    if (measured.betweenRing > 0)
        rates.interCollective = measured.betweenRing;
    return rates;
}

/// Changes the links inside of machines.
void setInside(const cluster::Cluster &nominal, const RouteFigures &measured, std::vector<cluster::Link> &links)
{
    for (cluster::Link &link : links) {
        const Ends ends = endsOf(nominal, link);
        const MeasuredLink *inside = ends.isInside() && !ends.ofNic ? in(measured.inside, ends.a) : nullptr;
        if (inside == nullptr)
            continue;
        const auto &devices = nominal.nodes()[static_cast<std::size_t>(ends.a)].devices;
        const double *ring = in(measured.insideRing, ends.a);
        set(link, inside->bandwidth, ring != nullptr ? *ring : 0);
        link.latency = inside->latency / static_cast<double>(nominal.route(devices[0], devices[1]).size());
    }
}

/// Changes the links between machines.
void setBetween(const RouteFigures &measured, const cluster::Cluster &nominal, std::vector<cluster::Link> &links)
{
    const std::map<int, PortFigures> ports = portsOf(nominal, measured);
    for (cluster::Link &link : links) {
        const Ends ends = endsOf(nominal, link);
        const bool direct = ends.a >= 0 && ends.b >= 0 && ends.a != ends.b;
        const std::pair<int, int> both = std::minmax(ends.a, ends.b);
        const MeasuredLink *pair = direct ? in(measured.between, both) : nullptr;
        const PortFigures *port = direct ? nullptr : in(ports, both.second);
        if (pair != nullptr) {
            set(link, pair->bandwidth, measured.betweenRing);
            link.latency = pair->latency;
        } else if (port != nullptr && !ends.isInside()) {
            set(link, port->bandwidth, measured.betweenRing);
            link.latency = Seconds(median(port->latencies));
        } else if (port != nullptr && ends.ofNic) { // a bus is no slower than what went through it
            link.pointToPoint = std::max(link.pointToPoint, port->bandwidth);
            link.collective = std::max(link.collective, measured.betweenRing);
        }
    }
}

} // namespace

MeasuredLink ofMessages(std::span<const cost::CurvePoint> points) { return linkOf(points, 1); }

MeasuredLink ofAllReduces(std::span<const cost::CurvePoint> points, int members)
{
    return linkOf(points, members > 0 ? 2.0 * (members - 1) / members : 0);
}

std::string linksText(const LinkTimes &times)
{
    nlohmann::json pairs = nlohmann::json::array(), rings = nlohmann::json::array();
    for (const PairTimes &pair : times.pairs)
        pairs.push_back({{"a", pair.a}, {"b", pair.b}, {"points", pointsJson(pair.messages)}});
    for (const RingTimes &ring : times.rings)
        rings.push_back({{"nodes", ring.nodes}, {"members", ring.members}, {"points", pointsJson(ring.allReduces)}});
    return nlohmann::json{{"schema", kLinksSchema}, {"pairs", std::move(pairs)}, {"rings", std::move(rings)}}.dump();
}

Result<LinkTimes> linksFromText(const std::string &text, std::size_t nodes)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    if (reader.text("schema") != kLinksSchema && !reader.failed())
        reader.fail("schema", "no measured links");
    const auto last = static_cast<std::int64_t>(nodes) - 1;
    constexpr std::int64_t kMostMembers = 1 << 20;
    LinkTimes times;
    reader.list("pairs", [&](JsonReader &entry) {
        const auto a = static_cast<int>(entry.integer("a", 0, last));
        const auto b = static_cast<int>(entry.integer("b", 0, last));
        times.pairs.push_back({a, b, pointsFrom(entry)});
    });
    reader.list("rings", [&](JsonReader &entry) {
        RingTimes ring;
        entry.list("nodes", [&](JsonReader &node) { ring.nodes.push_back(static_cast<int>(node.asInteger(0, last))); });
        ring.members = static_cast<int>(entry.integer("members", 2, kMostMembers));
        ring.allReduces = pointsFrom(entry);
        times.rings.push_back(std::move(ring));
    });
    if (const Status good = reader.failure(text); !good)
        return good.error();
    return times;
}

Result<cluster::Cluster> withMeasuredLinks(const cluster::Cluster &nominal, const LinkTimes &times)
{
    const RouteFigures measured = figuresOf(times);
    const cluster::TwoLevelRates rates = ratesOf(nominal.twoLevel(), measured);
    std::vector<cluster::Link> links(nominal.links().begin(), nominal.links().end());
    setInside(nominal, measured, links);
    const auto inside = rebuilt(nominal, links, rates); // what is left of a latency is that of the ports
    if (!inside)
        return inside;
    setBetween(measured, *inside, links);
    return rebuilt(nominal, links, rates);
}

} // namespace planloom::profiler
