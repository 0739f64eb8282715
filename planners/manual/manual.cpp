// SPDX-License-Identifier: Apache-2.0
#include "planners/manual/manual.h"

#include "engine/plan/setup.h"
#include "engine/schedule/dual_pipe.h"
#include "engine/sharding/megatron.h"
#include "planners/common/balance.h"
#include "planners/interface/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace planloom::planners::manual {
namespace {

/// Enough that the bubble of a one-forward-one-backward pipeline is small.
constexpr std::int64_t kMicroBatchesPerStage = 4;
constexpr std::int64_t kMostDevices = 1 << 20;

struct Settings {
    std::size_t data = 0;
    std::size_t tensor = 1;
    std::size_t pipeline = 1;
    std::size_t interleave = 1;
    plan::Recompute recompute = plan::Recompute::None;
    int registers = 0;
    plan::ScheduleKind schedule = plan::ScheduleKind::OneF1B;
    bool dualPipe = false; ///< stages lie in a V, in the order of DualPipeV
    sharding::MegatronOptions layout;
    [[nodiscard]] std::size_t stages() const { return pipeline * interleave; }
    /// The place of stage @p stage, 0 to pipeline - 1.
    [[nodiscard]] std::size_t placeOf(std::size_t stage) const
    {
        return dualPipe && stage >= pipeline ? stages() - 1 - stage : stage % pipeline;
    }
    std::vector<std::size_t> cuts; ///< first layers of all stages but the first; empty: balanced
    std::vector<DeviceId> devices; ///< rank by rank; empty: the cluster's first ones
};

constexpr const char *kDualPipe = "dualpipe-v"; ///< of option schedule

/// 1f1b means the interleaved kind where devices have several stages.
Status settleSchedule(Settings &settings)
{
    if (settings.dualPipe) {
        if (settings.interleave > 2)
            return badInput(fmt::format("option schedule={} gives each device two stages, down and up the V; leave "
                                        "interleave={} out",
                                        kDualPipe, settings.interleave));
        settings.interleave = 2;
        settings.schedule = plan::ScheduleKind::Custom;
        return {};
    }
    if (settings.interleave == 1)
        return {};
    if (settings.schedule == plan::ScheduleKind::OneF1B)
        settings.schedule = plan::ScheduleKind::Interleaved1F1B;
    if (settings.schedule == plan::ScheduleKind::Interleaved1F1B || settings.schedule == plan::ScheduleKind::GPipe)
        return {};
    return badInput(fmt::format("option interleave={} gives each device several stages, which schedule={} has no order "
                                "for; use 1f1b or gpipe, or interleave=1",
                                settings.interleave, plan::name(settings.schedule)));
}

constexpr const char *kFirstDevices = "first"; ///< of option devices

Status readDevices(const Options &options, const cluster::Cluster &cluster, Settings &settings)
{
    const auto given = options.find("devices");
    if (given == options.end() || given->second == kFirstDevices)
        return {};
    auto devices = plan::rangesFromText(given->second, cluster.devices().size() - 1);
    if (!devices)
        return badInput(
            fmt::format("option devices={}; correct it for cluster {}", devices.error().message, cluster.name()));
    settings.devices = *std::move(devices);
    return {};
}

Result<Settings> settingsFrom(const Options &options, const std::vector<OptionInfo> &known,
                              const cluster::Cluster &cluster)
{
    OptionReader reader(options, known);
    Settings settings;
    settings.data = static_cast<std::size_t>(reader.integer("data", 0, kMostDevices));
    settings.tensor = static_cast<std::size_t>(reader.integer("tensor", 1, kMostDevices));
    settings.pipeline = static_cast<std::size_t>(reader.integer("pipeline", 1, kMostDevices));
    settings.interleave = static_cast<std::size_t>(reader.integer("interleave", 1, kMostDevices));
    const std::string again = reader.choice("recompute");
    settings.recompute = plan::recomputeFromName(again == "always" ? "full" : again).value_or(plan::Recompute::None);
    settings.registers = static_cast<int>(reader.integer("registers", 0, kMostDevices));
    settings.layout.sequenceParallel = reader.choice("sequence") == "on";
    settings.layout.vocabularyParallel = reader.choice("vocabulary") == "on";
    const std::string schedule = reader.choice("schedule");
    settings.dualPipe = schedule == kDualPipe;
    settings.schedule = plan::scheduleFromName(schedule).value_or(settings.schedule);
    for (const std::int64_t cut : reader.integers("cuts", 1, kMostDevices))
        settings.cuts.push_back(static_cast<std::size_t>(cut));
    if (!reader.status())
        return reader.status().error();
    if (Status read = readDevices(options, cluster, settings); !read)
        return read.error();
    if (settings.layout.sequenceParallel && settings.tensor == 1)
        return badInput(
            "option sequence=on splits activations over the tensor-parallel devices; give tensor=2 or more");
    if (const Status status = settleSchedule(settings); !status)
        return status.error();
    return settings;
}

/// Cuts given by the user.
Status checkCuts(const Settings &settings, std::size_t layers)
{
    if (settings.cuts.empty())
        return {};
    if (settings.cuts.size() + 1 != settings.stages())
        return badInput(fmt::format(
            "option cuts={} makes {} stages, but there are {}; give the first layer of each stage but the first",
            fmt::join(settings.cuts, ","), settings.cuts.size() + 1, settings.stages()));
    for (std::size_t i = 0; i < settings.cuts.size(); ++i)
        if (settings.cuts[i] >= layers || (i > 0 && settings.cuts[i] <= settings.cuts[i - 1]))
            return badInput(
                fmt::format("option cuts={} does not rise, or goes beyond the model's {} layers; correct it",
                            fmt::join(settings.cuts, ","), layers));
    return {};
}

/// Fills in open settings and checks that devices and layers suffice.
Status settle(const Problem &problem, Settings &settings)
{
    const bool given = !settings.devices.empty();
    const std::size_t devices = given ? settings.devices.size() : problem.subject.cluster->devices().size();
    const std::size_t layers = problem.subject.layers().size();
    const std::size_t others = settings.tensor * settings.pipeline;
    if (settings.data == 0)
        settings.data = std::max<std::size_t>(1, devices / std::max<std::size_t>(1, others));
    if (given && settings.data * others != devices)
        return badInput(
            fmt::format("option devices names {} devices, but data={} x tensor={} x pipeline={} are {}; name "
                        "as many",
                        devices, settings.data, settings.tensor, settings.pipeline, settings.data * others));
    if (settings.data * others > devices)
        return badInput(
            fmt::format("data={} x tensor={} x pipeline={} are {} devices, but cluster {} has {}; ask for fewer",
                        settings.data, settings.tensor, settings.pipeline, settings.data * others,
                        problem.subject.cluster->name(), devices));
    if (!given)
        for (const cluster::Device &device : problem.subject.cluster->devices())
            settings.devices.push_back(device.id);
    if (settings.stages() > layers && settings.interleave > 1)
        return badInput(
            fmt::format("pipeline={} x interleave={} are {} stages, more than the {} layers of model {}; ask for fewer",
                        settings.pipeline, settings.interleave, settings.stages(), layers,
                        problem.subject.graph->name()));
    if (settings.pipeline > layers)
        return badInput(fmt::format("pipeline={} is more than the {} layers of model {}; give at most that many",
                                    settings.pipeline, layers, problem.subject.graph->name()));
    return checkCuts(settings, layers);
}

std::int64_t microBatchesFor(const Problem &problem, const Settings &settings)
{
    const auto replicas = static_cast<std::int64_t>(settings.data);
    if (problem.microBatch)
        return std::max<std::int64_t>(1, problem.globalBatch / (*problem.microBatch * replicas));
    const std::int64_t most = std::max<std::int64_t>(1, problem.globalBatch / replicas);
    return settings.pipeline == 1
        ? 1
        : std::min(most, kMicroBatchesPerStage * static_cast<std::int64_t>(settings.pipeline));
}

/// Devices are taken as option devices names them, else in the cluster's order: tensor-parallel ones next to each
/// other, then replicas, then stages, which go round the pipeline's places.
std::vector<plan::Stage> stagesFor(const Problem &problem, const Settings &settings, double samples)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const cluster::Cluster &cluster = *problem.subject.cluster;
    const std::size_t each = settings.data * settings.tensor;
    const std::vector<std::size_t> cuts = !settings.cuts.empty()
        ? settings.cuts
        : balancedCuts(
            costs.layers().size(), settings.stages(), [&](std::size_t index, std::size_t first, std::size_t last) {
                const std::size_t type = cluster.device(settings.devices[settings.placeOf(index) * each]).type;
                return (costs.forward(first, last, samples, type) + costs.backward(first, last, samples, type)).value();
            });
    sharding::Mesh mesh;
    mesh.sizes = {static_cast<int>(settings.data), static_cast<int>(settings.tensor)};
    std::map<std::string, std::string> shardings;
    if (settings.tensor > 1)
        for (const auto &[tensor, sbp] : sharding::megatronPins(*problem.subject.graph, mesh, settings.layout))
            shardings[tensor] = sharding::toText(sbp);
    std::vector<plan::Stage> stages(settings.stages());
    for (std::size_t s = 0; s < stages.size(); ++s) {
        plan::Stage &stage = stages[s];
        stage.name = fmt::format("stage{}", s);
        stage.firstLayer = s == 0 ? 0 : cuts[s - 1];
        stage.lastLayer = s + 1 < stages.size() ? cuts[s] : costs.layers().size();
        for (std::size_t d = 0; d < each; ++d)
            stage.devices.push_back(settings.devices[settings.placeOf(s) * each + d]);
        if (settings.tensor > 1) {
            stage.mesh = mesh.sizes;
            stage.shardings = shardings;
        }
        stage.zero = settings.data > 1 ? problem.zero : 0;
        stage.recompute = settings.recompute;
        stage.registers = settings.registers;
    }
    return stages;
}

/// The order of DualPipeV for every device of @p plan, whose stages lie in a V.
Status orderInV(plan::Plan &plan, const Settings &settings, const cluster::Cluster &cluster)
{
    const auto least = static_cast<std::int64_t>(2 * settings.pipeline);
    if (plan.microBatches < least)
        return badInput(fmt::format("option schedule={} needs at least {} micro-batches, twice the pipeline's places, "
                                    "and there are {}; enlarge --batch, or give a smaller --micro-batch",
                                    kDualPipe, least, plan.microBatches));
    for (std::size_t place = 0; place < settings.pipeline; ++place) {
        const auto order = schedule::dualPipeVOrder(plan.microBatches, static_cast<std::int32_t>(place),
                                                    static_cast<std::int32_t>(settings.pipeline));
        for (const DeviceId device : plan.stages[place].devices)
            plan.schedule.order[cluster.device(device).name] = order;
    }
    return {};
}

/// The slowest place sets the pace, and the pipeline fills in a part of that where places have several stages;
/// communication is not part of it.
plan::Estimate estimateOf(const Problem &problem, const Settings &settings, const plan::Plan &plan, double samples)
{
    const cost::CostModel &costs = *problem.subject.costs;
    std::vector<double> places(settings.pipeline, 0);
    double one = 0;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const plan::Stage &stage = plan.stages[s];
        const std::size_t type = problem.subject.cluster->device(stage.devices.front()).type;
        const Seconds forward = costs.forward(stage.firstLayer, stage.lastLayer, samples, type);
        const Seconds pass = forward + costs.backward(stage.firstLayer, stage.lastLayer, samples, type);
        const bool again = stage.recompute == plan::Recompute::Full || stage.recompute == plan::Recompute::Layers;
        one += pass.value() * static_cast<double>(settings.data);
        places[settings.placeOf(s)] +=
            (pass + (again ? forward : Seconds(0))).value() / static_cast<double>(settings.tensor);
    }
    const double slowest = *std::max_element(places.begin(), places.end());
    const auto count = static_cast<double>(plan.microBatches);
    const double seconds =
        slowest * (count + (static_cast<double>(settings.pipeline) - 1) / static_cast<double>(settings.interleave));
    return {{"iteration_seconds", seconds}, {"speedup_over_one_device", seconds > 0 ? one * count / seconds : 1}};
}

} // namespace

std::vector<OptionInfo> ManualPlanner::options() const
{
    return {
        {"data", "0", "replicas of each stage; 0: as many as the cluster has devices for"},
        {"tensor", "1", "devices that share the tensors of a replica"},
        {"pipeline", "1", "number of stages; cuts minimise the time of the slowest"},
        {"interleave", "1", "stages on each device: the pipeline goes round its devices that many times"},
        {"sequence", "off", "on: between the blocks activations are split along the tokens", "", {"off", "on"}},
        {"vocabulary", "off", "on: the token table and the head are split over the vocabulary", "", {"off", "on"}},
        {"schedule",
         "1f1b",
         "1f1b (interleaved-1f1b where interleave is above 1), gpipe, dapple-a, dapple-b, zb-h1, or dualpipe-v: two "
         "stages on each device, down the pipeline and back up",
         "",
         {"1f1b", "gpipe", "dapple-a", "dapple-b", "interleaved-1f1b", "zb-h1", kDualPipe}},
        {"recompute",
         "never",
         "always: every stage keeps only its inputs and runs forward again before backward; layers: each layer "
         "does; selective: attention",
         "",
         {"never", "selective", "layers", "always"}},
        {"cuts", "balanced", "first layers of all stages but the first, such as 4,7"},
        {"devices", kFirstDevices,
         "numbers of the devices in the order of ranks (tensor-parallel ones next to each other, then replicas, "
         "then stages), such as 8-15; first: the cluster's first ones"},
        {"registers", "0", "slots of the buffers at the ends of stages; 0: as many as the schedule can use"}};
}

Result<PlanReport> ManualPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    Result<Settings> settings = settingsFrom(options, this->options(), *problem.subject.cluster);
    if (!settings)
        return settings.error();
    if (Status status = settle(problem, *settings); !status)
        return status.error();
    if (progress.stopped())
        return cancelled("stopped before a plan was found");
    plan::Plan plan = emptyPlan(problem, name(), options);
    plan.microBatches = microBatchesFor(problem, *settings);
    plan.schedule.kind = settings->schedule;
    const double samples = static_cast<double>(plan.globalBatch) / static_cast<double>(plan.microBatches)
        / static_cast<double>(settings->data);
    plan.stages = stagesFor(problem, *settings, samples);
    if (settings->dualPipe)
        if (const Status ordered = orderInV(plan, *settings, *problem.subject.cluster); !ordered)
            return ordered.error();
    const bool tensors = plan.stages.front().shardings.empty() && settings->tensor > 1;
    if (tensors)
        return unsupported(fmt::format("model {} cannot be laid out over tensor={} devices: its products do "
                                       "not pair up, or sizes and heads do not divide; use tensor=1",
                                       problem.subject.graph->name(), settings->tensor));
    plan.estimate = estimateOf(problem, *settings, plan, samples);
    progress.report(1, "done");
    return finish(std::move(plan), problem);
}

} // namespace planloom::planners::manual
