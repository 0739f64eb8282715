// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cluster.h"

#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::cluster {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// NVLink moves 450 GB/s a direction on an H100 (300 on an A100) by its line rate. After protocol overhead NCCL reaches
// about 0.82 of that: 370 GB/s for every operation but the all-reduce that NVLink SHARP computes in the switch
// (NVIDIA in nccl-tests issue 212; 368.8 measured in issue 309). The same share of 300 is 246; published runs of
// eight A100 lie at 230 to 240.
constexpr double kH100NvLink = 370 * kGiga;
constexpr double kA100NvLink = 235 * kGiga;
// A 400 Gb/s port is 50 GB/s by its line rate; InfiniBand headers and NCCL's protocol leave about 0.96 of it to large
// messages.
constexpr double kPort400 = 48 * kGiga;
constexpr double kPort200 = 24 * kGiga; // a DGX A100's ports are 200 Gb/s
// NVLink 5 doubles an H100's 450 GB/s a direction; the same share of it.
constexpr double kB200NvLink = 740 * kGiga;

DeviceType deviceType(const char *name, double memoryGb, double bandwidthGb, std::map<std::string, double> teraflops)
{
    for (auto &[dtype, rate] : teraflops)
        rate *= kTera;
    return {name, std::move(teraflops), Bytes(static_cast<std::int64_t>(memoryGb * kGiga)), bandwidthGb * kGiga};
}

// NVIDIA's data sheets: dense rates (no 2:4 sparsity), tensor cores where the type has them; memory in decimal GB as
// sold, which leaves the rest of a card's GiB to the driver. P100 and V100 are the SXM2 parts. CPU: one core of a Zen 4
// server (two 256-bit FMA pipes) with its part of the memory; `local` measures up the machine at hand instead.
const std::vector<DeviceType> &deviceTypes()
{
    static const std::vector<DeviceType> kTypes{
        deviceType("V100-16GB", 16, 900, {{"float32", 15.7}, {"float16", 125}, {"float64", 7.8}}),
        deviceType("V100-32GB", 32, 900, {{"float32", 15.7}, {"float16", 125}, {"float64", 7.8}}),
        deviceType("P100", 16, 732, {{"float32", 10.6}, {"float16", 21.2}, {"float64", 5.3}}),
        deviceType("T4", 16, 320, {{"float32", 8.1}, {"float16", 65}, {"int8", 130}}),
        deviceType("A100-40GB", 40, 1555,
                   {{"float32", 19.5}, {"float16", 312}, {"bfloat16", 312}, {"float64", 19.5}, {"int8", 624}}),
        deviceType("A100-80GB", 80, 2039,
                   {{"float32", 19.5}, {"float16", 312}, {"bfloat16", 312}, {"float64", 19.5}, {"int8", 624}}),
        deviceType("H100-SXM", 80, 3350,
                   {{"float32", 67}, {"float16", 989}, {"bfloat16", 989}, {"float64", 67}, {"int8", 1979}}),
        deviceType("H200-SXM", 141, 4800,
                   {{"float32", 67}, {"float16", 989}, {"bfloat16", 989}, {"float64", 67}, {"int8", 1979}}),
        deviceType("B200", 180, 8000,
                   {{"float32", 75}, {"float16", 2250}, {"bfloat16", 2250}, {"float64", 37}, {"int8", 4500}}),
        deviceType("CPU", 8, 20, {{"float32", 0.118}, {"bfloat16", 0.236}, {"float64", 0.059}}),
    };
    return kTypes;
}

/// The paper's three clusters with the effective rates of the released planner (DAPPLE Table 2; src/environment). Links
/// are half duplex because the paper's formula counts a network stage as one resource.
RegularCluster dapple(const char *name, int nodes, int perNode, double collective)
{
    RegularCluster spec;
    spec.name = name;
    spec.nodes = nodes;
    spec.perNode = perNode;
    spec.type = *knownDeviceType("V100-16GB");
    spec.intraBandwidth = 25 * kGiga;
    spec.interPointToPoint = 1 * kGiga;
    spec.interCollective = collective;
    spec.fullDuplex = false;
    spec.twoLevelRules = true;
    return spec;
}

/// PipeDream's cluster of 16: four V100 on PCIe in each of four nodes, 10 Gb/s Ethernet. Its optimizer charges a link
/// for both directions, as half duplex links are; its plans nest replicas inside and between machines, for which the
/// rules of the DAPPLE release were not made.
RegularCluster pipedream()
{
    RegularCluster spec = dapple("pipedream-4x4", 4, 4, 1 * kGiga);
    spec.intraBandwidth = 12 * kGiga;
    spec.twoLevelRules = false;
    return spec;
}

RegularCluster oneNode(const char *name, int devices, const char *type, double bandwidth)
{
    RegularCluster spec;
    spec.name = name;
    spec.perNode = devices;
    spec.type = *knownDeviceType(type);
    spec.intraBandwidth = bandwidth;
    spec.intraLatency = Seconds(3e-6);
    return spec;
}

/// Machines of one type of device, as NVIDIA sells them.
struct Machines {
    int count = 0;
    int devices = 8; ///< in each
    DeviceType type;
    double nvLink = 0;
    double port = 0; ///< into the network, of each device
};

Machines h100Machines(int count) { return {count, 8, *knownDeviceType("H100-SXM"), kH100NvLink, kPort400}; }
Machines a100Machines(int count) { return {count, 8, *knownDeviceType("A100-80GB"), kA100NvLink, kPort200}; }

/// NVSwitch between the devices of a machine, and a separate port into the network for each device, so that eight
/// transfers leave a machine side by side.
Result<Cluster> portPerDevice(const char *name, const std::vector<Machines> &kinds)
{
    ClusterBuilder builder(name);
    std::vector<std::size_t> types;
    for (const Machines &machines : kinds)
        types.push_back(builder.type(machines.type));
    const std::size_t network = builder.vertex({Vertex::Kind::Network, "network", {}, {}});
    int number = 0;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        const Machines &machines = kinds[kind];
        for (int n = 0; n < machines.count; ++n, ++number) {
            const NodeId node = builder.node(fmt::format("n{}", number));
            const std::size_t nvSwitch =
                builder.vertex({Vertex::Kind::Switch, fmt::format("n{}:nvswitch", number), {}, node});
            for (int g = 0; g < machines.devices; ++g) {
                const std::size_t device = builder.vertexOf(builder.device(node, types[kind]));
                const std::size_t nic =
                    builder.vertex({Vertex::Kind::Nic, fmt::format("n{}:nic{}", number, g), {}, node});
                builder.link(
                    {Link::Kind::NvLink, device, nvSwitch, machines.nvLink, machines.nvLink, Seconds(1.5e-6), true});
                builder.link({Link::Kind::Pcie, device, nic, machines.port, machines.port, Seconds(1e-6), true});
                builder.link({Link::Kind::Network, nic, network, machines.port, machines.port, Seconds(4e-6), true});
            }
        }
    }
    return std::move(builder).build();
}

/// One node of eight V100 and one of eight @p slower with 50 Gb/s Ethernet between them, as in Whale §5 on unequal
/// devices.
Result<Cluster> mixed(const char *name, const char *slower)
{
    ClusterBuilder builder(name);
    const std::array<std::size_t, 2> types{builder.type(*knownDeviceType("V100-32GB")),
                                           builder.type(*knownDeviceType(slower))};
    const std::size_t network = builder.vertex({Vertex::Kind::Network, "network", {}, {}});
    for (std::size_t n = 0; n < types.size(); ++n) {
        const NodeId node = builder.node(fmt::format("n{}", n));
        const std::size_t host = builder.vertex({Vertex::Kind::Switch, fmt::format("n{}:pcie", n), {}, node});
        const std::size_t nic = builder.vertex({Vertex::Kind::Nic, fmt::format("n{}:nic", n), {}, node});
        for (int g = 0; g < 8; ++g)
            builder.link({Link::Kind::Pcie, builder.vertexOf(builder.device(node, types[n])), host, 12 * kGiga,
                          12 * kGiga, Seconds(2.5e-6), true});
        builder.link({Link::Kind::Pcie, host, nic, 12 * kGiga, 12 * kGiga, Seconds(1e-6), true});
        builder.link({Link::Kind::Network, nic, network, 5 * kGiga, 5 * kGiga, Seconds(1e-5), true}); // 50 Gb/s at 0.8
    }
    return std::move(builder).build();
}

struct Preset {
    const char *name;
    Result<Cluster> (*make)();
};

const std::array kPresets{
    Preset{"dapple-a", [] { return regular(dapple("dapple-a", 2, 8, 3 * kGiga)); }},
    Preset{"dapple-b", [] { return regular(dapple("dapple-b", 16, 1, 3 * kGiga)); }},
    Preset{"dapple-c", [] { return regular(dapple("dapple-c", 16, 1, 1 * kGiga)); }},
    Preset{"pipedream-4x4", [] { return regular(pipedream()); }},
    Preset{"v100-p100", [] { return mixed("v100-p100", "P100"); }},
    Preset{"v100-t4", [] { return mixed("v100-t4", "T4"); }},
    Preset{"a100-8", [] { return regular(oneNode("a100-8", 8, "A100-80GB", kA100NvLink)); }},
    Preset{"h100-8", [] { return regular(oneNode("h100-8", 8, "H100-SXM", kH100NvLink)); }},
    Preset{"h200-8", [] { return regular(oneNode("h200-8", 8, "H200-SXM", kH100NvLink)); }},
    Preset{"b200-8", [] { return regular(oneNode("b200-8", 8, "B200", kB200NvLink)); }},
    Preset{"h100-16", [] { return portPerDevice("h100-16", {h100Machines(2)}); }},
    Preset{"a100-128", [] { return portPerDevice("a100-128", {a100Machines(16)}); }},
    Preset{"h100-1024", [] { return portPerDevice("h100-1024", {h100Machines(128)}); }},
    Preset{"h100-a100-1024",
           [] {
               return portPerDevice("h100-a100-1024", {h100Machines(64), a100Machines(64)});
           }},
    Preset{"h100-16384", [] { return portPerDevice("h100-16384", {h100Machines(2048)}); }},
};

Status checkCounts(const RegularCluster &spec)
{
    if (spec.nodes < 1 || spec.perNode < 1)
        return badInput(fmt::format("{} nodes of {} devices; both must be at least 1", spec.nodes, spec.perNode));
    if (static_cast<std::size_t>(spec.nodes) > kMostDevices / static_cast<std::size_t>(spec.perNode))
        return badInput(fmt::format("{} nodes of {} devices are more than the {} devices that are supported",
                                    spec.nodes, spec.perNode, kMostDevices));
    return {};
}

} // namespace

Result<Cluster> regular(const RegularCluster &spec)
{
    if (Status status = checkCounts(spec); !status)
        return status.error();
    ClusterBuilder builder(spec.name);
    const std::size_t type = builder.type(spec.type);
    const bool many = spec.nodes > 1;
    const std::size_t network = many ? builder.vertex({Vertex::Kind::Network, "network", {}, {}}) : 0;
    // The bus to the NIC never limits a regular cluster: its figures are the rates out of a node, end to end.
    const double bus = std::max({spec.intraBandwidth, spec.interPointToPoint, spec.interCollective});
    for (int n = 0; n < spec.nodes; ++n) {
        const NodeId node = builder.node(fmt::format("n{}", n));
        const std::size_t inside = builder.vertex({Vertex::Kind::Switch, fmt::format("n{}:switch", n), {}, node});
        for (int g = 0; g < spec.perNode; ++g) {
            const std::size_t device = builder.vertexOf(builder.device(node, type));
            builder.link({Link::Kind::NvLink, device, inside, spec.intraBandwidth, spec.intraBandwidth,
                          spec.intraLatency / 2, spec.fullDuplex});
        }
        if (!many)
            continue;
        const std::size_t nic = builder.vertex({Vertex::Kind::Nic, fmt::format("n{}:nic", n), {}, node});
        builder.link({Link::Kind::Pcie, inside, nic, bus, bus, Seconds(0), spec.fullDuplex});
        builder.link({Link::Kind::Network, nic, network, spec.interPointToPoint, spec.interCollective,
                      spec.interLatency / 2, spec.fullDuplex});
    }
    if (spec.twoLevelRules)
        builder.twoLevel({spec.intraBandwidth, spec.interPointToPoint, spec.interCollective});
    return std::move(builder).build();
}

Result<Cluster> preset(std::string_view name)
{
    for (const Preset &entry : kPresets) {
        if (name == entry.name)
            return entry.make();
    }
    return notFound(
        fmt::format("no built-in cluster is called \"{}\"; there are {}", name, fmt::join(presetNames(), ", ")));
}

std::vector<std::string> presetNames()
{
    std::vector<std::string> names;
    for (const Preset &entry : kPresets)
        names.emplace_back(entry.name);
    return names;
}

const DeviceType *knownDeviceType(std::string_view name)
{
    for (const DeviceType &type : deviceTypes()) {
        if (type.name == name)
            return &type;
    }
    // "V100" and "H100" mean the first of the family.
    const std::string family = std::string(name) + "-";
    for (const DeviceType &type : deviceTypes()) {
        if (type.name.starts_with(family))
            return &type;
    }
    return nullptr;
}

std::vector<std::string> knownDeviceTypeNames()
{
    std::vector<std::string> names;
    for (const DeviceType &type : deviceTypes())
        names.push_back(type.name);
    return names;
}

} // namespace planloom::cluster
