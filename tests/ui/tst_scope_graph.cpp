// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/watched_main.h"

#include <QTest>

#include "engine/graph/graph.h"
#include "engine/import/import.h"
#include "ui/model/box_colors.h"
#include "ui/model/model_search.h"
#include "ui/model/repeats.h"
#include "ui/model/scope_graph.h"

using namespace planloom;
using namespace planloom::ui;

namespace {

std::shared_ptr<const graph::Graph> zoo(const char *name)
{
    return import::loadModel(std::string("zoo:") + name)->graph;
}

std::shared_ptr<const graph::Graph> chain(int operators)
{
    graph::GraphBuilder builder("chain");
    TensorId last = builder.input("x", graph::DType::F32, graph::Shape::batched({1, 4}));
    for (int i = 0; i < operators; ++i)
        last = builder.add("Relu", {last});
    builder.output(last);
    auto built = std::move(builder).build();
    return built.ok() ? std::make_shared<const graph::Graph>(*std::move(built)) : nullptr;
}

/// A scope per name, with a product by a square matrix of that size each; in a chain, or side by side.
std::shared_ptr<const graph::Graph> scopes(const std::vector<std::pair<std::string, std::int64_t>> &named, bool chained)
{
    graph::GraphBuilder builder("scopes");
    const TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({1, 4}));
    TensorId last = x;
    for (const auto &[name, inner] : named) {
        builder.pushScope(name);
        const TensorId first = builder.parameter(name + ".first", graph::Shape::of({4, inner}), {});
        const TensorId second = builder.parameter(name + ".second", graph::Shape::of({inner, 4}), {});
        const TensorId made = builder.add("MatMul", {builder.add("MatMul", {chained ? last : x, first}), second});
        builder.popScope();
        if (!chained)
            builder.output(made);
        last = made;
    }
    if (chained)
        builder.output(last);
    auto built = std::move(builder).build();
    return built.ok() ? std::make_shared<const graph::Graph>(*std::move(built)) : nullptr;
}

BoxSizes equalSizes(const VisibleGraph &graph)
{
    return {std::vector<std::pair<double, double>>(graph.nodes.size(), {1, 0.5}), {}};
}

constexpr const char *kRun = "h/0 … 3"; // of gpt-nano's blocks

} // namespace

class TestScopeGraph : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void closedScopesHideTheirOperators()
    {
        const auto graph = zoo("gpt-nano");
        const graph::LayerView layers = graph::layersOf(*graph);
        const ScopeGraph scopes(*graph, &layers);
        const VisibleGraph closed = scopes.visible({});
        QCOMPARE(closed.nodes.size(), std::size_t(3)); // embedding, h, head
        QVERIFY(closed.nodes[1].group);
        QVERIFY(scopes.visible({"h"}).find(kRun) >= 0);
        const VisibleGraph open = scopes.visible({"h", kRun});
        QCOMPARE(open.nodes.size(), std::size_t(6));
        QVERIFY(open.find("h/2") >= 0);
        QCOMPARE(scopes.visible({"h", kRun, "h/2"}).find("h/2"), -1);
        QCOMPARE(scopes.parentOf("h/2"), std::string(kRun));
        QCOMPARE(scopes.parentOf(kRun), std::string("h"));
        // The block's layer is the one that the planner cuts.
        QCOMPARE(open.nodes[static_cast<std::size_t>(open.find("h/2"))].firstLayer, std::size_t(3));
    }

    void inputsAreStubs()
    {
        const auto graph = zoo("gpt-nano");
        const VisibleGraph closed = ScopeGraph(*graph, nullptr).visible({});
        QCOMPARE(closed.nodes[0].stubs, std::vector<std::string>{"tokens"});
        QCOMPARE(closed.nodes[2].stubs, std::vector<std::string>{"labels"});
        for (const GraphEdge &edge : closed.edges)
            QVERIFY(edge.from != edge.to);
    }

    void dotGetsOnlyShortEdges()
    {
        // A chain with an edge from its first to its last operator.
        graph::GraphBuilder builder("chain");
        const TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({1, 4}));
        const TensorId first = builder.add("Relu", {x});
        TensorId last = first;
        for (int i = 0; i < 20; ++i)
            last = builder.add("Relu", {last});
        builder.output(builder.add("Add", {first, last}));
        const auto graph = std::move(builder).build();
        QVERIFY(graph.ok());
        const VisibleGraph visible = ScopeGraph(*graph, nullptr).visible({});
        int far = 0;
        for (const GraphEdge &edge : visible.edges)
            far += edge.far;
        QCOMPARE(far, 1);
        const std::string source = dotSource(visible, equalSizes(visible));
        QVERIFY(source.find(" 0 -> 21") == std::string::npos);
        QVERIFY(source.find(" 0 -> 1;") != std::string::npos);
    }

    void aWindowKeepsOrderAndNamesCutEdges()
    {
        const auto graph = chain(40);
        const VisibleGraph whole = ScopeGraph(*graph, nullptr).visible({});
        QCOMPARE(whole.nodes.size(), std::size_t(40));
        const auto keys = [&](std::size_t centre, std::size_t most) {
            const VisibleGraph window = windowOf(whole, centre, most);
            return std::pair(whole.find(window.nodes.front().key), window.nodes.size());
        };
        QCOMPARE(keys(0, 10), std::pair(0, std::size_t(10)));
        QCOMPARE(keys(20, 10), std::pair(15, std::size_t(10)));
        QCOMPARE(keys(39, 10), std::pair(30, std::size_t(10)));
        QCOMPARE(keys(3, 100), std::pair(0, std::size_t(40)));
        const VisibleGraph window = windowOf(whole, 20, 10);
        QCOMPARE(window.edges.size(), std::size_t(9));
        QCOMPARE(window.nodes.front().stubs, std::vector<std::string>{whole.nodes[14].key});
    }

    void equalBlocksAreFolded_data()
    {
        using Scopes = std::vector<std::pair<std::string, std::int64_t>>;
        QTest::addColumn<Scopes>("named");
        QTest::addColumn<bool>("chained");
        QTest::addColumn<QStringList>("titles");
        QTest::newRow("numbered") << Scopes{{"h/0", 8}, {"h/1", 8}, {"h/2", 8}} << true << QStringList{"h.0 … h.2"};
        QTest::newRow("numbered, side by side")
            << Scopes{{"e0", 8}, {"e1", 8}, {"e2", 8}} << false << QStringList{"e0 … e2"};
        QTest::newRow("named, in a chain") << Scopes{{"a", 8}, {"b", 8}, {"c", 8}} << true << QStringList{"a … c"};
        QTest::newRow("named, side by side") << Scopes{{"q", 8}, {"k", 8}, {"v", 8}} << false << QStringList{};
        QTest::newRow("two") << Scopes{{"h/0", 8}, {"h/1", 8}} << true << QStringList{};
        QTest::newRow("another shape") << Scopes{{"h/0", 8}, {"h/1", 16}, {"h/2", 8}} << true << QStringList{};
        QTest::newRow("two runs") << Scopes{{"h/0", 8}, {"h/1", 8}, {"h/2", 8}, {"h/3", 9}, {"h/4", 9}, {"h/5", 9}}
                                  << true << QStringList{"h.0 … h.2", "h.3 … h.5"};
    }
    void equalBlocksAreFolded()
    {
        using Scopes = std::vector<std::pair<std::string, std::int64_t>>;
        QFETCH(Scopes, named);
        QFETCH(bool, chained);
        QFETCH(QStringList, titles);
        const auto graph = scopes(named, chained);
        QVERIFY(graph);
        QStringList found;
        for (const Repeat &repeat : repeatsOf(*graph))
            found << QString::fromStdString(repeat.title);
        QCOMPARE(found, titles);
    }

    void aRunSaysWhatItStandsFor()
    {
        const auto graph = zoo("gpt-nano");
        const VisibleGraph visible = ScopeGraph(*graph, nullptr).visible({"h"});
        const GraphNode &run = visible.nodes[static_cast<std::size_t>(visible.find(kRun))];
        QCOMPARE(run.title, std::string("h.0 … h.3 ×4"));
        QCOMPARE(run.repeats, std::size_t(4));
        QCOMPARE(run.detail, "4 × " + std::to_string(run.ops.size() / 4) + " operators");
        QVERIFY(visible.frames.empty()); // around the run alone it would say nothing new
    }

    void attributesMakeADifference()
    {
        const auto built = [](std::int64_t axisOfTheSecond) {
            graph::GraphBuilder builder("attributes");
            TensorId last = builder.input("x", graph::DType::F32, graph::Shape::batched({4, 4}));
            for (int i = 0; i < 3; ++i) {
                builder.pushScope("h/" + std::to_string(i));
                last = builder.add("Softmax", {last}, {{"axis", i == 1 ? axisOfTheSecond : std::int64_t(-1)}});
                builder.popScope();
            }
            builder.output(last);
            return std::move(builder).build();
        };
        QCOMPARE(repeatsOf(*built(-1)).size(), std::size_t(1));
        QCOMPARE(repeatsOf(*built(1)).size(), std::size_t(0));
    }

    void tenThousandOperatorsAreIndexedOnce()
    {
        const auto graph = chain(10'000);
        const ScopeGraph scopes(*graph, nullptr);
        const ModelSearch search(scopes);
        QCOMPARE(search.find("relu").size(), std::size_t(10'000));
        const auto hits = search.find("OPERATORS 120..239");
        QCOMPARE(hits.size(), std::size_t(1));
        QCOMPARE(search.entries()[hits[0]].type, std::string());
        QVERIFY(search.find("").empty());
        QVERIFY(search.find("relu MatMul").empty()); // all words
    }

    void neighboursAreWithinSteps()
    {
        const auto graph = chain(9);
        const VisibleGraph whole = ScopeGraph(*graph, nullptr).visible({});
        const VisibleGraph near = neighbourhoodOf(whole, 4, 2);
        QCOMPARE(near.nodes.size(), std::size_t(5));
        QCOMPARE(near.nodes.front().key, whole.nodes[2].key);
        QCOMPARE(near.edges.size(), std::size_t(4));
    }

    void plainAnswers_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<bool>("good");
        QTest::newRow("whole") << QByteArray(
            "graph 1 2 3\nnode 0 1 2.5 1 0.5\nnode 1 1 0.5 1 0.5\nedge 0 1 4 1 2 1 1.5 1 1.2 1 1\nstop\n")
                               << true;
        QTest::newRow("cut short") << QByteArray("graph 1 2 3\nnode 0 1 2.5 1 0.5\n") << false;
        QTest::newRow("a box is missing") << QByteArray("graph 1 2 3\nnode 0 1 2.5 1 0.5\nstop\n") << false;
        QTest::newRow("a box too many") << QByteArray("graph 1 2 3\nnode 7 1 2.5 1 0.5\nstop\n") << false;
    }
    void plainAnswers()
    {
        QFETCH(QByteArray, text);
        QFETCH(bool, good);
        PlainLayout layout;
        QCOMPARE(parsePlain(text.toStdString(), 2, layout), good);
        if (!good)
            return;
        QCOMPARE(layout.height, 3 * 72.0);
        QCOMPARE(layout.centers[0].y, (3 - 2.5) * 72); // y points down
        QCOMPARE(layout.splines.at({0, 1}).size(), std::size_t(4));
    }

    void manyDevicesAreColouredByMachine()
    {
        const auto model = import::loadModel("zoo:gpt-nano");
        auto cluster = cluster::preset("h100-16");
        QVERIFY(model.ok() && cluster.ok());
        auto document = std::make_shared<plan::Document>();
        document->subject =
            plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*std::move(cluster)), nullptr,
                              "zoo:gpt-nano");
        document->plan.globalBatch = 16;
        plan::Stage stage;
        stage.lastLayer = document->subject.layers().size();
        for (int device = 0; device < 16; ++device)
            stage.devices.push_back(DeviceId(device));
        document->plan.stages = {stage};
        const ModelFigures figures(model->graph, document);
        QCOMPARE(figures.samplesOf(0), std::int64_t(1));
        const VisibleGraph visible = ScopeGraph(*model->graph, nullptr).visible({});
        const BoxColors colors = colorBoxes(ColorBy::Device, visible, &figures);
        QCOMPARE(colors.legend.title, QString("Machine"));
        QCOMPARE(colors.legend.entries.size(), std::size_t(2));
        QCOMPARE(colors.boxes[0].stripes.size(), std::size_t(2));
    }
};

PLANLOOM_UI_MAIN(TestScopeGraph)
#include "tst_scope_graph.moc"
