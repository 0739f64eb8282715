// SPDX-License-Identifier: Apache-2.0
// PipeDream's partition: the objective of its released optimizer on its own profiles, exhaustive search on small
// chains, and whole plans.
#include "planners/common/unlimited_memory.h"
#include "planners/pipedream/pipedream.h"
#include "tests/docs_table.h"
#include "tests/layer_table.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace planloom;
using namespace planloom::planners::pipedream;
using namespace planloom::testing;

namespace {

/// The slowest stage or transfer of the best pipeline of layers from @p first on, on exactly @p parts, by trying
/// everything. Between two stages a transfer is charged to both with their own replicas, as the optimizer does.
double exhaustive(const std::vector<Layer> &layers, std::size_t first, std::size_t parts, double bandwidth, double way)
{
    double best = std::numeric_limits<double>::infinity();
    double seconds = 0;
    double parameters = 0;
    for (std::size_t last = first; last < layers.size(); ++last) {
        seconds += layers[last].seconds;
        parameters += layers[last].parameterBytes;
        for (std::size_t replicas = 1; replicas <= parts; ++replicas) {
            const bool end = last + 1 == layers.size();
            if (end != (replicas == parts))
                continue;
            const auto count = static_cast<double>(replicas);
            double slowest = (seconds + 4 * (count - 1) * parameters / (bandwidth * count)) / count;
            if (first > 0) // the way in, and for a stage that others follow the way out
                slowest = std::max(slowest, 2 * way / (bandwidth * count));
            if (first > 0 && !end)
                slowest = std::max(slowest, 2 * layers[last].outputBytes / (bandwidth * count));
            const double rest =
                end ? 0 : exhaustive(layers, last + 1, parts - replicas, bandwidth, layers[last].outputBytes);
            best = std::min(best, std::max(slowest, rest));
        }
    }
    return best;
}

} // namespace

class TestPipeDream : public QObject {
    Q_OBJECT

private slots:
    void releasedObjective_data()
    {
        QTest::addColumn<QString>("table");
        QTest::addColumn<double>("speedup");
        QTest::addColumn<QString>("row"); // of resources/docs/planners/pipedream.md
        QTest::addRow("vgg16") << "vgg16" << 9.676 << "VGG-16";
        QTest::addRow("resnet50") << "resnet50" << 9.426 << "ResNet-50";
        QTest::addRow("alexnet") << "alexnet" << 4.520 << "AlexNet";
        QTest::addRow("gnmt") << "gnmt" << 7.106 << "GNMT";
    }

    void releasedObjective()
    {
        QFETCH(QString, table);
        QFETCH(double, speedup);
        const std::string text = testing::layerProfileText(table.toStdString());
        const planners::Problem problem = problemOf(must(import::readLayerProfile(text, table.toStdString())),
                                                    must(cluster::preset("pipedream-4x4")), 1);
        const auto states = allStates(layersOf(problem, 1), 2000);
        QVERIFY(states.has_value());
        const std::vector<Level> levels = levelsOf(*problem.subject.cluster);
        QCOMPARE(levels.size(), std::size_t{2});
        QCOMPARE(levels[0].bandwidth, 12e9);
        QCOMPARE(levels[1].bandwidth, 1e9);
        NoProgress progress;
        const Partition found = partition(*states, levels, progress);
        const double reached = states->back().seconds / found.seconds;
        QVERIFY2(std::fabs(reached - speedup) < 0.0006, qPrintable(QString::number(reached, 'f', 4)));
        QFETCH(QString, row);
        const auto page =
            test::docsTable(PLANLOOM_SOURCE_DIR "/resources/docs/planners/pipedream.md", "`bench_pipedream`");
        const auto printed = page.find(row.toStdString());
        QVERIFY(printed != page.end() && printed->second.size() == 5);
        QVERIFY2(test::isPrinted(printed->second[0], static_cast<double>(states->size()))
                     && test::isPrinted(printed->second[1], reached),
                 qPrintable(QString("the page has %1 states and %2, found are %3 and %4; print the table again with "
                                    "bench_pipedream")
                                .arg(printed->second[0].c_str(), printed->second[1].c_str())
                                .arg(states->size())
                                .arg(reached)));
        std::size_t devices = 0;
        for (const Stage &stage : found.stages)
            devices += stage.devices.size();
        QCOMPARE(devices, std::size_t{16});
    }

    void statesOfAChainAndOfBranches()
    {
        const std::vector<Layer> chain{{1, 10, 1, {}}, {2, 20, 2, {0}}, {3, 30, 3, {1}}};
        QCOMPARE(allStates(chain, 100)->size(), std::size_t{3});
        QCOMPARE((*allStates(chain, 100))[1].outputBytes, 20.0);
        const std::vector<Layer> diamond{{1, 10, 0, {}}, {1, 20, 0, {0}}, {1, 40, 0, {0}}, {1, 80, 0, {1, 2}}};
        const auto states = allStates(diamond, 100);
        QCOMPARE(states->size(), std::size_t{5}); // a, ab, ac, abc, abcd
        QCOMPARE((*states)[1].outputBytes + (*states)[2].outputBytes, 2 * 10.0 + 20 + 40);
        QCOMPARE((*states)[3].outputBytes, 60.0);
        QVERIFY(!allStates(diamond, 4));
        QCOMPARE(prefixStates(diamond).size(), std::size_t{4});
        QVERIFY((*states)[3].includes((*states)[1]) && !(*states)[1].includes((*states)[2]));
    }

    void equalsExhaustiveSearch()
    {
        std::mt19937 random(3);
        const auto pick = [&](int least, int most) {
            return static_cast<double>(std::uniform_int_distribution<int>(least, most)(random));
        };
        for (int round = 0; round < 200; ++round) {
            std::vector<Layer> layers(static_cast<std::size_t>(pick(2, 6)));
            for (std::size_t i = 0; i < layers.size(); ++i) {
                layers[i] = {pick(1, 9), pick(0, 30), pick(0, 60), {}};
                if (i > 0)
                    layers[i].inputs = {i - 1};
            }
            const auto parts = static_cast<std::size_t>(pick(1, 5));
            NoProgress progress;
            const Partition found = partition(prefixStates(layers), {{parts, 10}}, progress);
            const double least = exhaustive(layers, 0, parts, 10, 0);
            QVERIFY2(std::fabs(found.seconds - least) <= 1e-9 * least,
                     qPrintable(QString("%1: %2 against %3").arg(round).arg(found.seconds).arg(least)));
        }
    }

    void devicesFollowTheLevels()
    {
        // Three heavy layers without parameters on 2 machines of 2: everything is replicated, each device once.
        const std::vector<Layer> layers{{9, 0, 0, {}}, {9, 0, 0, {0}}, {9, 0, 0, {1}}};
        NoProgress progress;
        const Partition found = partition(prefixStates(layers), {{2, 10}, {2, 1}}, progress);
        std::vector<std::size_t> devices;
        for (const Stage &stage : found.stages)
            devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
        std::sort(devices.begin(), devices.end());
        QCOMPARE(devices, (std::vector<std::size_t>{0, 1, 2, 3}));
        QCOMPARE(found.seconds, 27.0 / 4);
    }

    void machinesOfUnequalSizeAreOneLevel()
    {
        cluster::ClusterBuilder builder("uneven");
        const std::size_t type = builder.type(*cluster::knownDeviceType("V100-16GB"));
        const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
        const double speeds[] = {9e9, 7e9, 8e9, 3e9}; // the slowest link is the last machine's
        for (int at = 0, n = 0; n < 3; ++n) {
            const NodeId node = builder.node("n" + std::to_string(n));
            for (int g = 0; g < (n == 0 ? 2 : 1); ++g, ++at)
                builder.link({cluster::Link::Kind::Network, builder.vertexOf(builder.device(node, type)), network,
                              speeds[at], speeds[at], Seconds(1e-6), true});
        }
        const std::vector<Level> levels = levelsOf(must(std::move(builder).build()));
        QCOMPARE(levels.size(), std::size_t{1});
        QCOMPARE(levels[0].parts, std::size_t{4});
        QCOMPARE(levels[0].bandwidth, 3e9);
    }

    void objectiveOfItsPlans_data()
    {
        QTest::addColumn<QString>("table");
        QTest::addColumn<bool>("fallsBack");
        QTest::addRow("vgg16") << "vgg16" << false;
        QTest::addRow("resnet50") << "resnet50" << false;
        QTest::addRow("alexnet") << "alexnet" << false;
        QTest::addRow("gnmt") << "gnmt" << true;
    }

    // Its hierarchical plans run about as fast as its objective has them: with many micro-batches, filling and draining
    // count little. Where its cuts scatter a stage over the chain, as gnmt's through encoder and decoder, it says so.
    void objectiveOfItsPlans()
    {
        QFETCH(QString, table);
        const std::string text = testing::layerProfileText(table.toStdString());
        const planners::Problem problem =
            must(planners::withoutMemoryLimit(problemOf(must(import::readLayerProfile(text, table.toStdString())),
                                                        must(cluster::preset("pipedream-4x4")), 2048)));
        const planners::PlanReport report = planned(problem, "pipedream");
        QFETCH(bool, fallsBack);
        QCOMPARE(!report.notes.empty(), fallsBack);
        const double ratio = report.plan.estimate.at("iteration_seconds") / report.predicted.iterationSeconds;
        QVERIFY2(ratio > 0.6 && ratio < 1.75, qPrintable(QString::number(ratio)));
    }

    void plans()
    {
        for (const char *cluster : {"dapple-a", "dapple-c", "pipedream-4x4"}) {
            const planners::Problem problem = zooProblem("gnmt-16", cluster, 1024);
            const planners::PlanReport report = planned(problem, "pipedream");
            QVERIFY(plan::validate(report.plan, problem.subject).ok());
            QVERIFY(report.predicted.fits);
            QVERIFY(report.plan.estimate.at("speedup_over_one_device") <= 16.0 + 1e-9);
        }
    }
};

QTEST_GUILESS_MAIN(TestPipeDream)
#include "tst_pipedream.moc"
