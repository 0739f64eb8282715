// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

namespace planloom::planners {

/// The same cluster, with @p factor times the memory on each device.
Result<cluster::Cluster> withMemory(const cluster::Cluster &cluster, double factor);

/// The same cluster @p copies times on one network: every node again. A cluster of one node has its devices again on
/// the same switches. Error (BadInput): devices that are linked to each other directly, so that copies would stand
/// apart.
Result<cluster::Cluster> withCopies(const cluster::Cluster &cluster, int copies);

} // namespace planloom::planners
