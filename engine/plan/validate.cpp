// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/validate.h"

#include "engine/plan/hosted_parameters.h"
#include "engine/plan/replica_machines.h"
#include "engine/plan/training.h"
#include "engine/plan/validate_tables.h"
#include "engine/sharding/sbp.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace planloom::plan {
namespace {

// A program has a handful of tasks per replica and micro-batch; ten million of them are some gigabytes.
constexpr double kMostPasses = 1e7;
constexpr std::int64_t kLargestBatch = 1'000'000'000;
constexpr std::size_t kMostMeshDimensions = 8;

Field stageField(std::size_t stage) { return {"stages", std::to_string(stage)}; }

/// "layer 3 (h/3) is" or "layers 3..5 (h/3 to h/4) are".
std::string layersAre(const graph::LayerView &view, std::size_t first, std::size_t last)
{
    if (last - first == 1)
        return fmt::format("layer {} ({}) is", first, view.layers[first].name);
    return fmt::format("layers {}..{} ({} to {}) are", first, last, view.layers[first].name,
                       view.layers[last - 1].name);
}

Status checkBatch(const Plan &plan)
{
    if (plan.globalBatch < 1 || plan.globalBatch > kLargestBatch)
        return badInput(
            fmt::format("the global batch is {}; it must be from 1 to {}", plan.globalBatch, kLargestBatch));
    if (plan.microBatches < 1)
        return badInput(fmt::format("there are {} micro-batches; at least 1 is needed", plan.microBatches));
    if (plan.microBatches > plan.globalBatch)
        return badInput(fmt::format("{} micro-batches are more than the {} samples of the global batch; use at most {}",
                                    plan.microBatches, plan.globalBatch, plan.globalBatch));
    double passes = 0;
    for (const Stage &stage : plan.stages)
        passes += static_cast<double>(stage.devices.size()) * static_cast<double>(plan.microBatches);
    if (passes > kMostPasses)
        return badInput(fmt::format("{} micro-batches over all replicas make {:.0f} passes, more than the {:.0f} that "
                                    "are supported; use larger micro-batches",
                                    plan.microBatches, passes, kMostPasses));
    return {};
}

/// One stage's layers against where the stages before it end.
Status checkStageLayers(const Plan &plan, std::size_t index, std::size_t begin, const graph::LayerView &view)
{
    const Stage &stage = plan.stages[index];
    if (stage.firstLayer >= stage.lastLayer)
        return badInput(fmt::format("{} needs at least one layer; give it one of a neighbour's or remove the stage",
                                    stageLabel(plan, index)));
    if (stage.lastLayer > view.size())
        return badInput(fmt::format("{} ends at layer {}, but the model has only {} layers", stageLabel(plan, index),
                                    stage.lastLayer, view.size()));
    if (stage.firstLayer > begin && index == 0)
        return badInput(fmt::format("{} in no stage; {} must begin at layer 0", layersAre(view, 0, stage.firstLayer),
                                    stageLabel(plan, 0)));
    if (stage.firstLayer > begin)
        return badInput(fmt::format("{} in no stage; end {} at {} or begin {} at {}",
                                    layersAre(view, begin, stage.firstLayer), stageLabel(plan, index - 1),
                                    stage.firstLayer, stageLabel(plan, index), begin));
    if (stage.firstLayer < begin)
        return badInput(fmt::format("{} in {} and again in {}; begin {} at layer {}",
                                    layersAre(view, stage.firstLayer, std::min(begin, stage.lastLayer)),
                                    stageLabel(plan, index - 1), stageLabel(plan, index), stageLabel(plan, index),
                                    begin));
    return {};
}

Status checkLayers(const Plan &plan, const graph::LayerView &view, Field &field)
{
    std::size_t begin = 0;
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        field = stageField(i);
        if (Status status = checkStageLayers(plan, i, begin, view); !status)
            return status;
        begin = plan.stages[i].lastLayer;
    }
    if (begin < view.size())
        return badInput(fmt::format("{} in no stage; end {} at layer {}", layersAre(view, begin, view.size()),
                                    stageLabel(plan, plan.stages.size() - 1), view.size()));
    return {};
}

std::vector<int> meshOf(const Stage &stage)
{
    return stage.mesh.empty() ? std::vector<int>{static_cast<int>(stage.devices.size())} : stage.mesh;
}

/// Stages that have the device @p shared in common must lie on the same devices altogether.
Status checkSharedDevice(const Plan &plan, std::size_t first, std::size_t second, const std::string &shared)
{
    const Stage &a = plan.stages[first];
    const Stage &b = plan.stages[second];
    if (a.devices != b.devices)
        return badInput(fmt::format("device {} is in {} and in {}, which do not list the same devices in the same "
                                    "order; give both the same list, or each devices of its own",
                                    shared, stageLabel(plan, first), stageLabel(plan, second)));
    if (meshOf(a) != meshOf(b))
        return badInput(
            fmt::format("{} and {} lie on the same devices, as a mesh of {} and of {}; give both the same mesh",
                        stageLabel(plan, first), stageLabel(plan, second), fmt::join(meshOf(a), " x "),
                        fmt::join(meshOf(b), " x ")));
    if (a.replicaShares != b.replicaShares)
        return badInput(
            fmt::format("{} and {} lie on the same devices with different replica shares; give both the same",
                        stageLabel(plan, first), stageLabel(plan, second)));
    return {};
}

Status checkDevices(const Plan &plan, const cluster::Cluster &cluster, Field &field)
{
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> first(cluster.devices().size(), kNone); // stage on a device
    std::vector<std::size_t> last(first);
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        field = stageField(i);
        std::size_t checked = kNone; // stage that lies on the same devices
        if (plan.stages[i].devices.empty())
            return badInput(fmt::format("{} has no devices; give it at least one", stageLabel(plan, i)));
        for (const DeviceId device : plan.stages[i].devices) {
            if (!device.valid() || device.index() >= cluster.devices().size())
                return badInput(fmt::format("{}: device {} does not exist; cluster {} has {} devices, {} to {}",
                                            stageLabel(plan, i), device.value, cluster.name(), cluster.devices().size(),
                                            cluster.devices().front().name, cluster.devices().back().name));
            if (std::exchange(last[device.index()], i) == i)
                return badInput(fmt::format("{} lists device {} twice; list each replica's device once",
                                            stageLabel(plan, i), cluster.device(device).name));
            const std::size_t other = first[device.index()];
            if (other == kNone)
                first[device.index()] = i;
            if (other == kNone || other == checked)
                continue;
            if (Status status = checkSharedDevice(plan, other, i, cluster.device(device).name); !status)
                return status;
            checked = other;
        }
    }
    return {};
}

Status checkShares(const Plan &plan, std::size_t index)
{
    const Stage &stage = plan.stages[index];
    if (stage.replicaShares.empty())
        return {};
    if (stage.replicaShares.size() != stage.replicas())
        return badInput(fmt::format("{} has {} replica shares for {} replicas; give one each, or none for equal shares",
                                    stageLabel(plan, index), stage.replicaShares.size(), stage.replicas()));
    for (const double share : stage.replicaShares) {
        if (!std::isfinite(share) || share <= 0)
            return badInput(fmt::format("{} has a replica share of {}; each must be greater than 0",
                                        stageLabel(plan, index), share));
    }
    const double sum = std::accumulate(stage.replicaShares.begin(), stage.replicaShares.end(), 0.0);
    if (std::abs(sum - 1) > 1e-6)
        return badInput(
            fmt::format("the replica shares of {} sum to {:.6g}; they must sum to 1", stageLabel(plan, index), sum));
    return {};
}

/// Each replica must have a sample of every micro-batch, or it would have nothing to send on.
Status checkSlices(const Plan &plan, std::size_t index, const cluster::Cluster &cluster)
{
    const Stage &stage = plan.stages[index];
    const std::int64_t smallest = plan.globalBatch / plan.microBatches;
    const std::int64_t largest = microBatchRange(plan, 0).size;
    const auto replicas = static_cast<std::int64_t>(stage.replicas());
    for (const std::int64_t samples : {smallest, largest}) {
        const std::vector<std::int64_t> sizes = replicaSizes(stage, samples);
        for (std::size_t i = 0; i < stage.replicas(); ++i) {
            if (sizes[i] > 0)
                continue;
            const std::string device = cluster.device(stage.devices[i * stage.shards()]).name;
            if (samples >= replicas)
                return badInput(fmt::format("{}: replica {} on {} gets no sample of a micro-batch of {}; raise its "
                                            "share ({:.3g}) or use larger micro-batches",
                                            stageLabel(plan, index), i, device, samples, stage.replicaShares[i]));
            const std::int64_t most = plan.globalBatch / replicas;
            return badInput(fmt::format("{} has {} replicas but micro-batches of {} samples: the one on {} would have "
                                        "none; use at most {} replicas{}",
                                        stageLabel(plan, index), replicas, samples, device, samples,
                                        most >= 1 ? fmt::format(" or at most {} micro-batches", most) : std::string()));
        }
    }
    return {};
}

Status checkMesh(const Plan &plan, std::size_t index)
{
    const Stage &stage = plan.stages[index];
    std::int64_t product = 1;
    for (const int size : stage.mesh) {
        if (size < 1 || size > 1 << 20)
            return badInput(fmt::format("{}: a dimension of the device mesh is {}; each must be at least 1",
                                        stageLabel(plan, index), size));
        product = std::min<std::int64_t>(product * size, std::int64_t{1} << 40);
    }
    if (stage.mesh.size() > kMostMeshDimensions)
        return badInput(fmt::format("{}: the device mesh has {} dimensions; at most {} are supported",
                                    stageLabel(plan, index), stage.mesh.size(), kMostMeshDimensions));
    if (!stage.mesh.empty() && product != static_cast<std::int64_t>(stage.devices.size()))
        return badInput(fmt::format("{}: the device mesh {} has {} places for {} devices; make them equal",
                                    stageLabel(plan, index), fmt::join(stage.mesh, " x "), product,
                                    stage.devices.size()));
    if (stage.zero < 0 || stage.zero > 3)
        return badInput(
            fmt::format("{}: there is no ZeRO level {}; give 0 (none) to 3", stageLabel(plan, index), stage.zero));
    if (stage.registers < 0)
        return badInput(fmt::format("{} has {} registers; give at least 1, or 0 for as many as the schedule can use",
                                    stageLabel(plan, index), stage.registers));
    return {};
}

/// The model's tensor, or pattern of some, that a name is about: gradients are called after theirs
/// (graph/gradients/differentiate.h).
std::string withoutGradient(const std::string &name)
{
    constexpr std::string_view kGradient = "grad/";
    return name.starts_with(kGradient) ? name.substr(kGradient.size(), name.rfind('#') - kGradient.size()) : name;
}

/// Whether @p name is of a tensor on the way to gradients, which is called after the operator behind whose backward
/// pass it is.
bool isOnTheWayBack(const graph::Graph &graph, const std::string &name)
{
    const std::string rest = withoutGradient(name);
    return rest != name && std::any_of(graph.ops().begin(), graph.ops().end(), [&](const graph::Op &op) {
               return !op.name.empty() && rest.starts_with(op.name + "/");
           });
}

/// One entry of a stage's shardings, for the tensor or pattern @p name.
Status checkSharding(const graph::Graph &graph, const std::string &name, const std::string &text,
                     std::size_t dimensions)
{
    TensorId id = graph.find(name);
    const std::string tensor = id.valid() ? name : withoutGradient(name);
    if (!id.valid() && tensor != name)
        id = graph.find(tensor);
    const auto tensors = graph.tensors();
    const auto matching = [&](const graph::Tensor &candidate) {
        return matches(std::string_view(tensor), candidate.name);
    };
    const bool pattern = tensor.find('*') != std::string::npos;
    const bool known =
        pattern ? std::any_of(tensors.begin(), tensors.end(), matching) : id.valid() || isOnTheWayBack(graph, name);
    if (!known)
        return badInput(pattern ? fmt::format("a sharding is given for \"{}\", which no tensor of model {} matches",
                                              tensor, graph.name())
                                : fmt::format("a sharding is given for tensor \"{}\", which model {} does not have",
                                              tensor, graph.name()));
    const auto sbp = sharding::fromText(text);
    if (!sbp)
        return badInput(fmt::format("sharding of \"{}\": {}", tensor, sbp.error().message));
    if (sbp->size() != dimensions)
        return badInput(fmt::format("the sharding \"{}\" of \"{}\" has {} parts for a mesh of {} dimensions", text,
                                    tensor, sbp->size(), dimensions));
    const bool parameter = !pattern && id.valid() && graph.tensor(id).role == graph::TensorRole::Parameter;
    if (parameter && sbp->front().kind != sharding::Sbp::Kind::Broadcast)
        return badInput(fmt::format("the sharding \"{}\" of parameter \"{}\" must begin with B, as replicas share it; "
                                    "memory.zero spreads parameters over them",
                                    text, tensor));
    return {};
}

Status checkShardings(const Plan &plan, std::size_t index, const graph::Graph &graph)
{
    const Stage &stage = plan.stages[index];
    if (graph::isLayerProfile(graph) && (stage.zero > 1 || stage.shards() > 1))
        return badInput(fmt::format("{}: model {} is a layer profile, which does not say what its layers would gather "
                                    "and scatter; use ZeRO level 0 or 1 and meshes of replicas only",
                                    stageLabel(plan, index), graph.name()));
    // Often the shardings of a whole model are given to each of its stages.
    if (index > 0 && stage.shardings == plan.stages[index - 1].shardings
        && stage.mesh.size() == plan.stages[index - 1].mesh.size())
        return {};
    for (const auto &[tensor, text] : stage.shardings) {
        if (Status status = checkSharding(graph, tensor, text, stage.mesh.empty() ? 1 : stage.mesh.size()); !status)
            return badInput(fmt::format("{}: {}", stageLabel(plan, index), status.error().message));
    }
    return {};
}

/// A hand-made order of one device: every pass of its stages once, each after the one that it needs.
Status checkOrder(const Plan &plan, const std::vector<std::size_t> &stages, const std::string &device)
{
    const std::size_t first = stages.front();
    const auto found = plan.schedule.order.find(device);
    if (found == plan.schedule.order.end())
        return badInput(
            fmt::format("schedule custom has no order for device {} of {}; list its tasks s{}.F.m0, s{}.B.m0 and so on",
                        device, stageLabel(plan, first), first, first));
    std::vector<schedule::OrderedStage> ordered;
    for (const std::size_t stage : stages)
        ordered.push_back({static_cast<std::int32_t>(stage), splitsBackward(plan.schedule, stage)});
    if (const Status status = schedule::checkOrder(found->second, ordered, plan.microBatches); !status)
        return badInput(fmt::format("the order of device {} {}", device, status.error().message));
    return {};
}

Status checkOrders(const Plan &plan, const cluster::Cluster &cluster)
{
    std::set<std::string> used;
    for (const std::vector<std::size_t> &stages : stageGroups(plan)) {
        for (const DeviceId device : plan.stages[stages.front()].devices) {
            if (Status status = checkOrder(plan, stages, cluster.device(device).name); !status)
                return status;
            used.insert(cluster.device(device).name);
        }
    }
    for (const auto &[device, order] : plan.schedule.order) {
        if (!used.contains(device))
            return badInput(fmt::format("the schedule has an order for device {}, which no stage uses", device));
    }
    return {};
}

/// What a named kind can say about stages that share devices.
Status checkInterleaving(const Plan &plan)
{
    const ScheduleKind kind = plan.schedule.kind;
    const std::vector<std::vector<std::size_t>> groups = stageGroups(plan);
    const auto shared =
        std::find_if(groups.begin(), groups.end(), [](const auto &stages) { return stages.size() > 1; });
    if (kind == ScheduleKind::Interleaved1F1B && !plan.schedule.warmup.empty())
        return badInput("schedule interleaved-1f1b sets its own warm-up; leave warmup out, or give a custom order");
    if (shared == groups.end() || kind == ScheduleKind::GPipe || kind == ScheduleKind::Custom)
        return {};
    if (kind != ScheduleKind::Interleaved1F1B)
        return badInput(fmt::format(
            "{} and {} share their devices, which schedule {} has no order for; use interleaved-1f1b, gpipe or custom",
            stageLabel(plan, shared->at(0)), stageLabel(plan, shared->at(1)), name(kind)));
    if (plan.stages.size() % groups.size() != 0)
        return badInput(fmt::format("schedule interleaved-1f1b goes round the {} groups of devices with {} stages; "
                                    "give each group as many, or a custom order",
                                    groups.size(), plan.stages.size()));
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
        const std::size_t wanted = stage % groups.size();
        if (plan.stages[stage].devices != plan.stages[wanted].devices)
            return badInput(fmt::format("schedule interleaved-1f1b goes round the {} groups of devices, so {} must lie "
                                        "on the devices of {}; move it, or give a custom order",
                                        groups.size(), stageLabel(plan, stage), stageLabel(plan, wanted)));
    }
    return {};
}

Status checkSchedule(const Plan &plan, const cluster::Cluster &cluster)
{
    const Schedule &schedule = plan.schedule;
    if (!scheduleFromName(name(schedule.kind)))
        return badInput(
            fmt::format("the schedule is of an unknown kind; there are {}", fmt::join(scheduleNames(), ", ")));
    if (!schedule.warmup.empty() && schedule.warmup.size() != plan.stages.size())
        return badInput(fmt::format("the schedule gives {} warm-up depths for {} stages; give one each, or none",
                                    schedule.warmup.size(), plan.stages.size()));
    for (std::size_t i = 0; i < schedule.warmup.size(); ++i) {
        if (schedule.warmup[i] < 1)
            return badInput(
                fmt::format("the warm-up of {} is {}; it must be at least 1", stageLabel(plan, i), schedule.warmup[i]));
    }
    if (Status status = checkInterleaving(plan); !status)
        return status;
    if (schedule.kind == ScheduleKind::Custom)
        return checkOrders(plan, cluster);
    if (!schedule.order.empty())
        return badInput(
            fmt::format("the schedule lists an order of tasks but is of kind {}; make it custom or leave the order out",
                        name(schedule.kind)));
    return {};
}

bool within(double value, double least, double below)
{
    return std::isfinite(value) && value >= least && value < below;
}

Status checkLearningRate(const LearningRateSchedule &schedule)
{
    if (!learningRateKindFromName(name(schedule.kind)))
        return badInput("the learning-rate schedule is of an unknown kind; there are constant, linear and cosine");
    if (schedule.warmupSteps < 0 || schedule.totalSteps < 0)
        return badInput(
            fmt::format("the learning-rate schedule has {} warm-up steps and ends at step {}; neither may be negative",
                        schedule.warmupSteps, schedule.totalSteps));
    if (schedule.totalSteps > 0 && schedule.totalSteps <= schedule.warmupSteps)
        return badInput(fmt::format("the learning-rate schedule ends at step {}, within its {} warm-up steps; let it "
                                    "end later, or at 0 for the run's last step",
                                    schedule.totalSteps, schedule.warmupSteps));
    if (!(schedule.minimum >= 0 && schedule.minimum <= 1))
        return badInput(
            fmt::format("the learning rate falls to {} times itself; give a factor from 0 to 1", schedule.minimum));
    return {};
}

/// A parameter's place in the graph, as groups see it.
bool matchesAny(const std::string &match, const graph::Graph &graph)
{
    return std::any_of(graph.tensors().begin(), graph.tensors().end(), [&](const graph::Tensor &tensor) {
        return tensor.role == graph::TensorRole::Parameter
            && matchesParameter(match, tensor.name, tensor.shape.dims().size());
    });
}

bool averagesAny(const Exchange &exchange, const graph::Graph &graph)
{
    return std::any_of(graph.tensors().begin(), graph.tensors().end(), [&](const graph::Tensor &tensor) {
        return tensor.role == graph::TensorRole::Parameter
            && exchange.policyOf(exchange.groupOf(tensor.name, tensor.shape.dims().size()))
            == ExchangePolicy::DelayedAveraging;
    });
}

Status checkExchange(const Exchange &exchange, const graph::Graph &graph)
{
    const auto isKnown = [](ExchangePolicy policy) { return findExchangePolicy(name(policy)); };
    if (const auto known = isKnown(exchange.policy); !known)
        return known.error();
    for (const ExchangeGroup &group : exchange.groups) {
        if (const auto known = isKnown(group.policy); !known)
            return known.error();
        if (!matchesAny(group.match, graph))
            return badInput(fmt::format(
                "exchange group \"{}\" matches no parameter of model {}; give a name, a pattern with *, or rank<N",
                group.match, graph.name()));
    }
    if (Status dense = checkDense(exchange); !dense)
        return dense;
    if (exchange.averages() && !averagesAny(exchange, graph))
        return badInput(
            fmt::format("exchange dasgd averages no parameter of model {}, as tables and groups have all of "
                        "them; leave out dense=dasgd, or a table",
                        graph.name()));
    return exchange.averages() ? check(exchange.averaging) : Status();
}

/// What local steps need: replicas that are whole models, each with an update that looks at nothing of the others.
Status checkAveraged(const Plan &plan, const cluster::Cluster &cluster)
{
    const Stage &first = plan.stages.front();
    const auto sharesOf = [](const Stage &stage) {
        return stage.replicaShares.empty()
            ? std::vector<double>(stage.replicas(), 1.0 / static_cast<double>(stage.replicas()))
            : stage.replicaShares;
    };
    if (first.replicas() < 2)
        return badInput("exchange dasgd averages over replicas, and stage 0 has one; give every stage at least two, or "
                        "exchange by all-reduce");
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const Stage &stage = plan.stages[s];
        constexpr double kRounding = 1e-9;
        const std::vector<double> shares = sharesOf(stage);
        const std::vector<double> expected = sharesOf(first);
        const bool same = std::equal(shares.begin(), shares.end(), expected.begin(), expected.end(),
                                     [](double a, double b) { return std::abs(a - b) < kRounding; });
        if (!same)
            return badInput(
                fmt::format("exchange dasgd needs the same replicas in every stage, each with the same share "
                            "of the samples: stage {} has {} with shares {:.3g}, stage 0 has {} with {:.3g}",
                            s, stage.replicas(), fmt::join(shares, ", "), first.replicas(), fmt::join(expected, ", ")));
        if (stage.zero > 0)
            return badInput(fmt::format("stage {} has ZeRO {}, which updates a shard of summed gradients on each "
                                        "replica; exchange dasgd needs ZeRO 0",
                                        s, stage.zero));
    }
    if (plan.exchange.averaging.inside == Inside::Machine) {
        const std::vector<std::int32_t> machines = replicaMachines(plan, cluster);
        if (machines.size() == std::set<std::int32_t>(machines.begin(), machines.end()).size())
            return badInput("exchange dasgd sums up gradients inside each machine, and no two replicas lie on the same "
                            "machines; leave out inside, or plan for machines with several devices");
    }
    if (plan.optimizer.clipNorm > 0)
        return badInput(
            "gradients are clipped by their norm over all replicas, which exchange dasgd never sums up; set "
            "clip_norm to 0 (leave out --clip-norm)");
    if (plan.optimizer.rule.formula().norms > 0)
        return badInput(fmt::format("update rule {} takes norms over all ranks, whose parameters differ under exchange "
                                    "dasgd; use one without norms, such as sgd or adamw",
                                    plan.optimizer.rule.name()));
    return {};
}

/// What servers need that update parameters element by element, each when its gradients are there.
Status checkServed(const Plan &plan)
{
    for (const ExchangeGroup &group : plan.exchange.groups) {
        if (group.policy == ExchangePolicy::ParameterServer)
            return badInput(
                fmt::format("exchange group \"{}\" is parameter-server, which takes all parameters or none; set "
                            "exchange.kind",
                            group.match));
    }
    if (plan.exchange.policy != ExchangePolicy::ParameterServer)
        return {};
    if (!plan.job)
        return badInput(
            "exchange parameter-server needs servers, which are roles of a sampled job; plan with --planner gnn "
            "--set servers=1, or exchange by all-reduce");
    if (plan.stages.front().zero > 0)
        return badInput(
            fmt::format("stage 0 has ZeRO {}, and exchange parameter-server leaves nothing to replicas that they "
                        "could cut; set zero to 0",
                        plan.stages.front().zero));
    if (plan.precision != Precision::Float32)
        return badInput(
            fmt::format("exchange parameter-server hands out parameters in float32, and the plan trains in {}; "
                        "set precision to {}",
                        name(plan.precision), name(Precision::Float32)));
    if (plan.optimizer.clipNorm > 0)
        return badInput(
            "gradients are clipped by the norm of all of them, and each server has a part; set clip_norm to 0 "
            "(leave out --clip-norm)");
    if (plan.optimizer.rule.formula().norms > 0)
        return badInput(
            fmt::format("update rule {} takes norms of whole parameters, which servers cut; use one without "
                        "norms, such as sgd or adamw",
                        plan.optimizer.rule.name()));
    return {};
}

/// What sums that end in the next step need: updates of single buckets, and sums.
Status checkAcrossSteps(const Plan &plan)
{
    if (plan.admm || plan.job)
        return badInput(
            fmt::format("exchange across_steps is of sums of gradients of whole steps, and {}; leave across_steps out",
                        plan.admm ? "training by ADMM has no gradients"
                                  : "a sampled job asks for each mini-batch before its step"));
    if (plan.exchange.averages())
        return badInput("exchange across_steps is of sums of gradients, and exchange dasgd averages parameters; leave "
                        "one out");
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        if (plan.stages[s].zero > 0)
            return badInput(fmt::format("stage {} has ZeRO {}, whose updates are followed by communication of their "
                                        "own; exchange across_steps needs ZeRO 0",
                                        s, plan.stages[s].zero));
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        if (plan.stages[s].memory.hostStates)
            return badInput(
                fmt::format("stage {} keeps the optimizer's state on the host between its updates, and exchange "
                            "across_steps updates each bucket on its own; set optimizer_state to device, or "
                            "leave out across_steps",
                            s));
    if (std::none_of(plan.stages.begin(), plan.stages.end(), [](const Stage &stage) { return stage.replicas() > 1; }))
        return badInput("exchange across_steps has no sums that could end in the next step, as no stage has replicas; "
                        "leave it out");
    if (plan.optimizer.clipNorm > 0)
        return badInput("gradients are clipped by their norm, which is known when all sums have ended; set clip_norm "
                        "to 0 (leave out --clip-norm), or leave out across_steps");
    if (plan.optimizer.rule.formula().norms > 0)
        return badInput(fmt::format("update rule {} takes norms that all ranks agree on behind all sums; use one "
                                    "without norms, such as sgd or adamw, or leave out across_steps",
                                    plan.optimizer.rule.name()));
    return {};
}

Status checkGroups(const Optimizer &optimizer, const graph::Graph &graph)
{
    for (const ParameterGroup &group : optimizer.groups) {
        if (!within(group.weightDecay, 0, 1e9) || !within(group.learningRateFactor, 0, 1e9))
            return badInput(fmt::format("parameter group \"{}\" has a weight decay of {} and a learning rate factor of "
                                        "{}; neither may be negative",
                                        group.match, group.weightDecay, group.learningRateFactor));
        if (!matchesAny(group.match, graph))
            return badInput(fmt::format(
                "parameter group \"{}\" matches no parameter of model {}; give a name, a pattern with *, or rank<N",
                group.match, graph.name()));
    }
    return {};
}

Status checkOptimizer(const Optimizer &optimizer)
{
    if (!within(optimizer.learningRate, 0, 1e9))
        return badInput(fmt::format("the learning rate is {}; it must not be negative", optimizer.learningRate));
    if (Status status = optimizer.rule.check(); !status)
        return status;
    if (!within(optimizer.weightDecay, 0, 1e9))
        return badInput(fmt::format("the weight decay is {}; it must not be negative", optimizer.weightDecay));
    if (!within(optimizer.clipNorm, 0, 1e30))
        return badInput(fmt::format(
            "gradients are clipped to a norm of {}; give a clip_norm (--clip-norm) above 0, or 0 for no clipping",
            optimizer.clipNorm));
    return checkLearningRate(optimizer.schedule);
}

/// A policy of memory works on the operators of one stage of its own devices.
Status checkMemory(const Plan &plan, std::size_t index, const Subject &subject)
{
    const Stage &stage = plan.stages[index];
    if (!stage.memory.limits())
        return {};
    if (Status status = check(stage.memory); !status)
        return status;
    const auto refused = [&](const char *why) { return badInput(stageLabel(plan, index) + why); };
    if (stage.recompute == Recompute::Full)
        return refused(" recomputes all of its forward pass, and its memory policy chooses what to recompute; set "
                       "recompute to none, or the policy to none");
    const auto sameDevices = [&](const Stage &other) { return other.devices == stage.devices; };
    if (std::count_if(plan.stages.begin(), plan.stages.end(), sameDevices) > 1)
        return refused(" shares its devices with other stages, and a memory policy needs them to itself; give the "
                       "stages devices of their own, or the policy none");
    if (graph::isLayerProfile(*subject.graph))
        return refused(" has a memory policy, and the model is a profile of layers without operators; give a model "
                       "with operators, or the policy none");
    // Steps by another course begin where nothing of the steps before is under way.
    if (stage.memory.measures() && (plan.exchange.averages() || plan.exchange.acrossSteps || plan.exchange.hasTables()))
        return refused(" has a memory policy with clock=measured, and the exchange keeps averages, sums or rows from "
                       "step to step; give clock=logical, or another exchange");
    if (stage.memory.measures() && plan.job)
        return refused(" has a memory policy with clock=measured, and the plan's job has processes beside the ranks; "
                       "give clock=logical");
    return checkHostedParameters(plan, index);
}

} // namespace

std::string stageLabel(const Plan &plan, std::size_t stage)
{
    const std::string &given = plan.stages[stage].name;
    const bool plain = given.empty() || given == fmt::format("stage{}", stage);
    return plain ? fmt::format("stage {}", stage) : fmt::format("stage {} (\"{}\")", stage, given);
}

Status validate(const Plan &plan, const Subject &subject)
{
    Field field;
    return validate(plan, subject, field);
}

Status validate(const Plan &plan, const Subject &subject, Field &field)
{
    field.clear();
    if (!subject.graph || !subject.cluster || !subject.costs)
        return badInput("the plan has no model or no cluster; load both first");
    field = {"stages"};
    if (plan.stages.empty())
        return badInput("the plan has no stages; it needs at least one");
    field = {"exchange"};
    if (Status status = checkExchange(plan.exchange, *subject.graph); !status)
        return status;
    if (plan.bucketBytes < 0)
        return badInput(fmt::format(
            "gradients are exchanged in buckets of {} bytes; give at least 1, or 0 for all at once", plan.bucketBytes));
    field = {"micro_batches"};
    if (Status status = checkBatch(plan); !status)
        return status;
    if (Status status = checkLayers(plan, subject.layers(), field); !status)
        return status;
    if (Status status = checkDevices(plan, *subject.cluster, field); !status)
        return status;
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        field = stageField(i);
        if (Status status = checkMesh(plan, i); !status)
            return status;
        if (Status status = checkShares(plan, i); !status)
            return status;
        if (Status status = checkSlices(plan, i, *subject.cluster); !status)
            return status;
        if (Status status = checkShardings(plan, i, *subject.graph); !status)
            return status;
        if (Status status = checkMemory(plan, i, subject); !status)
            return status;
    }
    field = {"annotations"};
    if (const auto annotated = annotatedLayers(plan.annotations, *subject.graph, subject.layers()); !annotated)
        return annotated.error();
    field = {"schedule"};
    if (Status status = checkSchedule(plan, *subject.cluster); !status)
        return status;
    std::string jobField;
    if (Status status = validateJob(plan, subject, jobField); !status) {
        field = {jobField};
        return status;
    }
    std::string trainingField;
    if (Status status = validateAdmm(plan, subject, trainingField); !status) {
        field = {trainingField};
        return status;
    }
    field = {"optimizer"};
    if (Status status = checkOptimizer(plan.optimizer); !status)
        return status;
    field = {"exchange"};
    if (Status status = plan.exchange.acrossSteps ? checkAcrossSteps(plan) : Status(); !status)
        return status;
    if (Status status = plan.exchange.averages() ? checkAveraged(plan, *subject.cluster) : Status(); !status)
        return status;
    if (Status status = checkTables(plan, subject); !status)
        return status;
    if (Status status = checkServed(plan); !status)
        return status;
    field = {"optimizer"};
    return checkGroups(plan.optimizer, *subject.graph);
}

} // namespace planloom::plan
