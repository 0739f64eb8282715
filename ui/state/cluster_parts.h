// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cluster/cluster.h"

#include <span>
#include <string>
#include <vector>

namespace planloom::ui {

// The same cluster with more or fewer parts: built anew by ClusterBuilder, which refuses what does not hang together.
// Names stay; ids of nodes, devices, vertices and links behind a change move. Cost: that of ClusterBuilder::build().

/// Node @p node of @p from once more, behind the nodes of @p cluster: its devices, what joins them, and its ways out.
/// Of the same cluster these lead where those of @p node do, of another one to the first network of @p cluster. A
/// cluster without a network gets one that joins all its nodes. Types of names that @p cluster has keep its figures.
Result<cluster::Cluster> withNodeOf(const cluster::Cluster &cluster, const cluster::Cluster &from, NodeId node);

/// @p device once more in its node, on links like its own.
Result<cluster::Cluster> withDeviceLike(const cluster::Cluster &cluster, DeviceId device);

/// A switch or network card in @p node, or (@p node invalid) a network, without links as yet; a card is linked as the
/// node's first one is. It is the last of vertices().
Result<cluster::Cluster> withVertex(const cluster::Cluster &cluster, cluster::Vertex::Kind kind, NodeId node);

/// A link between two vertices, with the figures of the first link between such things, else of usual ones. It is the
/// last of links(). Error: there is one already.
Result<cluster::Cluster> withLink(const cluster::Cluster &cluster, std::size_t a, std::size_t b);

Result<cluster::Cluster> withoutNodes(const cluster::Cluster &cluster, std::span<const NodeId> nodes);
/// Devices, switches, cards or networks, by their vertices, with their links; a node whose last device goes, goes.
Result<cluster::Cluster> withoutVertices(const cluster::Cluster &cluster, std::span<const std::size_t> vertices);
Result<cluster::Cluster> withoutLink(const cluster::Cluster &cluster, std::size_t link);

/// By id in @p before the device of the same name in @p after; invalid: it is gone.
std::vector<DeviceId> sameDevices(const cluster::Cluster &before, const cluster::Cluster &after);

/// The way between two devices: bytes/s of its slowest link (of the rates of CommModel::TwoLevel where those count) and
/// the sum of its latencies. Of a device and itself: its memory.
struct Way {
    double bandwidth = 0;
    Seconds latency;
};
Way wayBetween(const cluster::Cluster &cluster, DeviceId from, DeviceId to);

} // namespace planloom::ui
