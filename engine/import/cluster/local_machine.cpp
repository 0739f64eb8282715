// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/core_rate.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/import/cluster/gpu_catalog.h"
#include "engine/import/cluster/nvml.h"
#include "engine/import/import.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <hwloc.h>
#include <iterator>
#include <memory>
#include <unistd.h>

namespace planloom::import {
namespace {

using cluster::ClusterBuilder;
using cluster::DeviceType;
using cluster::Link;
using cluster::Vertex;

constexpr int kMostCpuDevices = 1024;
constexpr unsigned kNvidia = 0x10de;

// Copies between two processes on one machine go through shared memory. Open MPI on two Zen 4 cores: 5.6 to 13 GB/s
// point to point; an all-reduce of 26 MB in 6.4 ms, which is 4 GB/s by the ring's count; 3 us for one of 4 KB.
constexpr double kSharedMemory = 8e9;
constexpr double kSharedMemoryCollective = 4e9;
constexpr Seconds kSharedMemoryLatency{0.75e-6}; // a route has two such links
// One core reads and writes about 20 GB/s; a socket's channels end at about 150.
constexpr double kMemoryPerCore = 20e9;
constexpr double kMemoryPerSocket = 150e9;

struct TopologyCloser {
    void operator()(hwloc_topology *topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyCloser>;

Result<Topology> discover()
{
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0)
        return failed("hwloc could not be started");
    Topology topology(raw);
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(raw) != 0)
        return failed("hwloc could not read this machine's topology");
    return topology;
}

/// A file of /proc or /sys, whose size is not known before it is read; empty if there is none.
std::string kernelFile(const char *path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double firstNumber(const std::string &text, double fallback)
{
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && value > 0 ? value : fallback;
}

/// Memory of the machine, or the control group's limit if that is less. Not hwloc's sum over NUMA nodes, which
/// some virtual machines report too small.
double usableMemory()
{
    double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    for (const char *limit : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
        memory = std::min(memory, firstNumber(kernelFile(limit), memory));
    return std::max(memory, 1.0);
}

Result<cluster::Cluster> cpuCluster(hwloc_topology_t topology, int devices)
{
    const int cores = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE));
    const int sockets = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));
    const CoreRate &rate = coreRate();
    const double share = std::max(1.0, static_cast<double>(cores) / devices);
    DeviceType type;
    type.name = "CPU";
    type.peakFlops = {{"float32", rate.float32 * share},
                      {"bfloat16", rate.bfloat16 * share},
                      {"float64", rate.float32 * share / 2}};
    type.memory = Bytes(static_cast<std::int64_t>(usableMemory() / devices));
    type.memoryBandwidth = std::min(cores * kMemoryPerCore, sockets * kMemoryPerSocket) / std::min(cores, devices);

    ClusterBuilder builder(devices == 1 ? "local" : fmt::format("local:{}", devices));
    const std::size_t index = builder.type(std::move(type));
    const NodeId node = builder.node("n0", cores);
    const std::size_t memory = builder.vertex({Vertex::Kind::Switch, "n0:memory", {}, node});
    for (int i = 0; i < devices; ++i)
        builder.link({Link::Kind::Memory, builder.vertexOf(builder.device(node, index)), memory, kSharedMemory,
                      kSharedMemoryCollective, kSharedMemoryLatency, true});
    return std::move(builder).build();
}

/// NVIDIA's display and 3D controllers whose figures are known.
std::vector<const DeviceType *> gpusOf(hwloc_topology_t topology)
{
    std::vector<const DeviceType *> gpus;
    for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci)) != nullptr;) {
        const auto &attributes = pci->attr->pcidev;
        const bool display = attributes.class_id >> 8 == 0x03;
        if (const DeviceType *type = gpuByPciId(attributes.device_id);
            type && display && attributes.vendor_id == kNvidia)
            gpus.push_back(type);
    }
    return gpus;
}

Result<cluster::Cluster> gpuCluster(const std::vector<const DeviceType *> &gpus)
{
    ClusterBuilder builder("local");
    std::map<std::string, std::size_t> types;
    const NodeId node = builder.node("n0");
    const std::size_t host = builder.vertex({Vertex::Kind::Switch, "n0:pcie", {}, node});
    for (const DeviceType *gpu : gpus) {
        const auto [at, fresh] = types.emplace(gpu->name, types.size());
        if (fresh)
            builder.type(*gpu);
        const double rate = pcieRateOf(*gpu);
        builder.link({Link::Kind::Pcie, builder.vertexOf(builder.device(node, at->second)), host, rate, rate,
                      Seconds(2.5e-6), true});
    }
    return std::move(builder).build();
}

/// The file of NCCL's topology that the environment names, if it is there; empty: none.
std::string topologyFile()
{
    for (const char *variable : {"NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE"}) {
        const char *path = std::getenv(variable);
        std::error_code none;
        if (path != nullptr && std::filesystem::is_regular_file(path, none))
            return path;
    }
    return {};
}

} // namespace

Result<cluster::Cluster> localCluster(int cpuDevices) { return localCluster(cpuDevices, installedNvml()); }

Result<cluster::Cluster> localCluster(int cpuDevices, const NvmlApi *nvml)
{
    if (cpuDevices < 0 || cpuDevices > kMostCpuDevices)
        return badInput(fmt::format("{} CPU devices were asked for; give 1 to {}", cpuDevices, kMostCpuDevices));
    auto topology = discover();
    if (!topology)
        return topology.error();
    if (cpuDevices == 0) {
        if (const std::string path = topologyFile(); !path.empty()) {
            const auto text = readFile(path);
            return text ? readNcclTopology(*text, path) : Result<cluster::Cluster>(text.error());
        }
        if (nvml != nullptr) {
            const auto installed = readNvml(*nvml);
            const auto visible =
                installed ? visibleGpus(*installed, std::getenv("CUDA_VISIBLE_DEVICES")) : std::vector<InstalledGpu>();
            if (installed && visible.empty() && !installed->empty())
                return cpuCluster(topology->get(), 1); // they are hidden
            auto made = installed ? clusterOf(visible) : Result<cluster::Cluster>(installed.error());
            if (made)
                return made;
            if (!installed || !installed->empty())
                log(LogLevel::Warning, made.error().text());
        }
        if (const auto gpus = gpusOf(topology->get()); !gpus.empty())
            return gpuCluster(gpus);
    }
    return cpuCluster(topology->get(), std::max(cpuDevices, 1));
}

} // namespace planloom::import
