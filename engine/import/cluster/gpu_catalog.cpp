// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/gpu_catalog.h"

#include <array>

namespace planloom::import {
namespace {

struct Gpu {
    const char *type;
    int sm;
    int nvLinks;
    std::array<unsigned, 3> pciIds;    ///< 0: none
    std::array<const char *, 2> words; ///< that a product name contains, all of them
};

constexpr std::array kGpus{
    Gpu{"P100", 60, 4, {0x15f9, 0x15f8, 0x15f7}, {"P100", ""}},
    Gpu{"V100-16GB", 70, 6, {0x1db1, 0x1db4, 0}, {"V100", "16GB"}},
    Gpu{"V100-32GB", 70, 6, {0x1db5, 0x1db6, 0x1db8}, {"V100", "32GB"}},
    Gpu{"T4", 75, 0, {0x1eb8, 0, 0}, {"T4", ""}},
    Gpu{"A100-40GB", 80, 12, {0x20b0, 0x20f1, 0}, {"A100", "40GB"}},
    Gpu{"A100-80GB", 80, 12, {0x20b2, 0x20b5, 0}, {"A100", "80GB"}},
    Gpu{"H100-SXM", 90, 18, {0x2330, 0, 0}, {"H100", "HBM3"}},
    Gpu{"H200-SXM", 90, 18, {0x2335, 0, 0}, {"H200", ""}},
    Gpu{"B200", 100, 18, {0, 0, 0}, {"B200", ""}},
};

} // namespace

const cluster::DeviceType *gpuByPciId(unsigned device)
{
    for (const Gpu &gpu : kGpus) {
        for (const unsigned id : gpu.pciIds) {
            if (id != 0 && id == device)
                return cluster::knownDeviceType(gpu.type);
        }
    }
    return nullptr;
}

const cluster::DeviceType *gpuByComputeCapability(int sm)
{
    for (const Gpu &gpu : kGpus) {
        if (gpu.sm == sm)
            return cluster::knownDeviceType(gpu.type);
    }
    return nullptr;
}

const cluster::DeviceType *gpuByProductName(std::string_view name)
{
    for (const Gpu &gpu : kGpus) {
        if (name.find(gpu.words[0]) != std::string_view::npos && name.find(gpu.words[1]) != std::string_view::npos)
            return cluster::knownDeviceType(gpu.type);
    }
    return nullptr;
}

// NCCL's own table of link bandwidths after protocol overhead; 18 links of an H100 make the 370 GB/s that its tests
// measure.
double nvLinkRate(int sm)
{
    if (sm >= 100)
        return 40.1e9;
    if (sm >= 90)
        return 20.6e9;
    if (sm == 86 || sm == 89)
        return 12e9;
    return sm >= 70 ? 20e9 : 18e9;
}

// NCCL counts 12 GB/s for sixteen lanes at 8 GT/s and in proportion; the line rate would be 15.75.
double pcieRate(double gigatransfers, int lanes) { return gigatransfers * lanes * (12e9 / (8 * 16)); }

double pcieRateOf(const cluster::DeviceType &type)
{
    const int sm = computeCapabilityOf(type);
    const double gigatransfers = sm >= 90 ? 32 : (sm >= 80 ? 16 : 8);
    return pcieRate(gigatransfers, 16);
}

double insideRateOf(const cluster::DeviceType &type)
{
    for (const Gpu &gpu : kGpus) {
        if (type.name == gpu.type && gpu.nvLinks > 0)
            return gpu.nvLinks * nvLinkRate(gpu.sm);
    }
    return pcieRateOf(type);
}

int computeCapabilityOf(const cluster::DeviceType &type)
{
    for (const Gpu &gpu : kGpus) {
        if (type.name == gpu.type)
            return gpu.sm;
    }
    return 0;
}

} // namespace planloom::import
