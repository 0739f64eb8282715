// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/cluster/cluster.h"
#include "engine/cost/collectives.h"
#include "engine/cost/communication_on_cores.h"
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

/// How long one operator of an executed graph takes, forward and gradient operators alike, for `samples` samples.
struct KernelTime {
    double samples = 1;
    Seconds seconds;
};

/// How long a message or collective takes: `bytes` as collectives.h counts them.
struct CurvePoint {
    double bytes = 0;
    Seconds seconds;
};

/// How many rows of a table a step looks up, counted on samples; means over steps.
struct TableRows {
    double ids = 0;    ///< of one worker in a step
    double unique = 0; ///< rows that it looks up
    double prior = 0;  ///< those of them that some worker looks up in the next step
    double all = 0;    ///< rows that the workers look up together
};

/// Times of operators on one kind of device, by operator name; several sample counts may be given. Between two they are
/// interpolated, beyond them continued in proportion to the nearest. Kernels and curves, where there are any, are
/// finer: they were measured as ranks run, `ranks` of them at a time on one machine with its share of the cores each.
struct Profile {
    std::string model;
    std::string deviceType;                         ///< "V100", "CPU"; empty: holds for every device
    std::string source;                             ///< where the figures come from, for people
    std::map<std::string, std::vector<OpTime>> ops; ///< sorted by samples
    int ranks = 1;
    std::map<std::string, std::vector<KernelTime>> kernels; ///< by signatureOf (signature.h), sorted by samples
    std::map<std::string, std::vector<CurvePoint>> curves;  ///< by curveName, sorted by bytes
    std::map<std::string, TableRows> tables;                ///< by parameter, on the data that was counted
    std::map<std::string, double> extra; ///< named rates measured beside: "allreduce_bytes_per_second",
                                         ///< "task_overhead_seconds", "optimizer_seconds_per_parameter"
};

/// "all-reduce/4": among 4 ranks of one machine. "message": from one rank to another.
std::string curveName(Collective kind, std::size_t members);
inline constexpr const char *kMessageCurve = "message";
// In Profile::extra: collectives beside work, on cores that ranks share (CommunicationOnCores).
inline constexpr const char *kCoreSecondsPerByte = "communication_core_seconds_per_byte";
inline constexpr const char *kCoreWeight = "communication_core_weight";
inline constexpr const char *kCoreDelay = "communication_core_delay_seconds";
// In Profile::extra: how a framework exchanges (resources/docs/cost.md).
inline constexpr const char *kTransferShare = "transfer_share"; ///< of float32's bytes, between stages of 16 bits
inline constexpr const char *kBlockingTransfers = "blocking_transfers"; ///< 1: a rank computes nothing while it sends
/// 1: devices that share a replica send a part each, which the receivers gather; else parts stay parts.
inline constexpr const char *kGatheredTransfers = "gathered_transfers";
inline constexpr const char *kWholeTransfers = "whole_transfers"; ///< 1: each of them sends all
inline constexpr const char *kExchangeAtEnd = "exchange_at_end";  ///< 1: no gradient travels before the last pass ends
inline constexpr const char *kPartialGroups = "partial_group_bytes_per_second"; ///< see link_collectives.h

std::string toJson(const Profile &profile); ///< `planloom.profile/1`, resources/docs/formats/profile.md
Result<Profile> profileFromJson(std::string_view text);

/// The time of work on devices. Immutable and cheap to share; forward/backward sums over layer ranges cost O(1).
///
/// Where a profile covers an operator on the device type at hand its figure is used, scaled to the samples; elsewhere
/// the model of that GPU (device_model.h), or for other devices the roofline max(FLOPs / (peak * kComputeEfficiency),
/// bytes / (bandwidth * kMemoryEfficiency)).
class CostModel {
public:
    CostModel(std::shared_ptr<const graph::Graph> graph, std::shared_ptr<const cluster::Cluster> cluster,
              std::shared_ptr<const Profile> profile = nullptr, bool half = false);

    [[nodiscard]] const graph::Graph &graph() const { return *m_graph; }
    [[nodiscard]] const cluster::Cluster &cluster() const { return *m_cluster; }
    [[nodiscard]] const graph::LayerView &layers() const { return m_layers; }
    [[nodiscard]] const std::shared_ptr<const Profile> &profile() const { return m_profile; }
    /// Whether activations and products are taken to be 16 bits wide, of a model that is written in float32.
    [[nodiscard]] bool half() const { return m_half; }

    /// Layers [first, last) for @p samples (a fraction is allowed: a share of a micro-batch) on a device of type index
    /// @p type.
    [[nodiscard]] Seconds forward(std::size_t first, std::size_t last, double samples, std::size_t type) const;
    [[nodiscard]] Seconds backward(std::size_t first, std::size_t last, double samples, std::size_t type) const;
    [[nodiscard]] Bytes parameterBytes(std::size_t first,
                                       std::size_t last) const; ///< shared parameters counted once in the range
    /// One optimizer step over @p parameters bytes of fp32 parameters, which reads or writes @p streams tensors of
    /// their size (update::Footprint).
    [[nodiscard]] Seconds optimizerStep(Bytes parameters, int streams, std::size_t type) const;

    /// Activations of the whole cut sent from the replicas @p from, each holding its share of the samples, to @p to.
    /// @p bytes is the total. CommModel::TwoLevel: the DAPPLE release's rules; Links: the busiest
    /// link.
    [[nodiscard]] Seconds transfer(std::span<const DeviceId> from, std::span<const DeviceId> to, double bytes) const;
    /// Ring all-reduce of @p bytes over @p devices; 0 for one device.
    [[nodiscard]] Seconds allReduce(std::span<const DeviceId> devices, double bytes) const;
    /// Any collective; @p bytes as collectives.h counts them (of an all-gather: one member's part). From the profile's
    /// curves within a node, elsewhere a share of the all-reduce that moves as much.
    [[nodiscard]] Seconds collective(Collective kind, std::span<const DeviceId> devices, double bytes) const;
    /// An all-to-all with pieces of @p mean bytes on average, where the busiest member sends to all others, or gets
    /// from them, pieces of @p largest. By the profile's curves as long as that member's port takes, or as all pieces
    /// take together; elsewhere as if all pieces were the largest.
    [[nodiscard]] Seconds unequalAllToAll(std::span<const DeviceId> devices, double largest, double mean) const;
    /// The same in several groups at once, such as the data-parallel groups of a tensor-parallel stage: they share
    /// links, a machine's only port for one. The slowest counts.
    [[nodiscard]] Seconds collectiveAtOnce(Collective kind, std::span<const std::vector<DeviceId>> groups,
                                           double bytes) const;

    /// One operator of any graph, such as a stage's differentiated and sharded one, as @p samples samples run through
    /// it on a device of type index @p type: the profile's kernel of that signature, else the roofline. LocalCosts
    /// (local_costs.h) does it for whole graphs.
    [[nodiscard]] Seconds opTime(const graph::Graph &local, OpId op, double samples, std::size_t type) const;
    /// Factor of the profile's times on type index @p type; 0 where they do not hold, or there is no
    /// profile.
    [[nodiscard]] double profileScaleOf(std::size_t type) const;
    /// What the profile knows of collectives on cores that ranks on devices of type @p type share.
    [[nodiscard]] CommunicationOnCores communicationOnCores(std::size_t type) const;
    /// Figure @p name of Profile::extra, for all devices; @p otherwise where it is not there.
    [[nodiscard]] double fact(const char *name, double otherwise = 0) const;
    /// What stages send each other, against float32: in 16 bits profile's transfer_share, else 1.
    [[nodiscard]] double transferShare() const { return m_half ? fact(kTransferShare, 1) : 1; }
    /// What gradients are exchanged as, against float32: profile's gradient_share, else 1.
    [[nodiscard]] double gradientShare() const;
    /// A rank's overhead per task: profile's task_overhead_seconds, else 0.
    [[nodiscard]] Seconds taskOverhead(std::size_t type) const;

private:
    struct PrefixSums;
    /// The profile's curve for devices of one node that it was measured on; nullptr: none.
    [[nodiscard]] const std::vector<CurvePoint> *curve(const std::string &name,
                                                       std::span<const DeviceId> devices) const;
    [[nodiscard]] Seconds sum(std::size_t first, std::size_t last, double samples, std::size_t type,
                              bool backward) const;
    std::shared_ptr<const graph::Graph> m_graph;
    std::shared_ptr<const cluster::Cluster> m_cluster;
    std::shared_ptr<const Profile> m_profile;
    bool m_half = false;
    graph::LayerView m_layers;
    std::shared_ptr<const PrefixSums> m_sums;
};

} // namespace planloom::cost
