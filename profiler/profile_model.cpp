// SPDX-License-Identifier: Apache-2.0
#include "profiler/profile_model.h"

#include "engine/compile/compile.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/device/plugin/library.h"
#include "profiler/host_copies.h"
#include "profiler/kernel_times.h"
#include "profiler/measurement.h"
#include "profiler/row_times.h"
#include "profiler/shared_reduction.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <set>
#include <thread>

namespace planloom::profiler {
namespace {

constexpr std::int64_t kMostSamples = 1 << 20;
constexpr int kMostRanks = 256;

Status check(const ProfileOptions &options)
{
    if (options.samples.empty())
        return badInput("no sample count is given to measure at; name at least one, such as 1");
    for (const std::int64_t samples : options.samples) {
        if (samples < 1 || samples > kMostSamples)
            return badInput(
                fmt::format("{} samples cannot be measured; name counts from 1 to {}", samples, kMostSamples));
    }
    if (options.ranks < 1 || options.ranks > kMostRanks || options.threads < 0 || options.repetitions < 0)
        return badInput(fmt::format("{} ranks of {} threads, {} times, cannot be measured", options.ranks,
                                    options.threads, options.repetitions));
    return {};
}

/// What is measured on.
struct Place {
    std::unique_ptr<device::PluginDevice> gpu; ///< nullptr: the processors
    int index = 0;                             ///< of the GPU

    [[nodiscard]] device::Device &device() const { return gpu ? *gpu : device::cpuDevice(); }
};

Result<Place> placeOf(const std::string &name)
{
    constexpr std::string_view kCuda = "cuda:";
    Place place;
    if (name == "cpu")
        return place;
    const char *end = name.data() + name.size();
    const bool cuda = name.starts_with(kCuda);
    const auto number = cuda ? std::from_chars(name.data() + kCuda.size(), end, place.index)
                             : std::from_chars_result{nullptr, std::errc::invalid_argument};
    if (number.ec != std::errc() || number.ptr != end)
        return unsupported(fmt::format("operators cannot be measured on '{}'; 'cpu' can, and 'cuda:0'", name));
    auto gpu = device::openCudaDevice(place.index);
    if (!gpu)
        return gpu.error();
    place.gpu = std::move(*gpu);
    return place;
}

/// The family of a GPU whose types are built in ("H100" for "NVIDIA H100 80GB HBM3"); else @p name.
std::string familyOf(const std::string &name)
{
    for (const std::string &type : cluster::knownDeviceTypeNames()) {
        std::string family = type.substr(0, type.find('-'));
        if (name.find(family) != std::string::npos)
            return family;
    }
    return name;
}

/// The model on one device, one slice of @p samples per step: measured by each rank.
Result<program::Program> programOf(const std::shared_ptr<const graph::Graph> &graph, std::int64_t samples,
                                   const plan::Optimizer &optimizer)
{
    cluster::RegularCluster spec;
    spec.name = "profiled";
    spec.type = {
        "CPU", {{"float32", 1e11}}, Bytes(std::int64_t{1} << 50), 1e10}; // only its memory matters: it must not bind
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e9;
    auto cluster = cluster::regular(spec);
    if (!cluster)
        return cluster.error();
    const auto subject =
        plan::makeSubject(graph, std::make_shared<const cluster::Cluster>(std::move(*cluster)), nullptr, {});
    plan::Plan plan;
    plan.globalBatch = samples;
    plan.optimizer = optimizer;
    plan::Stage stage;
    stage.name = "all";
    stage.lastLayer = subject.layers().size();
    stage.devices = {DeviceId(0)};
    plan.stages.push_back(std::move(stage));
    return compile::compilePlan(plan, subject);
}

/// Which operator of the model each operator of the training graph works for.
std::vector<std::string> ownersOf(const graph::Graph &model, const graph::TrainingGraph &training)
{
    std::set<std::string, std::less<>> names;
    for (const graph::Op &op : model.ops())
        names.insert(op.name);
    std::vector<std::string> owners;
    for (const graph::Op &op : training.graph.ops()) {
        constexpr std::string_view kGradient = "grad/";
        std::string_view name = op.name;
        if (owners.size() < training.forwardOps || !name.starts_with(kGradient)) {
            owners.emplace_back(owners.size() < training.forwardOps ? op.name : owners.back());
            continue;
        }
        name.remove_prefix(kGradient.size());
        const TensorId tensor = model.find(name.substr(0, name.rfind('#')));
        if (tensor.valid() && model.tensor(tensor).producer.valid()) { // a sum of gradients
            owners.push_back(model.op(model.tensor(tensor).producer).name);
            continue;
        }
        std::string_view owner = name.substr(0, std::min(name.rfind('/'), name.size()));
        const auto found = names.find(owner);
        owners.push_back(found != names.end() ? *found : owners.back());
    }
    return owners;
}

/// Times of the model's own operators, with those of their gradients, by name.
void addOperators(cost::Profile &profile, const graph::Graph &graph, const Measurement &measured, std::int64_t samples)
{
    const graph::TrainingGraph &training = measured.program().bodies.front().training;
    const std::vector<std::string> owners = ownersOf(graph, training);
    std::map<std::string, cost::OpTime> times;
    for (const graph::Op &op : graph.ops())
        times[op.name].samples = static_cast<double>(samples);
    const auto forward = medianOperators(measured.ranks(), &RankTimes::forward, samples);
    const auto backward = medianOperators(measured.ranks(), &RankTimes::backward, samples);
    for (std::size_t i = 0; i < forward.size(); ++i)
        times[owners[i]].forward += Seconds(forward[i]);
    for (std::size_t i = 0; i < backward.size(); ++i)
        times[owners[training.forwardOps + i]].backward += Seconds(backward[i]);
    for (const auto &[name, time] : times)
        profile.ops[name].push_back(time);
}

std::string sourceText(const ProfileOptions &options, const Place &place, int ranks)
{
    if (place.gpu)
        return fmt::format("measured on {} ({}) by planloom", options.device, place.gpu->name());
    return fmt::format("measured on this machine ({} cores) by planloom: {} rank(s) at a time, {} thread(s) each",
                       std::thread::hardware_concurrency(), ranks,
                       options.threads > 0 ? std::to_string(options.threads)
                                           : std::string("its share of the cores in"));
}

/// A profile without times.
cost::Profile begunProfile(const graph::Graph &graph, const ProfileOptions &options, const Place &place, int ranks)
{
    cost::Profile profile;
    profile.model = graph.name();
    profile.deviceType = "CPU";
    if (place.gpu)
        profile.deviceType = options.deviceType.empty() ? familyOf(place.gpu->name()) : options.deviceType;
    profile.source = sourceText(options, place, ranks);
    profile.ranks = ranks;
    return profile;
}

bool isOnProcessor(const program::Program &program, const plan::Subject &subject, std::size_t rank)
{
    return subject.cluster->typeOf(program.ranks[rank].device).isProcessor();
}

bool areApart(const cluster::Cluster &cluster)
{
    return std::ranges::any_of(cluster.nodes(), [](const cluster::Node &node) { return !node.host.address.empty(); });
}

/// The ranks of each machine; of machines whose ranks do the same, one.
std::vector<std::vector<RankId>> groupsOfMachines(const program::Program &program, const cluster::Cluster &cluster)
{
    std::map<std::int32_t, std::vector<RankId>> machines;
    for (std::size_t r = 0; r < program.ranks.size(); ++r)
        machines[cluster.device(program.ranks[r].device).node.value].push_back(RankId(static_cast<std::int64_t>(r)));
    std::set<std::vector<std::size_t>> seen;
    std::vector<std::vector<RankId>> groups;
    for (const auto &[node, ranks] : machines) {
        std::vector<std::size_t> bodies;
        for (const RankId rank : ranks)
            bodies.push_back(program.ranks[rank.index()].bodies.front().index());
        if (seen.insert(bodies).second)
            groups.push_back(ranks);
    }
    return groups;
}

/// The ranks that are measured together: all of a machine, or, on a GPU, one of each body.
std::vector<std::vector<RankId>> groupsOf(const program::Program &program, const plan::Subject &subject,
                                          const Place &place)
{
    if (!place.gpu && areApart(*subject.cluster))
        return groupsOfMachines(program, *subject.cluster);
    std::vector<std::vector<RankId>> groups(place.gpu ? 0 : 1);
    std::set<std::size_t> bodies;
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
        const RankId rank(static_cast<std::int64_t>(r));
        if (!place.gpu)
            groups.front().push_back(rank);
        else if (!isOnProcessor(program, subject, r) && bodies.insert(program.ranks[r].bodies.front().index()).second)
            groups.push_back({rank});
    }
    return groups;
}

} // namespace

std::vector<std::int64_t> samplesOf(const plan::Plan &plan)
{
    std::set<std::int64_t> sizes;
    for (std::int64_t m = 0; m < plan.microBatches; ++m) {
        const std::int64_t samples = plan::microBatchRange(plan, m).size;
        for (const plan::Stage &stage : plan.stages) {
            for (std::size_t replica = 0; replica < stage.replicas(); ++replica)
                sizes.insert(plan::replicaRange(stage, replica, samples).size);
        }
    }
    sizes.erase(0);
    return {sizes.begin(), sizes.end()};
}

int ranksOf(const plan::Plan &plan) { return static_cast<int>(plan::devicesOf(plan).size()); }

int ranksOfMachine(const plan::Plan &plan, const cluster::Cluster &cluster)
{
    if (!areApart(cluster))
        return ranksOf(plan);
    std::map<std::int32_t, int> ranks;
    int most = 0;
    for (const DeviceId device : plan::devicesOf(plan))
        most = std::max(most, ++ranks[cluster.device(device).node.value]);
    return most;
}

Result<cost::Profile> profileModel(const std::shared_ptr<const graph::Graph> &graph, const ProfileOptions &options,
                                   Progress &progress)
{
    if (const Status good = check(options); !good)
        return good.error();
    const auto needs = data::needsOf(*graph);
    if (!needs)
        return needs.error();
    const auto place = placeOf(options.device);
    if (!place)
        return place.error();
    cost::Profile profile = begunProfile(*graph, options, *place, options.ranks);
    const auto ranks = static_cast<std::size_t>(place->gpu ? 1 : options.ranks);
    KernelTimes kernels;
    const std::set<std::int64_t> sizes(options.samples.begin(), options.samples.end());
    std::size_t done = 0;
    for (const std::int64_t samples : sizes) {
        progress.report(static_cast<double>(done++) / static_cast<double>(sizes.size()),
                        fmt::format("measuring {} sample(s)", samples));
        const auto program = programOf(graph, samples, options.optimizer);
        if (!program)
            return program.error();
        Measurement measurement(*program, std::vector<RankId>(ranks, RankId(0)), *graph, *needs, options,
                                place->device());
        if (const Status measured = measurement.run([&] { return progress.stopped(); }); !measured)
            return measured.error();
        addOperators(profile, *graph, measurement, samples);
        kernels.add(measurement);
    }
    kernels.finish(profile);
    if (ranks > 1)
        profile.extra["allreduce_bytes_per_second"] = sharedReductionRate(options.ranks, graph->parameterBytes());
    if (!place->gpu)
        profile.extra["host_copy_bytes_per_second"] = hostCopyRate(options.ranks);
    progress.report(1, "measured");
    return profile;
}

Result<cost::Profile> profilePlan(const plan::Plan &plan, const plan::Subject &subject, const ProfileOptions &options,
                                  Progress &progress)
{
    if (const Status good = check(options); !good)
        return good.error();
    const auto needs = data::needsOf(*subject.graph);
    if (!needs)
        return needs.error();
    const auto place = placeOf(options.device);
    if (!place)
        return place.error();
    progress.report(0, "measuring the plan's operators");
    const auto program = compile::compilePlan(plan, subject);
    if (!program)
        return program.error();
    ProfileOptions how = options;
    how.optimizer = plan.optimizer;
    cost::Profile profile = begunProfile(*subject.graph, options, *place, ranksOfMachine(plan, *subject.cluster));
    KernelTimes kernels;
    for (const std::vector<RankId> &ranks : groupsOf(*program, subject, *place)) {
        Measurement measurement(*program, ranks, *subject.graph, *needs, how, place->device());
        if (const Status measured = measurement.run([&] { return progress.stopped(); }); !measured)
            return measured.error();
        kernels.add(measurement);
    }
    kernels.finish(profile);
    if (!place->gpu)
        measureRowWork(*program, profile);
    progress.report(1, "measured");
    return profile;
}

} // namespace planloom::profiler
