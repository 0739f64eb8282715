// SPDX-License-Identifier: Apache-2.0
#include "planners/pipedream/pipedream.h"

#include "planners/common/bandwidth.h"
#include "planners/common/memory.h"
#include "planners/common/micro_batch.h"
#include "planners/interface/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace planloom::planners::pipedream {
namespace {

constexpr std::size_t kMostStates = 2000; ///< the search costs the cube

struct Settings {
    bool branches = true;
    std::string recompute;
};

/// The chain layers [first, last) of a stage; none if they do not follow each other.
std::optional<std::pair<std::size_t, std::size_t>> rangeOf(const std::vector<State> &states, const Stage &stage,
                                                           std::size_t layers)
{
    std::size_t first = layers;
    std::size_t last = 0;
    std::size_t count = 0;
    for (std::size_t layer = 0; layer < layers; ++layer) {
        if (!states[stage.last].holds(layer) || (stage.first > 0 && states[stage.first - 1].holds(layer)))
            continue;
        first = std::min(first, layer);
        last = layer + 1;
        ++count;
    }
    if (count != last - first)
        return std::nullopt;
    return std::pair(first, last);
}

/// The partition as a plan's stages; none if a stage's layers are scattered over the chain.
std::optional<std::vector<plan::Stage>> stagesOf(const Problem &problem, const std::vector<State> &states,
                                                 const Partition &partition)
{
    const auto devices = problem.subject.cluster->devices();
    std::vector<plan::Stage> stages;
    for (const Stage &part : partition.stages) {
        const auto range = rangeOf(states, part, problem.subject.layers().size());
        if (!range || range->first != (stages.empty() ? 0 : stages.back().lastLayer))
            return std::nullopt;
        plan::Stage stage;
        stage.name = fmt::format("stage{}", stages.size());
        stage.firstLayer = range->first;
        stage.lastLayer = range->second;
        for (const std::size_t place : part.devices)
            stage.devices.push_back(devices[place].id);
        std::sort(stage.devices.begin(), stage.devices.end());
        stage.zero = stage.devices.size() > 1 ? problem.zero : 0;
        stages.push_back(std::move(stage));
    }
    return stages;
}

struct Found {
    Partition partition;
    std::vector<plan::Stage> stages;
    std::string note; ///< why these are not the released optimizer's stages; empty: they are
};

/// @p seconds: the objective of the partition that cannot be run as it is.
std::string scatteredNote(double seconds)
{
    return fmt::format("the released search cuts through branches where a stage is no run of layers: {} a micro-batch, "
                       "which cannot be run as it is; cuts between layers of the chain were searched instead",
                       format(Seconds(seconds)));
}

std::string tooManyNote()
{
    return fmt::format("the model has more than {} ways to cut through its branches; only cuts between layers of the "
                       "chain were searched, and the released objective may be lower",
                       kMostStates);
}

/// Over all states where that can be run as it is, else over the prefixes of the chain.
std::optional<Found> search(const Problem &problem, double samples, const Settings &settings, Progress &progress)
{
    const std::vector<Layer> layers = layersOf(problem, samples);
    const std::vector<Level> levels = levelsOf(*problem.subject.cluster);
    std::string note;
    if (settings.branches) {
        note = tooManyNote();
        if (const auto states = allStates(layers, kMostStates)) {
            Partition found = partition(*states, levels, progress);
            if (!found.complete)
                return std::nullopt;
            if (auto stages = stagesOf(problem, *states, found))
                return Found{std::move(found), *std::move(stages), {}};
            note = scatteredNote(found.seconds);
        }
    }
    const std::vector<State> states = prefixStates(layers);
    Partition found = partition(states, levels, progress);
    if (!found.complete)
        return std::nullopt;
    auto stages = stagesOf(problem, states, found);
    return Found{std::move(found), *std::move(stages), std::move(note)};
}

plan::Plan planOf(const Problem &problem, const Options &options, const Settings &settings, std::int64_t samples,
                  Found found)
{
    plan::Plan plan = emptyPlan(problem, "pipedream", options);
    std::size_t most = 1;
    for (plan::Stage &stage : found.stages) {
        stage.recompute = settings.recompute == "always" ? plan::Recompute::Full : plan::Recompute::None;
        most = std::max(most, stage.devices.size());
    }
    // PipeDream's replicas take whole micro-batches in turn; here each takes its slice of a micro-batch as many times
    // larger.
    plan.microBatches = std::max<std::int64_t>(1, problem.globalBatch / (samples * static_cast<std::int64_t>(most)));
    plan.schedule.kind = plan::ScheduleKind::OneF1B;
    plan.stages = std::move(found.stages);
    const double total = prefixStates(layersOf(problem, static_cast<double>(samples))).back().seconds;
    const double steps = static_cast<double>(problem.globalBatch) / static_cast<double>(samples);
    plan.estimate = {{"iteration_seconds", found.partition.seconds * steps},
                     {"seconds_per_micro_batch", found.partition.seconds},
                     {"speedup_over_one_device", found.partition.seconds > 0 ? total / found.partition.seconds : 1}};
    return plan;
}

} // namespace

std::vector<Layer> layersOf(const Problem &problem, double samples)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const graph::Graph &graph = *problem.subject.graph;
    const graph::LayerView &view = costs.layers();
    const std::size_t type = problem.subject.cluster->devices().front().type;
    std::vector<Layer> layers(view.size());
    for (std::size_t at = 0; at < layers.size(); ++at) {
        Layer &layer = layers[at];
        layer.seconds = (costs.forward(at, at + 1, samples, type) + costs.backward(at, at + 1, samples, type)).value();
        layer.parameterBytes = static_cast<double>(costs.parameterBytes(at, at + 1).value());
        for (std::size_t op = view.layers[at].first.index(); op < view.layers[at].last.index(); ++op) {
            for (const TensorId input : graph.ops()[op].inputs) {
                if (!input.valid() || !graph.tensor(input).producer.valid())
                    continue;
                const std::size_t from = view.layerOf(graph.tensor(input).producer);
                if (from != at && std::find(layer.inputs.begin(), layer.inputs.end(), from) == layer.inputs.end())
                    layer.inputs.push_back(from);
            }
        }
    }
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (!tensor.producer.valid())
            continue;
        const std::size_t from = view.layerOf(tensor.producer);
        const auto readers = graph.consumers(tensor.id);
        const bool leaves = readers.empty()
            || std::any_of(readers.begin(), readers.end(), [&](OpId reader) { return view.layerOf(reader) != from; });
        if (leaves)
            layers[from].outputBytes += static_cast<double>(tensor.bytes(1).value()) * samples;
    }
    return layers;
}

std::vector<Level> levelsOf(const cluster::Cluster &cluster)
{
    const auto nodes = cluster.nodes();
    const std::size_t each = nodes.front().devices.size();
    const bool regular =
        std::all_of(nodes.begin(), nodes.end(), [&](const cluster::Node &node) { return node.devices.size() == each; });
    std::vector<Level> levels;
    if (regular && each > 1)
        levels.push_back({each, bandwidthBetween(cluster, nodes.front().devices[0], nodes.front().devices[1])});
    if (regular && nodes.size() > 1)
        levels.push_back({nodes.size(), bandwidthBetween(cluster, nodes[0].devices[0], nodes[1].devices[0])});
    if (regular && !levels.empty())
        return levels;
    Level all{cluster.devices().size(), std::numeric_limits<double>::infinity()};
    const auto devices = cluster.devices();
    for (std::size_t i = 1; i < devices.size(); ++i)
        all.bandwidth = std::min(all.bandwidth, bandwidthBetween(cluster, devices[i - 1].id, devices[i].id));
    return {all};
}

std::vector<OptionInfo> PipeDreamPlanner::options() const
{
    return {
        {"cuts",
         "branches",
         "branches: cuts may go through branches of the model at different depths, where stages stay runs of "
         "layers; chain: between layers of the chain only",
         "",
         {"branches", "chain"}},
        {"recompute", "never", "run forward again before backward: never or always", "always", {"never", "always"}}};
}

Result<PlanReport> PipeDreamPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    OptionReader reader(options, this->options());
    Settings settings;
    settings.branches = reader.choice("cuts") == "branches";
    settings.recompute = reader.choice("recompute");
    if (!reader.status())
        return reader.status().error();
    std::optional<PlanReport> best;
    for (const std::int64_t samples : microBatchChoices(problem)) {
        if (progress.stopped())
            break;
        auto found = search(problem, static_cast<double>(samples), settings, progress);
        if (!found)
            break;
        const std::string note = found->note;
        plan::Plan plan = planOf(problem, options, settings, samples, *std::move(found));
        const auto most =
            std::max_element(plan.stages.begin(), plan.stages.end(), [](const plan::Stage &a, const plan::Stage &b) {
                return a.devices.size() < b.devices.size();
            });
        if (plan.globalBatch / plan.microBatches < static_cast<std::int64_t>(most->devices.size()))
            continue; // a replica would have no sample
        Result<PlanReport> report = finish(std::move(plan), problem);
        if (!report)
            return report.error();
        if (!note.empty())
            report->notes.push_back(note);
        const bool faster = !best
            || (report->predicted.fits
                && (!best->predicted.fits || report->predicted.iterationSeconds < best->predicted.iterationSeconds));
        if (faster)
            best = *std::move(report);
    }
    if (!best)
        return progress.stopped()
            ? cancelled("stopped before a plan was found")
            : infeasible(fmt::format("a batch of {} samples leaves replicas without one; use a larger batch",
                                     problem.globalBatch));
    if (!best->predicted.fits)
        return memoryBinds(*problem.subject.cluster, limitOf(best->plan, problem.subject, best->predicted));
    best->complete = !progress.stopped();
    progress.report(1, "done");
    return *std::move(best);
}

} // namespace planloom::planners::pipedream
