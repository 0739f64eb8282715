// SPDX-License-Identifier: Apache-2.0
#include "gpu/check/training.h"

#include "engine/compile/compile.h"
#include "engine/trace/ring.h"
#include "executor/comm/local_group.h"
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

Result<Trained> train(const plan::Subject &subject, const plan::Plan &plan, std::int64_t steps, device::Device *device)
{
    constexpr std::chrono::minutes kDeadline{10}; // an emulated GPU is slow
    const auto program = compile::compilePlan(plan, subject);
    if (!program)
        return program.error();
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
    options.device = device;
    options.onStep = [&](const run::StepMetrics &step) {
        trained.losses.push_back(step.loss);
        trained.seconds.push_back(step.seconds);
    };
    auto executor = runtime::RankExecutor::create(*program, *subject.graph, *communicator, feed, ring, options);
    if (!executor)
        return executor.error();
    if (const Status ran = (*executor)->run(); !ran)
        return ran.error();
    trained.arenaPlanned = program->ranks.front().arenaBytes;
    trained.arenaUsed = (*executor)->peakBytes();
    return trained;
}

} // namespace planloom::check
