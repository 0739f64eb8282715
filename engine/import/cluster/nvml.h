// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/cluster/cluster.h"

#include <map>
#include <string>
#include <vector>

namespace planloom::import {

/// The functions of NVIDIA's management library that are used, by their names there; libnvidia-ml.so.1 comes with the
/// driver, its header with the toolkit. Types and numbers are those of its interface, which has been the same since
/// driver 470. Every function returns an nvmlReturn_t, 0: success.
struct NvmlApi {
    struct Gpu; ///< opaque
    struct Memory {
        unsigned long long total, free, used; // NOLINT: C's
    };
    struct PciInfo {
        char shortBusId[16];
        unsigned domain, bus, device;
        unsigned deviceId; ///< (device << 16) | vendor
        unsigned subsystem;
        char busId[32];
    };
    enum class Remote : int { Gpu = 0, Ibm = 1, Switch = 2, Unknown = 255 };
    static constexpr unsigned kMostLinks = 18;

    int (*init)();
    int (*shutdown)();
    const char *(*errorText)(int error);
    int (*count)(unsigned *gpus);
    int (*handle)(unsigned index, Gpu **gpu);
    int (*name)(Gpu *gpu, char *name, unsigned bytes);
    int (*memory)(Gpu *gpu, Memory *memory);
    int (*pciInfo)(Gpu *gpu, PciInfo *info);
    int (*computeCapability)(Gpu *gpu, int *major, int *minor);
    int (*pcieGeneration)(Gpu *gpu, unsigned *generation); ///< of GPU and slot at their best
    int (*pcieWidth)(Gpu *gpu, unsigned *lanes);
    int (*linkState)(Gpu *gpu, unsigned link, int *isOn);
    int (*linkRemote)(Gpu *gpu, unsigned link, PciInfo *info);
    int (*linkRemoteType)(Gpu *gpu, unsigned link, Remote *type);
};

/// The library of this machine's driver; nullptr: there is none, or it is too old.
const NvmlApi *installedNvml();

/// A GPU as its driver describes it.
struct InstalledGpu {
    std::string name; ///< "NVIDIA H100 80GB HBM3"
    std::string busId;
    unsigned pciDevice = 0;
    int sm = 0; ///< compute capability, such as 90
    Bytes memory;
    int pcieGeneration = 0; ///< 0: not known
    int pcieLanes = 0;
    std::map<std::string, int> peerLinks = {}; ///< NVLinks, by the bus id of the GPU behind them
    int switchLinks = 0;                       ///< to NVSwitches
};

/// All GPUs in the library's order. Errors: Failed, with the library's reason (a driver that does not fit, a lost GPU).
Result<std::vector<InstalledGpu>> readNvml(const NvmlApi &api);

/// Those that CUDA shows a program where the environment variable CUDA_VISIBLE_DEVICES is @p chosen, in its order:
/// numbers up to one that no GPU has. All of them, if it is nullptr or names GPUs otherwise.
std::vector<InstalledGpu> visibleGpus(const std::vector<InstalledGpu> &gpus, const char *chosen);

/// This machine as localCluster() of import.h has it, with the GPUs of @p nvml; nullptr: by their PCI ids.
Result<cluster::Cluster> localCluster(int cpuDevices, const NvmlApi *nvml);

/// A machine with these GPUs: the memory that they have, PCIe to the host, NVLinks to each other or to a switch.
/// Errors: Unsupported (a GPU of a type whose figures are not known, named), those of ClusterBuilder.
Result<cluster::Cluster> clusterOf(const std::vector<InstalledGpu> &gpus);

} // namespace planloom::import
