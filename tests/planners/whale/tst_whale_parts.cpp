// SPDX-License-Identifier: Apache-2.0
// Virtual devices, cuts into task graphs, orders, bridges and sharding patterns: the examples of Whale's paper and of
// the released EPL.
#include "engine/graph/zoo/zoo.h"
#include "planners/whale/bridge.h"
#include "planners/whale/partition.h"
#include "planners/whale/patterns.h"
#include "planners/whale/settings.h"
#include "planners/whale/task_graphs.h"
#include "planners/whale/virtual_devices.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <limits>
#include <numeric>
#include <random>

using namespace planloom;
using namespace planloom::planners::whale;
using plan::Annotation;
using testing::must;

namespace {

/// "0,1|4,5 / 2,3|6,7": copies within a task graph, then task graphs.
QString textOf(const std::vector<std::vector<std::vector<DeviceId>>> &devices)
{
    QStringList taskGraphs;
    for (const auto &copies : devices) {
        QStringList parts;
        for (const auto &copy : copies) {
            QStringList ids;
            for (const DeviceId id : copy)
                ids << QString::number(id.value);
            parts << ids.join(',');
        }
        taskGraphs << parts.join('|');
    }
    return taskGraphs.join(" / ");
}

graph::Graph smallGpt(int layers, int heads = 4)
{
    graph::TransformerConfig config;
    config.name = "small";
    config.layers = layers;
    config.heads = heads;
    config.hidden = 64;
    config.feedForward = 256;
    config.vocabulary = 128;
    config.context = 16;
    return must(graph::gpt(config));
}

/// A product of [samples, rows, inner] with a weight, and of that with another, which something that is not linear
/// reads.
graph::Graph twoProducts(std::int64_t inner, std::int64_t middle, std::int64_t columns)
{
    graph::GraphBuilder builder("products");
    const graph::Initializer normal{graph::Initializer::Kind::Normal, 0, 0.02, nullptr, {}, 0};
    const TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({4, inner}));
    const TensorId a = builder.parameter("a", graph::Shape::of({inner, middle}), normal);
    const TensorId b = builder.parameter("b", graph::Shape::of({middle, columns}), normal);
    const TensorId y = builder.add("MatMul", {builder.add("MatMul", {x, a}), b});
    builder.output(builder.add("Relu", {y}));
    return must(std::move(builder).build());
}

} // namespace

class TestWhaleParts : public QObject {
    Q_OBJECT

private slots:
    void virtualDevicesOfTheExamples_data()
    {
        QTest::addColumn<int>("nodes");
        QTest::addColumn<int>("perNode");
        QTest::addColumn<QList<int>>("counts");
        QTest::addColumn<bool>("intraNode");
        QTest::addColumn<QString>("expected");
        QTest::newRow("Fig. 5: two task graphs of two on eight")
            << 2 << 4 << QList<int>{2, 2} << true << "0,1|4,5 / 2,3|6,7";
        QTest::newRow("EPL: two of one on four") << 1 << 4 << QList<int>{1, 1} << true << "0|2 / 1|3";
        QTest::newRow("EPL: one of one on four") << 1 << 4 << QList<int>{1} << true << "0|1|2|3";
        QTest::newRow("over the nodes in turn") << 2 << 2 << QList<int>{1} << false << "0|2|1|3";
        QTest::newRow("one of all") << 2 << 2 << QList<int>{4} << true << "0,1,2,3";
    }

    void virtualDevicesOfTheExamples()
    {
        QFETCH(int, nodes);
        QFETCH(int, perNode);
        QFETCH(QList<int>, counts);
        QFETCH(bool, intraNode);
        QFETCH(QString, expected);
        const auto devices = must(
            virtualDevices(testing::smallCluster(nodes, perNode), {counts.begin(), counts.end()}, {intraNode, true}));
        QCOMPARE(textOf(devices), expected);
    }

    void largerMemoryComesFirst()
    {
        const cluster::Cluster mixed = must(cluster::preset("v100-t4")); // 8 of 32 GB, then 8 of 16 GB
        QCOMPARE(textOf(must(virtualDevices(mixed, {8, 8}, {true, true}))),
                 QString("0,1,2,3,4,5,6,7 / 8,9,10,11,12,13,14,15"));
        // Over the nodes in turn each copy has one of each kind; the larger goes to the front.
        const auto across = must(virtualDevices(mixed, {1, 1}, {false, true}));
        for (std::size_t copy = 0; copy < 8; ++copy) {
            QCOMPARE(mixed.typeOf(across[0][copy][0]).name, std::string("V100-32GB"));
            QCOMPARE(mixed.typeOf(across[1][copy][0]).name, std::string("T4"));
        }
    }

    void devicesMustDivide()
    {
        const auto devices = virtualDevices(testing::smallCluster(1, 8), {2, 1}, {});
        QVERIFY(!devices);
        QCOMPARE(devices.error().code, ErrorCode::Infeasible);
        QVERIFY2(devices.error().message.find("3 devices together") != std::string::npos
                     && devices.error().message.find("2 or 4 together") != std::string::npos,
                 devices.error().message.c_str());
    }

    void bucketsOfTheReleasedTests_data()
    {
        QTest::addColumn<QList<double>>("weights");
        QTest::addColumn<double>("capacity");
        QTest::addColumn<QString>("expected");
        QTest::newRow("six ones, 2") << QList<double>{1, 1, 1, 1, 1, 1} << 2.0 << "(0,2)(2,2)(4,2)";
        QTest::newRow("six ones, 3") << QList<double>{1, 1, 1, 1, 1, 1} << 3.0 << "(0,3)(3,3)";
        QTest::newRow("mixed, 1") << QList<double>{1, 7, 4, 3, 1, 11} << 1.0 << "none";
        QTest::newRow("mixed, 5") << QList<double>{1, 7, 4, 3, 1, 11} << 5.0 << "none";
        QTest::newRow("mixed, 11") << QList<double>{1, 7, 4, 3, 1, 11} << 11.0 << "(0,8)(2,8)(5,11)";
    }

    void bucketsOfTheReleasedTests()
    {
        QFETCH(QList<double>, weights);
        QFETCH(double, capacity);
        QFETCH(QString, expected);
        const auto buckets = fillBuckets({weights.begin(), weights.end()}, capacity, 3);
        QString text = buckets ? QString() : QString("none");
        if (buckets)
            for (const Bucket &bucket : *buckets)
                text += QString("(%1,%2)").arg(bucket.first).arg(bucket.total);
        QCOMPARE(text, expected);
    }

    void smallestBucketsAreTheSmallest()
    {
        QCOMPARE(smallestBuckets({1, 7, 4, 3, 1, 11}, 3), (std::vector<Bucket>{{0, 8}, {2, 8}, {5, 11}}));
        std::mt19937 random(3);
        std::uniform_int_distribution<int> weight(1, 20);
        for (int round = 0; round < 100; ++round) {
            std::vector<double> weights(2 + static_cast<std::size_t>(round) % 8);
            for (double &each : weights)
                each = weight(random);
            const std::size_t parts = 1 + static_cast<std::size_t>(round) % weights.size();
            const auto buckets = smallestBuckets(weights, parts);
            QVERIFY(buckets.size() <= parts);
            double largest = 0;
            double sum = 0;
            for (const Bucket &bucket : buckets) {
                largest = std::max(largest, bucket.total);
                sum += bucket.total;
            }
            QCOMPARE(sum, std::accumulate(weights.begin(), weights.end(), 0.0));
            // One less does not do, unless counting began above it already, or what is largest stands alone.
            if (largest - 1 >= std::floor(sum / static_cast<double>(parts))
                && largest > *std::max_element(weights.begin(), weights.end()))
                QVERIFY(!fillBuckets(weights, largest - 1, parts));
        }
    }

    void wideWeightsAreScaled()
    {
        const auto buckets = smallestBuckets({1e9, 2e9, 3e9, 6e9}, 2);
        QCOMPARE(buckets.size(), std::size_t(2));
        QCOMPARE(buckets[0].total, 6e9);
        QCOMPARE(buckets[1].total, 6e9);
    }

    // All cuts of small instances, with memory: the exact cut is the best fitting one, the walk finds one that
    // fits or none.
    void cutsAgainstAllOfThem()
    {
        std::mt19937 random(5);
        std::uniform_int_distribution<int> weight(1, 9);
        std::uniform_real_distribution<double> speed(1, 3);
        int feasible = 0;
        int walked = 0;
        for (int round = 0; round < 300; ++round) {
            std::vector<double> weights(3 + static_cast<std::size_t>(round) % 6);
            for (double &each : weights)
                each = weight(random);
            std::vector<double> speeds(2 + static_cast<std::size_t>(round) % 2);
            std::vector<double> room;
            for (double &each : speeds) {
                each = speed(random);
                room.push_back(weight(random) * 1.5);
            }
            const std::size_t parts = speeds.size();
            // Part i of N keeps N - i activations of its items.
            const PartFits fits = [&](std::size_t part, std::size_t first, std::size_t last) {
                return static_cast<double>((parts - part) * (last - first)) <= room[part];
            };
            double best = std::numeric_limits<double>::infinity();
            const auto secondsOf = [&](const std::vector<std::size_t> &cuts) {
                double slow = 0;
                for (std::size_t p = 0; p < parts; ++p) {
                    const std::size_t first = p == 0 ? 0 : cuts[p - 1];
                    const std::size_t last = p < cuts.size() ? cuts[p] : weights.size();
                    if (first >= last || !fits(p, first, last))
                        return std::numeric_limits<double>::infinity();
                    slow = std::max(slow,
                                    std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(first),
                                                    weights.begin() + static_cast<std::ptrdiff_t>(last), 0.0)
                                        / speeds[p]);
                }
                return slow;
            };
            for (std::size_t a = 1; a < weights.size(); ++a) {
                if (parts == 2)
                    best = std::min(best, secondsOf({a}));
                for (std::size_t b = a + 1; parts == 3 && b < weights.size(); ++b)
                    best = std::min(best, secondsOf({a, b}));
            }
            const auto exact = exactCuts(weights, speeds, fits);
            QCOMPARE(exact.has_value(), std::isfinite(best));
            const auto walk = walkCuts(weights, speeds, fits);
            if (walk) {
                QVERIFY(std::isfinite(secondsOf(*walk)));
                QVERIFY(secondsOf(*walk) >= best - 1e-9);
                ++walked;
            }
            if (!exact)
                continue;
            ++feasible;
            QVERIFY(std::abs(secondsOf(*exact) - best) < 1e-9);
        }
        QVERIFY(feasible > 50);
        QVERIFY2(walked > feasible * 3 / 4, qPrintable(QString("%1 of %2").arg(walked).arg(feasible)));
    }

    void walkIsInProportion()
    {
        const auto all = [](std::size_t, std::size_t, std::size_t) { return true; };
        QCOMPARE(*walkCuts(std::vector<double>(12, 1), {2, 1, 1}, all), (std::vector<std::size_t>{6, 9}));
        QCOMPARE(*walkCuts({100, 1, 1}, {1, 1, 1}, all), (std::vector<std::size_t>{1, 2}));
    }

    void forwardsInFlight_data()
    {
        QTest::addColumn<int>("order");
        QTest::addColumn<QList<int>>("expected");
        QTest::newRow("backward") << int(Order::BackwardFirst) << QList<int>{4, 3, 2, 1};
        QTest::newRow("forward") << int(Order::ForwardFirst) << QList<int>{6, 6, 6, 6};
        QTest::newRow("optimizer") << int(Order::Optimizer) << QList<int>{5, 4, 3, 1};
    }

    void forwardsInFlight()
    {
        QFETCH(int, order);
        QFETCH(QList<int>, expected);
        for (std::size_t s = 0; s < 4; ++s)
            QCOMPARE(inFlight(static_cast<Order>(order), s, 4, 6), expected[static_cast<qsizetype>(s)]);
    }

    void bridges_data()
    {
        QTest::addColumn<bool>("splitFrom");
        QTest::addColumn<int>("from");
        QTest::addColumn<bool>("splitTo");
        QTest::addColumn<int>("to");
        QTest::addColumn<QString>("expected");
        QTest::newRow("replicas to as many replicas") << false << 4 << false << 4 << "fused";
        QTest::newRow("replicas to other replicas") << false << 4 << false << 2 << "fused";
        QTest::newRow("replicas to parts") << false << 4 << true << 2 << "gather partition 75";
        QTest::newRow("parts to replicas") << true << 4 << false << 2 << "gather partition 75";
        QTest::newRow("parts to as many parts") << true << 2 << true << 2 << "fused";
        QTest::newRow("parts to other parts") << true << 2 << true << 4 << "gather partition 50";
        QTest::newRow("one to parts") << false << 1 << true << 4 << "partition 0";
        QTest::newRow("one to one") << false << 1 << false << 1 << "0";
    }

    void bridges()
    {
        QFETCH(bool, splitFrom);
        QFETCH(int, from);
        QFETCH(bool, splitTo);
        QFETCH(int, to);
        QFETCH(QString, expected);
        const auto layout = [](bool split, int parts) {
            return Layout{split ? Annotation::Kind::Split : Annotation::Kind::Replicate, parts, split ? 1 : 0};
        };
        const Bridge bridge = bridgeBetween(layout(splitFrom, from), layout(splitTo, to), 100);
        QString text = bridge.fused ? QString("fused")
                                    : QString("%1%2%3")
                                          .arg(bridge.gathers ? "gather " : "", bridge.partitions ? "partition " : "")
                                          .arg(bridge.bytes);
        QCOMPARE(text, expected);
    }

    // SP1 splits the columns and leaves the product split; SP2 takes that in and needs one all-reduce.
    void matrixPatternsOfThePaper()
    {
        const graph::Graph graph = twoProducts(8, 16, 8);
        const graph::LayerView layers = graph::layersOf(graph);
        const Patterns patterns =
            must(choosePatterns(graph, layers, 0, layers.size(), 2, PatternChoice::Single, "all"));
        QCOMPARE(sharding::toText(patterns.pins.at("a")), std::string("B,S(1)"));
        QCOMPARE(sharding::toText(patterns.pins.at("b")), std::string("B,S(0)"));
        QCOMPARE(patterns.splitShare, 1.0);
        QCOMPARE(patterns.bytes, 2.0 * 4 * 8 * 4); // 2 (p - 1) times the result of a sample
    }

    void leastCommunicationIsChosen()
    {
        const graph::Graph graph = smallGpt(2);
        const graph::LayerView layers = graph::layersOf(graph);
        const auto bytes = [&](PatternChoice choice) {
            return must(choosePatterns(graph, layers, 0, layers.size(), 4, choice, "all")).bytes;
        };
        const double least = bytes(PatternChoice::Least);
        QCOMPARE(least, std::min(bytes(PatternChoice::Single), bytes(PatternChoice::Layers)));
        QVERIFY(least > 0);
    }

    void whatCannotBeSplit()
    {
        const graph::Graph graph = twoProducts(6, 9, 6);
        const graph::LayerView layers = graph::layersOf(graph);
        const auto four = choosePatterns(graph, layers, 0, layers.size(), 4, PatternChoice::Least, "all");
        QVERIFY(!four);
        QVERIFY2(four.error().message.find("split it into 3") != std::string::npos, four.error().message.c_str());
        const graph::Graph odd = twoProducts(7, 11, 13);
        const graph::LayerView oddLayers = graph::layersOf(odd);
        const auto none = choosePatterns(odd, oddLayers, 0, oddLayers.size(), 2, PatternChoice::Least, "all");
        QVERIFY(!none);
        QVERIFY2(none.error().message.find("replicate it") != std::string::npos, none.error().message.c_str());
    }

    void taskGraphsOfAnnotations_data()
    {
        QTest::addColumn<QStringList>("annotations");
        QTest::addColumn<QString>("expected"); // layers: embedding, 6 blocks, the rest
        QTest::newRow("one block takes all") << QStringList{"h/2=split:4"} << "0-n split:4";
        QTest::newRow("two scopes") << QStringList{"h/0..h/2=replicate:2", "h/3..h/5=split:4"}
                                    << "0-4 replicate:2, 4-n split:4";
        QTest::newRow("the rest by itself")
            << QStringList{"h=split:4", "*=replicate:2"} << "0-1 replicate:2, 1-7 split:4, 7-n replicate:2";
        QTest::newRow("all by the rest") << QStringList{"*=replicate"} << "0-n replicate";
        QTest::newRow("order is the model's")
            << QStringList{"h/4=split:2", "h/1=replicate:2"} << "0-5 replicate:2, 5-n split:2";
    }

    void taskGraphsOfAnnotations()
    {
        QFETCH(QStringList, annotations);
        QFETCH(QString, expected);
        planners::Problem problem;
        problem.subject =
            plan::makeSubject(std::make_shared<const graph::Graph>(smallGpt(6)),
                              std::make_shared<const cluster::Cluster>(testing::smallCluster(1, 8)), nullptr, "");
        for (const QString &text : annotations)
            problem.annotations.push_back(must(plan::annotationFromText(text.toStdString())));
        QStringList parts;
        for (const TaskGraph &each : must(annotatedTaskGraphs(problem))) {
            const QString last =
                each.last == problem.subject.layers().size() ? QString("n") : QString::number(each.last);
            parts << QString("%1-%2 %3")
                         .arg(each.first)
                         .arg(last, QString::fromStdString(plan::strategyText({"", each.kind, each.devices})));
        }
        QCOMPARE(parts.join(", "), expected);
    }

    void openNumbersOfDevices()
    {
        std::vector<TaskGraph> taskGraphs{{"a", 0, 1, Annotation::Kind::Replicate, 2},
                                          {"b", 1, 2, Annotation::Kind::Split, 0},
                                          {"c", 2, 3, Annotation::Kind::Replicate, 0}};
        QVERIFY(resolveDevices(taskGraphs, 8));
        QCOMPARE(taskGraphs[1].devices, 3);
        QCOMPARE(taskGraphs[2].devices, 3);
        taskGraphs[0].devices = 7;
        taskGraphs[1].devices = taskGraphs[2].devices = 0;
        QVERIFY(!resolveDevices(taskGraphs, 8));
    }
};

QTEST_GUILESS_MAIN(TestWhaleParts)
#include "tst_whale_parts.moc"
