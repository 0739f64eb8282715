// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cluster/cluster.h"

#include <string>
#include <vector>

namespace planloom::plan {

/// Names of devices, runs of numbers drawn together: "n0:g0-3, n1:g5".
std::string deviceText(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices);
/// The devices that @p text names, in its order. Errors (BadInput, NotFound) quote the part that is wrong.
Result<std::vector<DeviceId>> devicesFromText(const cluster::Cluster &cluster, const std::string &text);

} // namespace planloom::plan
