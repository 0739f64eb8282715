// SPDX-License-Identifier: GPL-3.0-or-later
#include <QLabel>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "engine/base/files.h"
#include "engine/graph/graph.h"
#include "engine/import/import.h"
#include "ui/model/graph_node_item.h"
#include "ui/model/model_view.h"

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

/// A scope "b0", "b1", ... per operator: more groups at the top than a picture holds.
std::shared_ptr<const graph::Graph> blocks(int count)
{
    graph::GraphBuilder builder("blocks");
    TensorId last = builder.input("x", graph::DType::F32, graph::Shape::batched({1, 4}));
    for (int i = 0; i < count; ++i) {
        builder.pushScope("b" + std::to_string(i));
        const TensorId weight = builder.parameter("weight" + std::to_string(i), graph::Shape::of({4, 4}), {});
        last = builder.add("MatMul", {last, weight}); // heavy: a layer of its own
        builder.popScope();
    }
    builder.loss(builder.add("ReduceMean", {last}));
    builder.output(last);
    auto built = std::move(builder).build();
    return built.ok() ? std::make_shared<const graph::Graph>(*std::move(built)) : nullptr;
}

} // namespace

class TestModelView : public QObject {
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
        const VisibleGraph open = scopes.visible({"h"});
        QCOMPARE(open.nodes.size(), std::size_t(6));
        QVERIFY(open.find("h/2") >= 0);
        QCOMPARE(scopes.visible({"h", "h/2"}).find("h/2"), -1);
        QCOMPARE(scopes.parentOf("h/2"), std::string("h"));
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
        const std::string source =
            dotSource(visible, std::vector<std::pair<double, double>>(visible.nodes.size(), {1, 0.5}));
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

    /// A picture, not a request to close something.
    void aLongGraphIsShownAroundTheSelection()
    {
        StudioState state;
        ModelView view(&state);
        view.resize(500, 700);
        view.show();
        QTemporaryDir folder;
        const QString file = folder.filePath("long.json");
        QVERIFY(writeFileAtomically(file.toStdString(), graph::toJson(*blocks(400))));
        state.open(file);
        state.open("preset:dapple-b");
        QTRY_VERIFY(state.subject().has_value());
        auto *canvas = view.findChild<GraphCanvas *>();
        QTRY_VERIFY(!view.layingOut() && canvas->graph().nodes.size() > 100);
        const auto note = [&] {
            for (const QLabel *label : view.findChildren<QLabel *>())
                if (label->isVisible() && label->text().startsWith("Showing"))
                    return label->text();
            return QString();
        };
        QCOMPARE(note(), QString("Showing 300 of 401 operators and groups; search or select a layer to see others"));
        QCOMPARE(canvas->graph().find("b399"), -1);
        Selection last;
        const std::size_t layers = state.subject()->layers().size();
        last.layers = {layers - 1, layers};
        state.select(last);
        QTRY_VERIFY(canvas->graph().find("b399") >= 0);
        QTRY_VERIFY(!view.layingOut());
        // Letters that can be read.
        QVERIFY(canvas->transform().m11() * GraphNodeItem::smallestText(canvas->font()) > 8.99);
        canvas->setCurrent(0, false); // the first box of the window, b100
        QTest::keyClick(canvas, Qt::Key_Left);
        QTRY_VERIFY(canvas->graph().find("b50") >= 0); // the window went along
        QTest::keyClick(canvas, Qt::Key_Space);
        QVERIFY(canvas->transform().m11() < 0.5); // all of it
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

    void opensByKeyboardAndFinds()
    {
        StudioState state;
        ModelView view(&state);
        view.resize(500, 700);
        view.show();
        state.open("zoo:gpt-nano");
        state.open("preset:dapple-b");
        auto *canvas = view.findChild<GraphCanvas *>();
        QTRY_COMPARE(canvas->graph().nodes.size(), std::size_t(6)); // the list of blocks is open from the start
        QTRY_VERIFY(state.subject().has_value());
        QTRY_VERIFY(!view.layingOut());
        canvas->setCurrent(canvas->graph().find("h/1"), false);
        QTest::keyClick(canvas, Qt::Key_Return);
        QTRY_VERIFY(canvas->graph().find("h/1") < 0);
        QVERIFY(canvas->graph().nodes.size() > 6);
        auto *search = view.findChild<QLineEdit *>();
        search->setText("loss");
        QTest::keyClick(search, Qt::Key_Return);
        QTRY_VERIFY(
            canvas->current() >= 0
            && QString::fromStdString(canvas->graph().nodes[std::size_t(canvas->current())].key).contains("loss"));
        QTest::keyClick(canvas, Qt::Key_Backspace); // closes the scope around
        QTRY_COMPARE(canvas->graph().find("head") >= 0, true);
    }

    void selectionIsShared()
    {
        StudioState state;
        ModelView view(&state);
        view.resize(500, 700);
        view.show();
        state.open("zoo:gpt-nano");
        state.open("preset:dapple-b");
        auto *canvas = view.findChild<GraphCanvas *>();
        QTRY_VERIFY(state.subject().has_value());
        QTRY_VERIFY(!view.layingOut() && canvas->graph().nodes.size() == 6);
        QTest::keyClick(canvas, Qt::Key_Right);
        QTest::keyClick(canvas, Qt::Key_Right);
        QCOMPARE(state.selection().layers.first, std::size_t(1));
        QCOMPARE(state.selection().layers.last, std::size_t(2));
    }

    void layoutCanBeCancelled()
    {
        DotProcess dot;
        QSignalSpy failed(&dot, &DotProcess::failed);
        const auto graph = zoo("resnet-50");
        const ScopeGraph scopes(*graph, nullptr);
        const auto all = scopes.allScopes();
        const VisibleGraph visible = scopes.visible({all.begin(), all.end()});
        dot.start(visible, std::vector<std::pair<double, double>>(visible.nodes.size(), {1, 0.5}));
        QVERIFY(dot.running());
        dot.cancel();
        QVERIFY(!dot.running());
        QCOMPARE(failed.size(), 1);
    }
};

QTEST_MAIN(TestModelView)
#include "tst_model_view.moc"
