// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json_reader.h"
#include "engine/cluster/cluster.h"

#include <array>
#include <fmt/format.h>

namespace planloom::cluster {
namespace {

constexpr const char *kSchema = "planloom.cluster/1";
constexpr int kMostCores = 1 << 20;
constexpr std::array kVertexKinds{"device", "switch", "nic", "network"}; // order of Vertex::Kind
constexpr std::array kLinkKinds{"nvlink", "pcie", "network", "memory"};  // order of Link::Kind

template <std::size_t N>
std::size_t kindFrom(JsonReader &reader, const std::array<const char *, N> &names)
{
    const std::string text = reader.text("kind");
    for (std::size_t i = 0; i < N; ++i) {
        if (text == names[i])
            return i;
    }
    reader.fail("kind", fmt::format("\"{}\" is not known", text));
    return 0;
}

nlohmann::json typeToJson(const DeviceType &type)
{
    return {{"name", type.name},
            {"peak_flops", type.peakFlops},
            {"memory", type.memory.value()},
            {"memory_bandwidth", type.memoryBandwidth}};
}

DeviceType typeFrom(JsonReader &reader)
{
    DeviceType type;
    type.name = reader.text("name");
    reader.object("peak_flops").each([&type](JsonReader &rate) { type.peakFlops[rate.name()] = rate.asNumber(); });
    type.memory = Bytes(reader.integer("memory", 1));
    type.memoryBandwidth = reader.number("memory_bandwidth");
    return type;
}

nlohmann::json linkToJson(const Link &link, std::span<const Vertex> vertices)
{
    return {{"kind", kLinkKinds[static_cast<std::size_t>(link.kind)]},
            {"a", vertices[link.a].name},
            {"b", vertices[link.b].name},
            {"point_to_point", link.pointToPoint},
            {"collective", link.collective},
            {"latency", link.latency.value()},
            {"full_duplex", link.fullDuplex}};
}

void addHost(nlohmann::json &node, const Host &host)
{
    if (!host.address.empty())
        node["address"] = host.address;
    if (!host.user.empty())
        node["user"] = host.user;
    if (host.port > 0)
        node["port"] = host.port;
    if (host.ranks > 0)
        node["slots"] = host.ranks;
}

Host hostFrom(JsonReader &reader)
{
    return {reader.text("address", std::string()), reader.text("user", std::string()),
            static_cast<int>(reader.integerOr("port", 0, 1, kMostPort)),
            static_cast<int>(reader.integerOr("slots", 0, 1, kMostCores))};
}

/// Reads the document's parts in the order in which they refer to each other.
class Parts {
public:
    explicit Parts(ClusterBuilder &builder) : m_builder(builder) {}

    void type(JsonReader &reader)
    {
        DeviceType made = typeFrom(reader);
        m_types.emplace(made.name, m_types.size());
        m_builder.type(std::move(made));
    }

    void node(JsonReader &reader)
    {
        const std::string name = reader.text("name");
        const int cores = static_cast<int>(reader.integerOr("cores", 0, 0, kMostCores));
        const NodeId id = m_builder.node(name, cores, hostFrom(reader));
        m_nodes.emplace(name, id);
        reader.each("devices", [&](JsonReader &device) { this->device(device, id); });
    }

    void vertex(JsonReader &reader)
    {
        Vertex made;
        made.kind = static_cast<Vertex::Kind>(kindFrom(reader, kVertexKinds));
        if (made.kind == Vertex::Kind::Device)
            reader.fail("kind", "devices are listed under their node, not here");
        made.name = reader.text("name");
        if (reader.has("node"))
            made.node = lookUp(m_nodes, reader, "node");
        const std::string name = made.name;
        m_vertices.emplace(name, m_builder.vertex(std::move(made)));
    }

    void link(JsonReader &reader)
    {
        Link made;
        made.kind = static_cast<Link::Kind>(kindFrom(reader, kLinkKinds));
        made.a = lookUp(m_vertices, reader, "a");
        made.b = lookUp(m_vertices, reader, "b");
        made.pointToPoint = reader.number("point_to_point");
        made.collective = reader.number("collective", made.pointToPoint);
        made.latency = Seconds(reader.number("latency", 0.0));
        made.fullDuplex = reader.flag("full_duplex", true);
        m_builder.link(made);
    }

private:
    void device(JsonReader &reader, NodeId node)
    {
        const std::string name = reader.text("name");
        const std::size_t type = lookUp(m_types, reader, "type");
        if (reader.failed())
            return;
        m_vertices.emplace(name, m_builder.vertexOf(m_builder.device(node, type, name)));
    }

    template <class Value>
    Value lookUp(const std::map<std::string, Value> &known, JsonReader &reader, const char *key)
    {
        const std::string name = reader.text(key);
        const auto it = known.find(name);
        if (it != known.end())
            return it->second;
        reader.fail(key, fmt::format("\"{}\" is not defined above", name));
        return Value{};
    }

    ClusterBuilder &m_builder;
    std::map<std::string, std::size_t> m_types;
    std::map<std::string, NodeId> m_nodes;
    std::map<std::string, std::size_t> m_vertices;
};

} // namespace

std::string toJson(const Cluster &cluster, bool hosts)
{
    nlohmann::json types = nlohmann::json::array();
    for (const DeviceType &type : cluster.types())
        types.push_back(typeToJson(type));
    nlohmann::json nodes = nlohmann::json::array();
    for (const Node &node : cluster.nodes()) {
        nlohmann::json devices = nlohmann::json::array();
        for (const DeviceId id : node.devices)
            devices.push_back({{"name", cluster.device(id).name}, {"type", cluster.typeOf(id).name}});
        nlohmann::json &made = nodes.emplace_back(nlohmann::json{{"name", node.name}, {"devices", std::move(devices)}});
        if (node.cores > 0)
            made["cores"] = node.cores;
        if (hosts)
            addHost(made, node.host);
    }
    nlohmann::json vertices = nlohmann::json::array();
    for (const Vertex &vertex : cluster.vertices()) {
        if (vertex.kind == Vertex::Kind::Device)
            continue;
        nlohmann::json made{{"kind", kVertexKinds[static_cast<std::size_t>(vertex.kind)]}, {"name", vertex.name}};
        if (vertex.node.valid())
            made["node"] = cluster.nodes()[vertex.node.index()].name;
        vertices.push_back(std::move(made));
    }
    nlohmann::json links = nlohmann::json::array();
    for (const Link &link : cluster.links())
        links.push_back(linkToJson(link, cluster.vertices()));

    nlohmann::json document{
        {"schema", kSchema},         {"name", cluster.name()},          {"types", std::move(types)},
        {"nodes", std::move(nodes)}, {"vertices", std::move(vertices)}, {"links", std::move(links)}};
    if (cluster.commModel() == CommModel::TwoLevel) {
        const TwoLevelRates &rates = cluster.twoLevel();
        document["two_level"] = {{"intra_node", rates.intraNode},
                                 {"inter_point_to_point", rates.interPointToPoint},
                                 {"inter_collective", rates.interCollective}};
    }
    return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<Cluster> clusterFromJson(std::string_view text)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    if (const std::string schema = reader.text("schema"); !reader.failed() && schema != kSchema)
        return unsupported(
            fmt::format("field \"schema\": \"{}\" is not \"{}\"; this Planloom reads no other", schema, kSchema));
    ClusterBuilder builder(reader.text("name"));
    Parts parts(builder);
    reader.each("types", [&](JsonReader &entry) { parts.type(entry); });
    reader.each("nodes", [&](JsonReader &entry) { parts.node(entry); });
    reader.each("vertices", [&](JsonReader &entry) { parts.vertex(entry); });
    reader.each("links", [&](JsonReader &entry) { parts.link(entry); });
    if (reader.has("two_level")) {
        JsonReader rates = reader.object("two_level");
        builder.twoLevel({rates.number("intra_node"), rates.number("inter_point_to_point", 0.0),
                          rates.number("inter_collective", 0.0)});
    }
    if (Status status = reader.failure(text); !status)
        return status.error();
    return std::move(builder).build();
}

} // namespace planloom::cluster
