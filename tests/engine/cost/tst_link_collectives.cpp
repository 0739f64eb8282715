// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cluster.h"
#include "engine/cost/link_collectives.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using cost::Algorithm;
using cost::Collective;
using cost::LinkCollectives;
using cost::Protocol;
using cost::Ways;

namespace {

using Devices = std::vector<DeviceId>;
using Groups = std::vector<Devices>;

constexpr Protocol kWhole{"Simple", 1, 1};

Devices range(std::int64_t first, std::int64_t last, std::int64_t step = 1)
{
    Devices devices;
    for (std::int64_t i = first; i < last; i += step)
        devices.emplace_back(i);
    return devices;
}

/// Machines with one port each: 100 GB/s inside, 10 GB/s between, 1 us inside, 10 us between from device to device.
cluster::Cluster sharedPort(int machines, int perMachine)
{
    cluster::RegularCluster spec{"shared",      machines,      perMachine, *cluster::knownDeviceType("A100"),
                                 100e9,         Seconds(1e-6), 10e9,       10e9,
                                 Seconds(9e-6), true,          false};
    auto made = cluster::regular(spec);
    if (!made)
        qFatal("%s", made.error().text().c_str());
    return *std::move(made);
}

cluster::Cluster named(const char *name)
{
    auto made = cluster::preset(name);
    if (!made)
        qFatal("%s", made.error().text().c_str());
    return *std::move(made);
}

LinkCollectives of(const cluster::Cluster &cluster, const Groups &groups) { return {cluster, groups, Ways::Library}; }

void compare(Seconds got, double expected)
{
    QVERIFY2(std::abs(got.value() - expected) <= 1e-9 * expected,
             qPrintable(QString("%1 instead of %2").arg(got.value(), 0, 'g', 12).arg(expected, 0, 'g', 12)));
}

} // namespace

class LinkCollectivesTest : public QObject {
    Q_OBJECT

private slots:
    /// 2 (n-1)/n S / B + 2 (n-1) latencies: the port carries what one ring passes on.
    void ring()
    {
        const auto cluster = sharedPort(2, 4);
        compare(of(cluster, {range(0, 4)}).allReduce(Algorithm::Ring, 1e9, kWhole), 2 * 0.75 / 100 + 6 * 1e-6);
        compare(of(cluster, {range(0, 8)}).allReduce(Algorithm::Ring, 1e9, kWhole), 2 * 7.0 / 8 / 10 + 14 * 1e-5);
    }

    /// ResNet-50's parameters over machines of one device at 70 Gb/s, 5 us from one to the next: once over the network,
    /// and rings over more machines, in milliseconds, as worked out by hand from the ring's formula.
    void ringsOfResNet50()
    {
        constexpr double kParameters = 102'228'128, kPort = 70e9 / 8, kHop = 5e-6;
        const auto milliseconds = [](int machines) {
            const cluster::RegularCluster spec{"flat",        machines,   1,     *cluster::knownDeviceType("V100"),
                                               1e12,          Seconds(0), kPort, kPort,
                                               Seconds(kHop), true,       false};
            auto made = cluster::regular(spec);
            if (!made)
                qFatal("%s", made.error().text().c_str());
            return 1e3 * of(*made, {range(0, machines)}).allReduce(Algorithm::Ring, kParameters, kWhole).value();
        };
        const auto isPrinted = [](double found, double printed) { return std::abs(found - printed) <= 5.1e-5; };
        QVERIFY(isPrinted(milliseconds(2) - 2e3 * kHop, 11.6832)); // half there and half back
        const std::pair<int, double> rings[] = {{8, 20.5156}, {16, 22.0560}, {64, 23.6313}, {256, 25.8252}};
        for (const auto &[machines, printed] : rings)
            QVERIFY2(isPrinted(milliseconds(machines), printed),
                     qPrintable(QString::number(milliseconds(machines), 'f', 6)));
    }

    /// Devices that links join directly: rings over all links among the members. Four devices in a ring with links of
    /// 20 GB/s and one double link: a pair has its own link, all have the 40 GB/s of the members with two single links.
    void ringsOverDirectLinks()
    {
        cluster::ClusterBuilder builder("direct");
        const std::size_t type = builder.type(*cluster::knownDeviceType("V100"));
        const NodeId node = builder.node("n0");
        std::vector<std::size_t> ends;
        for (int i = 0; i < 4; ++i)
            ends.push_back(builder.vertexOf(builder.device(node, type)));
        const auto join = [&](std::size_t a, std::size_t b, double rate) {
            builder.link({cluster::Link::Kind::NvLink, ends[a], ends[b], rate, rate, Seconds(1e-6), true});
        };
        join(0, 1, 40e9);
        join(1, 2, 20e9);
        join(2, 3, 20e9);
        join(3, 0, 20e9);
        const auto made = std::move(builder).build();
        QVERIFY(made.ok());
        compare(of(*made, {range(0, 2)}).allReduce(Algorithm::Ring, 1e9, kWhole), 1.0 / 40 + 2e-6);
        compare(of(*made, {range(1, 3)}).allReduce(Algorithm::Ring, 1e9, kWhole), 1.0 / 20 + 2e-6);
        compare(of(*made, {range(0, 4)}).allReduce(Algorithm::Rings, 1e9, kWhole), 2 * 0.75 / 40 + 6e-6);
        // Of 0 and 2 no link is their own.
        QVERIFY(!std::isfinite(
            of(*made, Groups{Devices{DeviceId(0), DeviceId(2)}}).allReduce(Algorithm::Rings, 1e9, kWhole).value()));
    }

    /// Two pairs, each with a bridge: a ring of all four leaves the bridges.
    void bridgedPairsAreNoRing()
    {
        cluster::ClusterBuilder builder("bridged");
        const std::size_t type = builder.type(*cluster::knownDeviceType("V100"));
        const NodeId node = builder.node("n0");
        const std::size_t host = builder.vertex({cluster::Vertex::Kind::Switch, "pcie", {}, node});
        std::vector<std::size_t> ends;
        for (int i = 0; i < 4; ++i) {
            ends.push_back(builder.vertexOf(builder.device(node, type)));
            builder.link({cluster::Link::Kind::Pcie, ends.back(), host, 1e10, 1e10, Seconds(1e-6), true});
        }
        for (const std::size_t first : {0, 2})
            builder.link({cluster::Link::Kind::NvLink, ends[first], ends[first + 1], 5e10, 5e10, Seconds(1e-6), true});
        const auto made = std::move(builder).build();
        QVERIFY(made.ok());
        compare(of(*made, {range(0, 2)}).allReduce(Algorithm::Ring, 1e9, kWhole), 1.0 / 50 + 2e-6);
        QVERIFY(!std::isfinite(of(*made, {range(0, 4)}).allReduce(Algorithm::Rings, 1e9, kWhole).value()));
    }

    /// Groups with some of a machine's devices leave it at the rate that was given; those with all, or one, as before.
    void someOfAMachinesDevices()
    {
        const auto cluster = named("h100-16");
        const auto slowed = [&](const Devices &group) {
            const LinkCollectives held(cluster, Groups{group}, Ways::Rings, 5e9);
            const LinkCollectives free(cluster, Groups{group}, Ways::Rings);
            return held.allReduce(Algorithm::Ring, 1e9, kWhole).value()
                / free.allReduce(Algorithm::Ring, 1e9, kWhole).value();
        };
        const LinkCollectives held(cluster, Groups{range(0, 16, 4)}, Ways::Rings, 5e9);
        const double latency = held.allReduce(Algorithm::Ring, 0, kWhole).value();
        compare(held.allReduce(Algorithm::Ring, 1e9, kWhole), 2 * 0.75 / 5 + latency);
        QVERIFY(slowed(range(0, 16, 4)) > 2);
        QCOMPARE(slowed(range(0, 16)), 1.0);
        QCOMPARE(slowed(range(0, 16, 8)), 1.0);
        QCOMPARE(slowed(range(0, 4)), 1.0);
    }

    /// On a port per device, eight rings leave a machine by eight ports.
    void rings()
    {
        const auto cluster = named("h100-16");
        const LinkCollectives all = of(cluster, {range(0, 16)});
        const double one = all.allReduce(Algorithm::Ring, 1e9, kWhole).value();
        const double many = all.allReduce(Algorithm::Rings, 1e9, kWhole).value();
        QVERIFY(many < one / 6);
        QVERIFY(many > one / 8.01);
        QVERIFY(!std::isfinite(
            of(cluster, {range(0, 8)}).allReduce(Algorithm::Rings, 1e9, kWhole).value())); // one machine has one ring
    }

    /// In one piece: reduce-scatter and all-gather inside, 2 (k-1)/k S through the port between.
    void hierarchy()
    {
        const auto cluster = sharedPort(4, 8);
        const LinkCollectives all = of(cluster, {range(0, 32)});
        const double inside = 2 * 7.0 / 8 * 1e3 / 100e9 + 14 * 1e-6;
        const double between = 2 * 0.75 * 1e3 / 10e9 + 6 * 1e-5;
        compare(all.allReduce(Algorithm::Hierarchical, 1e3, kWhole), inside + between); // too small to be cut
        // Cut into 64 pieces, the port is what counts.
        const double in = 2 * 7.0 / 8 * 1e10 / 64 / 100e9 + 14 * 1e-6;
        const double out = 2 * 0.75 * 1e10 / 64 / 10e9 + 6 * 1e-5;
        compare(all.allReduce(Algorithm::Hierarchical, 1e10, kWhole), in + out + 63 * out);
        QVERIFY(!std::isfinite(of(cluster, {range(0, 8)}).allReduce(Algorithm::Hierarchical, 1e9, kWhole).value()));
        QVERIFY(!std::isfinite(of(cluster, {range(0, 12)})
                                   .allReduce(Algorithm::Hierarchical, 1e9, kWhole)
                                   .value())); // 8 and 4 have no counterparts
    }

    /// 2 log2 k steps between machines and 2 (g-1) inside; the stream as fast as the hierarchy's port, less what trees
    /// lose.
    void tree()
    {
        const auto cluster = sharedPort(8, 4);
        const double latency = 2 * (3 * 1e-5 + 3 * 1e-6);
        const double stream = 2 * 7.0 / 8 * 1e6 / 10e9 / 0.9;
        const double depth = 2 * (3 + 3);
        compare(of(cluster, {range(0, 32)}).allReduce(Algorithm::Tree, 1e6, kWhole),
                latency + stream + 2 * std::sqrt(latency * stream * (depth - 1) / depth));
    }

    /// Each of 8 sends 4 pieces through the port that 4 share.
    void allToAll()
    {
        const auto cluster = sharedPort(2, 4);
        compare(of(cluster, {range(0, 8)}).cost(Collective::AllToAll, 1e9).seconds, 16 * 1e9 / 10e9 + 1e-5);
        compare(of(cluster, {range(0, 4)}).cost(Collective::AllToAll, 1e9).seconds, 3 * 1e9 / 100e9 + 1e-6);
    }

    void halvesOfAnAllReduce()
    {
        const auto cluster = sharedPort(2, 4);
        const LinkCollectives all = of(cluster, {range(0, 8)});
        const double reduced = all.cost(Collective::AllReduce, 8e9).seconds.value();
        compare(all.cost(Collective::ReduceScatter, 1e9).seconds, reduced / 2);
        compare(all.cost(Collective::AllGather, 1e9).seconds, reduced / 2);
    }

    /// The data-parallel groups of a tensor-parallel stage: their rings share the machine's port, but not ports of
    /// their own.
    void groupsShareAPort()
    {
        const auto cluster = sharedPort(4, 4);
        const Groups together{range(0, 16, 4), range(1, 16, 4), range(2, 16, 4), range(3, 16, 4)};
        const double alone = of(cluster, {together[0]}).allReduce(Algorithm::Ring, 1e9, kWhole).value();
        compare(of(cluster, together).allReduce(Algorithm::Ring, 1e9, kWhole), 4 * (alone - 6e-5) + 6e-5);
        const auto ports = named("h100-16");
        compare(of(ports, {range(0, 16, 8), range(1, 16, 8)}).allReduce(Algorithm::Ring, 1e9, kWhole),
                of(ports, {range(0, 16, 8)}).allReduce(Algorithm::Ring, 1e9, kWhole).value());
    }

    void bounds_data()
    {
        QTest::addColumn<QString>("cluster");
        QTest::addColumn<int>("machines");
        QTest::addColumn<int>("perMachine");
        QTest::addColumn<double>("outOfMachine"); ///< bytes a second
        for (const int machines : {2, 3, 8})
            for (const int perMachine : {1, 2, 8})
                QTest::addRow("%d x %d, one port", machines, perMachine) << QString() << machines << perMachine << 10e9;
        QTest::newRow("h100-16") << "h100-16" << 2 << 8 << 8 * 48e9;
        QTest::newRow("a100-128") << "a100-128" << 16 << 8 << 8 * 24e9;
    }
    /// Whatever the algorithm: 2 (k-1)/k of the data leaves each machine, latencies come on top, more bytes take
    /// longer, and where both exist the best is no slower than one ring.
    void bounds()
    {
        QFETCH(QString, cluster);
        QFETCH(int, machines);
        QFETCH(int, perMachine);
        QFETCH(double, outOfMachine);
        const cluster::Cluster made = cluster.isEmpty() ? sharedPort(machines, perMachine) : named(qPrintable(cluster));
        const LinkCollectives all = of(made, {range(0, machines * perMachine)});
        double before = 0;
        double busBefore = 0;
        for (double bytes = 256; bytes < 4e10; bytes *= 2) {
            const cost::CollectiveCost best = all.cost(Collective::AllReduce, bytes);
            const double bound = 2.0 * (machines - 1) / machines * bytes / outOfMachine;
            QVERIFY2(best.seconds.value() >= bound * (1 - 1e-12),
                     qPrintable(QString("%1 bytes: %2 under %3").arg(bytes).arg(best.seconds.value()).arg(bound)));
            QVERIFY(best.seconds.value() >= before);
            QVERIFY(best.seconds <= all.allReduce(Algorithm::Ring, bytes, kWhole));
            QVERIFY2(bytes / best.seconds.value() >= busBefore * (1 - 1e-9), "bandwidth falls as messages grow");
            before = best.seconds.value();
            busBefore = bytes / best.seconds.value();
        }
        if (perMachine > 1)
            QVERIFY(all.allReduce(Algorithm::Hierarchical, 1e10, kWhole).value()
                    <= all.allReduce(Algorithm::Ring, 1e10, kWhole).value());
    }

    /// Small messages go by the low-latency protocol and, over many machines, up and down trees; large ones whole.
    void sizesChoose()
    {
        const auto cluster = named("a100-128");
        const LinkCollectives all = of(cluster, {range(0, 128)});
        const auto small = all.cost(Collective::AllReduce, 1024);
        QCOMPARE(QString(small.protocol), "LL");
        QCOMPARE(small.algorithm, Algorithm::Tree);
        const auto large = all.cost(Collective::AllReduce, 4e9);
        QCOMPARE(QString(large.protocol), "Simple");
        QVERIFY(large.algorithm != Algorithm::Ring);
    }

    /// A library without hierarchies and trees: over two machines a ring sends 2 (n-1)/n of the bytes through the
    /// port, a hierarchy 2 (k-1)/k.
    void ringsOnly()
    {
        const auto made = sharedPort(2, 4);
        const Groups group{range(0, 8)};
        const LinkCollectives rings(made, group, Ways::Rings);
        compare(rings.cost(Collective::AllReduce, 1e9).seconds, rings.allReduce(Algorithm::Ring, 1e9, kWhole).value());
        QVERIFY(!std::isfinite(rings.allReduce(Algorithm::Tree, 1e9, kWhole).value()));
        const double library = of(made, group).cost(Collective::AllReduce, 1e9).seconds.value();
        QVERIFY(rings.cost(Collective::AllReduce, 1e9).seconds.value() > 1.6 * library);
        QVERIFY(std::isfinite(rings.cost(Collective::AllToAll, 1e9).seconds.value()));
    }

    /// CPUs run one ring or several, whole.
    void withoutALibrary()
    {
        const auto made = sharedPort(2, 4);
        const Groups group{range(0, 8)};
        const LinkCollectives plain(made, group, Ways::Processor);
        compare(plain.cost(Collective::AllReduce, 1024).seconds,
                std::min(plain.allReduce(Algorithm::Ring, 1024, kWhole),
                         plain.allReduce(Algorithm::Rings, 1024, kWhole))
                    .value());
    }
};

QTEST_GUILESS_MAIN(LinkCollectivesTest)
#include "tst_link_collectives.moc"
