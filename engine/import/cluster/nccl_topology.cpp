// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/gpu_catalog.h"
#include "engine/import/import.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <pugixml.hpp>

namespace planloom::import {
namespace {

using cluster::ClusterBuilder;
using cluster::Link;
using cluster::Vertex;

constexpr std::size_t kLargestTopologyText = 64u << 20;
constexpr int kDeepestBridge = 64;
// Bandwidth between CPUs in NCCL's model: Intel's and AMD's figures of recent servers.
constexpr double kIntelBetweenCpus = 10e9;
constexpr double kAmdBetweenCpus = 16e9;
// Large messages over InfiniBand reach about 0.96 of a port's line rate.
constexpr double kPortEfficiency = 0.96;
constexpr double kDefaultPort = 10e9 / 8;
constexpr Seconds kHopLatency{1e-6};

/// Thrown and caught within this file.
struct WrongXml {
    std::string message;
    std::ptrdiff_t offset = -1;
};

/// A GPU on its way into the builder, which wants a node's devices together and in the order of their numbers.
struct GpuNode {
    pugi::xml_node element;
    std::string busId;
    std::size_t parent = 0; ///< index of the PCI bridge or CPU
    std::size_t cpu = 0;
    double rate = 0; ///< of its PCI link
    int number = 0;
    int sm = 0;
    unsigned pciId = 0;
};

double numberOf(const char *text, double fallback)
{
    double value = 0;
    const std::string_view view(text);
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
    return error == std::errc{} && end != view.data() ? value : fallback;
}

int integerOf(const pugi::xml_node &element, const char *attribute, int least, int most)
{
    int value = 0;
    const std::string_view text = element.attribute(attribute).value();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        throw WrongXml{fmt::format("<{}> has {}=\"{}\"; it must be a whole number from {} to {}", element.name(),
                                   attribute, text, least, most),
                       element.offset_debug()};
    return value;
}

unsigned hexOf(std::string_view text)
{
    unsigned value = 0;
    if (text.starts_with("0x"))
        text.remove_prefix(2);
    std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return value;
}

std::string lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return text;
}

/// NCCL leaves speed or width empty where the kernel does not tell, and then counts a third-generation x16 slot.
double pciRateOf(const pugi::xml_node &pci)
{
    const double gigatransfers = numberOf(pci.attribute("link_speed").value(), 0);
    const double lanes = numberOf(pci.attribute("link_width").value(), 0);
    if (!(gigatransfers > 0 && gigatransfers <= 1024 && lanes >= 1 && lanes <= 64))
        return pcieRate(8, 16);
    return pcieRate(gigatransfers, static_cast<int>(lanes));
}

class TopologyReader {
public:
    explicit TopologyReader(const std::string &name) : m_builder(name) {}

    Result<cluster::Cluster> read(const pugi::xml_node &system)
    {
        std::vector<std::string> hosts;
        for (const pugi::xml_node &cpu : system.children("cpu")) {
            const std::string host = cpu.attribute("host_hash").value();
            if (std::find(hosts.begin(), hosts.end(), host) == hosts.end())
                hosts.push_back(host);
        }
        m_manyHosts = hosts.size() > 1;
        if (m_manyHosts)
            m_network = m_builder.vertex({Vertex::Kind::Network, "network", {}, {}});
        for (const std::string &host : hosts)
            readHost(system, host);
        return std::move(m_builder).build();
    }

private:
    void readHost(const pugi::xml_node &system, const std::string &host)
    {
        m_node = m_builder.node(fmt::format("n{}", m_hosts));
        m_prefix = fmt::format("n{}:", m_hosts++);
        m_gpus.clear();
        std::vector<std::size_t> cpus;
        double between = kIntelBetweenCpus;
        for (const pugi::xml_node &cpu : system.children("cpu")) {
            if (host != cpu.attribute("host_hash").value())
                continue;
            if (std::string_view(cpu.attribute("vendor").value()) == "AuthenticAMD")
                between = kAmdBetweenCpus;
            cpus.push_back(addSwitch(fmt::format("cpu{}", cpus.size())));
            m_cpu = cpus.back();
            children(cpu, cpus.back(), 0, pcieRate(8, 16), {}, 0);
        }
        if (cpus.size() > 1) {
            const std::size_t between_all = addSwitch("sys");
            for (const std::size_t cpu : cpus)
                link(Link::Kind::Memory, cpu, between_all, between);
        }
        addGpus();
        addNvLinks();
    }

    /// Elements below a CPU or a PCI element: bridges become switches; an endpoint's own element becomes its link.
    void children(const pugi::xml_node &element, std::size_t parent, int depth, double rate, const std::string &busId,
                  unsigned pciId)
    {
        if (depth > kDeepestBridge)
            throw WrongXml{fmt::format("PCI bridges are nested deeper than {}", kDeepestBridge),
                           element.offset_debug()};
        for (const pugi::xml_node &child : element.children()) {
            const std::string_view kind = child.name();
            if (kind == "pci")
                pci(child, parent, depth);
            else if (kind == "gpu")
                m_gpus.push_back({child, busId, parent, m_cpu, rate, integerOf(child, "dev", 0, 65535),
                                  integerOf(child, "sm", 10, 999), pciId});
            else if (kind == "nic")
                nic(child, parent, rate);
        }
    }

    void pci(const pugi::xml_node &element, std::size_t parent, int depth)
    {
        const std::string busId = lower(element.attribute("busid").value());
        if (busId.empty())
            throw WrongXml{"a <pci> element has no busid", element.offset_debug()};
        const double rate = pciRateOf(element);
        std::size_t below = parent;
        if (element.child("pci")) {
            below = addSwitch("pci " + busId);
            link(Link::Kind::Pcie, below, parent, rate);
        }
        children(element, below, depth + 1, rate, busId, hexOf(element.attribute("device").value()));
    }

    void nic(const pugi::xml_node &element, std::size_t parent, double rate)
    {
        const std::size_t index =
            m_builder.vertex({Vertex::Kind::Nic, fmt::format("{}nic{}", m_prefix, m_nics++), {}, m_node});
        link(Link::Kind::Pcie, index, parent, rate);
        double speed = 0;
        for (const pugi::xml_node &net : element.children("net")) {
            const double megabits = numberOf(net.attribute("speed").value(), 0);
            speed += megabits > 0 && megabits <= 1e9 ? megabits * 1e6 / 8 * kPortEfficiency : kDefaultPort;
        }
        if (m_manyHosts && speed > 0)
            m_builder.link({Link::Kind::Network, index, m_network, speed, speed, Seconds(4e-6), true});
    }

    void addGpus()
    {
        std::stable_sort(m_gpus.begin(), m_gpus.end(),
                         [](const GpuNode &a, const GpuNode &b) { return a.number < b.number; });
        for (const GpuNode &gpu : m_gpus) {
            const std::size_t type = typeOf(gpu);
            const std::size_t vertex =
                m_builder.vertexOf(m_builder.device(m_node, type, fmt::format("{}g{}", m_prefix, gpu.number)));
            if (!gpu.busId.empty())
                m_byBus[m_prefix + gpu.busId] = vertex;
            link(Link::Kind::Pcie, vertex, gpu.parent, gpu.rate);
            m_vertices.push_back(vertex);
        }
    }

    std::size_t typeOf(const GpuNode &gpu)
    {
        const cluster::DeviceType *type = gpuByPciId(gpu.pciId);
        if (!type)
            type = gpuByComputeCapability(gpu.sm);
        if (!type)
            throw WrongXml{
                fmt::format("GPU {} (sm {}, PCI device {:#06x}) is of a type that is not known; describe the "
                            "cluster in YAML, with its figures",
                            gpu.number, gpu.sm, gpu.pciId),
                gpu.element.offset_debug()};
        const auto [at, fresh] = m_types.emplace(type->name, m_types.size());
        if (fresh)
            m_builder.type(*type);
        return at->second;
    }

    /// Links to other GPUs (listed at both ends, taken once), to the CPU, or to NVSwitches, which become one switch.
    void addNvLinks()
    {
        std::size_t nvSwitch = 0;
        bool switched = false;
        for (std::size_t i = 0; i < m_gpus.size(); ++i) {
            int toSwitch = 0;
            for (const pugi::xml_node &nvLink : m_gpus[i].element.children("nvlink")) {
                const int count = integerOf(nvLink, "count", 1, 64);
                const auto peer = m_byBus.find(m_prefix + lower(nvLink.attribute("target").value()));
                const std::string_view target = nvLink.attribute("tclass").value();
                if (peer != m_byBus.end()) {
                    if (m_vertices[i] < peer->second)
                        link(Link::Kind::NvLink, m_vertices[i], peer->second, count * nvLinkRate(m_gpus[i].sm));
                } else if (target.starts_with("0x068001")) {
                    link(Link::Kind::NvLink, m_vertices[i], m_gpus[i].cpu, count * nvLinkRate(m_gpus[i].sm));
                } else if (target.starts_with("0x0680")) {
                    toSwitch += count;
                }
            }
            if (toSwitch == 0)
                continue;
            if (!switched)
                nvSwitch = addSwitch("nvswitch");
            switched = true;
            link(Link::Kind::NvLink, m_vertices[i], nvSwitch, toSwitch * nvLinkRate(m_gpus[i].sm));
        }
        m_vertices.clear();
    }

    std::size_t addSwitch(const std::string &name)
    {
        return m_builder.vertex({Vertex::Kind::Switch, m_prefix + name, {}, m_node});
    }

    void link(Link::Kind kind, std::size_t a, std::size_t b, double rate)
    {
        m_builder.link({kind, a, b, rate, rate, kHopLatency, true});
    }

    ClusterBuilder m_builder;
    std::map<std::string, std::size_t> m_types;
    std::map<std::string, std::size_t> m_byBus;
    std::size_t m_network = 0;
    bool m_manyHosts = false;
    int m_hosts = 0;
    int m_nics = 0;
    // Of the host that is being read:
    NodeId m_node;
    std::string m_prefix;
    std::size_t m_cpu = 0;
    std::vector<GpuNode> m_gpus;
    std::vector<std::size_t> m_vertices; ///< per entry of m_gpus
};

int lineAt(std::string_view text, std::ptrdiff_t offset)
{
    if (offset < 0)
        return 0;
    const auto end = text.begin() + std::min<std::ptrdiff_t>(offset, static_cast<std::ptrdiff_t>(text.size()));
    return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
}

} // namespace

Result<cluster::Cluster> readNcclTopology(std::string_view text, const std::string &name)
{
    if (text.size() > kLargestTopologyText)
        return badInput(
                   fmt::format("the file has {} bytes; a topology has at most {}", text.size(), kLargestTopologyText))
            .in(name);
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
    if (!parsed)
        return badInput(fmt::format("not valid XML: {}", parsed.description())).in(name, lineAt(text, parsed.offset));
    const pugi::xml_node system = document.child("system");
    if (!system)
        return badInput("there is no <system> element; write the topology with NCCL_TOPO_DUMP_FILE").in(name);
    if (!system.child("cpu"))
        return badInput("<system> has no <cpu> element").in(name, lineAt(text, system.offset_debug()));
    try {
        auto made = TopologyReader(std::filesystem::path(name).stem().string()).read(system);
        if (!made)
            return made.error().in(name);
        return made;
    } catch (const WrongXml &e) {
        return badInput(e.message).in(name, lineAt(text, e.offset));
    }
}

} // namespace planloom::import
