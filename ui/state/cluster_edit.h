// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cluster/cluster.h"

#include <functional>
#include <span>
#include <vector>

namespace planloom::ui {

// The same cluster with other figures: built anew by ClusterBuilder, which refuses illegal values. Ids of devices and
// indices of links, types and vertices do not change.

Result<cluster::Cluster> withType(const cluster::Cluster &cluster, std::size_t type,
                                  const cluster::DeviceType &changed);
Result<cluster::Cluster> withLinks(const cluster::Cluster &cluster, std::span<const std::size_t> links,
                                   const std::function<void(cluster::Link &)> &change);
Result<cluster::Cluster> withRates(const cluster::Cluster &cluster, const cluster::TwoLevelRates &rates);

/// Its network @p factor times as fast: the links of that kind and the rates between nodes; where it has none, all
/// links.
Result<cluster::Cluster> withNetworkSpeed(const cluster::Cluster &cluster, double factor);
/// Bytes/s of the slowest of these links; 0: there are none.
double slowestNetwork(const cluster::Cluster &cluster);

/// All links with the kind and figures of link @p link, itself among them.
std::vector<std::size_t> linksLike(const cluster::Cluster &cluster, std::size_t link);

const char *kindName(cluster::Link::Kind kind);

} // namespace planloom::ui
