// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/gpu_catalog.h"
#include "engine/import/cluster/nvml.h"
#include "engine/import/import.h"

#include <QTemporaryDir>
#include <QTest>

#include <array>
#include <cstring>
#include <fstream>

using namespace planloom;
using namespace planloom::import;

namespace {

using Gpu = NvmlApi::Gpu;
using Remote = NvmlApi::Remote;
constexpr int kNotSupported = 3;
constexpr int kGpuIsLost = 15;
constexpr int kDriverNotLoaded = 9;

/// A machine that is made up. GPU i has bus id "00000000:0i:00.0".
struct Machine {
    struct Installed {
        std::string name = "NVIDIA H100 80GB HBM3";
        unsigned pciDevice = 0x2330;
        int sm = 90;
        std::int64_t memory = std::int64_t{81559} << 20;
        unsigned generation = 5, lanes = 16;            ///< 0: not told
        std::vector<std::pair<Remote, int>> links = {}; ///< and the GPU behind it
    };
    std::vector<Installed> gpus;
    int initError = 0;
    int lost = -1; ///< a GPU that answers nothing
    int sessions = 0;
} g_machine;

/// Handles are GPUs' numbers, plus 1.
int indexOf(Gpu *gpu) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(gpu)) - 1; }
const Machine::Installed &of(Gpu *gpu) { return g_machine.gpus[static_cast<std::size_t>(indexOf(gpu))]; }

NvmlApi::PciInfo infoOf(int index, bool upper)
{
    NvmlApi::PciInfo info{};
    std::snprintf(info.busId, sizeof info.busId, upper ? "00000000:A%X:00.0" : "00000000:a%x:00.0", index);
    return info;
}

NvmlApi table()
{
    NvmlApi api{};
    api.init = [] {
        g_machine.sessions += g_machine.initError == 0 ? 1 : 0;
        return g_machine.initError;
    };
    api.shutdown = [] { return --g_machine.sessions, 0; };
    api.errorText = [](int error) { return error == kGpuIsLost ? "GPU is lost" : "Driver Not Loaded"; };
    api.count = [](unsigned *count) { return *count = static_cast<unsigned>(g_machine.gpus.size()), 0; };
    api.handle = [](unsigned index, Gpu **gpu) {
        *gpu = reinterpret_cast<Gpu *>(std::uintptr_t{index} + 1);
        return static_cast<int>(index) == g_machine.lost ? kGpuIsLost : 0;
    };
    api.name = [](Gpu *gpu, char *name, unsigned bytes) { return std::strncpy(name, of(gpu).name.c_str(), bytes), 0; };
    api.memory = [](Gpu *gpu, NvmlApi::Memory *memory) {
        memory->total = static_cast<unsigned long long>(of(gpu).memory);
        return 0;
    };
    api.pciInfo = [](Gpu *gpu, NvmlApi::PciInfo *info) {
        *info = infoOf(indexOf(gpu), false);
        info->deviceId = of(gpu).pciDevice << 16U | 0x10deU;
        return 0;
    };
    api.computeCapability = [](Gpu *gpu, int *major, int *minor) {
        *major = of(gpu).sm / 10;
        *minor = of(gpu).sm % 10;
        return 0;
    };
    api.pcieGeneration = [](Gpu *gpu, unsigned *generation) {
        *generation = of(gpu).generation;
        return *generation == 0 ? kNotSupported : 0;
    };
    api.pcieWidth = [](Gpu *gpu, unsigned *lanes) { return *lanes = of(gpu).lanes, 0; };
    api.linkState = [](Gpu *gpu, unsigned link, int *isOn) {
        *isOn = link < of(gpu).links.size() ? 1 : 0;
        return of(gpu).links.empty() ? kNotSupported : 0;
    };
    api.linkRemote = [](Gpu *gpu, unsigned link, NvmlApi::PciInfo *info) {
        return *info = infoOf(of(gpu).links[link].second, true), 0;
    };
    api.linkRemoteType = [](Gpu *gpu, unsigned link, Remote *type) { return *type = of(gpu).links[link].first, 0; };
    return api;
}

double narrowest(const cluster::Cluster &cluster, int from, int to)
{
    double rate = 1e18;
    for (const std::size_t link : cluster.route(DeviceId(from), DeviceId(to)))
        rate = std::min(rate, cluster.links()[link].pointToPoint);
    return rate;
}

/// The link between a device and the host.
double pcieOf(const cluster::Cluster &cluster, int device)
{
    for (const cluster::Link &link : cluster.links())
        if (link.kind == cluster::Link::Kind::Pcie && link.a == cluster.vertexOf(DeviceId(device)))
            return link.pointToPoint;
    return 0;
}

} // namespace

/// `local` from the management library of the driver.
class TestNvml : public QObject {
    Q_OBJECT

private slots:
    void init() { g_machine = {}; }
    void cleanup()
    {
        QCOMPARE(g_machine.sessions, 0);
        qunsetenv("NCCL_TOPO_FILE");
        qunsetenv("NCCL_TOPO_DUMP_FILE");
    }
    void switchesJoinAll();
    void linksAreTakenOnce();
    void gpusDiffer();
    void hiddenGpusAreLeftOut();
    void whatIsNotKnownIsRefused();
    void failuresFallBack();
    void topologyOfNcclComesFirst();
};

void TestNvml::switchesJoinAll()
{
    g_machine.gpus.resize(4);
    for (auto &gpu : g_machine.gpus)
        gpu.links.assign(18, {Remote::Switch, 0});
    const NvmlApi api = table();
    const auto made = localCluster(0, &api);
    QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
    QCOMPARE(made->name(), std::string("local"));
    QCOMPARE(made->devices().size(), std::size_t{4});
    QCOMPARE(made->types().size(), std::size_t{1});
    QCOMPARE(made->types()[0].name, std::string("H100-SXM"));
    QCOMPARE(made->types()[0].memory.value(), std::int64_t{81559} << 20);
    QCOMPARE(made->route(DeviceId(0), DeviceId(3)).size(), std::size_t{2});
    QCOMPARE(narrowest(*made, 0, 3), 18 * nvLinkRate(90));
    QCOMPARE(pcieOf(*made, 2), pcieRate(32, 16));
}

void TestNvml::linksAreTakenOnce()
{
    // 0 and 1 by two links, 1 and 2 by one; 3 by PCIe alone.
    g_machine.gpus.assign(4, {"NVIDIA A100-SXM4-80GB", 0x20b2, 80, std::int64_t{80} << 30, 4, 8, {}});
    g_machine.gpus[0].links = {{Remote::Gpu, 1}, {Remote::Gpu, 1}};
    g_machine.gpus[1].links = {{Remote::Gpu, 0}, {Remote::Gpu, 2}, {Remote::Gpu, 0}, {Remote::Unknown, 0}};
    g_machine.gpus[2].links = {{Remote::Gpu, 1}};
    const NvmlApi api = table();
    const auto made = localCluster(0, &api);
    QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
    const auto nvLinks = std::ranges::count(made->links(), cluster::Link::Kind::NvLink, &cluster::Link::kind);
    QCOMPARE(nvLinks, std::ptrdiff_t{2});
    QCOMPARE(narrowest(*made, 0, 1), 2 * nvLinkRate(80));
    QCOMPARE(narrowest(*made, 1, 2), nvLinkRate(80));
    QCOMPARE(narrowest(*made, 0, 3), pcieRate(16, 8));
}

void TestNvml::gpusDiffer()
{
    g_machine.gpus.resize(3);
    g_machine.gpus[1].memory = std::int64_t{95830} << 20; // another board with the same chip
    g_machine.gpus[2] = {"Tesla V100-SXM2-16GB", 0x1db1, 70, std::int64_t{16} << 30, 0, 0, {}};
    const NvmlApi api = table();
    const auto made = localCluster(0, &api);
    QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
    QCOMPARE(made->types().size(), std::size_t{3});
    QCOMPARE(made->typeOf(DeviceId(1)).memory.value(), std::int64_t{95830} << 20);
    QVERIFY(made->typeOf(DeviceId(0)).name != made->typeOf(DeviceId(1)).name);
    QCOMPARE(made->typeOf(DeviceId(2)).name, std::string("V100-16GB"));
    QCOMPARE(pcieOf(*made, 2), pcieRate(8, 16)); // nothing is told: the usual slot
}

void TestNvml::hiddenGpusAreLeftOut()
{
    g_machine.gpus.resize(3);
    for (int i = 0; i < 3; ++i)
        g_machine.gpus[static_cast<std::size_t>(i)].memory = std::int64_t{10 + i} << 30;
    const NvmlApi api = table();
    const auto memories = [&](const char *chosen) {
        std::vector<std::int64_t> gibibytes;
        for (const InstalledGpu &gpu : visibleGpus(*readNvml(api), chosen))
            gibibytes.push_back(gpu.memory.value() >> 30);
        return gibibytes;
    };
    using Memories = std::vector<std::int64_t>;
    QCOMPARE(memories(nullptr), (Memories{10, 11, 12}));
    QCOMPARE(memories("2, 0"), (Memories{12, 10}));
    QCOMPARE(memories("1,7,0"), (Memories{11})); // as CUDA takes it
    QCOMPARE(memories("0,-1,1"), (Memories{10}));
    QCOMPARE(memories(""), Memories{});
    QCOMPARE(memories("GPU-8f1d"), (Memories{10, 11, 12}));
    qputenv("CUDA_VISIBLE_DEVICES", "1");
    const auto one = localCluster(0, &api);
    qputenv("CUDA_VISIBLE_DEVICES", "-1");
    const auto none = localCluster(0, &api);
    qunsetenv("CUDA_VISIBLE_DEVICES");
    QVERIFY(one.ok() && none.ok());
    QCOMPARE(one->devices().size(), std::size_t{1});
    QCOMPARE(one->typeOf(DeviceId(0)).memory.value(), std::int64_t{11} << 30);
    QVERIFY(none->typeOf(DeviceId(0)).isProcessor());
}

void TestNvml::whatIsNotKnownIsRefused()
{
    g_machine.gpus = {{"NVIDIA Riva 128", 0x0018, 10, 4 << 20, 1, 1, {}}};
    const auto read = readNvml(table());
    QVERIFY(read.ok());
    QCOMPARE(read->front().name, std::string("NVIDIA Riva 128"));
    QCOMPARE(read->front().pciDevice, 0x0018U);
    const auto made = clusterOf(*read);
    QVERIFY(!made.ok());
    QVERIFY2(made.error().text().find("NVIDIA Riva 128") != std::string::npos, made.error().text().c_str());
}

void TestNvml::failuresFallBack()
{
    g_machine.gpus.resize(2);
    g_machine.lost = 1;
    const NvmlApi api = table();
    const auto lost = readNvml(api);
    QVERIFY(!lost.ok());
    QVERIFY2(lost.error().text().find("GPU is lost") != std::string::npos, lost.error().text().c_str());
    const auto without = localCluster(0, nullptr);
    QVERIFY(without.ok());
    const auto made = localCluster(0, &api);
    QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
    QCOMPARE(made->devices().size(), without->devices().size());
    g_machine.lost = -1;
    g_machine.initError = kDriverNotLoaded;
    QVERIFY(!readNvml(api).ok() && localCluster(0, &api).ok());
    g_machine = {};
    QVERIFY(localCluster(0, &api).ok()); // a driver without GPUs
}

void TestNvml::topologyOfNcclComesFirst()
{
    QTemporaryDir folder;
    const std::string path = folder.filePath("dumped.xml").toStdString();
    std::ofstream(path) << R"(<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:a0:00.0" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" rank="0"><nvlink target="0000:a1:00.0" count="6" tclass="0x030200"/></gpu></pci>
    <pci busid="0000:a1:00.0" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1"><nvlink target="0000:a0:00.0" count="6" tclass="0x030200"/></gpu></pci>
  </cpu></system>)";
    g_machine.gpus.resize(1);
    const NvmlApi api = table();
    qputenv("NCCL_TOPO_DUMP_FILE", folder.filePath("not written yet.xml").toLocal8Bit());
    QCOMPARE(localCluster(0, &api)->devices().size(), std::size_t{1});
    qputenv("NCCL_TOPO_DUMP_FILE", QByteArray::fromStdString(path));
    const auto made = localCluster(0, &api);
    QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
    QCOMPARE(made->devices().size(), std::size_t{2});
    QCOMPARE(narrowest(*made, 0, 1), 6 * nvLinkRate(90));
    QCOMPARE(localCluster(2, &api)->types()[0].name, std::string("CPU")); // processors were asked for
    std::ofstream(path) << "<system>";
    QVERIFY(!localCluster(0, &api).ok());
}

QTEST_GUILESS_MAIN(TestNvml)
#include "tst_nvml.moc"
