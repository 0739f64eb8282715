// SPDX-License-Identifier: Apache-2.0
#include "gpu/check/training.h"

#include "engine/compile/compile.h"
#include "engine/trace/ring.h"
#include "executor/comm/local_group.h"
#include "executor/device/plugin/library.h"
#include "executor/runtime/checkpointing.h"
#include "executor/runtime/kernel_records.h"
#include "executor/runtime/rank_executor.h"
#include "profiler/replica.h"

namespace planloom::check {

namespace {

constexpr std::int64_t kSeed = 1;

cluster::DeviceType typeOf(const std::string &gpu)
{
    for (const std::string &name : cluster::knownDeviceTypeNames())
        if (gpu.find(name.substr(0, name.find('-'))) != std::string::npos)
            return *cluster::knownDeviceType(name);
    cluster::DeviceType type = *cluster::knownDeviceType("A100-40GB");
    type.name = gpu;
    return type;
}

} // namespace

Result<std::shared_ptr<const cluster::Cluster>> clusterOf(const std::string &gpu)
{
    cluster::RegularCluster spec;
    spec.name = "checked";
    spec.type = typeOf(gpu);
    spec.type.memory = Bytes(std::int64_t{1} << 50); // that there is too little is seen when it is taken
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e10;
    auto made = cluster::regular(spec);
    if (!made)
        return made.error();
    return std::make_shared<const cluster::Cluster>(std::move(*made));
}

plan::Plan planOf(const plan::Subject &subject, std::int64_t batch, std::int64_t microBatch, plan::Precision precision)
{
    plan::Plan plan;
    plan.modelName = subject.graph->name();
    plan.modelSource = subject.modelSource;
    plan.clusterName = subject.cluster->name();
    plan.globalBatch = batch;
    plan.microBatches = (batch + microBatch - 1) / microBatch;
    plan.precision = precision;
    plan.optimizer.learningRate = 1e-4;
    plan.optimizer.clipNorm = 1;
    plan::Stage stage;
    stage.name = "all";
    stage.lastLayer = subject.layers().size();
    stage.devices = {DeviceId(0)};
    plan.stages.push_back(std::move(stage));
    return plan;
}

namespace {

constexpr std::uint64_t kHashBegin = 14695981039346656037U; ///< FNV-1a
constexpr std::uint64_t kHashPrime = 1099511628211U;

Result<std::uint64_t> hashOf(runtime::RankExecutor &executor)
{
    const auto parameters = runtime::parametersOf(executor);
    if (!parameters)
        return parameters.error();
    std::uint64_t hash = kHashBegin;
    for (const auto &[name, bytes] : *parameters)
        for (const std::byte byte : bytes)
            hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * kHashPrime;
    return hash;
}

/// What a training uses beside its plan.
struct Equipment {
    device::Device *device = nullptr;
    runtime::KernelRecords *records = nullptr;
    trace::Sink *sink = nullptr; ///< nullptr: no one looks at its tasks
};

Result<Trained> trainWith(const plan::Subject &subject, const plan::Plan &plan, const program::Program &program,
                          std::int64_t steps, const Equipment &equipment)
{
    constexpr std::chrono::minutes kDeadline{10}; // an emulated GPU is slow
    const auto needs = data::needsOf(*subject.graph);
    if (!needs)
        return needs.error();
    const profiler::MadeUpData data(*needs);
    const runtime::Feed feed{&data, *needs, data::SampleOrder(data.samples(), kSeed, 0)};
    comm::LocalGroup group(1);
    const auto communicator = group.end(0);
    trace::Ring ring(1 << 16);
    Trained trained;
    runtime::ExecutorOptions options;
    options.steps = steps;
    options.seed = kSeed;
    options.optimizer = plan.optimizer;
    options.deadline = kDeadline;
    options.device = equipment.device;
    options.marks = equipment.records != nullptr ? &equipment.records->marks() : nullptr;
    options.onStep = [&](const run::StepMetrics &step) {
        trained.losses.push_back(step.loss);
        trained.seconds.push_back(step.seconds);
    };
    auto executor = runtime::RankExecutor::create(program, *subject.graph, *communicator, feed,
                                                  equipment.sink != nullptr ? *equipment.sink : ring, options);
    if (!executor)
        return executor.error();
    if (equipment.records != nullptr)
        equipment.records->begin((*executor)->origin());
    const Status ran = (*executor)->run();
    if (equipment.records != nullptr) {
        equipment.records->end();
        trained.recorded = equipment.records->counts().delivered;
    }
    if (!ran)
        return ran.error();
    const auto hash = hashOf(**executor);
    if (!hash)
        return hash.error();
    trained.parameters = *hash;
    trained.arenaPlanned = program.ranks.front().arenaBytes;
    trained.arenaUsed = (*executor)->peakBytes();
    return trained;
}

} // namespace

Result<Trained> train(const plan::Subject &subject, const plan::Plan &plan, std::int64_t steps, device::Device *device)
{
    const auto program = compile::compilePlan(plan, subject);
    if (!program)
        return program.error();
    return trainWith(subject, plan, *program, steps, {device, nullptr, nullptr});
}

Result<Trained> trainRecorded(const plan::Subject &subject, const plan::Plan &plan, std::int64_t steps, int index,
                              Recorded what)
{
    constexpr double kAllOfIt = 86400; ///< seconds of a window
    const auto program = compile::compilePlan(plan, subject);
    if (!program)
        return program.error();
    runtime::Recording recording(1 << 16);
    std::unique_ptr<runtime::KernelRecords> records; // before the device
    if (what != Recorded::Nothing) {
        const auto &library = device::cudaLibrary();
        if (!library)
            return library.error();
        const auto table = device::activityOf(**library);
        if (!table)
            return table.error();
        records = runtime::KernelRecords::open(**table, *program, RankId(0), index,
                                               what == Recorded::Kernels ? kAllOfIt : 0, recording);
        if (!records)
            return notFound("nothing is recorded");
    }
    const auto gpu = device::openCudaDevice(index);
    if (!gpu)
        return gpu.error();
    return trainWith(subject, plan, *program, steps, {gpu->get(), records.get(), &recording});
}

} // namespace planloom::check
