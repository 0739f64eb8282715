// SPDX-License-Identifier: Apache-2.0
// The automap planner's agent: its network against finite differences, what it finds against exhaustive search.
#include "engine/graph/zoo/zoo.h"
#include "planners/automap/agent.h"
#include "planners/automap/network.h"
#include "planners/automap/pipeline_game.h"
#include "tests/planners/automap/brute_force.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <cmath>
#include <random>

using namespace planloom;
using namespace planloom::planners::automap;
using testing::must;

namespace {

/// A chain of products with activations and skips, small enough for every assignment to be tried.
RuleGraph randomRules(std::mt19937 &random)
{
    graph::GraphBuilder builder("random");
    TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({32}));
    const TensorId labels = builder.input("labels", graph::DType::I64, graph::Shape::batched({}));
    const int products = 2 + static_cast<int>(random() % 4);
    for (int i = 0; i < products; ++i) {
        const std::int64_t width = 32;
        const std::string name = "p" + std::to_string(i);
        const TensorId weight = builder.parameter(name + ".weight", graph::Shape::of({width, width}),
                                                  {graph::Initializer::Kind::Normal, 0, 0.1, nullptr, {}, 0});
        TensorId y = builder.add("MatMul", {x, weight}, {}, name);
        if (random() % 2 == 0)
            y = builder.add("Relu", {y}, {}, name + ".relu");
        x = random() % 3 == 0 ? builder.add("Add", {x, y}, {}, name + ".skip") : y;
    }
    builder.loss(builder.add("SoftmaxCrossEntropyLoss", {x, labels}, {{"ignore_index", std::int64_t{-100}}}, "loss"));
    const graph::Graph graph = must(std::move(builder).build());
    return rulesOf(
        must(graph::differentiate(graph, OpId(0), OpId(static_cast<std::int32_t>(graph.ops().size())), {}, {})), 4);
}

} // namespace

class TestAutoMapAgent : public QObject {
    Q_OBJECT

private slots:
    void gradientIsThatOfTheLoss()
    {
        std::mt19937_64 random(5);
        Network network(3, 8, 4, random);
        std::vector<std::vector<float>> states;
        for (int i = 0; i < 6; ++i)
            states.push_back(
                {static_cast<float>(i) * 0.3F - 1, 0.5F - static_cast<float>(i) * 0.1F, static_cast<float>(i % 2)});
        std::vector<Network::Sample> batch;
        for (std::size_t i = 0; i < states.size(); ++i)
            batch.push_back(
                {&states[i], i % 4, static_cast<float>(i) * 0.7F - 1.5F, 0.5F + 0.1F * static_cast<float>(i)});
        const std::vector<float> gradient = network.gradient(batch);
        const std::vector<float> weights = network.weights();
        QCOMPARE(gradient.size(), weights.size());
        QCOMPARE(weights.size(), std::size_t(3 * 8 + 8 + 8 * 8 + 8 + 8 + 1 + 8 * 4 + 4));
        for (std::size_t w = 0; w < weights.size(); ++w) {
            constexpr float kStep = 2e-3F;
            std::vector<float> moved = weights;
            moved[w] = weights[w] + kStep;
            network.setWeights(moved);
            const double above = network.loss(batch);
            moved[w] = weights[w] - kStep;
            network.setWeights(moved);
            const double slope = (above - network.loss(batch)) / (2 * kStep);
            QVERIFY2(std::fabs(slope - gradient[w]) < 2e-2 * std::max(0.1, std::fabs(slope)),
                     qPrintable(QString("%1: %2 %3").arg(w).arg(slope).arg(gradient[w])));
        }
    }

    void networkLearns()
    {
        std::mt19937_64 random(9);
        Network network(2, 32, 2, random);
        Network same = network;
        const std::vector<std::vector<float>> states{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
        std::vector<Network::Sample> batch;
        for (std::size_t i = 0; i < states.size(); ++i) // exclusive or, and its opposite
            for (std::size_t action : {0U, 1U})
                batch.push_back({&states[i], action, (i == 1 || i == 2) == (action == 0) ? 1.0F : -1.0F, 1});
        const double before = network.loss(batch);
        for (int step = 0; step < 400; ++step)
            network.train(batch, 1e-2F);
        QVERIFY(network.loss(batch) < 0.01 * before);
        QCOMPARE(same.loss(batch), before); // a copy is independent
    }

    // On every graph with at most twenty dimensions the agent's best is the best there is.
    void agentFindsTheBest()
    {
        std::mt19937 random(17);
        int compared = 0;
        for (int round = 0; round < 12; ++round) {
            const RuleGraph graph = randomRules(random);
            PartitionSettings settings;
            settings.communication = round % 3 == 0 ? 2 : 0.05;
            settings.consistency = round % 2 == 0 ? Consistency::BreadthFirst : Consistency::Arc;
            PartitionGame game(graph, graph.trainable, settings);
            QVERIFY(game.dimensions() <= 20);
            const Outcome all = exhaust(game);
            AgentSettings agent;
            agent.episodes = 120;
            agent.seed = static_cast<std::uint64_t>(round);
            const Outcome learnt = learn(game, agent, NoProgress());
            QVERIFY(std::isfinite(all.best.score));
            QCOMPARE(learnt.best.score, all.best.score);
            compared += all.episodes > 2 ? 1 : 0;
        }
        QVERIFY(compared > 6); // games with something to choose
    }

    void linkageShortensGames()
    {
        std::mt19937 random(23);
        const RuleGraph graph = randomRules(random);
        PartitionGame masked(graph, graph.trainable, {});
        PartitionSettings free;
        free.linkage = false;
        PartitionGame open(graph, graph.trainable, free);
        const Outcome with = exhaust(masked);
        const Outcome without = exhaust(open);
        QCOMPARE(with.best.score, without.best.score);
        QVERIFY(with.episodes <= without.episodes);
    }

    // With few cuts to try, the agent's pipeline is the shortest there is.
    void agentFindsTheShortestPipeline()
    {
        std::mt19937 random(29);
        for (int round = 0; round < 4; ++round) {
            planners::Problem problem =
                testing::problemOf(testing::randomModel(random, 7), testing::smallCluster(2, 2), 16);
            const planners::MemoryModel memory(*problem.subject.costs, problem.optimizer, 0.05);
            const planners::dapple::Settings settings;
            std::vector<planners::dapple::Scorer> scorers;
            for (const std::int64_t perDevice : {1, 2, 4})
                scorers.emplace_back(problem, settings, memory, perDevice);
            PipelineGame game(scorers, candidateCuts(problem.subject, 1), 2 + static_cast<std::size_t>(round) % 2);
            const Outcome all = exhaust(game);
            AgentSettings agent;
            agent.episodes = 300;
            const Outcome learnt = learn(game, agent, NoProgress());
            QVERIFY(std::isfinite(all.best.score));
            QCOMPARE(learnt.best.score, all.best.score);
        }
    }

    void sameSeedSameGames()
    {
        std::mt19937 random(31);
        const RuleGraph graph = randomRules(random);
        PartitionGame game(graph, graph.trainable, {});
        AgentSettings agent;
        agent.episodes = 30;
        std::vector<std::vector<double>> scores(2);
        for (auto &list : scores)
            learn(game, agent, NoProgress(), {}, [&](std::size_t, const Episode &best) { list.push_back(best.score); });
        QVERIFY(scores[0] == scores[1]);
    }

    // Device cuts between machines are always there, layers lie around the balanced one.
    void cutsAreBalanced()
    {
        std::mt19937 random(37);
        const planners::Problem problem =
            testing::problemOf(testing::randomModel(random, 100), testing::smallCluster(2, 8), 64);
        const cost::CostModel &costs = *problem.subject.costs;
        const double whole = (costs.forward(0, 100, 1, 0) + costs.backward(0, 100, 1, 0)).value();
        std::size_t between = 0;
        std::size_t around = 0;
        for (const Cut &cut : candidateCuts(problem.subject, 0.02)) {
            between += cut.devices == 8 ? 1 : 0;
            const double before = (costs.forward(0, cut.layers, 1, 0) + costs.backward(0, cut.layers, 1, 0)).value();
            around += std::fabs(before / whole - static_cast<double>(cut.devices) / 16) < 0.2 ? 1 : 0;
            QVERIFY(cut.layers > 0 && cut.layers < 100 && cut.devices > 0 && cut.devices < 16);
        }
        QVERIFY(between >= 2 * kLayersAround);
        QCOMPARE(around, candidateCuts(problem.subject, 0.02).size());
    }
};

QTEST_GUILESS_MAIN(TestAutoMapAgent)
#include "tst_automap_agent.moc"
