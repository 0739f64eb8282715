// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPolygonF>
#include <QRectF>

#include "engine/cluster/cluster.h"

#include <vector>

namespace planloom::ui {

/// Where the things of a cluster are drawn, in units of a device's size: the same picture for the same cluster and
/// shape of the window, with no random numbers in it. Networks lie across the top; nodes stand in a grid below; inside
/// a node network cards, switches and devices come from top to bottom.
struct ClusterLayout {
    static constexpr double kDeviceWidth = 64;
    static constexpr double kDeviceHeight = 44;

    std::vector<QRectF> nodes;     ///< by NodeId
    std::vector<QRectF> vertices;  ///< by index into Cluster::vertices()
    std::vector<QPolygonF> links;  ///< by index into Cluster::links()
    std::vector<QRectF> linkBoxes; ///< by link: around its line
    std::vector<bool> between;     ///< by link: leaves its node
    std::vector<bool> first;       ///< of those, the first between its nodes or networks: the others lie beside it
    QRectF bounds;
};

/// @p aspect: width over height of the place that it should fill. @p collapsed: every node is a small box, with all
/// that it has in its middle. Cost: O(vertices + links log links).
ClusterLayout layOut(const cluster::Cluster &cluster, double aspect, bool collapsed = false);

/// How far @p point is from the line; large if the line has no points.
double distance(const QPolygonF &line, const QPointF &point);

} // namespace planloom::ui
