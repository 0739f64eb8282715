// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_gpu.h"

#include "engine/base/log.h"
#include "executor/device/plugin/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace planloom::runtime {

namespace {

bool isOnGpu(const cluster::Cluster &cluster, DeviceId id) { return !cluster.typeOf(id).isProcessor(); }

/// Ranks before @p own on GPUs of the same node.
std::size_t gpusBefore(const program::Program &program, const cluster::Cluster &cluster, std::size_t own)
{
    std::size_t before = 0;
    const NodeId node = cluster.device(program.ranks[own].device).node;
    for (std::size_t rank = 0; rank < own; ++rank) {
        const DeviceId device = program.ranks[rank].device;
        before += cluster.device(device).node == node && isOnGpu(cluster, device) ? 1 : 0;
    }
    return before;
}

std::unique_ptr<KernelRecords> recordsOf(const program::Program &program, RankId rank, int device, double seconds,
                                         Recording &recording)
{
    const char *chosen = std::getenv("PLANLOOM_CUPTI");
    const bool isOff = (chosen != nullptr && std::string_view(chosen) == "off") || !recording.tracesKernels();
    if (isOff || program::KernelRows(program).rows() > program::KernelRows::kMost)
        return nullptr;
    const auto table = device::activityOf(**device::cudaLibrary());
    if (table)
        return KernelRecords::open(**table, program, rank, device, seconds, recording);
    log(seconds > 0 ? LogLevel::Warning : LogLevel::Info, table.error().text());
    return nullptr;
}

} // namespace

bool mayUseGpus(const cluster::Cluster &cluster)
{
    return std::ranges::any_of(cluster.devices(),
                               [&](const cluster::Device &device) { return isOnGpu(cluster, device.id); })
        && device::mayHaveGpus();
}

std::int64_t ranksOnProcessors(const cluster::Cluster &cluster, const std::vector<trace::RankInfo> &ranks)
{
    const std::int64_t onGpus = std::ranges::count_if(ranks, [&](const trace::RankInfo &rank) {
        const DeviceId device = cluster.find(rank.device);
        return device.valid() && isOnGpu(cluster, device);
    });
    return onGpus > 0 && !device::cudaDevices() ? onGpus : 0;
}

std::string onProcessorsNote(std::int64_t ranks)
{
    const auto gpus = device::cudaDevices();
    return fmt::format("{} that the plan places on GPUs {} on processors: {}. Times say nothing about the GPUs",
                       ranks == 1 ? "1 rank" : fmt::format("{} ranks", ranks), ranks == 1 ? "trains" : "train",
                       gpus ? std::string("they were not used") : gpus.error().text());
}

Result<std::unique_ptr<RankGpu>> RankGpu::open(const program::Program &program, const cluster::Cluster &cluster,
                                               comm::Communicator &communicator, double kernelSeconds,
                                               Recording &recording, std::chrono::nanoseconds deadline)
{
    std::unique_ptr<RankGpu> made(new RankGpu(communicator));
    if (const Status opened = made->openDevice(program, cluster, kernelSeconds, recording); !opened)
        return opened.error();
    const bool anyGpu = std::any_of(program.ranks.begin(), program.ranks.end(),
                                    [&](const program::Rank &rank) { return isOnGpu(cluster, rank.device); });
    if (communicator.size() == 1 || !anyGpu)
        return made;
    const auto table = made->m_device ? device::communicationOf(**device::cudaLibrary())
                                      : Result<const PlanloomCommunicationTable *>(notFound("this rank has no GPU"));
    auto gpus = GpuCommunicator::create(communicator, made->m_device.get(), table, deadline);
    if (!gpus)
        return gpus.error();
    made->m_gpus = std::move(*gpus);
    if (made->m_gpus)
        made->m_gpus->setMarks(made->marks());
    return made;
}

Status RankGpu::openDevice(const program::Program &program, const cluster::Cluster &cluster, double kernelSeconds,
                           Recording &recording)
{
    const auto own = static_cast<std::size_t>(m_given.rank());
    if (own >= program.ranks.size() || !isOnGpu(cluster, program.ranks[own].device)) {
        if (kernelSeconds > 0 && own == 0)
            log(LogLevel::Warning, "kernels are recorded of GPUs, and the plan has rank 0 on a processor");
        return {};
    }
    const auto gpus = device::cudaDevices();
    if (!gpus) { // the agent has said so
        if (kernelSeconds > 0 && own == 0)
            log(LogLevel::Warning, "no kernels are recorded: " + gpus.error().text());
        return {};
    }
    const auto index = static_cast<int>(gpusBefore(program, cluster, own) % gpus->size());
    m_kernels = recordsOf(program, RankId(m_given.rank()), index, kernelSeconds, recording);
    auto device = device::openCudaDevice(index);
    if (!device)
        return device.error();
    m_device = std::move(*device);
    log(LogLevel::Info,
        "rank " + std::to_string(own) + " trains on cuda:" + std::to_string(index) + ", " + m_device->name());
    return {};
}

void RankGpu::leave(std::chrono::nanoseconds deadline)
{
    if (m_gpus)
        m_gpus->leave(deadline);
}

void RankGpu::abort()
{
    if (m_gpus)
        m_gpus->abortTeams();
}

void RankGpu::nameHostOperators() const
{
    if (m_device == nullptr)
        return;
    std::string names;
    for (const auto &[what, count] : m_device->onHost())
        names += (names.empty() ? "" : ", ") + what + " (" + std::to_string(count) + ")";
    if (!names.empty())
        log(LogLevel::Warning, "no GPU kernel for " + names + ": computed on the host, with copies there and back");
}

} // namespace planloom::runtime
