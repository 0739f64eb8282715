// SPDX-License-Identifier: Apache-2.0
// The oneflow planner's search on transformers of 12 and of 96 layers: what it takes, against compiling and simulating
// one plan.
#include "engine/graph/zoo/zoo.h"
#include "planners/oneflow/layout.h"
#include "planners/registry.h"

#include <chrono>
#include <cstdio>

namespace {

using namespace planloom;

template <class Work>
double seconds(Work work)
{
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int search(std::int64_t layers)
{
    graph::TransformerConfig config;
    config.layers = layers;
    config.hidden = 1024;
    config.heads = 16;
    config.feedForward = 4096;
    auto graph = graph::gpt(config);
    auto cluster = cluster::preset("h100-8");
    if (!graph || !cluster)
        return 1;
    planners::Problem problem;
    problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(std::move(*graph)),
                                        std::make_shared<const cluster::Cluster>(std::move(*cluster)), nullptr, "gpt");
    problem.globalBatch = 8;
    const graph::Graph &model = *problem.subject.graph;
    const auto training =
        graph::differentiate(model, OpId(0), OpId(static_cast<std::int32_t>(model.ops().size())), {}, {});
    if (!training)
        return 1;
    planners::oneflow::LineSetting setting;
    setting.costs = problem.subject.costs.get();
    for (const cluster::Device &device : problem.subject.cluster->devices())
        setting.line.push_back(device.id);
    setting.replicas = {setting.line.front()};
    setting.samples = 8;
    planners::oneflow::Solution solution;
    std::size_t nodes = 0;
    const double build = seconds([&] {
        const planners::oneflow::LineSpace space(*training, setting);
        nodes = space.graph(0).nodes.size();
    });
    const planners::oneflow::LineSpace space(*training, setting);
    const double solve = seconds([&] { solution = planners::oneflow::solve(space.graph(0)); });
    double simulated = 0;
    NoProgress progress;
    const double whole = seconds([&] {
        const auto report = (*planners::findPlanner("oneflow"))->plan(problem, {{"dimensions", "2"}}, progress);
        simulated = report ? report->plan.estimate.at("layouts_simulated") : 0;
    });
    std::printf("%3lld layers: %zu operators, %zu nodes; costs %.3f s, elimination %.4f s (%s, largest table %zu); the "
                "planner %.2f s with %.0f layouts simulated\n",
                static_cast<long long>(layers), training->graph.ops().size(), nodes, build, solve,
                solution.exact ? "exact" : "refined", solution.largestTable, whole, simulated);
    return 0;
}

} // namespace

int main() { return search(12) + search(96); }
