// SPDX-License-Identifier: Apache-2.0
#include "planners/joint/stage_costs.h"

#include "engine/program/program.h"
#include "engine/program/stage_model.h"
#include "engine/sharding/megatron.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::planners::joint {
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

/// Per stage: what a pass over one micro-batch takes on its first rank, with and without waiting for boxing.
PassTimes passTimes(const program::Program &program, std::size_t stages)
{
    std::vector<double> seconds[4]; // forward and backward, all and computing
    for (std::vector<double> &each : seconds)
        each.assign(stages, 0);
    for (const program::Task &task : program.tasks) {
        const bool computes = task.lane == program::Lane::Compute;
        const bool pass = task.pass == program::Pass::Forward || task.pass == program::Pass::Backward;
        if (task.rank != RankId(0) || task.microBatch != 0 || !pass || (!computes && task.lane != program::Lane::Collective))
            continue;
        const std::size_t which = task.pass == program::Pass::Forward ? 0 : 1;
        seconds[which][task.stage.index()] += task.duration.value();
        if (computes)
            seconds[2 + which][task.stage.index()] += task.duration.value();
    }
    PassTimes times{{0}, {0}, {0}, {0}};
    std::vector<double> *sums[] = {&times.forward, &times.backward, &times.busyForward, &times.busyBackward};
    for (std::size_t s = 0; s < stages; ++s)
        for (std::size_t which = 0; which < 4; ++which)
            sums[which]->push_back(sums[which]->back() + seconds[which][s]);
    return times;
}

} // namespace

StageCosts::StageCosts(const Problem &problem, double reserve)
    : m_problem(problem), m_memory(*problem.subject.costs, problem.optimizer, reserve), m_proportional(program::isLayerProfile(*problem.subject.graph)), m_inputs{0}
{
    for (std::size_t i = 0; i < layers(); ++i) {
        const double input = m_memory.cutBytes(i);
        m_inputs.push_back(m_inputs.back() + input);
        m_kept.push_back(m_memory.footprint(i, i + 1, 1, false).perMicroBatch - input);
    }
}

double StageCosts::largestKept(std::size_t first, std::size_t last) const
{
    return *std::max_element(m_kept.begin() + static_cast<std::ptrdiff_t>(first), m_kept.begin() + static_cast<std::ptrdiff_t>(last));
}

const std::map<std::string, std::string> &StageCosts::pins(const Degree &degree)
{
    const auto [entry, isNew] = m_pins.try_emplace(degree);
    if (isNew && degree.tensor > 1) {
        sharding::Mesh mesh;
        mesh.sizes = {1, degree.tensor};
        for (const auto &[tensor, sbp] : sharding::megatronPins(*m_problem.subject.graph, mesh, {degree.sequence, false}))
            entry->second[tensor] = sharding::toText(sbp);
    }
    return entry->second;
}

Result<const PassTimes *> StageCosts::times(std::size_t type, const Degree &degree, double samples)
{
    auto &entry = m_times[{type, degree, samples}];
    if (!entry)
        entry = std::make_unique<Result<PassTimes>>(degree.tensor == 1 ? whole(type, samples) : probed(type, degree, static_cast<std::int64_t>(samples)));
    if (!*entry)
        return entry->error();
    return &**entry;
}

Result<PassTimes> StageCosts::whole(std::size_t type, double samples) const
{
    const cost::CostModel &costs = *m_problem.subject.costs;
    PassTimes times{{0}, {0}, {}, {}};
    for (std::size_t i = 0; i < layers(); ++i) {
        times.forward.push_back(times.forward.back() + costs.forward(i, i + 1, samples, type).value());
        times.backward.push_back(times.backward.back() + costs.backward(i, i + 1, samples, type).value());
    }
    return times;
}

Result<PassTimes> StageCosts::probed(std::size_t type, const Degree &degree, std::int64_t samples)
{
    plan::Plan probe = emptyPlan(m_problem, "auto", {});
    probe.globalBatch = samples;
    probe.microBatches = 1;
    probe.schedule.kind = plan::ScheduleKind::GPipe;
    const std::vector<DeviceId> devices = neighbours(*m_problem.subject.cluster, type, static_cast<std::size_t>(degree.tensor));
    if (devices.empty())
        return infeasible(fmt::format("no machine has {} devices of one type", degree.tensor));
    for (std::size_t i = 0; i < layers(); ++i) {
        plan::Stage stage;
        stage.name = fmt::format("layer{}", i);
        stage.firstLayer = i;
        stage.lastLayer = i + 1;
        stage.devices = devices;
        stage.mesh = {1, degree.tensor};
        stage.shardings = pins(degree);
        probe.stages.push_back(std::move(stage));
    }
    const auto program = program::compile(probe, m_problem.subject, {.bodies = false});
    if (!program)
        return program.error();
    return passTimes(*program, layers());
}

} // namespace planloom::planners::joint
