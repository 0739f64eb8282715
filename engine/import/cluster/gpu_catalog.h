// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

#include <string_view>

namespace planloom::import {

/// A built-in GPU type by its name in topology files; nullptr if unknown.
const cluster::DeviceType *gpuByPciId(unsigned device);             ///< NVIDIA's PCI device id, such as 0x2330
const cluster::DeviceType *gpuByComputeCapability(int sm);          ///< 70, 80, 90: the first of the family
const cluster::DeviceType *gpuByProductName(std::string_view name); ///< "NVIDIA H100 80GB HBM3"

/// Effective bytes/s and direction of one NVLink of a GPU of compute capability @p sm.
double nvLinkRate(int sm);
/// Effective bytes/s and direction of a PCI Express link.
double pcieRate(double gigatransfers, int lanes);
/// The same for the slot that a GPU of @p type is usually in.
double pcieRateOf(const cluster::DeviceType &type);
/// Of a GPU inside of its machine: all its NVLinks, or its slot where it has none.
double insideRateOf(const cluster::DeviceType &type);
/// Compute capability of a known type, 0 otherwise.
int computeCapabilityOf(const cluster::DeviceType &type);

} // namespace planloom::import
