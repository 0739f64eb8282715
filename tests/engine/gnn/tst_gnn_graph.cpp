// SPDX-License-Identifier: Apache-2.0
// Graphs, their parts, and the trees that are drawn from them.
#include "engine/gnn/graph_data.h"
#include "engine/gnn/partition.h"
#include "engine/gnn/random.h"
#include "engine/gnn/sampling.h"

#include <QTest>

#include <algorithm>
#include <cmath>

using namespace planloom;
using namespace planloom::gnn;

namespace {

/// 0-1 0-2 1-2 2-3 3-4 4-5 3-5.
GraphData twoTriangles()
{
    GraphData graph;
    setEdges(graph, 6, {{0, 1}, {0, 2}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {3, 5}});
    graph.labels = {0, 0, 0, 1, 1, 1};
    graph.width = 1;
    graph.features.assign(6, 1);
    return graph;
}

using Nodes = std::vector<std::int64_t>;

} // namespace

class TestGnnGraph : public QObject {
    Q_OBJECT

private slots:
    void drawnTrees()
    {
        QVERIFY(scramble(0) == 0xe220a8397b1dcdafU);
        const GraphData graph = twoTriangles();
        QVERIFY(checkGraph(graph).ok());
        const auto check = [&graph](std::int64_t step, std::int64_t node, const Nodes &first, const Nodes &second) {
            const SampledTree tree = sampleTree(graph, {3, 2}, 1, step, node);
            QCOMPARE(tree.first, first);
            QCOMPARE(tree.second, second);
        };
        check(0, 0, {1, 1, 2}, {2, 0, 2, 2, 3, 0});
        check(0, 2, {0, 1, 1}, {1, 2, 0, 0, 0, 0});
        check(0, 5, {4, 3, 4}, {5, 5, 4, 5, 3, 3});
        check(1, 2, {3, 3, 1}, {5, 4, 2, 5, 2, 2});
    }

    /// The same draws as places: the node, its entries, and theirs; or each neighbour once of nodes with few.
    void placesOfLists()
    {
        const GraphData graph = twoTriangles();
        Nodes places;
        appendTree(graph, {{3, 2}, false, 1, 0}, 2, places);
        QCOMPARE(places, Nodes({2, 0, 1, 1, 1, 2, 0, 0, 0, 0}));
        places.clear();
        appendTree(graph, {{3, 2}, true, 1, 0}, 2, places); // 3 has three neighbours, of whom 2 are drawn
        QCOMPARE(places.size(), std::size_t{4 + 3 * 2});
        QCOMPARE(Nodes(places.begin(), places.begin() + 8), Nodes({2, 0, 1, 3, 1, 2, 0, 2}));
        QCOMPARE(entriesOf(0, 3, true), 3); // none of them: it draws itself
        QCOMPARE(entriesOf(4, 3, true), 3);
        QCOMPARE(entriesOf(3, 3, true), 3);
        QCOMPARE(entriesOf(2, 3, true), 2);
        QCOMPARE(entriesOf(2, 3, false), 3);
        QVERIFY(std::abs(convolutionFactor(2, 3, 2) - 1 / std::sqrt(12.0)) < 1e-15);
        QVERIFY(std::abs(loopFactor(3) - 0.25) < 1e-15);
    }

    void aNodeWithoutNeighboursTakesItself()
    {
        GraphData graph = twoTriangles();
        setEdges(graph, 6, {{0, 1}});
        const SampledTree tree = sampleTree(graph, {2, 1}, 1, 0, 3);
        QCOMPARE(tree.first, Nodes({3, 3}));
        QCOMPARE(tree.second, Nodes({3, 3}));
    }

    void fanouts()
    {
        QVERIFY(checkFanout({1, kMostFanout}).ok());
        QVERIFY(checkFanout({0, 5}).error().message.find("a fan-out of 0") != std::string::npos);
        QVERIFY(!checkFanout({3, -1}).ok());
        QVERIFY(!checkFanout({kMostFanout + 1, 1}).ok());
    }

    void karate()
    {
        const GraphData graph = karateClub();
        QVERIFY2(checkGraph(graph).ok(), "karate");
        QCOMPARE(graph.nodes(), 34);
        QCOMPARE(graph.edges(), 78);
        QCOMPARE(graph.classes(), 2);
        QCOMPARE(static_cast<int>(graph.neighbours(33).size()), 17);
        QCOMPARE(partitionFigures(graph, graph.labels).cutEdges, 11); // the clubs themselves
        QCOMPARE(static_cast<int>(std::count(graph.labels.begin(), graph.labels.end(), 0)), 17);
    }

    void partsOfKarate_data()
    {
        QTest::addColumn<int>("parts");
        QTest::addColumn<int>("cut");
        QTest::addColumn<int>("cutKway"); ///< by the other method: why it is not for tiny graphs
        QTest::newRow("2") << 2 << 10 << 10;
        QTest::newRow("3") << 3 << 23 << 48;
        QTest::newRow("4") << 4 << 27 << 43;
    }

    void partsOfKarate()
    {
        if (!hasMetis())
            QSKIP("this build has no METIS");
        QFETCH(int, parts);
        QFETCH(int, cut);
        QFETCH(int, cutKway);
        const GraphData graph = karateClub();
        const auto part = partitionOf(graph, {PartitionMethod::Metis, parts, 1, false});
        QVERIFY(part.ok());
        QCOMPARE(partitionFigures(graph, *part).cutEdges, cut);
        int failure = 0;
        const auto kway = metis::cut(graph, {PartitionMethod::Metis, parts, 1, false}, false, failure);
        QCOMPARE(failure, 0);
        QCOMPARE(partitionFigures(graph, kway).cutEdges, cutKway);
    }

    void hashParts()
    {
        const auto graph = blockModelGraph({});
        QVERIFY(graph.ok());
        PartitionOptions options{PartitionMethod::Hash, 4, 1, false};
        const auto part = partitionOf(*graph, options);
        QVERIFY(part.ok());
        const PartitionFigures figures = partitionFigures(*graph, *part);
        QVERIFY(figures.cutShare > 0.7 && figures.cutShare < 0.8);
        QVERIFY(figures.nodesOverMean < 1.2);
        QCOMPARE(figures.partWithoutTraining, -1);
        QCOMPARE(*partitionOf(*graph, options), *part);
        options.seed = 2;
        QVERIFY(*partitionOf(*graph, options) != *part);
    }

    void metisCutsLessThanHash()
    {
        if (!hasMetis())
            QSKIP("this build has no METIS");
        const auto graph = blockModelGraph({});
        for (const bool balanced : {false, true}) {
            const auto part = partitionOf(*graph, {PartitionMethod::Metis, 4, 1, balanced});
            QVERIFY(part.ok());
            QVERIFY(partitionFigures(*graph, *part).cutShare < 0.35);
        }
    }

    void twoConstraints()
    {
        if (!hasMetis())
            QSKIP("this build has no METIS");
        auto graph = blockModelGraph({});
        for (std::size_t node = 0; node < 600; ++node)
            graph->labels[node] = GraphData::kNoLabel; // training nodes in two of four blocks
        const auto one = partitionOf(*graph, {PartitionMethod::Metis, 4, 1, false});
        const auto two = partitionOf(*graph, {PartitionMethod::Metis, 4, 1, true});
        QVERIFY(partitionFigures(*graph, *two).trainingOverMean < 1.1);
        QVERIFY(partitionFigures(*graph, *two).trainingOverMean < partitionFigures(*graph, *one).trainingOverMean);
    }

    void badParts()
    {
        const GraphData graph = karateClub();
        for (const int parts : {0, -1, 35}) {
            const auto made = partitionOf(graph, {PartitionMethod::Hash, parts, 1, false});
            QVERIFY(!made.ok() && made.error().code == ErrorCode::BadInput);
        }
        for (const auto &[method, parts] :
             {std::pair(PartitionMethod::Metis, 34), std::pair(PartitionMethod::Hash, 30)}) {
            if (method == PartitionMethod::Metis && !hasMetis())
                continue;
            const auto made = partitionOf(graph, {method, parts, 1, false});
            QVERIFY(!made.ok() && made.error().code == ErrorCode::BadInput);
            QVERIFY2(made.error().message.find("use fewer parts") != std::string::npos, made.error().message.c_str());
        }
        QVERIFY(partitionMethodFromName("random").error().message.find("metis and hash") != std::string::npos);
    }

    void blockModel()
    {
        const auto graph = blockModelGraph({});
        QVERIFY(graph.ok() && checkGraph(*graph).ok());
        QCOMPARE(graph->nodes(), 1000);
        QCOMPARE(graph->classes(), 4);
        const double degree = 2.0 * static_cast<double>(graph->edges()) / 1000;
        QVERIFY(degree > 9 && degree <= 10); // 8 inside and 2 outside, less repeated edges and loops
        QCOMPARE(blockModelGraph({})->arcs, graph->arcs);
        BlockModel other;
        other.seed = 2;
        QVERIFY(blockModelGraph(other)->arcs != graph->arcs);
    }

    void badModels()
    {
        BlockModel model;
        model.blocks = 0;
        QVERIFY(!blockModelGraph(model).ok());
        model = {};
        model.degreeInside = 250;
        QVERIFY(blockModelGraph(model).error().message.find("a mean degree of 250") != std::string::npos);
        model = {};
        model.degreeOutside = std::nan("");
        QVERIFY(!blockModelGraph(model).ok());
    }

    void badGraphs_data()
    {
        QTest::addColumn<int>("what");
        QTest::addColumn<QString>("message");
        QTest::newRow("loop") << 0 << "node 1 is its own neighbour";
        QTest::newRow("one way") << 1 << "node 0 has the neighbour 5, and 5 has not 0";
        QTest::newRow("range") << 2 << "node 0 has the neighbour 6";
        QTest::newRow("offsets") << 3 << "the offsets fall at node 2";
        QTest::newRow("end") << 4 << "the offsets end at 14, and there are 13";
        QTest::newRow("label") << 5 << "node 3 has the label -2";
        QTest::newRow("feature") << 6 << "node 2 has a feature that is not finite";
        QTest::newRow("width") << 7 << "there are 6 features for 6 nodes of 2 each";
        QTest::newRow("part") << 8 << "node 1 has the part -1";
        QTest::newRow("order") << 9 << "are not ascending";
        QTest::newRow("empty") << 10 << "no nodes";
    }

    void badGraphs()
    {
        QFETCH(int, what);
        QFETCH(QString, message);
        GraphData graph = twoTriangles();
        switch (what) {
        case 0: graph.arcs[3] = 1; break;
        case 1: graph.arcs[1] = 5; break;
        case 2: graph.arcs[1] = 6; break;
        case 3: graph.offsets[3] = 1; break;
        case 4: graph.arcs.pop_back(); break;
        case 5: graph.labels[3] = -2; break;
        case 6: graph.features[2] = std::nanf(""); break;
        case 7: graph.width = 2; break;
        case 8: graph.part = {0, -1, 0, 0, 0, 0}; break;
        case 9: std::swap(graph.arcs[0], graph.arcs[1]); break;
        default: graph = {}; break;
        }
        const Status status = checkGraph(graph);
        QVERIFY(!status.ok());
        QVERIFY2(status.error().message.find(message.toStdString()) != std::string::npos,
                 status.error().message.c_str());
    }
};

QTEST_GUILESS_MAIN(TestGnnGraph)
#include "tst_gnn_graph.moc"
