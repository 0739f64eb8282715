// SPDX-License-Identifier: Apache-2.0
// How many plans of a transformer the joint search scores in a second on one core, against how many the simulator runs,
// and against the 630 a second of the fastest public analytic tool. Plans are random: 1 to 16 stages of random layers
// and devices.
#include "engine/import/import.h"
#include "planners/auto/space.h"
#include "tests/bench/deadline.h"

#include <cstdio>
#include <random>
#include <set>

namespace {

using namespace planloom;
using namespace planloom::planners;

constexpr double kPublicTool = 630;
constexpr double kSeconds = 2;

/// @p parts - 1 different places within (0, @p end), and the ends.
std::vector<std::size_t> randomCuts(std::mt19937 &random, std::size_t end, std::size_t parts)
{
    std::set<std::size_t> cuts{0, end};
    while (cuts.size() < parts + 1)
        cuts.insert(std::uniform_int_distribution<std::size_t>(1, end - 1)(random));
    return {cuts.begin(), cuts.end()};
}

automatic::Sketch randomSketch(std::mt19937 &random, automatic::Scorer &scorer)
{
    const automatic::DeviceLine &line = scorer.lines().front();
    automatic::Sketch sketch;
    sketch.shape.microBatches = 64;
    const std::size_t stages = std::uniform_int_distribution<std::size_t>(1, 16)(random);
    const auto layers = randomCuts(random, scorer.costs().layers(), stages);
    const auto places = randomCuts(random, line.devices.size() / line.unit, stages);
    for (std::size_t s = 0; s < stages; ++s)
        sketch.parts.push_back({layers[s], layers[s + 1], places[s] * line.unit, places[s + 1] * line.unit});
    return sketch;
}

/// Calls a second of processor time.
template <class Work>
double rate(const Work &work)
{
    const bench::Watch watch(bench::Watch::Clock::Processor);
    std::size_t count = 0;
    double seconds = 0;
    for (; seconds < kSeconds; seconds = watch.seconds())
        for (int i = 0; i < 16; ++i)
            work(count++);
    return static_cast<double>(count) / seconds;
}

} // namespace

int main()
{
    const auto model = import::readHuggingFaceConfig(
        R"({"model_type": "gpt2", "n_layer": 96, "n_head": 96, "n_embd": 12288, "vocab_size": 51200, "n_positions": 2048})",
        "config.json");
    const auto cluster = cluster::preset("a100-128");
    if (!model || !cluster) {
        std::fprintf(stderr, "%s\n", (model ? cluster.error() : model.error()).text().c_str());
        return 1;
    }
    Problem problem;
    problem.subject =
        plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*cluster), nullptr, "gpt");
    problem.globalBatch = 2048;
    compile::StageCache stages;
    automatic::StageCosts costs(problem, 0.05, stages);
    const auto lines = automatic::deviceLines(*problem.subject.cluster, 32);
    automatic::Scorer scorer(problem, costs, lines);
    std::mt19937 random(1);
    std::vector<automatic::Sketch> sketches;
    for (int i = 0; i < 4096; ++i)
        sketches.push_back(randomSketch(random, scorer));
    double sum = 0;
    for (const automatic::Sketch &sketch : sketches) // figures of the shape are remembered from here on
        sum += scorer.score(sketch).bound;
    const double scored = rate([&](std::size_t i) { sum += scorer.score(sketches[i % sketches.size()]).bound; });
    const double simulated = rate([&](std::size_t i) {
        const auto simulation =
            simulate::simulatePlan(planOf(sketches[i % sketches.size()], scorer, {}), problem.subject,
                                   {.trace = false, .memory = false, .stages = &stages});
        sum += simulation ? simulation->report.iterationSeconds : 0;
    });
    std::printf("96-layer transformer, 128 A100, 1 to 16 stages, one core (check sum %.3g)\n", sum);
    std::printf("scored     %10.0f plans a second   %7.1f x the public tool's %.0f\n", scored, scored / kPublicTool,
                kPublicTool);
    std::printf("simulated  %10.1f plans a second   scoring is %.0f x as fast\n", simulated, scored / simulated);
}
