// SPDX-License-Identifier: Apache-2.0
#include "engine/import/import.h"
#include "engine/import/cluster/quantity.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <initializer_list>
#include <limits>
#include <yaml-cpp/yaml.h>

namespace planloom::import {
namespace {

using cluster::ClusterBuilder;
using cluster::DeviceType;
using cluster::Link;
using cluster::Vertex;

constexpr std::size_t kLargestClusterText = 16u << 20;
constexpr std::size_t kMostLinks = 1u << 20;

/// Thrown and caught within this file: a YAML document is read by two dozen small functions, any of which may find it
/// wrong.
struct WrongYaml {
    std::string message;
    int line = 0;
};

int lineOf(const YAML::Node &node)
{
    const YAML::Mark mark = node.Mark();
    return mark.is_null() ? 0 : mark.line + 1;
}

[[noreturn]] void wrong(const YAML::Node &node, std::string message)
{
    throw WrongYaml{std::move(message), lineOf(node)};
}

/// A mapping, checked for unread keys: a misspelt "bandwith" must not pass in silence.
class Map {
public:
    Map(const YAML::Node &node, std::string what, const std::vector<const char *> &keys)
        : m_node(node),
          m_what(std::move(what))
    {
        if (!node.IsMap())
            wrong(node, fmt::format("{} must be a mapping with {}", m_what, fmt::join(keys, ", ")));
        for (const auto &entry : node) {
            if (!entry.first.IsScalar())
                wrong(entry.first, fmt::format("{} has a key that is not plain text", m_what));
            const std::string key = entry.first.Scalar();
            if (std::find(keys.begin(), keys.end(), key) == keys.end())
                wrong(entry.first,
                      fmt::format("{} has no field \"{}\"; there are {}", m_what, key, fmt::join(keys, ", ")));
        }
    }

    [[nodiscard]] const YAML::Node &node() const { return m_node; }
    [[nodiscard]] bool has(const char *key) const { return static_cast<bool>(m_node[key]); }

    [[nodiscard]] YAML::Node at(const char *key) const
    {
        YAML::Node found = m_node[key];
        if (!found)
            wrong(m_node, fmt::format("{} lacks \"{}\"", m_what, key));
        return found;
    }

    [[nodiscard]] std::string text(const char *key) const
    {
        const YAML::Node found = at(key);
        if (!found.IsScalar())
            wrong(found, fmt::format("\"{}\" must be plain text", key));
        return found.Scalar();
    }
    [[nodiscard]] std::string text(const char *key, const std::string &fallback) const
    {
        return has(key) ? text(key) : fallback;
    }

    [[nodiscard]] double quantity(const char *key, QuantityKind kind) const
    {
        const auto value = parseQuantity(text(key), kind);
        if (!value)
            wrong(at(key), fmt::format("\"{}\": {}", key, value.error().message));
        if (*value < 0 || (*value == 0 && kind != QuantityKind::Seconds))
            wrong(at(key),
                  fmt::format("\"{}\" is {}; it must be {}", key, text(key),
                              kind == QuantityKind::Seconds ? "zero or more" : "greater than zero"));
        return *value;
    }
    [[nodiscard]] double quantity(const char *key, QuantityKind kind, double fallback) const
    {
        return has(key) ? quantity(key, kind) : fallback;
    }

    [[nodiscard]] int count(const char *key, int fallback) const
    {
        if (!has(key))
            return fallback;
        int value = 0;
        if (!YAML::convert<int>::decode(at(key), value) || value < 1
            || static_cast<std::size_t>(value) > cluster::kMostDevices)
            wrong(at(key),
                  fmt::format("\"{}\" is {}; it must be a whole number from 1 to {}", key, text(key),
                              cluster::kMostDevices));
        return value;
    }

    [[nodiscard]] bool flag(const char *key, bool fallback) const
    {
        bool value = fallback;
        if (has(key) && !YAML::convert<bool>::decode(at(key), value))
            wrong(at(key), fmt::format("\"{}\" must be true or false", key));
        return value;
    }

private:
    YAML::Node m_node;
    std::string m_what;
};

/// Bandwidth of a link: `bandwidth` for both figures, or each by name.
struct Rates {
    double pointToPoint = 0;
    double collective = 0;
    Seconds latency{0};
};

std::vector<const char *> withRates(std::vector<const char *> keys)
{
    keys.insert(keys.end(), {"kind", "bandwidth", "point_to_point", "collective", "latency", "full_duplex"});
    return keys;
}

Rates ratesFrom(const Map &map, double latency)
{
    if (!map.has("bandwidth") && !map.has("point_to_point"))
        wrong(map.node(), "give \"bandwidth\", or \"point_to_point\" and \"collective\", such as 25 GB/s");
    Rates rates;
    rates.pointToPoint =
        map.quantity(map.has("point_to_point") ? "point_to_point" : "bandwidth", QuantityKind::BytesPerSecond);
    rates.collective =
        map.quantity(map.has("collective") ? "collective" : (map.has("bandwidth") ? "bandwidth" : "point_to_point"),
                     QuantityKind::BytesPerSecond);
    rates.latency = Seconds(map.quantity("latency", QuantityKind::Seconds, latency));
    return rates;
}

template <class Kind>
Kind kindFrom(const Map &map, Kind fallback, std::initializer_list<std::pair<const char *, Kind>> kinds)
{
    if (!map.has("kind"))
        return fallback;
    const std::string text = map.text("kind");
    std::vector<std::string> names;
    for (const auto &[name, kind] : kinds) {
        if (text == name)
            return kind;
        names.emplace_back(name);
    }
    wrong(map.at("kind"), fmt::format("\"{}\" is not a kind; there are {}", text, fmt::join(names, ", ")));
}

class ClusterReader {
public:
    ClusterReader(const YAML::Node &document, const std::string &fallbackName)
        : m_top(document, "the cluster", {"name", "comm_model", "types", "nodes", "switches", "links"}),
          m_builder(m_top.text("name", fallbackName))
    {
    }

    Result<cluster::Cluster> read()
    {
        if (m_top.has("types"))
            eachOf(m_top.at("types"), "types", [this](const YAML::Node &node) { m_given.push_back(typeFrom(node)); });
        const YAML::Node nodes = m_top.at("nodes");
        if (nodes.IsMap())
            group(nodes);
        else
            eachOf(nodes, "nodes", [this](const YAML::Node &node) { group(node); });
        if (m_top.has("switches"))
            eachOf(m_top.at("switches"), "switches", [this](const YAML::Node &node) { vertex(node); });
        if (m_top.has("links"))
            eachOf(m_top.at("links"), "links", [this](const YAML::Node &node) { link(node); });
        commModel();
        return std::move(m_builder).build();
    }

private:
    template <class Visit>
    void eachOf(const YAML::Node &list, const char *what, Visit visit)
    {
        if (!list.IsSequence())
            wrong(list, fmt::format("\"{}\" must be a list", what));
        for (const YAML::Node &entry : list)
            visit(entry);
    }

    DeviceType typeFrom(const YAML::Node &node)
    {
        const Map map(node, "a device type", {"name", "peak_flops", "memory", "memory_bandwidth"});
        DeviceType type;
        type.name = map.text("name");
        const YAML::Node peaks = map.at("peak_flops");
        if (!peaks.IsMap())
            wrong(peaks, "\"peak_flops\" must be a mapping from dtype to rate, such as {float32: 15.7 TFLOP/s}");
        for (const auto &entry : peaks) {
            if (!entry.first.IsScalar() || !entry.second.IsScalar())
                wrong(entry.first, "\"peak_flops\" must map dtypes to rates");
            const auto rate = parseQuantity(entry.second.Scalar(), QuantityKind::FlopsPerSecond);
            if (!rate || *rate <= 0)
                wrong(entry.second,
                      fmt::format("peak_flops of {} must be a positive rate, such as 15.7 TFLOP/s",
                                  entry.first.Scalar()));
            type.peakFlops[entry.first.Scalar()] = *rate;
        }
        if (!type.peakFlops.contains("float32"))
            wrong(peaks, "\"peak_flops\" lacks float32");
        const double memory = map.quantity("memory", QuantityKind::Bytes);
        if (memory < 1 || memory > 1e18)
            wrong(map.at("memory"), "\"memory\" must be from 1 byte to 10^18 bytes");
        type.memory = Bytes(static_cast<std::int64_t>(memory));
        type.memoryBandwidth = map.quantity("memory_bandwidth", QuantityKind::BytesPerSecond);
        return type;
    }

    /// A device by the name of its type or with its figures in place. The builder learns each type once.
    std::size_t typeIndex(const YAML::Node &node)
    {
        if (node.IsMap())
            return addType(typeFrom(node));
        if (!node.IsScalar())
            wrong(node,
                  "a device is the name of its type, or a mapping with name, peak_flops, memory and memory_bandwidth");
        const std::string name = node.Scalar();
        for (const DeviceType &type : m_given) {
            if (type.name == name)
                return addType(type);
        }
        const DeviceType *known = cluster::knownDeviceType(name);
        if (!known)
            wrong(node,
                  fmt::format("device type \"{}\" is not known; there are {}, or describe it under \"types\"", name,
                              fmt::join(cluster::knownDeviceTypeNames(), ", ")));
        return addType(*known);
    }

    std::size_t addType(const DeviceType &type)
    {
        const auto [at, fresh] = m_types.emplace(type.name, m_types.size());
        if (fresh)
            m_builder.type(type);
        return at->second;
    }

    /// `count` nodes of `devices_per_node` devices, or one node with its devices listed.
    void group(const YAML::Node &node)
    {
        const Map map(node, "a node",
                      {"name", "count", "devices_per_node", "device", "devices", "cores", "address", "user", "port",
                       "slots", "intra", "inter"});
        const int count = map.count("count", 1);
        std::vector<std::pair<std::string, std::size_t>> devices;
        if (map.has("devices")) {
            if (map.has("device") || map.has("devices_per_node") || count != 1)
                wrong(map.at("devices"),
                      "\"devices\" lists one node's devices; leave out count, devices_per_node and device");
            eachOf(map.at("devices"), "devices",
                   [&](const YAML::Node &entry) { devices.push_back(listedDevice(entry)); });
        } else {
            const std::size_t type = typeIndex(map.at("device"));
            devices.assign(static_cast<std::size_t>(map.count("devices_per_node", 1)), {std::string(), type});
        }
        m_devices += static_cast<std::size_t>(count) * devices.size();
        if (m_devices > cluster::kMostDevices)
            wrong(node,
                  fmt::format("the cluster has {} devices or more; at most {} are supported", m_devices,
                              cluster::kMostDevices));
        if (map.has("name") && count != 1)
            wrong(map.at("name"), "several nodes cannot share a name; leave it out or set count to 1");
        if (map.has("address") && count != 1)
            wrong(map.at("address"), "several nodes cannot share an address; list them one by one");
        for (int i = 0; i < count; ++i)
            oneNode(map, devices);
    }

    std::pair<std::string, std::size_t> listedDevice(const YAML::Node &node)
    {
        if (!node.IsMap())
            return {std::string(), typeIndex(node)};
        const Map map(node, "a device", {"name", "type"});
        return {map.text("name", std::string()), typeIndex(map.at("type"))};
    }

    static cluster::Host hostFrom(const Map &map)
    {
        const cluster::Host host{map.text("address", {}), map.text("user", {}), map.count("port", 0),
                                 map.count("slots", 0)};
        if (!host.address.empty() && !cluster::isAddress(host.address))
            wrong(map.at("address"), fmt::format("'{}' is no host name and no IP address", host.address));
        if (!host.user.empty() && !cluster::isUserName(host.user))
            wrong(map.at("user"), fmt::format("'{}' is no user's name", host.user));
        return host;
    }

    void oneNode(const Map &map, const std::vector<std::pair<std::string, std::size_t>> &devices)
    {
        const std::string name = map.text("name", fmt::format("n{}", m_nodes.size()));
        const NodeId id = m_builder.node(name, map.count("cores", 0), hostFrom(map));
        if (!m_nodes.emplace(name, id).second)
            wrong(map.node(), fmt::format("two nodes are called {}", name));
        std::vector<std::size_t> ends;
        for (std::size_t i = 0; i < devices.size(); ++i) {
            const std::string deviceName = devices[i].first.empty() ? fmt::format("{}:g{}", name, i) : devices[i].first;
            ends.push_back(m_builder.vertexOf(m_builder.device(id, devices[i].second, deviceName)));
            remember(map.node(), deviceName, ends.back());
        }
        if (!map.has("intra") && !map.has("inter"))
            return;
        const std::size_t inside = addVertex(map.node(), {Vertex::Kind::Switch, name + ":switch", {}, id});
        connectInside(map, ends, inside);
        if (map.has("inter"))
            connectOutside(map, id, name, inside);
    }

    void connectInside(const Map &node, const std::vector<std::size_t> &ends, std::size_t inside)
    {
        if (!node.has("intra") && ends.size() > 1)
            wrong(node.node(), "a node of several devices with \"inter\" needs \"intra\" as well");
        const Map map(node.has("intra") ? node.at("intra") : node.at("inter"), "\"intra\"", withRates({}));
        const Rates rates = ratesFrom(map, 5e-6);
        const Link::Kind kind = linkKind(map, Link::Kind::NvLink);
        if (m_intra == 0)
            m_intra = rates.pointToPoint;
        for (const std::size_t end : ends)
            addLink(map.node(),
                    {kind, end, inside, rates.pointToPoint, rates.collective, rates.latency / 2,
                     map.flag("full_duplex", true)});
        m_widest = std::max({rates.pointToPoint, rates.collective});
    }

    /// One NIC into the network that all nodes with "inter" share; the bus to it never limits.
    void connectOutside(const Map &node, NodeId id, const std::string &name, std::size_t inside)
    {
        const Map map(node.at("inter"), "\"inter\"", withRates({}));
        const Rates rates = ratesFrom(map, 2e-5);
        const bool duplex = map.flag("full_duplex", true);
        if (m_network == kNone)
            m_network = addVertex(map.node(), {Vertex::Kind::Network, "network", {}, {}});
        const std::size_t nic = addVertex(map.node(), {Vertex::Kind::Nic, name + ":nic", {}, id});
        const double bus = std::max({m_widest, rates.pointToPoint, rates.collective});
        addLink(map.node(), {Link::Kind::Pcie, inside, nic, bus, bus, Seconds(0), duplex});
        addLink(map.node(),
                {linkKind(map, Link::Kind::Network), nic, m_network, rates.pointToPoint, rates.collective,
                 rates.latency / 2, duplex});
        if (m_interPointToPoint == 0) {
            m_interPointToPoint = rates.pointToPoint;
            m_interCollective = rates.collective;
        }
    }

    static Link::Kind linkKind(const Map &map, Link::Kind fallback)
    {
        return kindFrom<Link::Kind>(map, fallback,
                                    {{"nvlink", Link::Kind::NvLink},
                                     {"pcie", Link::Kind::Pcie},
                                     {"network", Link::Kind::Network},
                                     {"memory", Link::Kind::Memory}});
    }

    void vertex(const YAML::Node &node)
    {
        const Map map(node, "a switch", {"name", "kind", "node"});
        Vertex made;
        made.kind = kindFrom<Vertex::Kind>(
            map, Vertex::Kind::Switch,
            {{"switch", Vertex::Kind::Switch}, {"nic", Vertex::Kind::Nic}, {"network", Vertex::Kind::Network}});
        made.name = map.text("name");
        if (map.has("node")) {
            const auto found = m_nodes.find(map.text("node"));
            if (found == m_nodes.end())
                wrong(map.at("node"), fmt::format("no node is called \"{}\"", map.text("node")));
            made.node = found->second;
        }
        addVertex(node, std::move(made));
    }

    void link(const YAML::Node &node)
    {
        const Map map(node, "a link", withRates({"a", "b"}));
        const Rates rates = ratesFrom(map, 0);
        addLink(node,
                {linkKind(map, Link::Kind::Network), end(map, "a"), end(map, "b"), rates.pointToPoint, rates.collective,
                 rates.latency, map.flag("full_duplex", true)});
    }

    std::size_t end(const Map &map, const char *key)
    {
        const auto found = m_ends.find(map.text(key));
        if (found == m_ends.end())
            wrong(map.at(key), fmt::format("no device or switch is called \"{}\"", map.text(key)));
        return found->second;
    }

    void commModel()
    {
        const std::string model = m_top.text("comm_model", "links");
        if (model == "links")
            return;
        if (model != "two-level")
            wrong(m_top.at("comm_model"),
                  fmt::format("\"{}\" is not a communication model; there are links and two-level", model));
        if (m_intra == 0)
            wrong(m_top.at("comm_model"),
                  "two-level needs \"intra\" (and \"inter\" between nodes) in the first entry of \"nodes\"");
        m_builder.twoLevel({m_intra, m_interPointToPoint, m_interCollective});
    }

    void remember(const YAML::Node &node, const std::string &name, std::size_t index)
    {
        if (!m_ends.emplace(name, index).second)
            wrong(node, fmt::format("{} is the name of more than one device or switch", name));
    }

    std::size_t addVertex(const YAML::Node &node, Vertex vertex)
    {
        const std::string name = vertex.name;
        const std::size_t index = m_builder.vertex(std::move(vertex));
        remember(node, name, index);
        return index;
    }

    void addLink(const YAML::Node &node, Link made)
    {
        if (++m_links > kMostLinks)
            wrong(node, fmt::format("there are more than {} links", kMostLinks));
        m_builder.link(made);
    }

    static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

    Map m_top;
    ClusterBuilder m_builder;
    std::vector<DeviceType> m_given; ///< described in the file
    std::map<std::string, std::size_t> m_types;
    std::map<std::string, NodeId> m_nodes;
    std::map<std::string, std::size_t> m_ends;
    std::size_t m_network = kNone;
    std::size_t m_devices = 0;
    std::size_t m_links = 0;
    double m_widest = 0;
    double m_intra = 0; ///< the three rates of the two-level model, from the first node that has them
    double m_interPointToPoint = 0;
    double m_interCollective = 0;
};

bool isNativeJson(std::string_view text)
{
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    return start != std::string_view::npos && text[start] == '{'
        && text.find("planloom.cluster/") != std::string_view::npos;
}

} // namespace

Result<cluster::Cluster> readClusterYaml(std::string_view text, const std::string &name)
{
    if (text.size() > kLargestClusterText)
        return badInput(fmt::format("the file has {} bytes; a cluster description has at most {}", text.size(),
                                    kLargestClusterText))
            .in(name);
    if (isNativeJson(text)) {
        auto native = cluster::clusterFromJson(text);
        if (!native)
            return native.error().in(name);
        return native;
    }
    try {
        const YAML::Node document = YAML::Load(std::string(text));
        if (!document.IsDefined() || document.IsNull())
            return badInput("the file is empty; describe a cluster with \"nodes\"").in(name);
        auto made = ClusterReader(document, std::filesystem::path(name).stem().string()).read();
        if (!made)
            return made.error().in(name);
        return made;
    } catch (const WrongYaml &e) {
        return badInput(e.message).in(name, e.line);
    } catch (const YAML::Exception &e) {
        return badInput(fmt::format("not valid YAML: {}", e.msg)).in(name, e.mark.is_null() ? 0 : e.mark.line + 1);
    }
}

} // namespace planloom::import
