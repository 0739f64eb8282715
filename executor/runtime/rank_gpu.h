// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/program/program.h"
#include "executor/comm/communicator.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/runtime/kernel_records.h"
#include "executor/runtime/staged_communicator.h"

#include <memory>

namespace planloom::runtime {

/// Whether ranks of a plan for this cluster may train on GPUs of this machine. Opens no library.
bool mayUseGpus(const cluster::Cluster &cluster);

/// What a rank trains on: a GPU, if the plan places it on one and this machine has one; otherwise the processors.
class RankGpu {
public:
    /// Ranks of one machine take its GPUs in turn, in the order of the plan's devices; several may have the same one.
    /// What it runs is recorded: graphs always, every kernel for a window of @p kernelSeconds from the first step on
    /// and when @p recording is asked for one. The environment variable PLANLOOM_CUPTI=off keeps CUPTI out. @p
    /// communicator and @p recording must outlive it. Errors: those of the device.
    static Result<std::unique_ptr<RankGpu>> open(const program::Program &program, const cluster::Cluster &cluster,
                                                 comm::Communicator &communicator, double kernelSeconds,
                                                 Recording &recording);

    /// nullptr: the processors.
    [[nodiscard]] device::Device *device() const { return m_device.get(); }
    /// The given one, or one that can reach the device's memory.
    [[nodiscard]] comm::Communicator &communicator() const { return m_staged ? *m_staged : m_given; }
    /// nullptr: nothing is recorded.
    [[nodiscard]] KernelRecords *kernels() const { return m_kernels.get(); }
    [[nodiscard]] KernelMarks *marks() const { return m_kernels ? &m_kernels->marks() : nullptr; }
    /// A warning with the operators that the host computes, if there are any.
    void nameHostOperators() const;

private:
    explicit RankGpu(comm::Communicator &given) : m_given(given) {}
    comm::Communicator &m_given;
    std::unique_ptr<device::PluginDevice> m_device;
    std::unique_ptr<StagedCommunicator> m_staged;
    std::unique_ptr<KernelRecords> m_kernels; ///< ends before the device
};

} // namespace planloom::runtime
