// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/task_times.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace planloom::compile {
namespace {

/// The bytes that cost/collectives.h counts by, of a collective on @p whole bytes, all parts together.
std::int64_t bytesOfCall(cost::Collective kind, std::size_t members, std::int64_t whole)
{
    return kind == cost::Collective::AllReduce ? whole : whole / static_cast<std::int64_t>(members);
}

} // namespace

Seconds TaskTimes::run(const Slice &slice, const PassPart &part, Seconds share)
{
    const StageParts &stage = m_in.parts[slice.stage];
    if (!stage.costs)
        return share;
    const auto [entry, isNew] =
        m_runs.try_emplace(std::make_tuple(stage.costs.get(), part.first, part.last, slice.samples, slice.type));
    const auto kernels = [&] {
        return stage.costs->kernelsOf(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.last),
                                      slice.samples, slice.type);
    };
    if (isNew)
        entry->second = kernels().seconds + m_costs.taskOverhead(slice.type);
    if (stage.costs->launch(slice.type) <= Seconds(0))
        return entry->second;
    return entry->second + waitOfLaunches(slice, part) * static_cast<double>(kernels().count);
}

Seconds TaskTimes::waitOfLaunches(const Slice &slice, const PassPart &part)
{
    const StageParts &stage = m_in.parts[slice.stage];
    for (const std::vector<PassPart> *pass : {&stage.forward, &stage.backward, &stage.weights})
        if (!pass->empty() && pass->front().first <= part.first && part.first < pass->back().last)
            return waitOfLaunches(slice, *pass);
    return Seconds(0);
}

Seconds TaskTimes::waitOfLaunches(const Slice &slice, const std::vector<PassPart> &pass)
{
    const auto [entry, isNew] =
        m_waits.try_emplace(std::make_tuple(slice.stage, pass.front().first, slice.rank, slice.samples, slice.type));
    if (!isNew)
        return entry->second;
    const StageParts &stage = m_in.parts[slice.stage];
    Seconds busy(0);
    std::size_t kernels = 0;
    for (const PassPart &part : pass) {
        if (part.boxing) {
            const CommunicatingOp &boxing = stage.boxing.at(part.first);
            busy += collective(boxing, m_in.teams.teamOf(boxing.set, slice.rank), boxedBytes(slice, part.first));
            continue;
        }
        const cost::LocalCosts::Kernels run =
            stage.costs->kernelsOf(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.last),
                                   slice.samples, slice.type);
        busy += run.seconds;
        kernels += run.count;
    }
    const Seconds launches = stage.costs->launch(slice.type) * static_cast<double>(kernels);
    if (kernels > 0 && launches > busy)
        entry->second = (launches - busy) * (1 / static_cast<double>(kernels));
    return entry->second;
}

Seconds TaskTimes::layers(const Slice &slice, bool backward)
{
    if (m_in.parts[slice.stage].costs)
        return Seconds(0);
    const auto [entry, isNew] = m_layers.try_emplace(std::make_tuple(slice.stage, backward, slice.samples, slice.type));
    if (isNew) {
        const plan::Stage &stage = m_in.source.plan.stages[slice.stage];
        const Seconds whole = backward ? m_costs.backward(stage.firstLayer, stage.lastLayer, slice.samples, slice.type)
                                       : m_costs.forward(stage.firstLayer, stage.lastLayer, slice.samples, slice.type);
        entry->second = whole * m_in.stages[slice.stage].share(backward, slice.samples, slice.type);
    }
    return entry->second;
}

std::int64_t TaskTimes::boxedBytes(const Slice &slice, std::int32_t op) const
{
    const TensorId whole = m_in.parts[slice.stage].boxing.at(op).whole;
    return m_in.stages[slice.stage]
        .training()
        ->graph.tensor(whole)
        .bytes(static_cast<std::int64_t>(std::ceil(slice.samples)))
        .value();
}

Seconds TaskTimes::transfer(std::size_t after, std::int64_t m, Pass pass)
{
    const double samples = m_in.samples.microBatch(m);
    const auto [entry, isNew] = m_transfers.try_emplace(std::make_tuple(after, samples, pass));
    if (isNew) {
        const auto perSample =
            static_cast<double>(m_in.source.subject.layers()
                                    .cutBytes(*m_in.source.subject.graph, m_in.source.plan.stages[after].firstLayer, 1)
                                    .value());
        entry->second = m_in.source.staysOnDevice(after - 1)
            ? copy(m_in.source.plan.stages[after].devices, perSample * samples)
            : crossing(after, perSample * samples * m_costs.transferShare(), pass);
    }
    return entry->second;
}

Seconds TaskTimes::crossing(std::size_t after, double bytes, Pass pass)
{
    const auto &before = m_in.source.plan.stages[after - 1].devices;
    const auto &behind = m_in.source.plan.stages[after].devices;
    const auto [shape, isNewCut] = m_cutShapes.try_emplace(after);
    if (isNewCut) {
        std::vector<DeviceId> both = before;
        both.insert(both.end(), behind.begin(), behind.end());
        if (!m_shapes)
            m_shapes.emplace(*m_in.source.subject.cluster);
        shape->second = m_shapes->of(both);
    }
    const std::vector<plan::Stage> &stages = m_in.source.plan.stages;
    const auto [entry, isNew] =
        m_crossings.try_emplace(std::make_tuple(shape->second, before.size(), bytes, pass, stages[after - 1].shards(),
                                                stages[after].shards(), cutWithin(after)));
    if (isNew) {
        const auto &from = pass == Pass::Forward ? before : behind;
        const auto &to = pass == Pass::Forward ? behind : before;
        const plan::Stage &sender = m_in.source.plan.stages[pass == Pass::Forward ? after - 1 : after];
        const bool all = m_costs.fact(cost::kWholeTransfers) > 0 && !cutWithin(after);
        entry->second = m_costs.transfer(from, to, all ? bytes * static_cast<double>(sender.shards()) : bytes)
            + gathering(after, bytes, pass);
    }
    return entry->second;
}

bool TaskTimes::cutWithin(std::size_t after) const
{
    const std::vector<sharding::NdSbp> &outputs = m_in.stages[after - 1].outputs();
    return std::any_of(outputs.begin(), outputs.end(), [](const sharding::NdSbp &sbp) {
        return std::any_of(sbp.begin() + std::min<std::ptrdiff_t>(1, std::ssize(sbp)), sbp.end(),
                           [](const sharding::Sbp &one) { return one.kind == sharding::Sbp::Kind::Split; });
    });
}

Seconds TaskTimes::gathering(std::size_t after, double bytes, Pass pass)
{
    const plan::Stage &to = m_in.source.plan.stages[pass == Pass::Forward ? after : after - 1];
    const std::size_t shards = to.shards();
    if (shards < 2 || !(m_costs.fact(cost::kGatheredTransfers) > 0) || cutWithin(after))
        return Seconds(0);
    // Devices of a replica lie behind each other, and each replica gathers its own samples.
    return m_costs.collective(cost::Collective::AllGather, std::span(to.devices).first(shards),
                              bytes / static_cast<double>(to.devices.size()));
}

Seconds TaskTimes::copy(const std::vector<DeviceId> &devices, double bytes) const
{
    double slowest = 0;
    for (const DeviceId device : devices)
        if (const double bandwidth = m_in.source.subject.cluster->typeOf(device).memoryBandwidth; bandwidth > 0)
            slowest = std::max(slowest, 2 * bytes / static_cast<double>(devices.size()) / bandwidth);
    return Seconds(slowest);
}

Seconds TaskTimes::collective(cost::Collective kind, TeamId team, std::int64_t whole)
{
    const auto [entry, isNew] = m_collectives.try_emplace(std::make_tuple(kind, m_in.teams.shape(team), whole));
    if (isNew) {
        const std::vector<DeviceId> &devices = m_in.teams.team(team).devices;
        entry->second =
            m_costs.collective(kind, devices, static_cast<double>(bytesOfCall(kind, devices.size(), whole)));
    }
    return entry->second;
}

Seconds TaskTimes::collective(const CommunicatingOp &op, TeamId team, std::int64_t whole)
{
    if (op.shift == 0)
        return collective(op.collective, team, whole);
    Seconds longest;
    const std::vector<DeviceId> &devices = m_in.teams.team(team).devices;
    for (std::size_t i = 1; i < devices.size(); ++i)
        longest = std::max(longest,
                           m_costs.transfer(std::span(&devices[i - 1], 1), std::span(&devices[i], 1),
                                            static_cast<double>(whole)));
    return longest;
}

Seconds TaskTimes::allToAll(TeamId team, std::int64_t largest, std::int64_t mean)
{
    const auto [entry, isNew] = m_unequal.try_emplace(std::make_tuple(m_in.teams.shape(team), largest, mean));
    if (isNew)
        entry->second = m_costs.unequalAllToAll(m_in.teams.team(team).devices, static_cast<double>(largest),
                                                static_cast<double>(mean));
    return entry->second;
}

std::int64_t TaskTimes::asGradients(std::int64_t bytes) const
{
    return std::llround(static_cast<double>(bytes) * m_costs.gradientShare());
}

Seconds TaskTimes::exchange(StageId stage, cost::Collective kind, TeamId team, std::int64_t whole)
{
    const auto [entry, isNew] = m_exchanges.try_emplace(std::make_tuple(stage, kind, team, whole));
    if (isNew) {
        const auto [known, isFirst] = m_replicaGroups.try_emplace({stage, team});
        if (isFirst)
            known->second = replicaGroups(stage, m_in.teams.team(team).devices);
        const auto &groups = known->second;
        entry->second = groups.size() < 2
            ? collective(kind, team, whole)
            : m_costs.collectiveAtOnce(kind, groups,
                                       static_cast<double>(bytesOfCall(kind, groups.front().size(), whole)));
    }
    return entry->second;
}

std::vector<std::vector<DeviceId>> TaskTimes::replicaGroups(StageId id, std::vector<DeviceId> own) const
{
    const plan::Stage &stage = m_in.source.plan.stages[id.index()];
    std::vector<std::vector<DeviceId>> groups(stage.shards());
    for (std::size_t d = 0; d < stage.devices.size(); ++d)
        groups[d % stage.shards()].push_back(stage.devices[d]);
    std::sort(own.begin(), own.end());
    for (std::vector<DeviceId> &group : groups)
        std::sort(group.begin(), group.end());
    return std::find(groups.begin(), groups.end(), own) != groups.end() ? groups : std::vector<std::vector<DeviceId>>{};
}

Seconds TaskTimes::agreement(std::int64_t bytes)
{
    const auto [entry, isNew] = m_agreements.try_emplace(bytes);
    if (isNew) {
        std::vector<DeviceId> devices;
        for (const plan::Stage &stage : m_in.source.plan.stages)
            devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
        std::sort(devices.begin(), devices.end());
        devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
        entry->second = devices.size() < 2
            ? Seconds(0)
            : m_costs.collective(cost::Collective::AllReduce, devices, static_cast<double>(bytes));
    }
    return entry->second;
}

Seconds TaskTimes::served(const program::ParameterServer &server, const StageInstance &instance) const
{
    const std::vector<DeviceId> own{deviceOf(instance)};
    const std::vector<DeviceId> host{m_in.source.plan.stages.front().devices.front()};
    const auto message = static_cast<double>(server.messageBytes);
    const auto answer = static_cast<double>(server.answerBytes);
    if (own == host)
        return copy(own, message + answer);
    return m_costs.transfer(own, host, message) + m_costs.transfer(host, own, answer);
}

Seconds TaskTimes::update(const StageInstance &instance, std::int64_t bytes, int phase) const
{
    const update::Formula &formula = m_in.source.plan.optimizer.rule.formula();
    const int all = m_in.source.plan.optimizer.rule.footprint().streams;
    const Seconds whole = m_costs.optimizerStep(Bytes(bytes), all, typeOf(instance));
    return formula.phases() == 1 ? whole : whole * (static_cast<double>(formula.streams(phase)) / all);
}

Seconds TaskTimes::streams(const StageInstance &instance, std::int64_t bytes, int tensors) const
{
    const int all = m_in.source.plan.optimizer.rule.footprint().streams;
    return m_costs.optimizerStep(Bytes(bytes), all, typeOf(instance)) * (static_cast<double>(tensors) / all);
}

std::int64_t TaskTimes::sentBytes(cost::Collective kind, TeamId team, std::int64_t whole, RankId rank,
                                  graph::DType type) const
{
    const Team &members = m_in.teams.team(team);
    const std::int64_t bytes = bytesOfCall(kind, members.size(), whole);
    std::size_t position = members.position(rank);
    if (members.ranks.size() < members.size()) { // folded
        const DeviceId device = m_in.ranks.at(rank).device;
        position = static_cast<std::size_t>(std::find(members.devices.begin(), members.devices.end(), device)
                                            - members.devices.begin());
    }
    return cost::collectiveBytesOf(kind, bytes, static_cast<int>(members.size()), static_cast<int>(position),
                                   graph::sizeOf(type));
}

std::int64_t TaskTimes::sentBytes(const CommunicatingOp &op, TeamId team, std::int64_t whole, RankId rank) const
{
    if (op.shift == 0)
        return sentBytes(op.collective, team, whole, rank, op.type);
    const std::vector<DeviceId> &devices = m_in.teams.team(team).devices;
    const auto own = std::find(devices.begin(), devices.end(), m_in.ranks.at(rank).device);
    const std::ptrdiff_t to = own - devices.begin() + op.shift;
    return to >= 0 && to < std::ssize(devices) ? whole : 0;
}

} // namespace planloom::compile
