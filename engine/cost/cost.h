// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/cluster/cluster.h"
#include "engine/graph/graph.h"
#include "engine/graph/layers.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace planloom::cost {

/// One measurement or published figure: how long one operator takes for `samples` samples.
struct OpTime {
    double samples = 1;
    Seconds forward;
    Seconds backward;
};

/// Times of operators on one kind of device, by operator name; several sample counts may be given. Between two they are
/// interpolated, beyond them continued in proportion to the nearest.
struct Profile {
    std::string model;
    std::string deviceType;             ///< "V100", "CPU"; empty: holds for every device
    std::string source;                 ///< where the figures come from, for people
    std::map<std::string, std::vector<OpTime>> ops; ///< sorted by samples
    std::map<std::string, double> extra; ///< named rates measured beside: "allreduce_bytes_per_second", "task_overhead_seconds",
                                         ///< "optimizer_seconds_per_parameter"
};

std::string toJson(const Profile &profile); ///< `planloom.profile/1`, resources/docs/formats/profile.md
Result<Profile> profileFromJson(std::string_view text);

/// The time of work on devices. Immutable and cheap to share; forward/backward sums over layer ranges cost O(1).
///
/// Where a profile covers an operator on the device type at hand its figure is used, scaled to the samples; elsewhere the
/// roofline max(FLOPs / (peak * kComputeEfficiency), bytes / (bandwidth * kMemoryEfficiency)).
class CostModel {
public:
    CostModel(std::shared_ptr<const graph::Graph> graph, std::shared_ptr<const cluster::Cluster> cluster,
              std::shared_ptr<const Profile> profile = nullptr);

    [[nodiscard]] const graph::Graph &graph() const { return *m_graph; }
    [[nodiscard]] const cluster::Cluster &cluster() const { return *m_cluster; }
    [[nodiscard]] const graph::LayerView &layers() const { return m_layers; }
    [[nodiscard]] const std::shared_ptr<const Profile> &profile() const { return m_profile; }

    /// Layers [first, last) for @p samples (a fraction is allowed: a share of a micro-batch) on a device of type index @p type.
    [[nodiscard]] Seconds forward(std::size_t first, std::size_t last, double samples, std::size_t type) const;
    [[nodiscard]] Seconds backward(std::size_t first, std::size_t last, double samples, std::size_t type) const;
    [[nodiscard]] Bytes parameterBytes(std::size_t first, std::size_t last) const; ///< shared parameters counted once in the range
    /// One optimizer step over @p parameters bytes of fp32 parameters, @p stateTensors moments each.
    [[nodiscard]] Seconds optimizerStep(Bytes parameters, int stateTensors, std::size_t type) const;

    /// Activations of the whole cut sent from the replicas @p from, each holding its share of the samples, to @p to.
    /// @p bytes is the total. CommModel::TwoLevel: the DAPPLE release's rules (papers' brief §2.4); Links: the busiest link.
    [[nodiscard]] Seconds transfer(std::span<const DeviceId> from, std::span<const DeviceId> to, double bytes) const;
    /// Ring all-reduce of @p bytes over @p devices; 0 for one device.
    [[nodiscard]] Seconds allReduce(std::span<const DeviceId> devices, double bytes) const;

private:
    struct PrefixSums;
    [[nodiscard]] Seconds sum(std::size_t first, std::size_t last, double samples, std::size_t type, bool backward) const;
    std::shared_ptr<const graph::Graph> m_graph;
    std::shared_ptr<const cluster::Cluster> m_cluster;
    std::shared_ptr<const Profile> m_profile;
    graph::LayerView m_layers;
    std::shared_ptr<const PrefixSums> m_sums;
};

} // namespace planloom::cost
