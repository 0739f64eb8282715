// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::planners::dapple {

/// How a stage's devices are chosen among the free ones (DAPPLE §4.2, Fig. 5).
enum class Placement : std::uint8_t {
    FreshFirst,   ///< from machines with nothing occupied
    AppendFirst,  ///< from machines that already have occupied devices
    ScatterFirst, ///< one by one around the machines in use; around all while the cluster is empty
};
const char *name(Placement placement);

/// The machines over which Scatter First spreads: in the paper used ones; the released planner takes every machine.
enum class ScatterOver : std::uint8_t { UsedMachines, AllMachines };

/// Which devices of a cluster are taken. Machines give their devices in the order of their ids.
class Occupancy {
public:
    explicit Occupancy(const cluster::Cluster &cluster);

    [[nodiscard]] bool taken(DeviceId device) const { return m_taken[device.index()]; }
    [[nodiscard]] std::size_t freeCount() const { return m_free; }
    /// In the order of ids.
    [[nodiscard]] std::vector<DeviceId> freeDevices() const;
    void take(const std::vector<DeviceId> &devices);

    /// @p count free devices by @p placement, sorted; none where the machines that the policy looks at have too few.
    [[nodiscard]] std::optional<std::vector<DeviceId>> choose(Placement placement, std::size_t count,
                                                              ScatterOver over = ScatterOver::UsedMachines) const;
    /// The choices of @p placements, in their order, equal ones once.
    [[nodiscard]] std::vector<std::vector<DeviceId>> choices(const std::vector<Placement> &placements,
                                                             std::size_t count,
                                                             ScatterOver over = ScatterOver::UsedMachines) const;

    friend bool operator==(const Occupancy &a, const Occupancy &b) { return a.m_taken == b.m_taken; }
    friend bool operator<(const Occupancy &a, const Occupancy &b) { return a.m_taken < b.m_taken; }

private:
    [[nodiscard]] bool used(NodeId node) const;
    [[nodiscard]] std::vector<DeviceId> freeOf(NodeId node) const;

    const cluster::Cluster *m_cluster;
    std::vector<bool> m_taken;
    std::size_t m_free = 0;
};

} // namespace planloom::planners::dapple
