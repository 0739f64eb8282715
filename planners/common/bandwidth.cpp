// SPDX-License-Identifier: Apache-2.0
#include "planners/common/bandwidth.h"

#include <algorithm>
#include <limits>

namespace planloom::planners {

double bandwidthBetween(const cluster::Cluster &cluster, DeviceId from, DeviceId to)
{
    if (cluster.commModel() == cluster::CommModel::TwoLevel)
        return cluster.device(from).node == cluster.device(to).node ? cluster.twoLevel().intraNode
                                                                    : cluster.twoLevel().interPointToPoint;
    double narrowest = std::numeric_limits<double>::infinity();
    for (const std::size_t link : cluster.route(from, to))
        narrowest = std::min(narrowest, cluster.links()[link].pointToPoint);
    return narrowest;
}

} // namespace planloom::planners
