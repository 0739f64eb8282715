// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/shape.h"
#include "engine/compile/stage_parts.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace planloom::compile {

/// What TaskTimes reads.
struct TimesInput {
    const Source &source;
    const Samples &samples;
    const std::vector<StageModel> &stages;
    const Ranks &ranks;
    const FoldedTeams &teams;
    const std::vector<StageParts> &parts;
};

/// How long tasks take and what they send. Answers are remembered, as ranks, micro-batches and stages are alike.
class TaskTimes {
public:
    /// What @p in refers to must outlive it.
    explicit TaskTimes(const TimesInput &in) : m_in(in), m_costs(*in.source.subject.costs) {}

    /// What a device passes over: a slice of a micro-batch.
    struct Slice {
        std::size_t stage = 0;
        double samples = 0;
        std::size_t type = 0; ///< of the device
        RankId rank;          ///< whose teams its boxing is done in
    };
    [[nodiscard]] Slice slice(const StageInstance &instance, std::int64_t m) const
    {
        return {instance.stage.index(), m_in.samples.slice(instance.stage, instance.replica, m), typeOf(instance),
                instance.rank};
    }

    /// A device's share of a pass over the layers of its stage. Nothing where each operator has its own time.
    Seconds layers(const Slice &slice, bool backward);
    /// A run of operators: what the profile says of them, or @p share, its part of the pass as the model's layers have
    /// it.
    Seconds run(const Slice &slice, const PassPart &part, Seconds share);
    /// Bytes of what communicating operator @p op works on, all parts together.
    [[nodiscard]] std::int64_t boxedBytes(const Slice &slice, std::int32_t op) const;
    /// A micro-batch's activations over the cut before stage @p after, or their gradients back.
    Seconds transfer(std::size_t after, std::int64_t m, Pass pass);
    /// @p whole: bytes of what is reduced, gathered or exchanged, all parts together.
    Seconds collective(cost::Collective kind, TeamId team, std::int64_t whole);
    /// The same of a communicating operator.
    Seconds collective(const CommunicatingOp &op, TeamId team, std::int64_t whole);
    /// An all-to-all with unequal pieces: CostModel::unequalAllToAll.
    Seconds allToAll(TeamId team, std::int64_t largest, std::int64_t mean);
    /// A collective after the last micro-batch, when all groups of replicas of a tensor-parallel stage exchange at
    /// once.
    Seconds exchange(StageId stage, cost::Collective kind, TeamId team, std::int64_t whole);
    /// What gradients that take so many bytes in float32 travel as.
    [[nodiscard]] std::int64_t asGradients(std::int64_t bytes) const;
    /// @p bytes of numbers summed up over all ranks of the plan.
    Seconds agreement(std::int64_t bytes);
    /// A message of @p instance's rank to a parameter server on the machine of the plan's first device, and the answer;
    /// without waiting for a version.
    [[nodiscard]] Seconds served(const program::ParameterServer &server, const StageInstance &instance) const;
    /// A phase of the optimizer's step on parameters of @p bytes.
    [[nodiscard]] Seconds update(const StageInstance &instance, std::int64_t bytes, int phase) const;

    /// Reading or writing @p tensors tensors of @p bytes, as the optimizer's step does it.
    [[nodiscard]] Seconds streams(const StageInstance &instance, std::int64_t bytes, int tensors) const;

    /// What @p rank sends in a collective, as the executor's do.
    [[nodiscard]] std::int64_t sentBytes(cost::Collective kind, TeamId team, std::int64_t whole, RankId rank,
                                         graph::DType type) const;
    [[nodiscard]] std::int64_t sentBytes(const CommunicatingOp &op, TeamId team, std::int64_t whole, RankId rank) const;

private:
    [[nodiscard]] DeviceId deviceOf(const StageInstance &instance) const
    {
        return m_in.source.plan.stages[instance.stage.index()].devices[instance.device];
    }
    [[nodiscard]] std::size_t typeOf(const StageInstance &instance) const
    {
        return m_in.source.subject.cluster->device(deviceOf(instance)).type;
    }
    /// What each kernel of the pass that begins with @p part, or has it, waits for its launch, on average: launches run
    /// ahead of kernels and of boxing within a pass, so that only their sum can be longer.
    [[nodiscard]] Seconds waitOfLaunches(const Slice &slice, const PassPart &part);
    [[nodiscard]] Seconds waitOfLaunches(const Slice &slice, const std::vector<PassPart> &pass);
    /// From one side of the cut to the other: as long as over another cut whose devices lie alike.
    Seconds crossing(std::size_t after, double bytes, Pass pass);
    /// Whether devices that share a replica hold parts of what crosses the cut before stage @p after (sequence
    /// parallelism).
    [[nodiscard]] bool cutWithin(std::size_t after) const;
    /// What receivers take to gather @p bytes of all replicas, if the framework sends parts of what they hold whole.
    [[nodiscard]] Seconds gathering(std::size_t after, double bytes, Pass pass);
    /// Reads and writes @p bytes, which @p devices hold a part of each, in their own memory.
    [[nodiscard]] Seconds copy(const std::vector<DeviceId> &devices, double bytes) const;
    /// For each shard of the stage the devices that hold it, if @p own is one of them; else nothing.
    [[nodiscard]] std::vector<std::vector<DeviceId>> replicaGroups(StageId id, std::vector<DeviceId> own) const;

    TimesInput m_in;
    const cost::CostModel &m_costs;
    std::map<std::tuple<std::size_t, bool, double, std::size_t>, Seconds>
        m_layers; ///< by stage, pass, samples, type of device
    std::map<std::tuple<const cost::LocalCosts *, std::int32_t, std::int32_t, double, std::size_t>, Seconds>
        m_runs; ///< by what stages have in common, operators, samples and type of device
    std::map<std::tuple<std::size_t, std::int32_t, RankId, double, std::size_t>, Seconds>
        m_waits; ///< by stage, first operator of the pass, rank, samples and type of device
    std::map<std::tuple<std::size_t, double, Pass>, Seconds>
        m_transfers; ///< by the stage behind the cut, samples and pass
    std::optional<cluster::Shapes> m_shapes;
    std::map<std::size_t, std::int32_t> m_cutShapes; ///< by the stage behind the cut
    std::map<std::tuple<std::int32_t, std::size_t, double, Pass, std::size_t, std::size_t, bool>, Seconds>
        m_crossings; ///< by shape, devices before the cut, bytes, pass, shards on both sides and cutWithin()
    std::map<std::tuple<cost::Collective, std::int32_t, std::int64_t>, Seconds>
        m_collectives; ///< by kind, shape of the team and bytes
    std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, Seconds>
        m_unequal; ///< by shape of the team, bytes of the largest piece and of one on average
    std::map<std::tuple<StageId, cost::Collective, TeamId, std::int64_t>, Seconds>
        m_exchanges; ///< by stage, kind, team and bytes
    std::map<std::pair<StageId, TeamId>, std::vector<std::vector<DeviceId>>> m_replicaGroups; ///< by stage and team
    std::map<std::int64_t, Seconds> m_agreements;                                             ///< by bytes
};

} // namespace planloom::compile
