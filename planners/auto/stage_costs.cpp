// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/stage_costs.h"

#include "engine/compile/stage_model.h"
#include "engine/sharding/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace planloom::planners::automatic {
namespace {

/// The first devices of type @p type that lie in one node.
std::vector<DeviceId> neighbours(const cluster::Cluster &cluster, std::size_t type, std::size_t count)
{
    for (const cluster::Node &node : cluster.nodes()) {
        std::vector<DeviceId> found;
        for (const DeviceId device : node.devices)
            if (cluster.device(device).type == type && found.size() < count)
                found.push_back(device);
        if (found.size() == count)
            return found;
    }
    return {};
}

/// By stage.
std::vector<PassSeconds> secondsOf(compile::PassClock &clock, std::size_t stages, double samples)
{
    std::vector<PassSeconds> seconds;
    for (std::size_t s = 0; s < stages; ++s) {
        const compile::PassClock::Passes passes = clock.of(s, samples);
        seconds.push_back({passes.forward.whole.value(), passes.backward.whole.value(),
                           passes.forward.computing.value(), passes.backward.computing.value()});
    }
    return seconds;
}

PassSeconds operator+(const PassSeconds &a, const PassSeconds &b)
{
    return {a.forward + b.forward, a.backward + b.backward, a.busyForward + b.busyForward,
            a.busyBackward + b.busyBackward};
}

PassSeconds operator-(const PassSeconds &a, const PassSeconds &b)
{
    return {a.forward - b.forward, a.backward - b.backward, a.busyForward - b.busyForward,
            a.busyBackward - b.busyBackward};
}

/// Beginnings of stages of two layers each, the first of which begins at @p from.
std::vector<std::size_t> pairs(std::size_t layers, std::size_t from)
{
    std::vector<std::size_t> begins{0};
    for (std::size_t i = from; i < layers; i += 2)
        if (i > 0)
            begins.push_back(i);
    return begins;
}

} // namespace

PassTimes::PassTimes(const std::vector<PassSeconds> &layers, const std::vector<PassSeconds> &saved)
{
    Row row;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        row.saved = saved[i];
        m_rows.push_back(row);
        row.sums = row.sums + layers[i] - saved[i];
    }
    row.saved = {};
    m_rows.push_back(row);
}

void PassTimes::setBusy(const PassTimes &other)
{
    for (std::size_t i = 0; i < m_rows.size(); ++i) {
        const auto set = [](PassSeconds &mine, const PassSeconds &its) {
            mine.busyForward = its.busyForward;
            mine.busyBackward = its.busyBackward;
        };
        set(m_rows[i].sums, other.m_rows[i].sums);
        set(m_rows[i].saved, other.m_rows[i].saved);
    }
}

LayerTimes::Least LayerTimes::least(std::size_t first, std::size_t last) const
{
    const PassSeconds keep = plain.of(first, last);
    if (!selective)
        return {keep.busyForward, keep.busyBackward, keep.busyForward + keep.busyBackward};
    const PassSeconds again = selective->of(first, last);
    return {std::min(keep.busyForward, again.busyForward), std::min(keep.busyBackward, again.busyBackward),
            std::min(keep.busyForward + keep.busyBackward, again.busyForward + again.busyBackward)};
}

StageCosts::StageCosts(const Problem &problem, double reserve, compile::StageCache &stages)
    : m_problem(problem),
      m_stages(stages),
      m_memory(*problem.subject.costs, problem.optimizer, reserve),
      m_proportional(graph::isLayerProfile(*problem.subject.graph)),
      m_attention(std::any_of(problem.subject.graph->ops().begin(), problem.subject.graph->ops().end(),
                              [](const graph::Op &op) { return op.traits().isAttention(); }))
{
    const auto &profile = problem.subject.profile;
    if (profile && profile->extra.contains("kernel_launch_seconds")) {
        auto without = std::make_shared<cost::Profile>(*profile);
        without->extra.erase("kernel_launch_seconds");
        m_unlaunched = plan::inPrecision(plan::makeSubject(problem.subject.graph, problem.subject.cluster,
                                                           std::move(without), problem.subject.modelSource),
                                         problem.precision);
    }
    sumBytes();
}

void StageCosts::sumBytes()
{
    const auto bytesOf = [this](std::size_t first, std::size_t last,
                                bool recompute) { // a footprint is linear in the samples
        const StageFootprint none = m_memory.footprint(first, last, 0, recompute);
        const StageFootprint one = m_memory.footprint(first, last, 1, recompute);
        const double persistent = m_memory.persistent(first, last);
        return RunBytes{persistent, none.fixed - persistent, one.fixed - none.fixed, one.perMicroBatch};
    };
    for (auto &list : m_bytes)
        list.resize(layers() * layers());
    for (std::size_t first = 0; first < layers(); ++first) {
        double inputs = 0;      // kept by layers that recompute one by one
        double largestKept = 0; // kept in addition by the largest of them
        for (std::size_t last = first + 1; last <= layers(); ++last) {
            const double input = m_memory.cutBytes(last - 1);
            inputs += input;
            largestKept = std::max(largestKept, m_memory.footprint(last - 1, last, 1, false).perMicroBatch - input);
            const RunBytes plain = bytesOf(first, last, false);
            RunBytes again = bytesOf(first, last, true);
            if (recomputed() == plan::Recompute::Layers) {
                again.perSample += largestKept - (plain.keptPerSample - m_memory.cutBytes(first));
                again.keptPerSample = inputs;
            }
            m_bytes[0][first * layers() + last - 1] = plain;
            m_bytes[1][first * layers() + last - 1] = again;
        }
    }
}

const std::map<std::string, std::string> &StageCosts::pins(const Degree &degree)
{
    const auto [entry, isNew] = m_pins.try_emplace(degree);
    if (isNew && degree.tensor > 1) {
        sharding::Mesh mesh;
        mesh.sizes = {1, degree.tensor};
        for (const auto &[tensor, sbp] :
             sharding::megatronPins(*m_problem.subject.graph, mesh, {degree.sequence, false}))
            entry->second[tensor] = sharding::toText(sbp);
    }
    return entry->second;
}

Result<const LayerTimes *> StageCosts::times(std::size_t type, const Degree &degree, double samples)
{
    auto &entry = m_times[{type, degree, samples}];
    if (!entry)
        entry = std::make_unique<Result<LayerTimes>>(m_proportional ? Result<LayerTimes>(whole(type, samples))
                                                                    : probedWithSelective(type, degree, samples));
    if (!*entry)
        return entry->error();
    return &**entry;
}

LayerTimes StageCosts::whole(std::size_t type, double samples) const
{
    const cost::CostModel &costs = *m_problem.subject.costs;
    std::vector<PassSeconds> seconds;
    for (std::size_t i = 0; i < layers(); ++i) {
        const double forward = costs.forward(i, i + 1, samples, type).value();
        const double backward = costs.backward(i, i + 1, samples, type).value();
        seconds.push_back({forward, backward, forward, backward});
    }
    return {PassTimes(seconds), std::nullopt};
}

Result<compile::PassClock> StageCosts::probe(const Setting &setting, const std::vector<std::size_t> &begins)
{
    const auto &[type, degree, recompute, launched] = setting;
    plan::Plan probe = emptyPlan(m_problem, "auto", {});
    probe.globalBatch = 1;
    probe.microBatches = 1;
    probe.bucketBytes = 0;
    probe.schedule.kind = plan::ScheduleKind::GPipe;
    const std::vector<DeviceId> devices =
        neighbours(*m_problem.subject.cluster, type, static_cast<std::size_t>(degree.tensor));
    if (devices.empty())
        return infeasible(fmt::format("no machine has {} devices of one type", degree.tensor));
    for (std::size_t i = 0; i < begins.size(); ++i) {
        plan::Stage stage;
        stage.name = fmt::format("layer{}", begins[i]);
        stage.firstLayer = begins[i];
        stage.lastLayer = i + 1 < begins.size() ? begins[i + 1] : layers();
        stage.devices = devices;
        stage.recompute = recompute;
        if (degree.tensor > 1) {
            stage.mesh = {1, degree.tensor};
            stage.shardings = pins(degree);
        }
        probe.stages.push_back(std::move(stage));
    }
    if (!launched)
        return compile::PassClock::make(std::move(probe), *m_unlaunched, nullptr);
    return compile::PassClock::make(std::move(probe), m_problem.subject, &m_stages);
}

Result<StageCosts::Probes> StageCosts::makeProbes(const Setting &setting)
{
    std::vector<std::size_t> each(layers());
    std::iota(each.begin(), each.end(), std::size_t{0});
    auto single = probe(setting, each);
    if (!single)
        return single.error();
    Probes probes{*std::move(single), {}};
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
        const std::vector<std::size_t> begins = pairs(layers(), from);
        auto joined = probe(setting, begins);
        if (!joined)
            return joined.error();
        probes.joined.push_back({begins, *std::move(joined)});
    }
    return probes;
}

Result<LayerTimes> StageCosts::probedWithSelective(std::size_t type, const Degree &degree, double samples)
{
    auto times = probedAsBound({type, degree, plan::Recompute::None}, samples);
    if (!times || !m_attention)
        return times;
    const auto again = probedAsBound({type, degree, plan::Recompute::Selective}, samples);
    if (!again)
        return again;
    times->selective = again->plain;
    return times;
}

Result<LayerTimes> StageCosts::probedAsBound(Setting setting, double samples)
{
    auto times = probed(setting, samples);
    if (!times || !m_unlaunched)
        return times;
    setting.launched = false;
    auto alone = probed(setting, samples);
    if (!alone)
        return alone;
    times->plain.setBusy(alone->plain);
    return times;
}

Result<LayerTimes> StageCosts::probed(const Setting &setting, double samples)
{
    auto known = m_probes.find(setting);
    if (known == m_probes.end())
        known = m_probes.emplace(setting, makeProbes(setting)).first;
    if (!known->second)
        return known->second.error();
    Probes &probes = *known->second;
    const std::vector<PassSeconds> alone = secondsOf(probes.single, layers(), samples);
    std::vector<PassSeconds> saved(layers());
    for (Probes::Joined &joined : probes.joined) {
        const std::vector<std::size_t> &begins = joined.begins;
        const std::vector<PassSeconds> together = secondsOf(joined.clock, begins.size(), samples);
        for (std::size_t s = 0; s < begins.size(); ++s) {
            const std::size_t first = begins[s];
            const std::size_t end = s + 1 < begins.size() ? begins[s + 1] : layers();
            if (end == first + 2)
                saved[first + 1] = alone[first] + alone[first + 1] - together[s];
        }
    }
    return LayerTimes{PassTimes(alone, saved), std::nullopt};
}

} // namespace planloom::planners::automatic
