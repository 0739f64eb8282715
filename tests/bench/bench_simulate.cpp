// SPDX-License-Identifier: Apache-2.0
// 64 stages x 512 micro-batches on 64 devices: compiling the plan, the cost clock alone, and a whole simulation with
// trace and memory curves, against the budget of 100 ms.
#include "engine/compile/compile.h"
#include "engine/import/import.h"
#include "engine/simulate/simulate.h"

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
    return compile < 0 || clock < 0 || whole < 0 ? 1 : 0;
}
