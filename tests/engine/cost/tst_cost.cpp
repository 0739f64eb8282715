// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/cost.h"
#include "engine/cost/local_costs.h"
#include "engine/graph/operators/operators.h"

#include <QTest>

#include <cmath>
#include <memory>

using namespace planloom;
using cost::CostModel;
using cost::Profile;

namespace {

using Devices = std::vector<DeviceId>;

Devices devices(std::initializer_list<int> ids)
{
    Devices made;
    for (const int id : ids)
        made.emplace_back(id);
    return made;
}

Devices range(int first, int last)
{
    Devices made;
    for (int id = first; id < last; ++id)
        made.emplace_back(id);
    return made;
}

/// x -> Gemm(8, 8) three times, each in a separate layer. The last shares its weights with the first.
std::shared_ptr<const graph::Graph> chain()
{
    graph::GraphBuilder builder("chain");
    graph::Initializer zeros{graph::Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0};
    TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({8}));
    const TensorId shared = builder.parameter("shared", graph::Shape::of({8, 8}), zeros);
    const TensorId own = builder.parameter("own", graph::Shape::of({8, 8}), zeros);
    for (int i = 0; i < 3; ++i) {
        builder.pushScope("h");
        builder.pushScope(std::to_string(i));
        x = builder.add("Gemm", {x, i == 1 ? own : shared}, {}, "fc" + std::to_string(i));
        builder.popScope();
        builder.popScope();
    }
    builder.output(x);
    auto built = std::move(builder).build();
    return built ? std::make_shared<const graph::Graph>(*std::move(built)) : nullptr;
}

std::shared_ptr<const cluster::Cluster> clusterNamed(const char *name)
{
    return std::make_shared<const cluster::Cluster>(*cluster::preset(name));
}

std::shared_ptr<const cluster::Cluster> shared(Result<cluster::Cluster> made)
{
    return std::make_shared<const cluster::Cluster>(*std::move(made));
}

Profile profileFor(const std::string &device)
{
    Profile profile;
    profile.deviceType = device;
    const auto graph = chain();
    for (const graph::Op &op : graph->ops())
        profile.ops[op.name] = {{2, Seconds(0.2), Seconds(0.4)}, {6, Seconds(1.0), Seconds(2.0)}};
    return profile;
}

cluster::RegularCluster oneSwitch(int nodes, int perNode)
{
    return {"links",       nodes, perNode, *cluster::knownDeviceType("V100"), 10e9, Seconds(2e-6), 1e9, 2e9,
            Seconds(2e-5), true,  false};
}

} // namespace

class CostTest : public QObject {
    Q_OBJECT

    static void compareSeconds(Seconds got, double expected)
    {
        QVERIFY2(std::abs(got.value() - expected) <= 1e-9 * std::max(1.0, std::abs(expected)),
                 qPrintable(QString("%1 instead of %2").arg(got.value(), 0, 'g', 12).arg(expected, 0, 'g', 12)));
    }

private slots:
    // DAPPLE's release, planner/tests: 16 devices in two nodes.
    void dappleAllReduce_data()
    {
        QTest::addColumn<Devices>("group");
        QTest::addColumn<double>("seconds");
        QTest::newRow("one node of 8") << range(0, 8) << 2 * 7.0 / 8 / 25 / 4; // 17.5 ms
        QTest::newRow("8 over both nodes") << range(1, 9) << 2 * 7.0 / 8 / 3;  // 583.3 ms
        QTest::newRow("one") << range(4, 5) << 0.0;
        QTest::newRow("pair") << range(0, 2) << 2 * 0.5 / 25;
        QTest::newRow("three") << range(0, 3) << 2 * 2.0 / 3 / 25; // floor(3/2) = 1
        QTest::newRow("all") << range(0, 16) << 2 * 15.0 / 16 / 3;
        QTest::newRow("7 and 8 are neighbours across") << range(7, 9) << 2 * 0.5 / 3;
    }
    void dappleAllReduce()
    {
        QFETCH(Devices, group);
        QFETCH(double, seconds);
        const CostModel costs(chain(), clusterNamed("dapple-a"));
        compareSeconds(costs.allReduce(group, 1e9), seconds);
    }

    void dappleTransfer_data()
    {
        QTest::addColumn<Devices>("from");
        QTest::addColumn<Devices>("to");
        QTest::addColumn<double>("seconds");
        QTest::newRow("inside") << range(0, 4) << range(4, 8) << 1.0 / 25;
        QTest::newRow("half of the senders outside") << devices({0, 1, 8, 9}) << range(10, 14) << 0.5;
        QTest::newRow("all senders outside") << range(0, 8) << range(8, 16) << 1.0;
        QTest::newRow("one sender of four outside") << devices({0, 8, 9, 10}) << range(11, 12) << 0.25;
        QTest::newRow("to a stage over both nodes") << range(0, 4) << range(5, 9) << 1.0 / 3;
        QTest::newRow("from one over both into one") << range(7, 9) << range(1, 5) << 0.5;
        QTest::newRow("no device") << Devices() << range(0, 1) << 0.0;
    }
    void dappleTransfer()
    {
        QFETCH(Devices, from);
        QFETCH(Devices, to);
        QFETCH(double, seconds);
        const CostModel costs(chain(), clusterNamed("dapple-a"));
        compareSeconds(costs.transfer(from, to, 1e9), seconds);
    }

    void configurationsDiffer()
    {
        const CostModel b(chain(), clusterNamed("dapple-b"));
        const CostModel c(chain(), clusterNamed("dapple-c"));
        compareSeconds(b.allReduce(range(0, 2), 3e9), 1.0);
        compareSeconds(c.allReduce(range(0, 2), 3e9), 3.0);
        compareSeconds(b.transfer(range(0, 1), range(1, 2), 2e9), 2.0);
    }

    // Links: 10 GB/s inside, 1 GB/s (2 collective) between, latencies 2 us and 20 us end to end.
    void transferOverLinks_data()
    {
        QTest::addColumn<Devices>("from");
        QTest::addColumn<Devices>("to");
        QTest::addColumn<double>("seconds");
        QTest::newRow("one to one inside") << devices({0}) << devices({1}) << 0.1 + 2e-6;
        QTest::newRow("two to two side by side") << devices({0, 1}) << devices({2, 3}) << 0.05 + 2e-6;
        QTest::newRow("one to two leaves over one link") << devices({0}) << devices({1, 2}) << 0.1 + 2e-6;
        QTest::newRow("two to one arrives over one link") << devices({0, 1}) << devices({2}) << 0.1 + 2e-6;
        QTest::newRow("between nodes through one port")
            << devices({0, 1, 2, 3}) << devices({4, 5, 6, 7}) << 1.0 + 2.2e-5;
        QTest::newRow("half of it through the port") << devices({0, 4}) << devices({5, 6}) << 0.5 + 2.2e-5;
        // Thirds against halves: replica 1 sends a sixth to each receiver.
        QTest::newRow("three to two") << devices({0, 1, 2}) << devices({3, 0}) << 0.05 + 2e-6;
        QTest::newRow("to itself") << devices({0}) << devices({0}) << 0.0;
    }
    void transferOverLinks()
    {
        QFETCH(Devices, from);
        QFETCH(Devices, to);
        QFETCH(double, seconds);
        const CostModel costs(chain(), shared(cluster::regular(oneSwitch(2, 4))));
        compareSeconds(costs.transfer(from, to, 1e9), seconds);
    }

    void duplexDecidesWhetherDirectionsShare()
    {
        // A ring of two devices sends over both links both ways at once.
        cluster::RegularCluster spec = oneSwitch(1, 2);
        const CostModel full(chain(), shared(cluster::regular(spec)));
        spec.fullDuplex = false;
        const CostModel half(chain(), shared(cluster::regular(spec)));
        compareSeconds(full.allReduce(range(0, 2), 1e9), 0.1 + 4e-6);
        compareSeconds(half.allReduce(range(0, 2), 1e9), 0.2 + 4e-6);
    }

    void ringOverLinks_data()
    {
        QTest::addColumn<Devices>("group");
        QTest::addColumn<double>("seconds");
        QTest::newRow("four inside") << range(0, 4) << 2 * 0.75 / 10 + 6 * 2e-6;
        QTest::newRow("order does not matter") << devices({3, 1, 0, 2}) << 2 * 0.75 / 10 + 6 * 2e-6;
        // A hierarchy sends half of the data through each port, where a ring sends seven eighths twice. In 64 pieces
        // the port is what counts: inside 2 * 3/4 / 64 / 10 GB/s + 6 * 2 us for the first, then 64 times 2 * 1/2 / 64 /
        // 2 GB/s + 2 * 22 us.
        QTest::newRow("eight over a shared port")
            << range(0, 8) << 1.5 / 64 / 10 + 6 * 2e-6 + 64 * (1.0 / 64 / 2 + 2 * 2.2e-5);
    }
    void ringOverLinks()
    {
        QFETCH(Devices, group);
        QFETCH(double, seconds);
        const CostModel costs(chain(), shared(cluster::regular(oneSwitch(2, 4))));
        compareSeconds(costs.allReduce(group, 1e9), seconds);
    }

    void portsPerDeviceAreUsedSideBySide()
    {
        const CostModel costs(chain(), clusterNamed("h100-16"));
        const double sixteen = costs.allReduce(range(0, 16), 1e9).value();
        const double onePort = 2 * 15.0 / 16 * 1e9 / 48e9;
        QVERIFY(sixteen < onePort / 6); // eight ports, not one
        QVERIFY(sixteen > onePort / 8); // and no more than eight
        QVERIFY(costs.allReduce(devices({0, 8}), 1e9).value() >= 2 * 0.5 * 1e9 / 48e9);
    }

    void profileInterpolatesAndExtends_data()
    {
        QTest::addColumn<double>("samples");
        QTest::addColumn<double>("forward");
        QTest::newRow("measured") << 2.0 << 0.2;
        QTest::newRow("between") << 4.0 << 0.6;
        QTest::newRow("below, in proportion") << 1.0 << 0.1;
        QTest::newRow("a fraction") << 0.5 << 0.05;
        QTest::newRow("above, in proportion") << 12.0 << 2.0;
        QTest::newRow("nothing") << 0.0 << 0.0;
    }
    void profileInterpolatesAndExtends()
    {
        QFETCH(double, samples);
        QFETCH(double, forward);
        const CostModel costs(chain(), clusterNamed("dapple-a"), std::make_shared<const Profile>(profileFor("V100")));
        QCOMPARE(costs.layers().size(), std::size_t{3});
        for (std::size_t first = 0; first < 3; ++first) {
            for (std::size_t last = first; last <= 3; ++last) {
                compareSeconds(costs.forward(first, last, samples, 0), forward * static_cast<double>(last - first));
                compareSeconds(costs.backward(first, last, samples, 0),
                               2 * forward * static_cast<double>(last - first));
            }
        }
    }

    void profilesMoveBetweenDevicesByPeak()
    {
        // v100-p100: type 0 is V100, type 1 P100 with 10.6 against 15.7 TFLOP/s.
        const CostModel costs(chain(), clusterNamed("v100-p100"), std::make_shared<const Profile>(profileFor("V100")));
        compareSeconds(costs.forward(0, 1, 2, 0), 0.2);
        compareSeconds(costs.forward(0, 1, 2, 1), 0.2 * 15.7 / 10.6);
        const CostModel anywhere(chain(), clusterNamed("v100-p100"), std::make_shared<const Profile>(profileFor("")));
        compareSeconds(anywhere.forward(0, 1, 2, 1), 0.2);
        const CostModel unknown(chain(), clusterNamed("v100-p100"),
                                std::make_shared<const Profile>(profileFor("Abacus")));
        QVERIFY(unknown.forward(0, 1, 2, 1).value() < 1e-3); // the roofline of a tiny product
    }

    void rooflineIsTheLargerOfComputeAndMemory()
    {
        const auto graph = chain();
        cluster::RegularCluster spec = oneSwitch(1, 2);
        spec.type.name = "Abacus"; // GPUs have models of their own: tst_device_model
        const CostModel costs(graph, shared(cluster::regular(spec)));
        const cluster::DeviceType &v100 = costs.cluster().types()[0];
        for (const std::int64_t samples : {std::int64_t{1}, std::int64_t{64}, std::int64_t{1} << 20}) {
            const graph::OpCostFigures figures = graph::figures(*graph, OpId(0), samples);
            const double compute = figures.forward.value() / v100.peakFlops.at("float32");
            const double memory = static_cast<double>(figures.forwardBytes.value()) / v100.memoryBandwidth;
            const double seconds = costs.forward(0, 1, static_cast<double>(samples), 0).value();
            QVERIFY(seconds >= std::max(compute, memory));
            QVERIFY(seconds <= 2 * std::max(compute, memory));
        }
        QVERIFY(costs.forward(0, 1, 0.5, 0).value() <= costs.forward(0, 1, 1, 0).value());
    }

    void sharedParametersCountOnce()
    {
        const CostModel costs(chain(), clusterNamed("dapple-a"));
        constexpr std::int64_t kOne = 8 * 8 * 4;
        QCOMPARE(costs.parameterBytes(0, 1).value(), kOne);
        QCOMPARE(costs.parameterBytes(0, 2).value(), 2 * kOne);
        QCOMPARE(costs.parameterBytes(0, 3).value(), 2 * kOne);
        QCOMPARE(costs.parameterBytes(1, 3).value(), 2 * kOne);
        QCOMPARE(costs.parameterBytes(2, 3).value(), kOne);
        QCOMPARE(costs.parameterBytes(2, 2).value(), std::int64_t{0});
    }

    void optimizerStepFollowsMemoryOrProfile()
    {
        const CostModel costs(chain(), clusterNamed("dapple-a"));
        const double sgd = costs.optimizerStep(Bytes(900'000'000), 4, 0).value();
        QVERIFY(sgd >= 3e-3); // 3 x 0.9 GB at 900 GB/s
        QVERIFY(std::abs(costs.optimizerStep(Bytes(900'000'000), 8, 0).value() / sgd - 2)
                < 1e-2); // 8 passes over as many bytes for 4, with a launch each
        cluster::RegularCluster spec = oneSwitch(1, 2);
        spec.type.name = "Abacus";
        const CostModel plain(chain(), shared(cluster::regular(spec)));
        QVERIFY(std::abs(plain.optimizerStep(Bytes(900'000'000), 8, 0).value()
                             / plain.optimizerStep(Bytes(900'000'000), 4, 0).value()
                         - 7.0 / 3)
                < 1e-9);
        Profile profile = profileFor("V100");
        profile.extra["optimizer_seconds_per_parameter"] = 1e-9;
        const CostModel measured(chain(), clusterNamed("dapple-a"), std::make_shared<const Profile>(profile));
        compareSeconds(measured.optimizerStep(Bytes(4'000'000), 8, 0), 1e-3);
    }

    /// A framework that launches kernels one by one: a pass of small kernels takes as long as their launches, one of
    /// large ones as long as they do. Updates have an overhead of their own.
    void launchesTakeTime()
    {
        const auto graph = chain();
        const std::size_t count = graph->ops().size();
        const auto with = [&](double launch) {
            Profile profile;
            profile.extra = {{"kernel_launch_seconds", launch}, {"update_overhead_seconds", 0.5}};
            return CostModel(graph, clusterNamed("dapple-a"), std::make_shared<const Profile>(profile));
        };
        const CostModel bare(graph, clusterNamed("dapple-a"));
        const CostModel slow = with(1);
        const CostModel quick = with(1e-9);
        const double each = slow.opTime(*graph, OpId(0), 1, 0).value();
        QVERIFY(each >= 1);
        compareSeconds(cost::LocalCosts(slow, *graph).seconds(0, count, 1, 0), each * static_cast<double>(count));
        compareSeconds(cost::LocalCosts(quick, *graph).seconds(0, count, 1, 0),
                       cost::LocalCosts(bare, *graph).seconds(0, count, 1, 0).value());
        compareSeconds(slow.optimizerStep(Bytes(4'000), 4, 0), bare.optimizerStep(Bytes(4'000), 4, 0).value() + 0.5);
    }

    void operatorsBySignature()
    {
        const auto graph = chain();
        const std::string signature = cost::signatureOf(*graph, graph->ops()[0]);
        QCOMPARE(signature, std::string("Gemm{}(float32[N,8],float32[8,8])->(float32[N,8])"));
        for (const graph::Op &op : graph->ops())
            QCOMPARE(cost::signatureOf(*graph, op), signature); // the names and weights differ, the work does not
        Profile profile = profileFor("V100");
        profile.kernels[signature] = {{2, Seconds(0.5)}, {6, Seconds(1.5)}};
        const CostModel costs(graph, clusterNamed("dapple-a"), std::make_shared<const Profile>(profile));
        compareSeconds(costs.opTime(*graph, OpId(1), 2, 0), 0.5);
        compareSeconds(costs.opTime(*graph, OpId(1), 4, 0), 1.0);  // between
        compareSeconds(costs.opTime(*graph, OpId(1), 12, 0), 3.0); // beyond, in proportion
        const cost::LocalCosts local(costs, *graph);
        QCOMPARE(local.covered(), std::size_t{3});
        compareSeconds(local.seconds(1, 3, 2, 0), 1.0);
        compareSeconds(local.seconds(1, 1, 2, 0), 0.0);
        const CostModel bare(graph, clusterNamed("dapple-a"));
        QVERIFY(!cost::LocalCosts(bare, *graph).measured());
        compareSeconds(bare.opTime(*graph, OpId(0), 64, 0), bare.forward(0, 1, 64, 0).value()); // the same roofline
    }

    void collectivesByCurve()
    {
        Profile profile = profileFor("V100");
        profile.curves["all-reduce/2"] = {{1000, Seconds(1)}, {3000, Seconds(2)}};
        profile.curves["all-gather/4"] = {{1000, Seconds(7)}};
        profile.curves["message"] = {{1000, Seconds(3)}};
        const auto cluster = shared(cluster::regular(oneSwitch(2, 4)));
        profile.deviceType = cluster->types()[0].name;
        const CostModel costs(chain(), cluster, std::make_shared<const Profile>(profile));
        compareSeconds(costs.allReduce(range(0, 2), 2000), 1.5);
        compareSeconds(costs.allReduce(range(0, 2), 10), 1.0);   // below the first: its latency
        compareSeconds(costs.allReduce(range(0, 2), 6000), 4.0); // beyond: in proportion
        compareSeconds(costs.collective(cost::Collective::AllGather, range(0, 4), 2000), 14.0);
        compareSeconds(costs.transfer(range(0, 1), range(1, 2), 1000), 3.0);
        const CostModel bare(chain(), cluster);
        for (const Devices &group : {range(0, 3), devices({3, 4})}) // of another size; in two nodes
            compareSeconds(costs.allReduce(group, 1e9), bare.allReduce(group, 1e9).value());
        compareSeconds(bare.collective(cost::Collective::ReduceScatter, range(0, 4), 1e9),
                       bare.allReduce(range(0, 4), 4e9).value() / 2);
    }

    /// Pieces that are not equal take no longer than if all were the largest, and as long as the busiest port or all of
    /// them together.
    void unequalPieces()
    {
        Profile profile;
        profile.curves["all-to-all/4"] = {{1000, Seconds(10)}, {2000, Seconds(20)}};
        profile.curves["message"] = {{1000, Seconds(2)}, {9000, Seconds(18)}};
        const auto cluster = shared(cluster::regular(oneSwitch(2, 4)));
        profile.deviceType = cluster->types()[0].name;
        const CostModel costs(chain(), cluster, std::make_shared<const Profile>(profile));
        compareSeconds(costs.unequalAllToAll(range(0, 4), 2000, 2000), 20);
        compareSeconds(costs.unequalAllToAll(range(0, 4), 2000, 1900), 19); // all together
        compareSeconds(costs.unequalAllToAll(range(0, 4), 2000, 1100), 12); // 6000 bytes through one port
        profile.curves["message"] = {{1000, Seconds(9)}};
        const CostModel slow(chain(), cluster, std::make_shared<const Profile>(profile));
        compareSeconds(slow.unequalAllToAll(range(0, 4), 2000, 1100), 20);
        const CostModel bare(chain(), cluster);
        compareSeconds(bare.unequalAllToAll(range(0, 4), 2000, 1100),
                       bare.collective(cost::Collective::AllToAll, range(0, 4), 2000).value());
        compareSeconds(costs.unequalAllToAll(range(0, 1), 2000, 1100), 0);
    }

    void profileJsonRoundTrip()
    {
        Profile profile = profileFor("V100");
        profile.ranks = 4;
        profile.kernels["Relu{}(float32[N])->(float32[N])"] = {{1, Seconds(0.25)}, {2, Seconds(0.5)}};
        profile.curves["all-reduce/4"] = {{64, Seconds(1e-6)}};
        profile.model = "chain";
        profile.source = "a test";
        profile.extra["task_overhead_seconds"] = 1e-5;
        const auto read = cost::profileFromJson(cost::toJson(profile));
        QVERIFY(read.ok());
        QCOMPARE(cost::toJson(*read), cost::toJson(profile));
        QCOMPARE(read->ops.begin()->second.size(), std::size_t{2});
        QCOMPARE(read->ranks, 4);
        QCOMPARE(read->kernels.begin()->second[1].seconds.value(), 0.5);
        QCOMPARE(read->curves.at("all-reduce/4")[0].bytes, 64.0);
    }

    void badProfiles_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<QString>("says");
        QTest::addColumn<int>("line");
        QTest::newRow("samples") << QByteArray("{\"schema\": \"planloom.profile/1\",\n\"ops\": {\n\"a\": "
                                               "[{\"samples\": 0, \"forward\": 1, \"backward\": 1}]}}")
                                 << "field \"ops.a[0].samples\": must be greater than zero" << 3;
        QTest::newRow("negative") << QByteArray(
            R"({"schema": "planloom.profile/1", "ops": {"a": [{"samples": 1, "forward": -1, "backward": 1}]}})")
                                  << "must not be negative" << 1;
        QTest::newRow("twice") << QByteArray(
            R"({"schema": "planloom.profile/1", "ops": {"a": [{"samples": 1, "forward": 1, "backward": 1}, {"samples": 1, "forward": 1, "backward": 1}]}})")
                               << "two entries for 1 samples" << 1;
        QTest::newRow("kernel") << QByteArray(
            R"({"schema": "planloom.profile/1", "kernels": {"a": [{"samples": 1, "seconds": -2}]}})")
                                << "must not be negative" << 1;
        QTest::newRow("curve") << QByteArray(
            R"({"schema": "planloom.profile/1", "curves": {"a": [{"bytes": 5, "seconds": 1}, {"bytes": 5, "seconds": 1}]}})")
                               << "two entries for 5 bytes" << 1;
        QTest::newRow("ranks") << QByteArray(R"({"schema": "planloom.profile/1", "ranks": 0})") << "ranks" << 1;
        QTest::newRow("empty") << QByteArray(R"({"schema": "planloom.profile/1", "ops": {"a": []}})")
                               << "at least one entry" << 1;
    }
    void badProfiles()
    {
        QFETCH(QByteArray, text);
        QFETCH(QString, says);
        QFETCH(int, line);
        const auto read = cost::profileFromJson(text.toStdString());
        QVERIFY(!read.ok());
        QVERIFY2(QString::fromStdString(read.error().message).contains(says), read.error().message.c_str());
        QCOMPARE(read.error().line, line);
    }
};

QTEST_GUILESS_MAIN(CostTest)
#include "tst_cost.moc"
