// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cluster.h"
#include "engine/cluster/cores.h"

#include <QTest>

#include <algorithm>
#include <limits>
#include <random>

using namespace planloom;
using namespace planloom::cluster;

namespace {

DeviceType v100() { return *knownDeviceType("V100"); }

Link wire(std::size_t a, std::size_t b, double bandwidth)
{
    return {Link::Kind::NvLink, a, b, bandwidth, bandwidth, Seconds(1e-6), true};
}

/// @p count devices in one node without any link.
ClusterBuilder loose(int count)
{
    ClusterBuilder builder("test");
    const std::size_t type = builder.type(v100());
    const NodeId node = builder.node("n0");
    for (int i = 0; i < count; ++i)
        builder.device(node, type);
    return builder;
}

/// Fewest links from @p from to every vertex, and the best narrowest link among such routes: by relaxation until
/// nothing changes.
std::vector<std::pair<int, double>> bestByRelaxation(std::size_t vertices, std::span<const Link> links,
                                                     std::size_t from)
{
    constexpr int kFar = std::numeric_limits<int>::max() / 2;
    std::vector<std::pair<int, double>> best(vertices, {kFar, 0.0});
    best[from] = {0, 1e300};
    for (bool changed = true; changed;) {
        changed = false;
        for (const Link &link : links) {
            for (const auto &[x, y] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
                const std::pair candidate(best[x].first + 1, std::min(best[x].second, link.pointToPoint));
                const bool better = candidate.first < best[y].first
                    || (candidate.first == best[y].first && candidate.second > best[y].second);
                if (best[x].first < kFar && better) {
                    best[y] = candidate;
                    changed = true;
                }
            }
        }
    }
    return best;
}

} // namespace

class ClusterTest : public QObject {
    Q_OBJECT

private slots:
    void presetsHaveTheirShape_data()
    {
        QTest::addColumn<int>("nodes");
        QTest::addColumn<int>("devices");
        QTest::addColumn<bool>("twoLevel");
        QTest::addColumn<bool>("fullDuplex");
        QTest::newRow("dapple-a") << 2 << 16 << true << false;
        QTest::newRow("dapple-b") << 16 << 16 << true << false;
        QTest::newRow("dapple-c") << 16 << 16 << true << false;
        QTest::newRow("pipedream-4x4") << 4 << 16 << false << false;
        QTest::newRow("v100-p100") << 2 << 16 << false << true;
        QTest::newRow("a100-8") << 1 << 8 << false << true;
        QTest::newRow("h100-8") << 1 << 8 << false << true;
        QTest::newRow("h200-8") << 1 << 8 << false << true;
        QTest::newRow("b200-8") << 1 << 8 << false << true;
        QTest::newRow("h100-16") << 2 << 16 << false << true;
        QTest::newRow("v100-t4") << 2 << 16 << false << true;
        QTest::newRow("a100-128") << 16 << 128 << false << true;
        QTest::newRow("h100-1024") << 128 << 1024 << false << true;
        QTest::newRow("h100-a100-1024") << 128 << 1024 << false << true;
        QTest::newRow("h100-16384") << 2048 << 16384 << false << true;
    }
    void presetsHaveTheirShape()
    {
        QFETCH(int, nodes);
        QFETCH(int, devices);
        const auto made = preset(QTest::currentDataTag());
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(static_cast<int>(made->nodes().size()), nodes);
        QCOMPARE(static_cast<int>(made->devices().size()), devices);
        QTEST(made->commModel() == CommModel::TwoLevel, "twoLevel");
        QTEST(made->fullDuplex(), "fullDuplex");
        QCOMPARE(made->device(made->find("n0:g0")).id, DeviceId(0));
    }

    void everyPresetIsTested()
    {
        QCOMPARE(presetNames().size(), std::size_t{15});
        for (const std::string &name : presetNames())
            QVERIFY2(preset(name).ok(), name.c_str());
    }

    void dappleRates()
    {
        const auto a = preset("dapple-a");
        const auto c = preset("dapple-c");
        QVERIFY(a.ok() && c.ok());
        QCOMPARE(a->twoLevel().intraNode, 25e9);
        QCOMPARE(a->twoLevel().interPointToPoint, 1e9);
        QCOMPARE(a->twoLevel().interCollective, 3e9);
        QCOMPARE(c->twoLevel().interCollective, 1e9);
        QCOMPARE(a->types()[0].memory, Bytes(16'000'000'000));
    }

    void unknownPresetListsNames()
    {
        const auto made = preset("dapple-z");
        QVERIFY(!made.ok());
        QCOMPARE(made.error().code, ErrorCode::NotFound);
        QVERIFY(made.error().message.find("dapple-a, dapple-b") != std::string::npos);
    }

    void deviceTypesByFamily()
    {
        QCOMPARE(knownDeviceType("V100")->name, std::string("V100-16GB"));
        QCOMPARE(knownDeviceType("H100")->name, std::string("H100-SXM"));
        QCOMPARE(knownDeviceType("A100-80GB")->memory, Bytes(80'000'000'000));
        QVERIFY(knownDeviceType("H") == nullptr);
        QVERIFY(knownDeviceType("") == nullptr);
    }

    void routeInsideAndBetweenNodes()
    {
        const auto made = preset("dapple-a");
        QVERIFY(made.ok());
        QVERIFY(made->route(DeviceId(3), DeviceId(3)).empty());
        QCOMPARE(made->route(DeviceId(0), DeviceId(7)).size(), std::size_t{2});
        const auto across = made->route(DeviceId(0), DeviceId(8));
        QCOMPARE(across.size(), std::size_t{6});
        auto back = made->route(DeviceId(8), DeviceId(0));
        std::reverse(back.begin(), back.end());
        QCOMPARE(back, across);
    }

    void eachDeviceUsesItsOwnPort()
    {
        const auto made = preset("h100-16");
        QVERIFY(made.ok());
        const auto one = made->route(DeviceId(0), DeviceId(8));
        const auto other = made->route(DeviceId(1), DeviceId(9));
        QCOMPARE(one.size(), std::size_t{4});
        QCOMPARE(other.size(), std::size_t{4});
        for (const std::size_t link : one)
            QVERIFY(std::find(other.begin(), other.end(), link) == other.end());
    }

    void widestOfTheShortest()
    {
        // 0 - 1 - 3 is narrow, 0 - 2 - 3 wide; of the two wires 2 - 3 the wider one counts.
        ClusterBuilder builder = loose(4);
        for (const Link &link : {wire(0, 1, 1e9), wire(1, 3, 9e9), wire(0, 2, 4e9), wire(2, 3, 2e9), wire(2, 3, 5e9)})
            builder.link(link);
        const auto made = std::move(builder).build();
        QVERIFY(made.ok());
        QCOMPARE(made->route(DeviceId(0), DeviceId(3)), (std::vector<std::size_t>{2, 4}));
    }

    void equalRoutesTakeTheLowestIndex()
    {
        ClusterBuilder builder = loose(4);
        for (const Link &link : {wire(0, 2, 1e9), wire(0, 1, 1e9), wire(1, 3, 1e9), wire(2, 3, 1e9)})
            builder.link(link);
        const auto made = std::move(builder).build();
        QVERIFY(made.ok());
        QCOMPARE(made->route(DeviceId(0), DeviceId(3)), (std::vector<std::size_t>{0, 3}));
    }

    void routesAgreeWithRelaxation()
    {
        std::mt19937 random(7);
        for (int round = 0; round < 60; ++round) {
            const int count = 2 + static_cast<int>(random() % 12);
            ClusterBuilder builder = loose(count);
            for (int i = 1; i < count; ++i) // a random tree, so that everything is connected
                builder.link(
                    wire(static_cast<std::size_t>(i), random() % static_cast<unsigned>(i), 1e9 * (1 + random() % 5)));
            for (unsigned extra = random() % 10; extra > 0; --extra) {
                const std::size_t a = random() % static_cast<unsigned>(count);
                const std::size_t b = random() % static_cast<unsigned>(count);
                if (a != b)
                    builder.link(wire(a, b, 1e9 * (1 + random() % 5)));
            }
            const auto made = std::move(builder).build();
            QVERIFY(made.ok());
            for (int from = 0; from < count; ++from) {
                const auto best =
                    bestByRelaxation(made->vertices().size(), made->links(), made->vertexOf(DeviceId(from)));
                for (int to = 0; to < count; ++to) {
                    const auto route = made->route(DeviceId(from), DeviceId(to));
                    double width = 1e300;
                    std::size_t at = made->vertexOf(DeviceId(from));
                    for (const std::size_t index : route) {
                        const Link &link = made->links()[index];
                        QVERIFY(link.a == at || link.b == at);
                        at = link.a == at ? link.b : link.a;
                        width = std::min(width, link.pointToPoint);
                    }
                    QCOMPARE(at, made->vertexOf(DeviceId(to)));
                    QCOMPARE(static_cast<int>(route.size()), best[at].first);
                    QCOMPARE(width, best[at].second);
                }
            }
        }
    }

    void largeClustersRoute_data()
    {
        QTest::addColumn<int>("nodes");
        QTest::addColumn<int>("perNode");
        QTest::newRow("1,024 in nodes of 8") << 128 << 8;
        QTest::newRow("1,024 alone") << 1024 << 1;
        QTest::newRow("65,536") << 8192 << 8;
    }
    void largeClustersRoute()
    {
        QFETCH(int, nodes);
        QFETCH(int, perNode);
        RegularCluster spec{"large", nodes, perNode,       v100(), 100e9, Seconds(1e-6),
                            10e9,    10e9,  Seconds(1e-5), true,   false};
        const auto made = regular(spec);
        QVERIFY(made.ok());
        const DeviceId last(static_cast<std::int64_t>(nodes) * perNode - 1);
        QCOMPARE(made->route(DeviceId(0), last).size(), std::size_t{6});
        QCOMPARE(made->find(made->device(last).name), last);
    }

    void badClusters_data()
    {
        QTest::addColumn<QString>("says");
        QTest::newRow("empty") << "no devices";
        QTest::newRow("unreachable") << "n0:g1 cannot be reached from n0:g0";
        QTest::newRow("negative") << "must be positive numbers of bytes/s";
        QTest::newRow("nan") << "must be positive numbers of bytes/s";
        QTest::newRow("latency") << "latency of -1";
        QTest::newRow("self") << "connects a thing with itself";
        QTest::newRow("end") << "does not exist";
        QTest::newRow("twins") << "n0:g0 is the name of more than one device or switch";
        QTest::newRow("memory") << "memory is 0 bytes";
        QTest::newRow("mixed") << "list each node's together";
        QTest::newRow("rates") << "between nodes is 0";
    }
    void badClusters()
    {
        QFETCH(QString, says);
        const std::string what = QTest::currentDataTag();
        ClusterBuilder builder = loose(what == "empty" ? 0 : 2);
        if (what == "negative")
            builder.link(wire(0, 1, -1));
        if (what == "nan")
            builder.link(wire(0, 1, std::numeric_limits<double>::quiet_NaN()));
        if (what == "latency")
            builder.link({Link::Kind::Pcie, 0, 1, 1, 1, Seconds(-1), true});
        if (what == "self")
            builder.link(wire(1, 1, 1));
        if (what == "end")
            builder.link(wire(0, 9, 1));
        if (what == "twins")
            builder.device(NodeId(0), 0, "n0:g0");
        if (what == "memory") {
            DeviceType type = v100();
            type.memory = Bytes(0);
            builder.type(type);
        }
        if (what == "mixed") {
            builder.device(builder.node("n1"), 0);
            builder.device(NodeId(0), 0);
        }
        if (what == "rates") {
            builder.device(builder.node("n1"), 0);
            builder.twoLevel({1e9, 0, 0});
        }
        const auto made = std::move(builder).build();
        QVERIFY(!made.ok());
        QCOMPARE(made.error().code, ErrorCode::BadInput);
        QVERIFY2(QString::fromStdString(made.error().message).contains(says), made.error().message.c_str());
    }

    void jsonRoundTrip_data()
    {
        QTest::addColumn<std::string>("name");
        for (const std::string &name : presetNames())
            QTest::newRow(name.c_str()) << name;
    }
    void jsonRoundTrip()
    {
        QFETCH(std::string, name);
        const auto made = preset(name);
        QVERIFY(made.ok());
        const std::string text = toJson(*made);
        const auto read = clusterFromJson(text);
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QCOMPARE(toJson(*read), text);
        QCOMPARE(read->route(DeviceId(0), DeviceId(5)), made->route(DeviceId(0), DeviceId(5)));
        QCOMPARE(read->twoLevel().interCollective, made->twoLevel().interCollective);
    }

    /// How nodes are reached comes back from a file, and is checked.
    void hosts_data()
    {
        QTest::addColumn<QString>("address");
        QTest::addColumn<QString>("user");
        QTest::addColumn<int>("port");
        QTest::addColumn<int>("slots_");
        QTest::addColumn<QString>("error"); // empty: good
        QTest::newRow("all") << "gpu1.example.org"
                             << "ada" << 2222 << 2 << "";
        QTest::newRow("IPv6") << "fe80::1"
                              << "" << 0 << 0 << "";
        QTest::newRow("slots alone") << ""
                                     << "" << 0 << 4 << "";
        QTest::newRow("an option") << "-oProxyCommand=x"
                                   << "" << 0 << 0 << "no host name";
        QTest::newRow("a shell's words") << "a;b"
                                         << "" << 0 << 0 << "no host name";
        QTest::newRow("user's option") << "a"
                                       << "-x" << 0 << 0 << "no user's name";
        QTest::newRow("port") << "a"
                              << "" << 65536 << 0 << "port 65536";
        QTest::newRow("no address") << ""
                                    << "ada" << 0 << 0 << "no address";
        QTest::newRow("few slots") << "a"
                                   << "" << 0 << 1 << "1 slots for 2 devices";
        QTest::newRow("twice") << "other"
                               << "" << 0 << 0 << "two nodes have the address other";
    }

    void hosts()
    {
        QFETCH(QString, address);
        QFETCH(QString, user);
        QFETCH(int, port);
        QFETCH(int, slots_);
        QFETCH(QString, error);
        ClusterBuilder builder("hosts");
        const std::size_t type = builder.type(*knownDeviceType("CPU"));
        const std::size_t network = builder.vertex({Vertex::Kind::Network, "network", {}, {}});
        const auto add = [&](const char *name, Host host) {
            const NodeId node = builder.node(name, 0, std::move(host));
            for (int i = 0; i < 2; ++i)
                builder.link({Link::Kind::Network, builder.vertexOf(builder.device(node, type)), network, 1e9, 1e9,
                              Seconds(0), true});
        };
        const Host host{address.toStdString(), user.toStdString(), port, slots_};
        add("n0", host);
        add("n1", {"other", {}, 0, 0});
        const auto made = std::move(builder).build();
        if (!error.isEmpty()) {
            QVERIFY(!made);
            QVERIFY2(QString::fromStdString(made.error().text()).contains(error), made.error().text().c_str());
            return;
        }
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        const auto read = clusterFromJson(toJson(*made));
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QVERIFY(read->nodes()[0].host == host);
        QCOMPARE(read->nodes()[1].host.address, std::string("other"));
        QVERIFY(toJson(*made, false).find("other") == std::string::npos);
    }

    void coresAreDealtOut()
    {
        ClusterBuilder builder("busy");
        const std::size_t processor = builder.type(*knownDeviceType("CPU"));
        const std::size_t gpu = builder.type(*knownDeviceType("V100"));
        const std::size_t network = builder.vertex({Vertex::Kind::Network, "network", {}, {}});
        const auto add = [&](const char *name, int cores, std::size_t type, int devices) {
            const NodeId node = builder.node(name, cores);
            for (int i = 0; i < devices; ++i)
                builder.link({Link::Kind::Network, builder.vertexOf(builder.device(node, type)), network, 1e9, 1e9,
                              Seconds(0), true});
        };
        add("own", 4, processor, 2);
        add("shared", 2, processor, 5);
        add("gpus", 1, gpu, 2);
        const auto made = std::move(builder).build();
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        const auto read = clusterFromJson(toJson(*made));
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        std::vector<DeviceId> all;
        for (const Device &device : read->devices())
            all.push_back(device.id);
        QCOMPARE(coresOf(*read, all), (std::vector<std::int32_t>{-1, -1, 0, 1, 0, 1, 0, -1, -1}));
        QCOMPARE(sharedCoreNotes(*read, all),
                 (std::vector<std::string>{"5 devices share 2 cores: times are those of up to 3 devices a core"}));
        // Two of the five have a core each.
        const std::vector<DeviceId> some{all[2], all[6]};
        QCOMPARE(coresOf(*read, some), (std::vector<std::int32_t>{-1, -1}));
        QVERIFY(sharedCoreNotes(*read, some).empty());
        QVERIFY(toJson(*preset("h100-8")).find("cores") == std::string::npos);
    }

    void badJson_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<QString>("says");
        QTest::addColumn<int>("line");
        QTest::newRow("syntax") << QByteArray("{\n \"schema\": \"planloom.cluster/1\",\n oops") << "not valid JSON"
                                << 3;
        QTest::newRow("not ours") << QByteArray(R"({"schema": "other/1", "name": "x"})") << "other/1" << 0;
        QTest::newRow("no schema") << QByteArray("{}") << "\"schema\": is missing" << 1;
        QTest::newRow("list") << QByteArray("[]") << "object in braces" << 1;
        QTest::newRow("type") << QByteArray(
            R"({"schema": "planloom.cluster/1", "name": "x", "nodes": [{"name": "n", "devices": [{"name": "d", "type": "t"}]}]})")
                              << "nodes[0].devices[0].type" << 1;
        QTest::newRow("number") << QByteArray(
            R"({"schema": "planloom.cluster/1", "name": "x", "types": [{"name": "t", "peak_flops": {"float32": "fast"}}]})")
                                << "types[0].peak_flops.float32\": must be a number" << 1;
        QTest::newRow("deep") << QByteArray(5000, '[') << "nested deeper" << 0;
    }
    void badJson()
    {
        QFETCH(QByteArray, text);
        QFETCH(QString, says);
        QFETCH(int, line);
        const auto read = clusterFromJson(text.toStdString());
        QVERIFY(!read.ok());
        QVERIFY2(QString::fromStdString(read.error().message).contains(says), read.error().message.c_str());
        QCOMPARE(read.error().line, line);
    }
};

QTEST_GUILESS_MAIN(ClusterTest)
#include "tst_cluster.moc"
