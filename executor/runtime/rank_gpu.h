// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"
#include "executor/comm/communicator.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/runtime/gpu_communicator.h"
#include "executor/runtime/kernel_records.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace planloom::runtime {

/// Whether ranks of a plan for this cluster may train on GPUs of this machine. Opens no library.
bool mayUseGpus(const cluster::Cluster &cluster);

/// Ranks that a plan places on GPUs and that would train on processors here, as this machine has no GPU that can be
/// used. @p ranks: of the plan's tables. Opens the CUDA library where there is a driver.
std::int64_t ranksOnProcessors(const cluster::Cluster &cluster, const std::vector<trace::RankInfo> &ranks);
/// What to tell the user of such a run.
std::string onProcessorsNote(std::int64_t ranks);

/// What a rank trains on: a GPU, if the plan places it on one and this machine has one; otherwise the processors.
class RankGpu {
public:
    /// Ranks of one machine take its GPUs in turn, in the order of the plan's devices; several may have the same one.
    /// What it runs is recorded: graphs always, every kernel for a window of @p kernelSeconds from the first of them on
    /// and when @p recording is asked for one. The environment variable PLANLOOM_CUPTI=off keeps CUPTI out. @p
    /// communicator and @p recording must outlive it. Collective: ranks hear of each other's GPUs; no wait takes longer
    /// than @p deadline. Errors: those of the device and of communication.
    static Result<std::unique_ptr<RankGpu>> open(const program::Program &program, const cluster::Cluster &cluster,
                                                 comm::Communicator &communicator, double kernelSeconds,
                                                 Recording &recording, std::chrono::nanoseconds deadline);

    /// nullptr: the processors.
    [[nodiscard]] device::Device *device() const { return m_device.get(); }
    /// The given one, or one that can reach the device's memory.
    [[nodiscard]] comm::Communicator &communicator() const { return m_gpus ? *m_gpus : m_given; }
    /// nullptr: nothing is recorded.
    [[nodiscard]] KernelRecords *kernels() const { return m_kernels.get(); }
    [[nodiscard]] KernelMarks *marks() const { return m_kernels ? &m_kernels->marks() : nullptr; }
    /// A warning with the operators that the host computes, if there are any.
    void nameHostOperators() const;

    /// Leaves the teams of GPUs together with the other ranks, after the last barrier.
    void leave(std::chrono::nanoseconds deadline);
    /// Ends communication between GPUs that has not been left: to be destroyed before the memory that it moves.
    class Communication {
    public:
        explicit Communication(RankGpu &gpu) : m_gpu(gpu) {}
        ~Communication() { m_gpu.abort(); }
        Communication(const Communication &) = delete;
        Communication &operator=(const Communication &) = delete;

    private:
        RankGpu &m_gpu;
    };

private:
    explicit RankGpu(comm::Communicator &given) : m_given(given) {}
    Status openDevice(const program::Program &program, const cluster::Cluster &cluster, double kernelSeconds,
                      Recording &recording);
    void abort();
    comm::Communicator &m_given;
    std::unique_ptr<device::PluginDevice> m_device;
    std::unique_ptr<GpuCommunicator> m_gpus;
    std::unique_ptr<KernelRecords> m_kernels; ///< ends before the device
};

} // namespace planloom::runtime
