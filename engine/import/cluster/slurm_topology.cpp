// SPDX-License-Identifier: Apache-2.0
// topology.conf by its manual page (Slurm 22.05 to 25.05), plugin topology/tree.
#include "engine/import/cluster/cluster_settings.h"
#include "engine/import/cluster/gpu_catalog.h"
#include "engine/import/cluster/host_list.h"
#include "engine/import/import.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>

namespace planloom::import {
namespace {

using cluster::ClusterBuilder;
using cluster::Link;
using cluster::Vertex;

constexpr std::size_t kMostSwitches = 65536;
// As in the clusters that are built in: through a machine's own switch, and from port to port over one network switch.
constexpr Seconds kSlurmInsideHop{1.5e-6};
constexpr Seconds kSlurmPortHop{4e-6};
constexpr Seconds kSlurmSwitchHop{1e-6};

std::string lowered(std::string_view text)
{
    std::string low(text);
    std::transform(low.begin(), low.end(), low.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return low;
}

/// A line of the file: a switch with what hangs on it.
struct SlurmSwitch {
    std::string name;
    int line = 0;
    std::vector<std::string> nodes;
    std::vector<std::string> below; ///< names of switches
    int parent = -1;                ///< index; -1: none
};

/// A line, joined with those that it goes on with, without its comment.
struct SlurmLine {
    std::string text;
    int number = 0;
};

std::vector<SlurmLine> slurmLines(std::string_view text)
{
    std::vector<SlurmLine> lines;
    bool goesOn = false;
    int number = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        line = line.substr(0, line.find('#'));
        while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r'))
            line.remove_suffix(1);
        ++number;
        at = end + 1;
        const bool more = line.ends_with('\\');
        if (more)
            line.remove_suffix(1);
        if (goesOn)
            lines.back().text += line;
        else
            lines.push_back({std::string(line), number});
        goesOn = more;
    }
    return lines;
}

/// The fields "Key=Value" of a line, keys in small letters.
Result<std::vector<std::pair<std::string, std::string>>> slurmFields(std::string_view line)
{
    std::vector<std::pair<std::string, std::string>> fields;
    for (std::size_t at = line.find_first_not_of(" \t"); at < line.size(); at = line.find_first_not_of(" \t", at)) {
        const std::size_t equals = line.find('=', at);
        const std::size_t space = std::min(line.find_first_of(" \t", at), line.size());
        if (equals == std::string_view::npos || equals > space)
            return badInput(fmt::format("\"{}\" is no field; fields are written as SwitchName=s0 Nodes=n[01-16]",
                                        line.substr(at, std::min<std::size_t>(space - at, 60))));
        const bool quoted = equals + 1 < line.size() && line[equals + 1] == '"';
        const std::size_t begin = equals + (quoted ? 2 : 1);
        const std::size_t end = std::min(line.find_first_of(quoted ? "\"" : " \t", begin), line.size());
        fields.emplace_back(lowered(line.substr(at, equals - at)), std::string(line.substr(begin, end - begin)));
        at = std::min(end + (quoted ? 1 : 0), line.size());
    }
    return fields;
}

class SlurmReader {
public:
    Result<std::vector<SlurmSwitch>> read(std::string_view text)
    {
        for (const SlurmLine &line : slurmLines(text)) {
            const Status done = take(line);
            if (!done)
                return atLine(done.error(), line.number);
        }
        if (m_switches.empty())
            return badInput("there is no line with SwitchName=; a tree of switches is needed");
        if (const Status joined = join(); !joined)
            return joined.error();
        if (const Status tree = checkTree(); !tree)
            return tree.error();
        return std::move(m_switches);
    }

private:
    static Error atLine(Error error, int line)
    {
        error.line = line;
        return error;
    }

    Status take(const SlurmLine &line)
    {
        if (lowered(line.text).starts_with("include "))
            return unsupported("files that are included are not read; put their lines here");
        const auto fields = slurmFields(line.text);
        if (!fields)
            return fields.error();
        if (fields->empty())
            return {};
        SlurmSwitch made;
        made.line = line.number;
        for (const auto &[key, value] : *fields) {
            if (const Status known = takeField(key, value, made); !known)
                return known;
        }
        return keep(std::move(made));
    }

    Status takeField(const std::string &key, const std::string &value, SlurmSwitch &made)
    {
        if (key == "blockname" || key == "blocksizes")
            return unsupported("topology/block says nothing of switches; describe the cluster in YAML, or as a tree "
                               "(SwitchName=)");
        if (key == "linkspeed") // in units that Slurm leaves open and does not use itself
            return {};
        if (key == "switchname") {
            made.name = value;
            return {};
        }
        if (key != "nodes" && key != "switches")
            return badInput(fmt::format("there is no field \"{}\"; a line has SwitchName=, Nodes=, Switches= and "
                                        "LinkSpeed=",
                                        key.substr(0, 60)));
        auto names = expandHostList(value, cluster::kMostDevices);
        if (!names)
            return names.error();
        (key == "nodes" ? made.nodes : made.below) = *std::move(names);
        return {};
    }

    Status keep(SlurmSwitch made)
    {
        if (made.name.empty())
            return badInput("the line has no SwitchName=; begin it with one");
        if (made.nodes.empty() && made.below.empty())
            return badInput(fmt::format("the switch {} has neither Nodes= nor Switches=", made.name));
        if (m_switches.size() >= kMostSwitches)
            return badInput(fmt::format("there are more than {} switches", kMostSwitches));
        for (const std::string &node : made.nodes) {
            const auto [known, fresh] = m_leafOf.emplace(node, made.line);
            if (!fresh)
                return badInput(fmt::format("the node {} is on the switch of line {}, too; a node has one switch of "
                                            "its own",
                                            node, known->second));
        }
        const auto [known, fresh] = m_index.emplace(made.name, m_switches.size());
        if (!fresh)
            return badInput(
                fmt::format("the switch {} is in line {} already", made.name, m_switches[known->second].line));
        m_nodes += made.nodes.size();
        if (m_nodes > cluster::kMostDevices)
            return badInput(fmt::format("there are more than {} nodes", cluster::kMostDevices));
        m_switches.push_back(std::move(made));
        return {};
    }

    /// Finds the switches that others name.
    Status join()
    {
        for (std::size_t i = 0; i < m_switches.size(); ++i) {
            for (const std::string &name : m_switches[i].below) {
                const auto found = m_index.find(name);
                if (found == m_index.end())
                    return atLine(badInput(fmt::format("there is no line SwitchName={}; add it, or leave the name out",
                                                       name.substr(0, 60))),
                                  m_switches[i].line);
                SlurmSwitch &child = m_switches[found->second];
                if (child.parent >= 0)
                    return atLine(badInput(fmt::format("the switch {} is beneath that of line {}, too; a tree has one "
                                                       "way up",
                                                       child.name,
                                                       m_switches[static_cast<std::size_t>(child.parent)].line)),
                                  m_switches[i].line);
                child.parent = static_cast<int>(i);
            }
        }
        return {};
    }

    /// One switch on top, and every other one beneath it.
    [[nodiscard]] Status checkTree() const
    {
        const SlurmSwitch *top = nullptr;
        for (const SlurmSwitch &each : m_switches) {
            if (each.parent >= 0)
                continue;
            if (top)
                return atLine(badInput(fmt::format("the switches {} (line {}) and {} hang together nowhere; add a line "
                                                   "SwitchName=top Switches={},{}",
                                                   top->name, top->line, each.name, top->name, each.name)),
                              each.line);
            top = &each;
        }
        std::vector<bool> reached(m_switches.size());
        std::vector<std::size_t> open;
        if (top)
            open.push_back(static_cast<std::size_t>(top - m_switches.data()));
        while (!open.empty()) {
            const std::size_t at = open.back();
            open.pop_back();
            reached[at] = true;
            for (const std::string &name : m_switches[at].below)
                open.push_back(m_index.at(name));
        }
        const auto lost = std::find(reached.begin(), reached.end(), false);
        if (lost == reached.end())
            return {};
        const SlurmSwitch &of = m_switches[static_cast<std::size_t>(lost - reached.begin())];
        return atLine(badInput(fmt::format("the switch {} is beneath itself; a tree has one switch on top", of.name)),
                      of.line);
    }

    std::vector<SlurmSwitch> m_switches;
    std::map<std::string, std::size_t> m_index; ///< by name
    std::map<std::string, int> m_leafOf;        ///< line, by node
    std::size_t m_nodes = 0;
};

/// Nodes alike on a tree of switches.
class SlurmClusterBuilder {
public:
    SlurmClusterBuilder(const std::string &name, const ClusterSettings &settings, const cluster::DeviceType &type)
        : m_settings(settings),
          m_builder(name),
          m_type(m_builder.type(type)),
          m_ports(std::max(settings.ports, 1)),
          m_inside(settings.intra > 0 ? settings.intra : insideRateOf(type)),
          m_slot(import::pcieRateOf(type))
    {
    }

    Result<cluster::Cluster> build(const std::vector<SlurmSwitch> &switches)
    {
        std::vector<std::size_t> vertices;
        for (const SlurmSwitch &each : switches)
            vertices.push_back(m_builder.vertex({Vertex::Kind::Network, each.name, {}, {}}));
        for (std::size_t i = 0; i < switches.size(); ++i) {
            for (const std::string &node : switches[i].nodes)
                addNode(node, vertices[i]);
        }
        const std::vector<double> beneath = ratesBeneath(switches);
        for (std::size_t i = 0; i < switches.size(); ++i) {
            const double rate = m_settings.uplink > 0 ? m_settings.uplink : beneath[i];
            if (switches[i].parent >= 0)
                m_builder.link({Link::Kind::Network, vertices[i],
                                vertices[static_cast<std::size_t>(switches[i].parent)], rate, rate, kSlurmSwitchHop,
                                true});
        }
        return std::move(m_builder).build();
    }

private:
    /// GPUs on a switch of the node, and ports that they share evenly: with one, behind the switch.
    void addNode(const std::string &name, std::size_t leaf)
    {
        const NodeId node = m_builder.node(name);
        const std::size_t inside = m_builder.vertex({Vertex::Kind::Switch, name + ":switch", {}, node});
        std::vector<std::size_t> ports;
        for (int p = 0; p < m_ports; ++p) {
            ports.push_back(m_builder.vertex({Vertex::Kind::Nic, fmt::format("{}:nic{}", name, p), {}, node}));
            m_builder.link(
                {Link::Kind::Network, ports.back(), leaf, m_settings.network, m_settings.network, kSlurmPortHop, true});
        }
        const double bus = std::max(m_inside, m_settings.network);
        const double slot = std::min(m_settings.network, std::max(m_inside, m_slot));
        if (m_ports == 1)
            m_builder.link({Link::Kind::Pcie, inside, ports[0], bus, bus, Seconds(0), true});
        for (int g = 0; g < m_settings.gpus; ++g) {
            const std::size_t device =
                m_builder.vertexOf(m_builder.device(node, m_type, fmt::format("{}:g{}", name, g)));
            m_builder.link({m_inside > m_slot ? Link::Kind::NvLink : Link::Kind::Pcie, device, inside, m_inside,
                            m_inside, kSlurmInsideHop, true});
            if (m_ports > 1)
                m_builder.link({Link::Kind::Pcie, device,
                                ports[static_cast<std::size_t>(g * m_ports / m_settings.gpus)], slot, slot,
                                kSlurmSwitchHop, true});
        }
    }

    /// Of all ports beneath each switch. From the leaves up: a switch counts when all beneath it have.
    [[nodiscard]] std::vector<double> ratesBeneath(const std::vector<SlurmSwitch> &switches) const
    {
        std::vector<double> rates(switches.size());
        std::vector<std::size_t> waiting(switches.size());
        std::vector<std::size_t> ready;
        for (std::size_t i = 0; i < switches.size(); ++i) {
            rates[i] = static_cast<double>(switches[i].nodes.size()) * m_ports * m_settings.network;
            waiting[i] = switches[i].below.size();
            if (waiting[i] == 0)
                ready.push_back(i);
        }
        while (!ready.empty()) {
            const std::size_t at = ready.back();
            ready.pop_back();
            if (switches[at].parent < 0)
                continue;
            const auto up = static_cast<std::size_t>(switches[at].parent);
            rates[up] += rates[at];
            if (--waiting[up] == 0)
                ready.push_back(up);
        }
        return rates;
    }

    const ClusterSettings &m_settings;
    ClusterBuilder m_builder;
    std::size_t m_type;
    int m_ports;
    double m_inside; ///< bytes/s
    double m_slot;   ///< bytes/s, of a GPU towards its port
};

/// What the file cannot say has to be said behind its name.
Status checkSlurmSettings(const ClusterSettings &settings, const std::string &name)
{
    const auto missing = [&name](const char *what, const char *setting) {
        return badInput(fmt::format("topology.conf does not say {}; give {} behind the file's name, such as "
                                    "{},gpu=H100-SXM,gpus=8,network=50GB/s",
                                    what, setting, std::filesystem::path(name).filename().string()));
    };
    if (settings.gpu.empty())
        return missing("the type of the nodes' GPUs", "gpu=TYPE");
    if (settings.gpus == 0)
        return missing("how many GPUs a node has", "gpus=N");
    if (settings.network <= 0)
        return missing("how fast a node's port into its switch is", "network=RATE");
    if (settings.ports > 1 && settings.gpus % settings.ports != 0)
        return badInput(
            fmt::format("ports={}: the {} GPUs of a node cannot share them evenly", settings.ports, settings.gpus));
    return {};
}

} // namespace

bool isSlurmTopology(std::string_view text)
{
    constexpr std::size_t kHead = 1 << 16; // comments may come first
    for (const SlurmLine &line : slurmLines(text.substr(0, kHead))) {
        const std::string low = lowered(line.text.substr(0, 64));
        const std::size_t begin = low.find_first_not_of(" \t");
        if (begin == std::string::npos)
            continue; // empty, or a comment
        const std::string_view word = std::string_view(low).substr(begin);
        return word.starts_with("switchname=") || word.starts_with("blockname=") || word.starts_with("blocksizes=");
    }
    return false;
}

Result<cluster::Cluster> readSlurmTopology(std::string_view text, const std::string &name,
                                           const ClusterSettings &settings)
{
    if (text.size() > static_cast<std::size_t>(kLargestClusterFile))
        return badInput(
                   fmt::format("the file has {} bytes; a topology has at most {}", text.size(), kLargestClusterFile))
            .in(name);
    auto switches = SlurmReader().read(text);
    if (!switches)
        return switches.error().in(name, switches.error().line);
    if (const Status said = checkSlurmSettings(settings, name); !said)
        return said.error().in(name, switches->front().line);
    const auto type = gpuType(settings.gpu);
    if (!type)
        return type.error().in(name);
    std::size_t nodes = 0;
    for (const SlurmSwitch &each : *switches)
        nodes += each.nodes.size();
    if (nodes * static_cast<std::size_t>(settings.gpus) > cluster::kMostDevices)
        return badInput(fmt::format("{} nodes of {} GPUs are more than the {} devices that are supported", nodes,
                                    settings.gpus, cluster::kMostDevices))
            .in(name);
    auto made = SlurmClusterBuilder(std::filesystem::path(name).stem().string(), settings, *type).build(*switches);
    if (!made)
        return made.error().in(name);
    return made;
}

} // namespace planloom::import
