// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/nvml.h"

#include "engine/import/cluster/gpu_catalog.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <optional>
#include <sstream>

namespace planloom::import {
namespace {

using cluster::ClusterBuilder;
using cluster::DeviceType;
using cluster::Link;
using cluster::Vertex;

constexpr Seconds kPcieLatency{2.5e-6};
constexpr Seconds kNvLinkLatency{1e-6};

template <class F>
bool findFunction(void *library, const char *name, F &function)
{
    function = reinterpret_cast<F>(::dlsym(library, name));
    return function != nullptr;
}

std::optional<NvmlApi> openNvml()
{
    void *library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return std::nullopt;
    NvmlApi api{};
    const bool all = findFunction(library, "nvmlInit_v2", api.init)
        && findFunction(library, "nvmlShutdown", api.shutdown)
        && findFunction(library, "nvmlErrorString", api.errorText)
        && findFunction(library, "nvmlDeviceGetCount_v2", api.count)
        && findFunction(library, "nvmlDeviceGetHandleByIndex_v2", api.handle)
        && findFunction(library, "nvmlDeviceGetName", api.name)
        && findFunction(library, "nvmlDeviceGetMemoryInfo", api.memory)
        && findFunction(library, "nvmlDeviceGetPciInfo_v3", api.pciInfo)
        && findFunction(library, "nvmlDeviceGetCudaComputeCapability", api.computeCapability)
        && findFunction(library, "nvmlDeviceGetMaxPcieLinkGeneration", api.pcieGeneration)
        && findFunction(library, "nvmlDeviceGetMaxPcieLinkWidth", api.pcieWidth)
        && findFunction(library, "nvmlDeviceGetNvLinkState", api.linkState)
        && findFunction(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", api.linkRemote)
        && findFunction(library, "nvmlDeviceGetNvLinkRemoteDeviceType", api.linkRemoteType);
    return all ? std::optional(api) : std::nullopt;
}

std::string busIdOf(const NvmlApi::PciInfo &info)
{
    std::string id(info.busId, ::strnlen(info.busId, sizeof info.busId));
    std::ranges::transform(id, id.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return id;
}

/// What is not known of a GPU stays as it is: PCIe in a virtual machine, links of a GPU without NVLink.
void readLinks(const NvmlApi &api, NvmlApi::Gpu *handle, InstalledGpu &gpu)
{
    unsigned generation = 0;
    unsigned lanes = 0;
    if (api.pcieGeneration(handle, &generation) == 0 && api.pcieWidth(handle, &lanes) == 0) {
        gpu.pcieGeneration = static_cast<int>(generation);
        gpu.pcieLanes = static_cast<int>(lanes);
    }
    for (unsigned link = 0; link < NvmlApi::kMostLinks; ++link) {
        int isOn = 0;
        NvmlApi::PciInfo remote{};
        NvmlApi::Remote type = NvmlApi::Remote::Unknown;
        if (api.linkState(handle, link, &isOn) != 0 || isOn == 0 || api.linkRemoteType(handle, link, &type) != 0)
            continue;
        if (type == NvmlApi::Remote::Switch)
            ++gpu.switchLinks;
        else if (type == NvmlApi::Remote::Gpu && api.linkRemote(handle, link, &remote) == 0)
            ++gpu.peerLinks[busIdOf(remote)];
    }
}

/// Ends what init() began.
class Session {
public:
    explicit Session(const NvmlApi &api) : m_api(api), m_error(api.init()) {}
    ~Session()
    {
        if (m_error == 0)
            m_api.shutdown();
    }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    [[nodiscard]] int error() const { return m_error; }

private:
    const NvmlApi &m_api;
    int m_error;
};

Error refusal(const NvmlApi &api, const std::string &what, int error)
{
    const char *reason = api.errorText(error);
    return failed(fmt::format("the NVIDIA driver does not tell {}: {}; look at nvidia-smi", what,
                              reason != nullptr ? reason : std::to_string(error)));
}

double pcieRateOf(const InstalledGpu &gpu, const DeviceType &type)
{
    constexpr std::array kGigatransfers{0.0, 2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
    const auto generation = static_cast<std::size_t>(std::max(gpu.pcieGeneration, 0));
    if (generation == 0 || generation >= kGigatransfers.size() || gpu.pcieLanes < 1 || gpu.pcieLanes > 32)
        return import::pcieRateOf(type);
    return pcieRate(kGigatransfers[generation], gpu.pcieLanes);
}

const DeviceType *typeOf(const InstalledGpu &gpu)
{
    const DeviceType *type = gpuByPciId(gpu.pciDevice);
    if (type == nullptr)
        type = gpuByProductName(gpu.name);
    return type != nullptr ? type : gpuByComputeCapability(gpu.sm);
}

} // namespace

const NvmlApi *installedNvml()
{
    static const std::optional<NvmlApi> kApi = openNvml();
    return kApi ? &*kApi : nullptr;
}

Result<std::vector<InstalledGpu>> readNvml(const NvmlApi &api)
{
    const Session session(api);
    if (session.error() != 0)
        return refusal(api, "its GPUs", session.error());
    unsigned count = 0;
    if (const int error = api.count(&count); error != 0)
        return refusal(api, "its GPUs", error);
    std::vector<InstalledGpu> gpus;
    for (unsigned i = 0; i < count; ++i) {
        NvmlApi::Gpu *handle = nullptr;
        NvmlApi::Memory memory{};
        NvmlApi::PciInfo pci{};
        std::array<char, 96> name{};
        int major = 0;
        int minor = 0;
        int error = api.handle(i, &handle);
        const auto also = [&error](auto call) { error = error == 0 ? call() : error; };
        also([&] { return api.name(handle, name.data(), static_cast<unsigned>(name.size())); });
        also([&] { return api.memory(handle, &memory); });
        also([&] { return api.pciInfo(handle, &pci); });
        also([&] { return api.computeCapability(handle, &major, &minor); });
        if (error != 0)
            return refusal(api, fmt::format("what GPU {} is", i), error);
        InstalledGpu gpu{std::string(name.data(), ::strnlen(name.data(), name.size())), busIdOf(pci),
                         pci.deviceId >> 16U, major * 10 + minor, Bytes(static_cast<std::int64_t>(memory.total))};
        readLinks(api, handle, gpu);
        gpus.push_back(std::move(gpu));
    }
    return gpus;
}

std::vector<InstalledGpu> visibleGpus(const std::vector<InstalledGpu> &gpus, const char *chosen)
{
    if (chosen == nullptr)
        return gpus;
    std::vector<InstalledGpu> visible;
    std::istringstream numbers(chosen);
    for (std::string text; std::getline(numbers, text, ',');) {
        std::size_t number = 0;
        text.erase(0, text.find_first_not_of(' '));
        text.erase(text.find_last_not_of(' ') + 1);
        if (text.starts_with('-'))
            break;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
        if (read.ec == std::errc::invalid_argument || read.ptr != text.data() + text.size())
            return gpus;
        if (read.ec != std::errc() || number >= gpus.size())
            break;
        visible.push_back(gpus[number]);
    }
    return visible;
}

Result<cluster::Cluster> clusterOf(const std::vector<InstalledGpu> &gpus)
{
    ClusterBuilder builder("local");
    const NodeId node = builder.node("n0");
    std::map<std::pair<std::string, std::int64_t>, std::size_t> types;
    std::map<std::string, std::size_t> vertices; // by bus id
    for (const InstalledGpu &gpu : gpus) {
        const DeviceType *known = typeOf(gpu);
        if (known == nullptr)
            return unsupported(fmt::format("{} (sm {}, PCI device {:#06x}) is of a type whose figures are not known; "
                                           "describe this machine in YAML",
                                           gpu.name, gpu.sm, gpu.pciDevice));
        const auto [at, fresh] = types.emplace(std::pair(known->name, gpu.memory.value()), types.size());
        if (fresh) {
            DeviceType type = *known;
            type.memory = gpu.memory;
            if (std::ranges::count(types, known->name, [](const auto &entry) { return entry.first.first; }) > 1)
                type.name += fmt::format("-{}MiB", gpu.memory.value() >> 20); // the same chip with another memory
            builder.type(std::move(type));
        }
        vertices[gpu.busId] = builder.vertexOf(builder.device(node, at->second));
    }
    const std::size_t host = builder.vertex({Vertex::Kind::Switch, "n0:pcie", {}, node});
    const auto link = [&builder](Link::Kind kind, std::size_t a, std::size_t b, double rate, Seconds latency) {
        builder.link({kind, a, b, rate, rate, latency, true});
    };
    std::optional<std::size_t> nvSwitch;
    for (const InstalledGpu &gpu : gpus) {
        const std::size_t own = vertices[gpu.busId];
        const double rate = nvLinkRate(gpu.sm);
        link(Link::Kind::Pcie, own, host, pcieRateOf(gpu, *typeOf(gpu)), kPcieLatency);
        for (const auto &[busId, count] : gpu.peerLinks) {
            const auto peer = vertices.find(busId);
            if (peer != vertices.end() && own < peer->second) // each end lists them
                link(Link::Kind::NvLink, own, peer->second, count * rate, kNvLinkLatency);
        }
        if (gpu.switchLinks == 0)
            continue;
        if (!nvSwitch)
            nvSwitch = builder.vertex({Vertex::Kind::Switch, "n0:nvswitch", {}, node});
        link(Link::Kind::NvLink, own, *nvSwitch, gpu.switchLinks * rate, kNvLinkLatency);
    }
    return std::move(builder).build();
}

} // namespace planloom::import
