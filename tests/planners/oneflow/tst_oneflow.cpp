// SPDX-License-Identifier: Apache-2.0
// The oneflow planner: its search against trying every layout, what it pins against what is compiled, and its answers
// against layouts known to be good.
#include "engine/graph/zoo/zoo.h"
#include "engine/import/model/zoo.h"
#include "engine/compile/compile.h"
#include "engine/sharding/megatron.h"
#include "engine/sharding/shard.h"
#include "planners/oneflow/space.h"
#include "planners/registry.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <cmath>
#include <limits>
#include <set>

using namespace planloom;
using namespace planloom::planners::oneflow;
using planners::Options;
using planners::PlanReport;
using planners::Problem;
using testing::must;
using testing::planned;

namespace {

graph::TransformerConfig config(std::int64_t layers)
{
    graph::TransformerConfig config;
    config.layers = layers;
    config.heads = 4;
    config.hidden = 64;
    config.feedForward = 256;
    config.vocabulary = 256;
    config.context = 32;
    return config;
}

import::Model modelOf(Result<graph::Graph> graph){import::Model model;
model.graph = std::make_shared<const graph::Graph>(must(std::move(graph)));
model.source = "test";
return model;
} // namespace

graph::TrainingGraph trainingOf(const graph::Graph &graph)
{
    return must(graph::differentiate(graph, OpId(0), OpId(static_cast<std::int32_t>(graph.ops().size())), {}, {}));
}

Problem zoo(const std::string &model, const std::string &cluster, std::int64_t batch)
{
    return testing::problemOf(must(import::zooModel(model)), must(cluster::preset(cluster)), batch);
}

LineSetting settingOf(const Problem &problem, int parts)
{
    LineSetting setting;
    setting.costs = problem.subject.costs.get();
    for (int d = 0; d < parts; ++d)
        setting.line.push_back(DeviceId(d));
    setting.replicas = {DeviceId(0)};
    setting.samples = static_cast<double>(problem.globalBatch);
    return setting;
}

/// The cheapest choice by depth-first search: edges are counted as soon as both ends are known, and a start that costs
/// more than the best is left.
class EverythingTried {
public:
    explicit EverythingTried(const ChoiceGraph &graph)
        : m_graph(graph),
          m_states(graph.nodes.size(), 0),
          m_endsAt(graph.nodes.size())
    {
        for (const ChoiceGraph::Edge &edge : graph.edges)
            m_endsAt[static_cast<std::size_t>(std::max(edge.a, edge.b))].push_back(&edge);
        from(0, 0);
    }
    double best = std::numeric_limits<double>::infinity();

private:
    void from(std::size_t node, double cost)
    {
        if (cost >= best)
            return;
        if (node == m_states.size()) {
            best = cost;
            return;
        }
        for (std::size_t s = 0; s < m_graph.nodes[node].size(); ++s) {
            m_states[node] = s;
            double sum = cost + m_graph.nodes[node][s];
            for (const ChoiceGraph::Edge *edge : m_endsAt[node])
                sum += edge->cost[m_states[static_cast<std::size_t>(edge->a)]
                                      * m_graph.nodes[static_cast<std::size_t>(edge->b)].size()
                                  + m_states[static_cast<std::size_t>(edge->b)]];
            from(node + 1, sum);
        }
    }

    const ChoiceGraph &m_graph;
    std::vector<std::size_t> m_states;
    std::vector<std::vector<const ChoiceGraph::Edge *>> m_endsAt;
};

/// A network of one to three products with activations and skips in between.
graph::Graph randomNetwork(std::mt19937 &random)
{
    graph::GraphBuilder builder("random");
    const std::int64_t width = std::int64_t{64} << random() % 6;
    TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({width}));
    const TensorId labels = builder.input("labels", graph::DType::I64, graph::Shape::batched({}));
    const auto product = [&](TensorId in, std::int64_t from, std::int64_t to, const std::string &name) {
        const TensorId weight = builder.parameter(name + ".weight", graph::Shape::of({from, to}),
                                                  {graph::Initializer::Kind::Normal, 0, 0.1, nullptr, {}, 0});
        return builder.add("MatMul", {in, weight}, {}, name);
    };
    const int products = 1 + static_cast<int>(random() % 2);
    for (int i = 0; i < products; ++i) {
        TensorId y = product(x, width, width, "product" + std::to_string(i));
        if (random() % 2 == 0)
            y = builder.add(random() % 2 == 0 ? "Relu" : "Gelu", {y}, {}, "activation" + std::to_string(i));
        x = i > 0 && random() % 2 == 0 ? builder.add("Add", {x, y}, {}, "skip" + std::to_string(i)) : y;
    }
    const TensorId loss =
        builder.add("SoftmaxCrossEntropyLoss", {x, labels}, {{"ignore_index", std::int64_t{-100}}}, "loss");
    builder.loss(loss);
    return must(std::move(builder).build());
}

double boxingBytes(const program::Program &program)
{
    double bytes = 0;
    for (const program::Task &task : program.tasks)
        if (const auto *boxing = task.as<program::Boxing>())
            bytes += static_cast<double>(boxing->bytes);
    return bytes;
}

class StopAfter final : public Progress {
public:
    explicit StopAfter(int reports) : m_left(reports) {}
    void report(double, std::string_view) override { --m_left; }
    [[nodiscard]] bool stopped() const override { return m_left < 0; }

private:
    int m_left;
};

} // namespace

class TestOneFlow : public QObject {
    Q_OBJECT

private slots:
    void searchAgreesWithTryingEverything()
    {
        std::mt19937 random(3);
        std::set<std::string> found;
        for (int round = 0; round < 40; ++round) {
            const auto graph = std::make_shared<const graph::Graph>(randomNetwork(random));
            import::Model model;
            model.graph = graph;
            Problem problem = testing::problemOf(model, testing::smallCluster(1, 4), 1 << random() % 12);
            const LineSpace space(trainingOf(*graph), settingOf(problem, random() % 2 == 0 ? 2 : 4));
            const double price = round % 3 == 0 ? 1e-8 : 0;
            const ChoiceGraph choices = space.graph(price);
            const Solution solution = solve(choices);
            const double best = EverythingTried(choices).best;
            QVERIFY(solution.exact && std::isfinite(solution.cost));
            QVERIFY2(std::fabs(solution.cost - best) <= 1e-9 * best,
                     qPrintable(QString("%1, but %2 is possible").arg(solution.cost).arg(best)));
            const Price parts = space.priceOf(solution.states);
            QVERIFY(std::fabs(parts.seconds + price * parts.memory - solution.cost) <= 1e-9 * solution.cost);
            for (const auto &[name, sbp] : space.pins(solution.states))
                if (name == "product0.weight")
                    found.insert(sharding::toText({sbp}));
        }
        QVERIFY(found.size() > 1); // not one answer for all
    }

    void conversionsSendAsPublished_data()
    {
        QTest::addColumn<QString>("from");
        QTest::addColumn<QString>("to");
        QTest::addColumn<double>("tensors"); // sent by all eight devices of a 2 x 4 mesh
        QTest::newRow("gather the outer dimension") << "S(0),B"
                                                    << "B,B" << 4.;
        QTest::newRow("add up the outer dimension, each its part") << "P,S(0)"
                                                                   << "B,S(0)" << 2.;
        QTest::newRow("add up the inner dimension, each its part") << "S(0),P"
                                                                   << "S(0),B" << 6.;
        QTest::newRow("add up the inner dimension") << "B,P"
                                                    << "B,B" << 12.;
        QTest::newRow("cut the inner dimension") << "B,B"
                                                 << "B,S(1)" << 0.;
        QTest::newRow("gather the inner dimension") << "B,S(1)"
                                                    << "B,B" << 6.;
        QTest::newRow("exchange along the inner dimension") << "S(0),S(1)"
                                                            << "S(0),S(2)" << 0.75;
    }

    /// One component of a two-dimensional layout changes: the bytes that OneFlow's repository and paper say.
    void conversionsSendAsPublished()
    {
        QFETCH(QString, from);
        QFETCH(QString, to);
        QFETCH(double, tensors);
        constexpr double kBytes = 1048576;
        const std::vector<int> mesh{2, 4};
        const sharding::NdSbp have = *sharding::fromText(from.toStdString());
        const sharding::NdSbp want = *sharding::fromText(to.toStdString());
        const std::size_t changes = have[0] == want[0] ? 1 : 0;
        const std::size_t stays = 1 - changes;
        const Problem problem = zoo("mlp", "h100-8", 8);
        LineSetting setting = settingOf(problem, mesh[changes]);
        setting.lines = mesh[stays];
        const bool parts = have[stays].kind == sharding::Sbp::Kind::Split;
        const Price price = conversion(setting, have[changes], want[changes], parts ? kBytes / mesh[stays] : kBytes);
        QCOMPARE(price.bytes, tensors * kBytes);
        QVERIFY(price.seconds > 0 && price.seconds < 1);
        // A partial sum is never made out of something else.
        QCOMPARE(conversion(setting, have[changes], sharding::partial(), kBytes).seconds,
                 have[changes] == sharding::partial() ? 0 : std::numeric_limits<double>::infinity());
    }

    void compiledAsFound_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("mesh");
        for (const char *model : {"gpt-nano", "mlp", "gpt2", "vgg-19"})
            for (const char *mesh : {"4,2", "2,4", "1,8"})
                QTest::addRow("%s on %s", model, mesh) << model << mesh;
        QTest::newRow("bert-large on 4,2") << "bert-large"
                                           << "4,2";
    }

    // shard() follows the search's pins: each operator's signature, and in the compiled program the bytes that
    // were predicted.
    void compiledAsFound()
    {
        QFETCH(QString, model);
        QFETCH(QString, mesh);
        const Problem problem = zoo(model.toStdString(), "h100-8", 64);
        const PlanReport report = planned(problem, "oneflow", {{"mesh", mesh.toStdString()}});
        const plan::Plan *search = report.plan.estimate.count("from_search") ? &report.plan : nullptr;
        for (const planners::Candidate &other : report.alternatives)
            if (other.plan.estimate.count("from_search"))
                search = &other.plan;
        QVERIFY(search != nullptr);
        // Of a network of images a few operators find another way that costs as many bytes, or fewer: what one reader
        // has converted the next one has, too.
        const bool images = model == "vgg-19";
        QVERIFY2(search->estimate.at("operators_changed") <= (images ? 12 : 0),
                 qPrintable(QString::number(search->estimate.at("operators_changed"))));
        QCOMPARE(search->estimate.at("search_exact"), 1.0);
        const double found = search->estimate.at("search_boxing_bytes");
        const double predicted = search->estimate.at("boxing_bytes");
        QVERIFY2(predicted <= found * (1 + 1e-9) && predicted >= (images ? 0.8 : 0.998) * found,
                 qPrintable(QString::number(predicted) + " " + QString::number(found)));
        const program::Program program = must(compile::compilePlan(*search, problem.subject, {false}));
        QVERIFY2(std::fabs(boxingBytes(program) - predicted) <= 1e-9 * predicted,
                 qPrintable(QString::number(boxingBytes(program)) + " " + QString::number(predicted)));
    }

    // On a slow network inside a machine the answer is another one than on a fast one, and never worse than what
    // all know.
    void neverWorseThanKnownLayouts_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("cluster");
        QTest::addColumn<int>("batch");
        QTest::newRow("gpt2 on h100-8") << "gpt2"
                                        << "h100-8" << 64;
        QTest::newRow("gpt2 on h100-8, small batch") << "gpt2"
                                                     << "h100-8" << 8;
        QTest::newRow("gpt2 on dapple-a") << "gpt2"
                                          << "dapple-a" << 32;
        QTest::newRow("vgg-19 on dapple-b") << "vgg-19"
                                            << "dapple-b" << 64;
        QTest::newRow("resnet-50 on h100-8") << "resnet-50"
                                             << "h100-8" << 64;
    }

    void neverWorseThanKnownLayouts()
    {
        QFETCH(QString, model);
        QFETCH(QString, cluster);
        QFETCH(int, batch);
        const Problem problem = zoo(model.toStdString(), cluster.toStdString(), batch);
        const PlanReport report = planned(problem, "oneflow", {{"dimensions", "2"}});
        QVERIFY(report.predicted.fits);
        const auto compare = [&](const std::string &planner, const Options &options) {
            NoProgress progress;
            const auto other = must(planners::findPlanner(planner))->plan(problem, options, progress);
            if (other && other->predicted.fits && other->plan.microBatches == 1)
                QVERIFY2(report.predicted.iterationSeconds <= other->predicted.iterationSeconds * (1 + 1e-9),
                         qPrintable(QString::number(report.predicted.iterationSeconds) + " "
                                    + QString::number(other->predicted.iterationSeconds)));
        };
        compare("data-parallel", {});
        for (const char *tensor : {"1", "2", "4", "8"})
            for (const char *sequence : {"off", "on"})
                if (std::string(tensor) != "1" || std::string(sequence) == "off")
                    compare("manual", {{"tensor", tensor}, {"sequence", sequence}});
    }

    // Twelve layers or ninety-six: the search is as large, only the costs are higher.
    void blocksChooseAlike()
    {
        std::vector<std::size_t> nodes;
        for (const int layers : {12, 96}) {
            const import::Model model = modelOf(graph::gpt(config(layers)));
            const Problem problem = testing::problemOf(model, testing::smallCluster(1, 4), 8);
            const graph::TrainingGraph training = trainingOf(*model.graph);
            const LineSpace space(training, settingOf(problem, 4));
            nodes.push_back(space.graph(0).nodes.size());
            const std::vector<std::size_t> stands = representatives(training.graph);
            for (std::size_t op = 0; op < stands.size(); ++op) {
                QCOMPARE(training.graph.ops()[op].type, training.graph.ops()[stands[op]].type);
                QCOMPARE(stands[stands[op]], stands[op]);
            }
            const auto pins = space.pins(solve(space.graph(0)).states);
            for (int layer = 2; layer + 1 < layers; ++layer)
                QCOMPARE(pins.at("transformer.h." + std::to_string(layer) + ".mlp.c_fc.weight"),
                         pins.at("transformer.h.1.mlp.c_fc.weight"));
        }
        QCOMPARE(nodes[0], nodes[1]);
    }

    // Tied blocks find what free ones find, but for what the ends of a series gain.
    void tiesCostLittle()
    {
        const import::Model few = modelOf(graph::gpt(config(3))); // too few to be tied
        const import::Model many = modelOf(graph::gpt(config(4)));
        std::vector<double> costs;
        for (const import::Model *model : {&few, &many}) {
            const Problem problem = testing::problemOf(*model, testing::smallCluster(1, 4), 8);
            costs.push_back(solve(LineSpace(trainingOf(*model->graph), settingOf(problem, 4)).graph(0)).cost);
        }
        QVERIFY(costs[1] > costs[0] && costs[1] < costs[0] * 1.5);
    }

    // Where whole parameters do not fit, a price on memory splits them; what does not fit at all is refused.
    void memoryIsALimit()
    {
        graph::TransformerConfig wide = config(4);
        wide.hidden = 512;
        wide.feedForward = 2048;
        const import::Model model = modelOf(graph::gpt(wide));
        std::vector<std::int64_t> peaks;
        std::vector<double> seconds;
        for (const double gigabytes : {16.0, 0.07, 0.062}) {
            const Problem problem = testing::problemOf(model, testing::smallCluster(1, 4, gigabytes), 8);
            const PlanReport report = planned(problem, "oneflow");
            QVERIFY(report.predicted.fits);
            peaks.push_back(0);
            for (const simulate::DeviceReport &device : report.predicted.devices)
                peaks.back() = std::max(peaks.back(), device.peakBytes);
            QVERIFY(static_cast<double>(peaks.back()) <= gigabytes * 1e9 * 0.95);
            seconds.push_back(report.predicted.iterationSeconds);
        }
        QVERIFY2(peaks[0] > peaks[1] && peaks[1] > peaks[2],
                 qPrintable(QString("%1 %2 %3").arg(peaks[0]).arg(peaks[1]).arg(peaks[2])));
        QVERIFY(seconds[0] <= seconds[1] && seconds[1] <= seconds[2]);
        NoProgress progress;
        const auto none = must(planners::findPlanner("oneflow"))
                              ->plan(testing::problemOf(model, testing::smallCluster(1, 4, 0.02), 8), {}, progress);
        QVERIFY(!none);
        QCOMPARE(none.error().code, ErrorCode::Infeasible);
        QVERIFY2(none.error().message.find("needed") != std::string::npos, none.error().message.c_str());
    }

    void meshes_data()
    {
        QTest::addColumn<QString>("mesh");
        QTest::addColumn<QString>("says");
        QTest::newRow("one dimension") << "4"
                                       << "";
        QTest::newRow("three dimensions") << "1,2,2"
                                          << "";
        QTest::newRow("fewer devices") << "1,2"
                                       << "";
        QTest::newRow("no mesh") << "two"
                                 << "mesh=two";
        QTest::newRow("nothing between") << "2,,2"
                                         << "mesh=2,,2";
        QTest::newRow("ends in the middle") << "2,"
                                            << "mesh=2,";
        QTest::newRow("too many") << "4,2"
                                  << "mesh=4,2";
        QTest::newRow("none at all") << "0"
                                     << "mesh=0";
    }

    void meshes()
    {
        QFETCH(QString, mesh);
        QFETCH(QString, says);
        const Problem problem = testing::problemOf(modelOf(graph::gpt(config(2))), testing::smallCluster(1, 4), 8);
        NoProgress progress;
        const auto report =
            must(planners::findPlanner("oneflow"))->plan(problem, {{"mesh", mesh.toStdString()}}, progress);
        if (!says.isEmpty()) {
            QVERIFY(!report);
            QCOMPARE(report.error().code, ErrorCode::BadInput);
            QVERIFY2(report.error().message.find(says.toStdString()) != std::string::npos,
                     report.error().message.c_str());
            return;
        }
        QVERIFY2(static_cast<bool>(report), report ? "" : report.error().text().c_str());
        QStringList sizes;
        for (const int size : report->plan.stages[0].mesh)
            sizes << QString::number(size);
        QCOMPARE(sizes.join(','), mesh);
        QVERIFY(plan::validate(report->plan, problem.subject));
    }

    void fewerSamplesThanDevices()
    {
        const Problem problem = testing::problemOf(modelOf(graph::gpt(config(2))), testing::smallCluster(1, 4), 1);
        const PlanReport report = planned(problem, "oneflow");
        QCOMPARE(report.plan.stages[0].replicas(), std::size_t(1));
        NoProgress progress;
        const auto none = must(planners::findPlanner("oneflow"))->plan(problem, {{"mesh", "2,2"}}, progress);
        QVERIFY(!none);
        QCOMPARE(none.error().code, ErrorCode::Infeasible);
    }

    void mixedDevices()
    {
        const Problem problem =
            testing::problemOf(modelOf(graph::gpt(config(2))), must(cluster::preset("v100-t4")), 16);
        const PlanReport report = planned(problem, "oneflow", {{"dimensions", "2"}});
        std::set<std::size_t> types;
        for (const DeviceId device : report.plan.stages[0].devices)
            types.insert(problem.subject.cluster->device(device).type);
        QCOMPARE(types.size(), std::size_t(1));
        const std::string &name = problem.subject.cluster->types()[*types.begin()].name;
        QVERIFY2(name.find("V100") != std::string::npos, name.c_str());
    }

    /// A recurrent layer's backward pass makes tensors that are no tensor's gradient: of untrained inputs, for one.
    /// They have layouts, too.
    void recurrentLayers()
    {
        const auto init = graph::Initializer{graph::Initializer::Kind::Normal, 0, 0.1, nullptr, {}, 0};
        graph::GraphBuilder builder("recurrent");
        const TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({7, 16}));
        const TensorId gates = builder.parameter("gates.weight", graph::Shape::of({1, 96, 16}), init);
        const TensorId states = builder.parameter("states.weight", graph::Shape::of({1, 96, 32}), init);
        const TensorId all =
            builder.add("GRU", {x, gates, states}, {{"layout", std::int64_t{1}}, {"hidden_size", std::int64_t{32}}});
        builder.loss(builder.add("ReduceMean", {all},
                                 {{"axes", std::vector<std::int64_t>{0, 1, 2, 3}}, {"keepdims", std::int64_t{0}}}));
        const Problem problem =
            testing::problemOf(modelOf(std::move(builder).build()), must(cluster::preset("h100-8")), 64);
        const PlanReport report = planned(problem, "oneflow");
        QVERIFY(report.predicted.fits);
        const auto pins = report.plan.stages.front().shardings;
        QVERIFY(std::any_of(pins.begin(), pins.end(),
                            [](const auto &pin) { return pin.first.find("GRUGrad") != std::string::npos; }));
    }

    void layerProfilesAreRefused()
    {
        NoProgress progress;
        const auto report = must(planners::findPlanner("oneflow"))
                                ->plan(testing::zooProblem("vgg-19-layers", "dapple-a", 64), {}, progress);
        QVERIFY(!report);
        QCOMPARE(report.error().code, ErrorCode::Unsupported);
        QVERIFY2(report.error().message.find("pipeline planner") != std::string::npos, report.error().message.c_str());
    }

    void stoppedInTheMiddle()
    {
        const Problem problem = testing::problemOf(modelOf(graph::gpt(config(2))), testing::smallCluster(1, 4), 8);
        StopAfter afterOne(1);
        const PlanReport report = must(must(planners::findPlanner("oneflow"))->plan(problem, {}, afterOne));
        QVERIFY(!report.complete);
        QVERIFY(plan::validate(report.plan, problem.subject));
        QVERIFY(report.predicted.fits);
        QVERIFY(planned(problem, "oneflow").complete);
    }

    void sameEveryTime()
    {
        const Problem problem = testing::problemOf(modelOf(graph::gpt(config(4))), testing::smallCluster(2, 2), 8);
        const PlanReport first = planned(problem, "oneflow");
        const PlanReport second = planned(problem, "oneflow");
        QVERIFY(first.plan.stages[0].shardings == second.plan.stages[0].shardings);
        QCOMPARE(first.predicted.iterationSeconds, second.predicted.iterationSeconds);
    }
};

QTEST_GUILESS_MAIN(TestOneFlow)
#include "tst_oneflow.moc"
