// SPDX-License-Identifier: Apache-2.0
// The automap planner's agent against random games of equal number, on the games of real models: the best
// score of each, and the ratio.
#include "engine/import/model/profile_graph.h"
#include "engine/import/model/zoo.h"
#include "planners/automap/agent.h"
#include "planners/automap/pipeline_game.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace planloom;
using namespace planloom::planners;
using namespace planloom::planners::automap;

constexpr std::size_t kSeeds = 5;

struct Tally {
    double learnt = 0;
    double random = 0;
    std::size_t wins = 0;
    std::size_t losses = 0;
    double seconds = 0;
};

Tally compare(Environment &game, std::size_t episodes)
{
    Tally tally;
    for (std::size_t seed = 1; seed <= kSeeds; ++seed) {
        AgentSettings settings;
        settings.episodes = episodes;
        settings.seed = seed;
        const auto begin = std::chrono::steady_clock::now();
        const double learnt = learn(game, settings, NoProgress()).best.score;
        tally.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        const double random = rollOut(game, episodes, seed).best.score;
        tally.learnt += learnt / kSeeds;
        tally.random += random / kSeeds;
        tally.wins += learnt > random * (1 + 1e-9) ? 1 : 0;
        tally.losses += random > learnt * (1 + 1e-9) ? 1 : 0;
    }
    return tally;
}

void print(const std::string &what, std::size_t episodes, const Tally &tally)
{
    std::printf("%-34s %5zu games  agent %8.4f  random %8.4f  ratio %.3f  (better in %zu of %zu seeds, worse in %zu)  "
                "%.2f s a search\n",
                what.c_str(), episodes, tally.learnt, tally.random, tally.learnt / tally.random, tally.wins, kSeeds,
                tally.losses, tally.seconds / kSeeds);
}

int operators(const std::string &name)
{
    const auto model = import::zooModel(name);
    if (!model)
        return 1;
    const auto training = graph::differentiate(*model->graph, OpId(0),
                                               OpId(static_cast<std::int32_t>(model->graph->ops().size())), {}, {});
    if (!training)
        return 1;
    const RuleGraph rules = rulesOf(*training, 8);
    PartitionGame game(rules, rules.trainable, {});
    for (const std::size_t episodes : {20U, 100U})
        print(name + ", operators over 8 devices", episodes, compare(game, episodes));
    return 0;
}

int pipelines(const std::string &name, std::int64_t batch, std::size_t stages)
{
    const auto model = import::zooProfile(name);
    const auto cluster = cluster::preset("dapple-a");
    if (!model || !cluster)
        return 1;
    Problem problem;
    problem.subject = plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*cluster),
                                        model->profile, model->source);
    problem.globalBatch = batch;
    const MemoryModel memory(*problem.subject.costs, problem.optimizer, 0.05);
    const dapple::Settings settings;
    std::vector<dapple::Scorer> scorers;
    scorers.emplace_back(problem, settings, memory, 2);
    PipelineGame game(scorers, candidateCuts(problem.subject, 0.05), stages);
    for (const std::size_t episodes : {200U, 1000U})
        print(name + ", " + std::to_string(stages) + " stages on dapple-a", episodes, compare(game, episodes));
    return 0;
}

} // namespace

int main()
{
    return operators("gpt2") + operators("bert-large") + pipelines("bert-48", 64, 2) + pipelines("bert-48", 64, 4)
        + pipelines("amoebanet-36", 128, 6);
}
