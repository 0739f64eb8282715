// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cores.h"
#include "engine/cost/cost.h"
#include "engine/import/cluster/core_rate.h"
#include "engine/import/import.h"
#include "engine/import/cluster/quantity.h"

#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

using namespace planloom;
using namespace planloom::import;

namespace {

const char *kRegular = R"(name: two
comm_model: two-level
nodes:
  count: 2
  devices_per_node: 8
  device: V100-16GB
  intra: {bandwidth: 25 GB/s, full_duplex: false}
  inter: {point_to_point: 1 GB/s, collective: 3 GB/s, full_duplex: false}
)";

const char *kExplicit = R"(name: odd
types:
  - name: Abacus
    peak_flops: {float32: 2 TFLOP/s, bfloat16: 8e12}
    memory: 8 GiB
    memory_bandwidth: 100 GB/s
nodes:
  - name: big
    devices: [V100-32GB, {name: left, type: Abacus}]
  - name: small
    device: Abacus
switches:
  - {name: hub, kind: network}
links:
  - {a: "big:g0", b: hub, bandwidth: 10 Gb/s, latency: 5 us}
  - {a: left, b: hub, kind: pcie, point_to_point: 4 GB/s, collective: 2 GB/s, full_duplex: false}
  - {a: "small:g0", b: hub, bandwidth: 1e9}
)";

// An eight-way H100 machine, cut down to two GPUs on one switch and one CPU each side.
const char *kNccl = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:15:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:08:00.0" count="9" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1A:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:9b:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:07:00.0" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

const char *kSmi = "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
                   "GPU0\t X \tNV2\tPIX\tSYS\tPIX\t0-19\t0\n"
                   "GPU1\tNV2\t X \tPXB\tSYS\tPXB\t0-19\t0\n"
                   "GPU2\tPIX\tPXB\t X \tSYS\tPIX\t0-19\t0\n"
                   "GPU3\tSYS\tSYS\tSYS\t X \tSYS\t20-39\t1\n"
                   "NIC0\tPIX\tPXB\tPIX\tSYS\t X \n\n"
                   "Legend:\n\n  X    = Self\n  NIC0: mlx5_0\n";

std::string withProducts(const char *product, int count, const std::string &matrix)
{
    std::string text;
    for (int i = 0; i < count; ++i)
        text += "GPU " + std::to_string(i) + ": " + product + " (UUID: GPU-1234)\n";
    return text + matrix;
}

std::string nvSwitchMatrix()
{
    std::string text = "        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity\n";
    for (int i = 0; i < 4; ++i) {
        text += "GPU" + std::to_string(i);
        for (int j = 0; j < 4; ++j)
            text += i == j ? "     X " : "    NV18";
        text += "    0-47     0\n";
    }
    return text;
}

double narrowest(const cluster::Cluster &made, int from, int to)
{
    double width = 1e300;
    for (const std::size_t link : made.route(DeviceId(from), DeviceId(to)))
        width = std::min(width, made.links()[link].pointToPoint);
    return width;
}

using Reader = Result<cluster::Cluster> (*)(std::string_view, const std::string &);

} // namespace

class ClusterFormatsTest : public QObject {
    Q_OBJECT

private slots:
    void quantities_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<int>("kind");
        QTest::addColumn<double>("value"); // negative: refused
        const auto row = [](const char *text, QuantityKind kind, double value) {
            QTest::newRow(text) << QString(text) << static_cast<int>(kind) << value;
        };
        row("25 GB/s", QuantityKind::BytesPerSecond, 25e9);
        row("400Gb/s", QuantityKind::BytesPerSecond, 50e9);
        row("1e9", QuantityKind::BytesPerSecond, 1e9);
        row("2 KiB/s", QuantityKind::BytesPerSecond, 2048);
        row("100 bps", QuantityKind::BytesPerSecond, 12.5);
        row("16 GiB", QuantityKind::Bytes, 17179869184.0);
        row("16GB", QuantityKind::Bytes, 16e9);
        row("5 us", QuantityKind::Seconds, 5e-6);
        row("5 \u00b5s", QuantityKind::Seconds, 5e-6); // as figures are shown
        row("5 \u03bcs", QuantityKind::Seconds, 5e-6);
        row("0", QuantityKind::Seconds, 0);
        row("15.7 TFLOP/s", QuantityKind::FlopsPerSecond, 15.7e12);
        row("25 GB", QuantityKind::BytesPerSecond, -1);
        row("25 Zorks/s", QuantityKind::BytesPerSecond, -1);
        row("fast", QuantityKind::BytesPerSecond, -1);
        row("nan", QuantityKind::BytesPerSecond, -1);
        row("inf GB/s", QuantityKind::BytesPerSecond, -1);
        row("1e308 TB", QuantityKind::Bytes, -1);
        row("", QuantityKind::Bytes, -1);
    }
    void quantities()
    {
        QFETCH(QString, text);
        QFETCH(int, kind);
        QFETCH(double, value);
        const auto parsed = parseQuantity(text.toStdString(), static_cast<QuantityKind>(kind));
        QCOMPARE(parsed.ok(), value >= 0);
        if (parsed)
            QVERIFY(std::abs(*parsed - value) <= 1e-12 * value);
    }

    void regularYamlIsThePreset()
    {
        const auto made = readClusterYaml(kRegular, "two.yaml");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        const auto preset = cluster::preset("dapple-a");
        QCOMPARE(made->name(), std::string("two"));
        QCOMPARE(made->commModel(), cluster::CommModel::TwoLevel);
        QCOMPARE(made->twoLevel().intraNode, preset->twoLevel().intraNode);
        QCOMPARE(made->twoLevel().interPointToPoint, preset->twoLevel().interPointToPoint);
        QCOMPARE(made->twoLevel().interCollective, preset->twoLevel().interCollective);
        QCOMPARE(made->devices().size(), std::size_t{16});
        QCOMPARE(made->device(DeviceId(15)).name, std::string("n1:g7"));
        QVERIFY(!made->fullDuplex());
        QCOMPARE(made->route(DeviceId(0), DeviceId(15)).size(), std::size_t{6});
    }

    void explicitYaml()
    {
        const auto made = readClusterYaml(kExplicit, "odd.yaml");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(made->devices().size(), std::size_t{3});
        QCOMPARE(made->nodes().size(), std::size_t{2});
        QCOMPARE(made->types().size(), std::size_t{2});
        QCOMPARE(made->typeOf(made->find("left")).peakFlops.at("bfloat16"), 8e12);
        QCOMPARE(made->typeOf(made->find("left")).memory.value(), std::int64_t{8} << 30);
        QCOMPARE(made->links()[0].pointToPoint, 1.25e9);
        QCOMPARE(made->links()[1].collective, 2e9);
        QVERIFY(!made->links()[1].fullDuplex);
        QCOMPARE(made->commModel(), cluster::CommModel::Links);
    }

    void jsonIsReadTheSameWay()
    {
        const auto plain = readClusterYaml(
            R"({"name": "j", "nodes": {"count": 1, "devices_per_node": 2, "device": "T4", "intra": {"bandwidth": 1e10}}})",
            "j.json");
        QVERIFY2(plain.ok(), plain ? "" : plain.error().text().c_str());
        QCOMPARE(plain->devices().size(), std::size_t{2});
        const auto native = readClusterYaml(cluster::toJson(*plain), "native.json");
        QVERIFY2(native.ok(), native ? "" : native.error().text().c_str());
        QCOMPARE(cluster::toJson(*native), cluster::toJson(*plain));
    }

    void aliasesAreFollowed()
    {
        const auto made = readClusterYaml(
            "nodes:\n  - &one {device: T4, inter: &net {bandwidth: 1 GB/s}}\n  - {device: V100, inter: *net}\n",
            "a.yaml");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(made->devices().size(), std::size_t{2});
    }

    void ncclTopology()
    {
        const auto made = readNcclTopology(kNccl, "node.xml");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(made->devices().size(), std::size_t{2});
        QCOMPARE(made->typeOf(DeviceId(0)).name, std::string("H100-SXM"));
        QCOMPARE(narrowest(*made, 0, 1), 18 * 20.6e9); // over the NVSwitch, not over the CPUs
        QCOMPARE(made->route(DeviceId(0), DeviceId(1)).size(), std::size_t{2});
        const auto nics = std::count_if(made->vertices().begin(), made->vertices().end(),
                                        [](const cluster::Vertex &v) { return v.kind == cluster::Vertex::Kind::Nic; });
        QCOMPARE(nics, std::ptrdiff_t{1});
    }

    void ncclWithoutNvLinkGoesOverTheCpus()
    {
        QString text(kNccl);
        text.remove(QRegularExpression("<nvlink[^>]*/>"));
        const auto made = readNcclTopology(text.toStdString(), "node.xml");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(narrowest(*made, 0, 1), 10e9);
    }

    void ncclHostsMeetInTheNetwork()
    {
        QString host(kNccl);
        host.remove("<system version=\"1\">").remove("</system>");
        QString first = host;
        QString second = host;
        first.replace("<cpu ", "<cpu host_hash=\"0x1\" ");
        second.replace("<cpu ", "<cpu host_hash=\"0x2\" ");
        const auto made = readNcclTopology(("<system>" + first + second + "</system>").toStdString(), "pair.xml");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(made->nodes().size(), std::size_t{2});
        QCOMPARE(made->devices().size(), std::size_t{4});
        QCOMPARE(narrowest(*made, 0, 2), 48e9);
    }

    void directNvLinksAreTakenOnce()
    {
        const auto made = readNcclTopology(R"(<system><cpu>
            <pci busid="0000:01:00.0" device="0x1db1"><gpu dev="0" sm="70"><nvlink target="0000:02:00.0" count="2" tclass="0x030200"/></gpu></pci>
            <pci busid="0000:02:00.0" device="0x1db1"><gpu dev="1" sm="70"><nvlink target="0000:01:00.0" count="2" tclass="0x030200"/></gpu></pci>
            </cpu></system>)",
                                           "pair.xml");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(made->links().size(), std::size_t{3}); // two PCI, one NVLink
        QCOMPARE(narrowest(*made, 0, 1), 40e9);
    }

    void smiMatrix()
    {
        const auto made =
            readNvidiaSmiTopology(kSmi, "topo.txt"); // V100 is told by its two links to a peer; GPU2 is not
        QVERIFY(!made.ok());
        QVERIFY2(made.error().message.find("name the type of GPU2") != std::string::npos, made.error().message.c_str());
        const auto named = readNvidiaSmiTopology(withProducts("Tesla V100-SXM2-32GB", 4, kSmi), "topo.txt");
        QVERIFY2(named.ok(), named ? "" : named.error().text().c_str());
        QCOMPARE(named->devices().size(), std::size_t{4});
        QCOMPARE(named->types()[0].name, std::string("V100-32GB"));
        QCOMPARE(narrowest(*named, 0, 1), 40e9);
        QCOMPARE(narrowest(*named, 0, 2), 12e9);
        QCOMPARE(narrowest(*named, 0, 3), 10e9);
        QCOMPARE(named->route(DeviceId(0), DeviceId(2)).size(), std::size_t{2}); // one PCIe switch
        QVERIFY(named->route(DeviceId(2), DeviceId(3)).size() > 2);
    }

    void smiNvSwitch()
    {
        const auto made = readNvidiaSmiTopology(nvSwitchMatrix(), "topo.txt");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(made->types()[0].name, std::string("H100-SXM"));
        QCOMPARE(narrowest(*made, 0, 3), 18 * 20.6e9);
        QCOMPARE(made->route(DeviceId(0), DeviceId(3)).size(), std::size_t{2});
    }

    void localMachine()
    {
        const auto one = localCluster(1);
        const auto four = localCluster(4);
        QVERIFY(one.ok() && four.ok());
        QCOMPARE(four->devices().size(), std::size_t{4});
        QCOMPARE(four->types()[0].name, std::string("CPU"));
        // A device has its share of the cores, and at least one, which it may have to share.
        const int cores = one->nodes()[0].cores;
        QVERIFY(cores > 0);
        QVERIFY(std::abs(one->types()[0].peakFlops.at("float32") / four->types()[0].peakFlops.at("float32")
                         - std::min(4, cores))
                < 1e-9);
        QCOMPARE(sharedCoreNotes(*four, std::vector{DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}).empty(),
                 cores >= 4);
        QCOMPARE(one->types()[0].memory.value() / 4, four->types()[0].memory.value());
        // What a core reaches is measured once: every cluster of a process has the same figures.
        const CoreRate &rate = coreRate();
        QCOMPARE(one->types()[0].peakFlops.at("float32"), rate.float32 * cores);
        QCOMPARE(&coreRate(), &rate);
        // At most sixteen numbers at a time, twice a cycle, at 8 GHz. How little it may be is the machine's affair:
        // code that is not optimised, beside other work, reaches a twentieth.
        QVERIFY(rate.float32 > 0 && rate.float32 < 2 * 32 * 8e9);
        QVERIFY(rate.bfloat16 == rate.float32 || rate.bfloat16 == 2 * rate.float32);
        QVERIFY(!localCluster(-1).ok());
        QVERIFY(!localCluster(1'000'000).ok());
        QVERIFY(localCluster(0).ok());
    }

    void loadClusterPicksTheReader()
    {
        QTemporaryDir folder;
        const auto write = [&folder](const char *name, const std::string &text) {
            const std::string path = folder.filePath(name).toStdString();
            std::ofstream(path) << text;
            return path;
        };
        for (const std::string &source :
             {std::string("preset:h100-8"), std::string("local:2"), std::string("local"), write("a.yaml", kRegular),
              write("b.yml", kExplicit), write("c.xml", kNccl), write("d.txt", nvSwitchMatrix()), write("e", kNccl),
              write("f.conf", "SwitchName=a Nodes=n[1-2]\n") + ",gpu=T4,gpus=1,network=1GB/s"}) {
            const auto made = loadCluster(source);
            QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        }
        for (const std::string &source : {std::string("preset:nothing"), std::string("local:0"), std::string("local:x"),
                                          std::string("/nowhere/c.yaml"), write("f.txt", "hello")})
            QVERIFY2(!loadCluster(source).ok(), source.c_str());
        QCOMPARE(loadCluster("/nowhere/c.yaml").error().code, ErrorCode::NotFound);
    }

    void badInput_data()
    {
        QTest::addColumn<Reader>("reader");
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<QString>("says");
        QTest::addColumn<int>("line");
        const Reader yaml = readClusterYaml;
        const Reader xml = readNcclTopology;
        const Reader smi = [](std::string_view text, const std::string &name) {
            return readNvidiaSmiTopology(text, name);
        };
        const auto row = [](const char *tag, Reader reader, QByteArray text, const char *says, int line) {
            QTest::newRow(tag) << reader << text << QString(says) << line;
        };
        row("empty", yaml, "", "the file is empty", 0);
        row("syntax", yaml, "nodes: [\n  {", "not valid YAML", 2);
        row("scalar", yaml, "hello", "the cluster must be a mapping", 1);
        row("bad address", yaml, "nodes:\n  address: a;b\n  device: T4\n", "no host name", 2);
        row("bad user", yaml, "nodes:\n  address: a\n  user: -l\n  device: T4\n", "no user's name", 3);
        row("bad port", yaml, "nodes:\n  address: a\n  port: 70000\n  device: T4\n", "port", 3);
        row("address of several", yaml, "nodes:\n  address: a\n  count: 2\n  device: T4\n", "one by one", 2);
        row("unknown key", yaml, "nodes:\n  count: 2\n  device: T4\n  intra: {bandwith: 3}\n", "no field \"bandwith\"",
            4);
        row("no bandwidth", yaml, "nodes:\n  device: T4\n  intra: {latency: 1 us}\n", "give \"bandwidth\"", 3);
        row("negative", yaml, "nodes:\n  device: T4\n  intra:\n    bandwidth: -5 GB/s\n", "must be greater than zero",
            4);
        row("nan", yaml, "nodes:\n  device: T4\n  intra:\n    bandwidth: .nan\n", "is not a number", 4);
        row("negative latency", yaml, "nodes:\n  device: T4\n  intra: {bandwidth: 1, latency: -1}\n",
            "must be zero or more", 3);
        row("unknown type", yaml, "nodes:\n  device: Abacus\n", "device type \"Abacus\" is not known", 2);
        row("too many", yaml, "nodes:\n  count: 60000\n  devices_per_node: 60000\n  device: T4\n", "at most 65536", 2);
        row("count", yaml, "nodes:\n  count: -3\n  device: T4\n", "whole number from 1", 2);
        row("huge count", yaml, "nodes:\n  count: 99999999999999999999\n  device: T4\n", "whole number from 1", 2);
        row("unreachable", yaml, "nodes:\n  count: 2\n  device: T4\n", "n1:g0 cannot be reached from n0:g0", 0);
        row("dangling link", yaml, "nodes: {device: T4}\nlinks:\n  - {a: \"n0:g0\", b: nothing, bandwidth: 1}\n",
            "called \"nothing\"", 3);
        row("deep", yaml, QByteArray(100000, '['), "not valid YAML", 1);
        row("bomb", yaml,
            "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, "
            "*b]\nnodes: [*c, *c, *c]\n",
            "no field \"a\"", 1);
        row("nested alias", yaml, "nodes: &n [*n]\n", "", 1);
        row("two-level without rates", yaml, "comm_model: two-level\nnodes: {device: T4}\n", "two-level needs", 1);
        row("json", yaml, "{\"schema\": \"planloom.cluster/1\",\n\"name\": 3}", "must be text in quotes", 2);
        row("not xml", xml, "<system><cpu>", "not valid XML", 1);
        row("other xml", xml, "<html/>", "no <system> element", 0);
        row("no cpu", xml, "\n<system/>", "no <cpu>", 2);
        row("no gpus", xml, "<system><cpu/></system>", "no devices", 0);
        row("bad number", xml, "<system>\n<cpu>\n<pci busid=\"1\"><gpu dev=\"-1\" sm=\"90\"/></pci></cpu></system>",
            "must be a whole number", 3);
        row("unknown gpu", xml, "<system><cpu><pci busid=\"1\"><gpu dev=\"0\" sm=\"33\"/></pci></cpu></system>",
            "describe the cluster in YAML", 1);
        row("twins", xml, "<system><cpu><gpu dev=\"0\" sm=\"90\"/><gpu dev=\"0\" sm=\"90\"/></cpu></system>",
            "name of more than one", 0);
        row("deep xml", xml,
            "<system><cpu>" + QByteArray("<pci busid=\"1\">").repeated(5000) + QByteArray("</pci>").repeated(5000)
                + "</cpu></system>",
            "nested deeper", 1);
        row("no matrix", smi, "hello\nworld\n", "no matrix", 0);
        row("short row", smi, "     GPU0 GPU1\nGPU0  X\n", "row GPU0 has 1 of 2 entries", 2);
        row("bad cell", smi, "     GPU0 GPU1\nGPU0  X  HUH\n", "column GPU1 is \"HUH\"", 2);
        row("missing row", smi, "     GPU0 GPU1\nGPU0  X  NV2\n", "no row GPU1", 0);
        row("unknown kind", smi, "     GPU0 GPU1\nGPU0  X  PHB\nGPU1 PHB X\n", "nvidia-smi -L", 0);
    }
    void badInput()
    {
        QFETCH(Reader, reader);
        QFETCH(QByteArray, text);
        QFETCH(QString, says);
        QFETCH(int, line);
        const auto made = reader(text.toStdString(), "input");
        QVERIFY(!made.ok());
        QVERIFY2(QString::fromStdString(made.error().message).contains(says), made.error().text().c_str());
        QCOMPARE(made.error().file, std::string("input"));
        QCOMPARE(made.error().line, line);
    }
};

QTEST_GUILESS_MAIN(ClusterFormatsTest)
#include "tst_cluster_formats.moc"
