// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/collectives.h"

namespace planloom::cost {

/// What the strategies of exchanging a table cost on a network of equal ports, for tables of comparisons; plans are
/// costed over the links of their cluster (CostModel::collective).
struct SparseTraffic {
    int workers = 1;
    double latency = 0;    ///< seconds of a message
    double bandwidth = 1;  ///< bytes a second, per worker and direction
    double tableBytes = 0; ///< of all rows
    double rowBytes = 0;   ///< of the rows of one worker's batch, each once
    double idBytes = 0;    ///< of its ids; 0: every worker knows those of all

    /// Seconds of one step: forward and backward. Ids go round once.
    [[nodiscard]] constexpr double allReduce() const
    {
        return 2 * others() * (latency + tableBytes / (workers * bandwidth));
    }
    [[nodiscard]] constexpr double allGather() const { return others() * (latency + (rowBytes + idBytes) / bandwidth); }
    /// With rows cut evenly over @p servers servers.
    [[nodiscard]] constexpr double parameterServers(int servers) const
    {
        return 2 * workers * (latency + rowBytes / (servers * bandwidth));
    }
    [[nodiscard]] constexpr double allToAll() const
    {
        const double ids = idBytes > 0 ? others() * (latency + idBytes / bandwidth) : 0;
        return 2 * others() * (latency + rowBytes / (workers * bandwidth)) + ids;
    }

private:
    [[nodiscard]] constexpr double others() const { return workers - 1; }
};

} // namespace planloom::cost
