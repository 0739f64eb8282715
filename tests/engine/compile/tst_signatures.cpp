// SPDX-License-Identifier: Apache-2.0
// Signatures of what plans compile to, against tests/golden/signatures. PLANLOOM_UPDATE_GOLDEN=1 rewrites the files; a
// commit that changes one says which part changed and why.
#include "engine/import/model/zoo.h"
#include "tests/engine/compile/program_signature.h"
#include "tests/engine/compile/random_plans.h"

#include <QTest>

#include <functional>
#include <set>

using namespace planloom;
using testing::ClusterShape;
using testing::equalNodes;
using testing::planOf;
using testing::SignatureList;
using testing::StageShape;
using testing::subjectOf;

namespace {

using Graph = std::shared_ptr<const graph::Graph>;

template <class T>
T must(Result<T> result)
{
    if (!result)
        throw std::runtime_error(result.error().text());
    return *std::move(result);
}

Graph shared(Result<graph::Graph> graph) { return std::make_shared<const graph::Graph>(must(std::move(graph))); }
Graph zoo(const std::string &name) { return must(import::zooModel(name)).graph; }

graph::TransformerConfig small(const char *name)
{
    graph::TransformerConfig config;
    config.name = name;
    config.layers = 4;
    config.heads = 4;
    config.hidden = 32;
    config.feedForward = 64;
    config.vocabulary = 64;
    config.context = 8;
    return config;
}

/// Of every family one that compiles in milliseconds.
std::vector<std::pair<std::string, Graph>> smallModels()
{
    graph::TransformerConfig untied = small("untied");
    untied.tiedEmbeddings = false;
    graph::TransformerConfig unfused = small("unfused");
    unfused.unfusedDropout = 0.1;
    graph::LstmConfig lstm;
    lstm.embedding = 32;
    lstm.hidden = 32;
    lstm.vocabulary = 64;
    lstm.context = 6;
    return {{"gpt", shared(graph::gpt(small("gpt")))},
            {"gpt-untied", shared(graph::gpt(untied))},
            {"gpt-unfused", shared(graph::gpt(unfused))},
            {"bert", shared(graph::bert(small("bert")))},
            {"llama", shared(graph::llama(small("llama"), 2, 10000, 1e-5))},
            {"lstm", shared(graph::lstmLanguageModel(lstm))},
            {"mlp", shared(graph::mlp("mlp", {32, 64, 64, 64, 64, 64, 64, 10}))}};
}

/// A way to lay a model of at least 4 layers out over at least 8 devices.
struct Layout {
    const char *name;
    std::vector<StageShape> stages;
    std::function<void(plan::Plan &)> change;
};

std::function<void(plan::Plan &)> schedule(plan::ScheduleKind kind)
{
    return [kind](plan::Plan &plan) { plan.schedule.kind = kind; };
}

std::function<void(plan::Plan &)> onEachStage(const std::function<void(plan::Stage &)> &change)
{
    return [change](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            change(stage);
    };
}

std::function<void(plan::Plan &)> zero(int level)
{
    return onEachStage([level](plan::Stage &stage) { stage.zero = level; });
}

std::function<void(plan::Plan &)> recompute(plan::Recompute recompute)
{
    return onEachStage([recompute](plan::Stage &stage) { stage.recompute = recompute; });
}

/// The stages take the first two devices in turn.
void onTwoDevices(plan::Plan &plan)
{
    plan.schedule.kind = plan::ScheduleKind::Interleaved1F1B;
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        plan.stages[s].devices = {DeviceId(static_cast<std::int64_t>(s % 2))};
}

void inBFloat16(plan::Plan &plan) { plan.precision = plan::Precision::BFloat16; }

std::vector<Layout> layouts()
{
    using plan::Recompute;
    using plan::ScheduleKind;
    const std::vector<StageShape> four(4, {1, 1});
    const std::vector<StageShape> twoByTwo(2, {2, 1});
    const std::vector<StageShape> cube(2, {2, 2});
    return {
        {"one", {{1, 1}}, {}},
        {"data", {{4, 1}}, {}},
        {"data-all-at-once", {{4, 1}}, [](plan::Plan &plan) { plan.bucketBytes = 0; }},
        {"data-small-buckets", {{4, 1}}, [](plan::Plan &plan) { plan.bucketBytes = 4096; }},
        {"data-shares", {{4, 1}}, onEachStage([](plan::Stage &stage) {
             stage.replicaShares = {0.125, 0.375, 0.25, 0.25};
         })},
        {"tensor", {{1, 2}}, {}},
        {"tensor-data", {{2, 2}}, {}},
        {"pipeline-1f1b", four, {}},
        {"pipeline-gpipe", four, schedule(ScheduleKind::GPipe)},
        {"pipeline-dapple-a", four, schedule(ScheduleKind::DappleA)},
        {"pipeline-dapple-b", four, schedule(ScheduleKind::DappleB)},
        {"pipeline-zb-h1", four, schedule(ScheduleKind::ZeroBubbleH1)},
        {"pipeline-interleaved", four, onTwoDevices},
        {"pipeline-registers", four, onEachStage([](plan::Stage &stage) { stage.registers = 1; })},
        {"pipeline-sgd", four, [](plan::Plan &plan) { plan.optimizer.rule = *update::ConfiguredRule::named("sgd"); }},
        {"pipeline-unequal", {{3, 1}, {1, 1}, {2, 1}}, {}},
        {"pipeline-data", twoByTwo, {}},
        {"pipeline-data-bf16", twoByTwo, inBFloat16},
        {"cube", cube, {}},
        {"cube-zb-h1", cube, schedule(ScheduleKind::ZeroBubbleH1)},
        {"cube-bf16", cube, inBFloat16},
        {"zero-1", {{4, 1}}, zero(1)},
        {"zero-2", {{4, 1}}, zero(2)},
        {"zero-3", {{4, 1}}, zero(3)},
        {"cube-zero-1", cube, zero(1)},
        {"cube-zero-2", cube, zero(2)},
        {"cube-zero-3-bf16", cube,
         [](plan::Plan &plan) {
             zero(3)(plan);
             inBFloat16(plan);
         }},
        {"recompute-selective", cube, recompute(Recompute::Selective)},
        {"recompute-layers", cube, recompute(Recompute::Layers)},
        {"recompute-full", cube, recompute(Recompute::Full)},
        {"recompute-zb-h1", twoByTwo,
         [](plan::Plan &plan) {
             recompute(Recompute::Layers)(plan);
             plan.schedule.kind = ScheduleKind::ZeroBubbleH1;
         }},
    };
}

std::vector<std::pair<std::string, ClusterShape>> clusters()
{
    std::vector<std::pair<std::string, ClusterShape>> all;
    const auto add = [&all](const char *name, const std::function<void(ClusterShape &)> &change) {
        change(all.emplace_back(name, equalNodes(2, 4)).second);
    };
    add("full-duplex", [](ClusterShape &) {});
    add("half-duplex", [](ClusterShape &shape) { shape.fullDuplex = false; });
    add("two-level", [](ClusterShape &shape) { shape.twoLevel = true; });
    add("two-level-half-duplex", [](ClusterShape &shape) {
        shape.twoLevel = true;
        shape.fullDuplex = false;
    });
    add("port-per-device", [](ClusterShape &shape) { shape.portPerDevice = true; });
    add("uneven-links", [](ClusterShape &shape) { shape.unevenLinks = true; });
    add("two-types", [](ClusterShape &shape) { shape.types = {0, 1}; });
    add("unequal-nodes", [](ClusterShape &shape) { shape.nodes = {3, 5}; });
    return all;
}

/// @p about laid out as @p layout says, on 16 samples in 4 micro-batches.
void add(SignatureList &list, const std::string &name, const plan::Subject &about, const Layout &layout)
{
    plan::Plan plan = planOf(about, layout.stages, 16, 4);
    if (layout.change)
        layout.change(plan);
    list.add(name + "/" + layout.name, plan, plan::inPrecision(about, plan.precision));
}

void compare(const SignatureList &list, const std::string &file)
{
    const std::string difference = list.difference("golden/signatures/" + file);
    QVERIFY2(difference.empty(), difference.c_str());
}

} // namespace

class TestSignatures : public QObject {
    Q_OBJECT

private slots:
    void randomPlans()
    {
        SignatureList list;
        for (unsigned seed = 0; seed < 200; ++seed) {
            const auto [plan, about] = testing::randomCase(seed);
            list.add(std::to_string(seed), plan, about);
        }
        compare(list, "random_plans.txt");
    }

    void layoutsOfSmallModels()
    {
        SignatureList list;
        for (const auto &[name, graph] : smallModels())
            for (const Layout &layout : layouts())
                add(list, name, subjectOf(graph, equalNodes(2, 4)), layout);
        compare(list, "small_models.txt");
    }

    /// Communication that steps leave open, averages, rows, memory that moves, and training by ADMM.
    void whatDecidesWhileItRuns()
    {
        using Change = std::function<void(plan::Plan &)>;
        const auto exchange = [](const char *text) -> Change {
            return [text](plan::Plan &plan) {
                plan.exchange = must(plan::exchangeFromText(text));
                if (plan.exchange.hasTables())
                    plan.optimizer.groups = {{"embedding.weight", 0, 1}}; // rows have no decay
            };
        };
        const auto memory = [](const char *text) {
            return onEachStage([text](plan::Stage &stage) { stage.memory = must(plan::memoryFromText(text)); });
        };
        const auto admm = [](admm::Parallel parallel) -> Change {
            return [parallel](plan::Plan &plan) {
                plan.microBatches = 1;
                plan.optimizer = plan::admmOptimizer();
                plan.admm = admm::Settings{.parallel = parallel};
            };
        };
        struct Row {
            const char *model;
            Layout layout;
        };
        const std::vector<StageShape> two{{2, 1}};
        const std::vector<StageShape> twoStages{{2, 1}, {2, 1}};
        const std::vector<Row> rows{
            {"gpt-untied", {"across-steps", two, exchange("all-reduce,across_steps=true")}},
            {"gpt-untied", {"dasgd", two, exchange("dasgd,local_steps=4,delay=2")}},
            {"gpt-untied", {"dasgd-pipeline", twoStages, exchange("dasgd,local_steps=2,delay=1")}},
            {"lstm", {"embrace", two, exchange("embrace,scheduling=2d,tables=embedding.weight:all-to-all:split")}},
            {"lstm",
             {"embrace-dasgd", two,
              exchange(
                  "embrace,scheduling=2d,dense=dasgd,local_steps=2,delay=1,tables=embedding.weight:all-to-all:split")}},
            {"gpt", {"delta", {{1, 1}}, memory("delta,budget=50%")}},
            {"gpt", {"delta-pipeline", twoStages, memory("delta,budget=50%")}},
            {"gpt", {"states-on-host", two, onEachStage([](plan::Stage &stage) { stage.memory.hostStates = true; })}},
            {"rnn", {"admm", two, admm(admm::Parallel::Synchronous)}},
            {"rnn", {"admm-served", two, admm(admm::Parallel::Asynchronous)}},
        };
        auto models = smallModels();
        models.emplace_back("rnn", shared(graph::rnnClassifier({"rnn", 3, 5, 4, 3})));
        SignatureList list;
        for (const Row &row : rows)
            for (const auto &[name, graph] : models)
                if (name == row.model)
                    add(list, name, subjectOf(graph, equalNodes(2, 4)), row.layout);
        compare(list, "run_time.txt");
    }

    void layoutsOnClusters()
    {
        const std::set<std::string> some{"data",           "pipeline-1f1b", "pipeline-interleaved", "pipeline-unequal",
                                         "pipeline-zb-h1", "cube",          "cube-zero-2"};
        SignatureList list;
        for (const auto &[name, shape] : clusters())
            for (const Layout &layout : layouts())
                if (some.contains(layout.name))
                    add(list, name, subjectOf(testing::tinyGpt(true), shape), layout);
        compare(list, "clusters.txt");
    }

    void zooModels()
    {
        const std::set<std::string> some{"data", "pipeline-1f1b", "cube-zb-h1", "cube-zero-3-bf16", "recompute-layers"};
        SignatureList list;
        for (const char *model : {"gpt-nano", "gpt2", "lstm-lm", "vgg-19", "resnet-50"})
            for (const char *preset : {"h100-16", "dapple-a", "v100-p100"}) {
                const auto about =
                    plan::makeSubject(zoo(model),
                                      std::make_shared<const cluster::Cluster>(must(cluster::preset(preset))), nullptr,
                                      "zoo:" + std::string(model));
                for (const Layout &layout : layouts())
                    if (some.contains(layout.name))
                        add(list, std::string(model) + "/" + preset, about, layout);
            }
        compare(list, "zoo.txt");
    }

    void ordersByHand()
    {
        SignatureList list;
        for (unsigned seed = 0; seed < 8; ++seed) {
            testing::Draw draw(1000 + seed);
            const plan::Subject about = subjectOf(testing::tinyGpt(true), draw.cluster());
            const auto devices = static_cast<int>(about.cluster->devices().size());
            const auto stages = draw.stages(devices, true);
            plan::Plan plan = planOf(about, stages, 4 * 25, 4);
            draw.order(plan, *about.cluster);
            list.add(std::to_string(seed), plan, about);
        }
        compare(list, "custom_orders.txt");
    }

    /// Layers that only have times: no operators, no places.
    void layerProfiles()
    {
        SignatureList list;
        std::vector<import::ProfileLayerSpec> layers;
        for (std::size_t i = 0; i < 8; ++i) {
            const auto x = static_cast<double>(i);
            layers.push_back({"layer_" + std::to_string(i), 1 + x, 3 + x, 1e6 * (9 - x), 1e6 * (2 + x),
                              i > 0 ? std::vector<std::size_t>{i - 1} : std::vector<std::size_t>{}});
        }
        const import::Model model = must(import::profileModel("profile", 1, layers));
        for (const auto &[name, shape] : clusters()) {
            const auto about =
                plan::makeSubject(model.graph, std::make_shared<const cluster::Cluster>(testing::made(shape)),
                                  model.profile, "profile");
            for (const Layout &layout : layouts())
                if (std::string(layout.name).find("pipeline") == 0)
                    add(list, name, about, layout);
        }
        compare(list, "layer_profiles.txt");
    }
};

QTEST_GUILESS_MAIN(TestSignatures)
#include "tst_signatures.moc"
