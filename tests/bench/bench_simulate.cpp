// SPDX-License-Identifier: Apache-2.0
// 64 stages x 512 micro-batches on 64 devices: compiling the plan, the cost clock alone, and a whole simulation with
// trace and memory curves, against the budget of 100 ms. Then 8 processor devices that share 2 cores, 4 replicas of 2
// with tensor parallelism: the cost clock alone, against that on a core for each.
#include "engine/compile/compile.h"
#include "engine/import/import.h"
#include "engine/simulate/simulate.h"
#include "tests/engine/compile/random_plans.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

using namespace planloom;

constexpr std::size_t kStages = 64;
constexpr double kBudgetMilliseconds = 100;
constexpr int kRuns = 9;

double median(const std::function<bool()> &work)
{
    std::vector<double> milliseconds;
    for (int run = 0; run < kRuns; ++run) {
        const auto begin = std::chrono::steady_clock::now();
        if (!work())
            return -1;
        milliseconds.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    return milliseconds[kRuns / 2];
}

plan::Plan straight(const plan::Subject &subject)
{
    plan::Plan plan;
    plan.globalBatch = 512;
    plan.microBatches = 512;
    const std::size_t layers = subject.layers().size();
    for (std::size_t s = 0; s < kStages; ++s) {
        plan::Stage stage;
        stage.name = "s" + std::to_string(s);
        stage.firstLayer = s * layers / kStages;
        stage.lastLayer = (s + 1) * layers / kStages;
        stage.devices = {DeviceId(static_cast<std::int64_t>(s))};
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

/// A machine with 8 processor devices and so many cores.
plan::Subject subjectOn(int cores)
{
    using cluster::Link;
    cluster::ClusterBuilder builder("machine");
    const std::size_t type = builder.type({"CPU", {{"float32", 1e11}}, Bytes(std::int64_t{1} << 34), 1e10});
    const NodeId node = builder.node("n0", cores);
    const std::size_t inside = builder.vertex({cluster::Vertex::Kind::Switch, "switch", {}, node});
    for (int device = 0; device < 8; ++device)
        builder.link(
            {Link::Kind::Pcie, builder.vertexOf(builder.device(node, type)), inside, 1e10, 1e10, Seconds(1e-6), true});
    auto profile = std::make_shared<cost::Profile>();
    profile->deviceType = "CPU";
    profile->extra[cost::kCoreSecondsPerByte] = 2e-10;
    return plan::makeSubject(testing::tinyGpt(false, 16),
                             std::make_shared<const cluster::Cluster>(*std::move(builder).build()), std::move(profile),
                             "gpt of 16 layers");
}

/// Milliseconds of the clock on them; less than 0: it failed.
double clockOn(int cores, std::size_t &tasks)
{
    const plan::Subject subject = subjectOn(cores);
    const auto program = compile::compilePlan(testing::planOf(subject, {{4, 2}}, 64, 16), subject, {.bodies = false});
    if (!program)
        std::fprintf(stderr, "%s\n", program.error().text().c_str());
    tasks = program ? program->tasks.size() : 0;
    return program ? median([&] { return simulate::iterationSeconds(*program).ok(); }) : -1;
}

} // namespace

int main()
{
    const auto model = import::readHuggingFaceConfig(
        R"({"model_type": "gpt2", "n_layer": 64, "n_head": 8, "n_embd": 512, "vocab_size": 50257, "n_positions": 1024})",
        "config.json");
    cluster::RegularCluster spec;
    spec.name = "8 x 8";
    spec.nodes = 8;
    spec.perNode = 8;
    spec.type = *cluster::knownDeviceType("H100-SXM");
    spec.intraBandwidth = 3e11;
    spec.interPointToPoint = 4e10;
    spec.interCollective = 4e10;
    const auto cluster = std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
    const plan::Subject subject = plan::makeSubject(model->graph, cluster, nullptr, "gpt2 of 64 layers");
    const plan::Plan plan = straight(subject);
    const auto program = compile::compilePlan(plan, subject, {.bodies = false});
    if (!program) {
        std::fprintf(stderr, "%s\n", program.error().text().c_str());
        return 1;
    }
    const double compile = median([&] { return compile::compilePlan(plan, subject, {.bodies = false}).ok(); });
    const double clock = median([&] { return simulate::iterationSeconds(*program).ok(); });
    const double whole = median([&] { return simulate::simulate(*program, *cluster).ok(); });
    std::printf("64 stages x 512 micro-batches, %zu tasks, medians of %d\n", program->tasks.size(), kRuns);
    std::printf("  compile          %6.1f ms\n  clock alone      %6.1f ms\n  whole simulation %6.1f ms\n", compile,
                clock, whole);
    std::printf("  ratio of the whole simulation to the clock: %.1f; to the budget of %.0f ms: %.2f\n", whole / clock,
                kBudgetMilliseconds, whole / kBudgetMilliseconds);
    std::size_t tasks = 0;
    const double own = clockOn(8, tasks);
    const double shared = clockOn(2, tasks);
    std::printf("8 devices, %zu tasks: clock on 8 cores %.2f ms, on 2 shared cores %.2f ms; ratio %.2f\n", tasks, own,
                shared, shared / own);
    return own < 0 || shared < 0 || compile < 0 || clock < 0 || whole < 0 ? 1 : 0;
}
