// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/common/memory.h"
#include "planners/interface/planner.h"
#include "planners/spp/execution.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace planloom::planners::spp {

/// How boundaries and gradients are charged: by the cluster's own model of communication, or pair by pair as the paper
/// does.
enum class Communication : std::uint8_t { Cluster, Pairs };
enum class Recompute : std::uint8_t { Never, Auto, Always };

/// Bandwidths between the devices of @p cluster. Traffic between machines shares their network cards: with @p
/// shared a pair in different machines gets its part of the card, as if all pairs of the two machines sent at once.
/// O(devices^2) routes.
Bandwidths bandwidthsOf(const cluster::Cluster &cluster, bool shared);

/// Devices in the order of recursiveOrder; of clusters with more than kMostOrdered devices the machines are ordered,
/// and the devices of a machine follow their ids.
std::vector<DeviceId> orderedDevices(const cluster::Cluster &cluster);
inline constexpr std::size_t kMostOrdered = 128;

/// A problem with its devices in a line and a number of micro-batches: makes the instance and remembers the memory of
/// the stages.
class DeviceLine {
public:
    DeviceLine(const Problem &problem, std::vector<DeviceId> devices, std::int64_t microBatches,
               Communication communication, Recompute recompute, const MemoryModel &memory);

    [[nodiscard]] Instance instance() const;
    /// Sorted by id.
    [[nodiscard]] std::vector<DeviceId> devicesOf(const Part &part) const;
    /// Whether the part must run forward again before backward; meaningful where it fits at all.
    [[nodiscard]] bool recomputes(const Part &part) const;
    /// Micro-batches that every device of the part can keep; 0: it does not fit.
    [[nodiscard]] int mostInFlight(const Part &part) const;
    [[nodiscard]] std::int64_t microBatches() const { return m_microBatches; }

private:
    struct Shared;
    std::shared_ptr<Shared> m_shared;
    std::int64_t m_microBatches;
};

} // namespace planloom::planners::spp
