// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/cluster_settings.h"
#include "engine/import/cluster/host_list.h"
#include "engine/import/import.h"

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <fstream>

using namespace planloom;
using namespace planloom::import;

namespace {

/// Two leaves beneath a top switch.
const char *kTree = "# made by slurmibtopology\n"
                    "SwitchName=leaf1 Nodes=n[01-02] LinkSpeed=100\n"
                    "switchname=leaf2 \\\n"
                    "   nodes=n03,n[04,06]   # n05 is away\n"
                    "\n"
                    "SwitchName=top Switches=leaf[1-2]\n";

ClusterSettings eightPorts()
{
    ClusterSettings settings;
    settings.gpu = "H100-SXM";
    settings.gpus = 8;
    settings.network = 50e9;
    return settings;
}

double narrowestOf(const cluster::Cluster &cluster, const char *a, const char *b)
{
    double least = 1e300;
    for (const std::size_t link : cluster.route(cluster.find(a), cluster.find(b)))
        least = std::min(least, cluster.links()[link].pointToPoint);
    return least;
}

} // namespace

class TestSlurmTopology : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;

    std::string write(const char *name, const std::string &text) const
    {
        const std::string path = m_folder.filePath(name).toStdString();
        std::ofstream(path) << text;
        return path;
    }

private Q_SLOTS:
    void hostLists_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<QString>("names");
        const auto row = [](const char *text, const char *names) { QTest::newRow(text) << text << names; };
        row("tux", "tux");
        row("n[01-03,20]", "n01 n02 n03 n20");
        row("n[9-11]", "n9 n10 n11");
        row("n[09-11]", "n09 n10 n11");
        row("a1,b[2-3],c", "a1 b2 b3 c");
        row("r[1-2]n[0-1]x", "r1n0x r1n1x r2n0x r2n1x");
        row("n[1]", "n1");
    }
    void hostLists()
    {
        QFETCH(QString, text);
        QFETCH(QString, names);
        const auto made = expandHostList(text.toStdString(), 100);
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QStringList all;
        for (const std::string &name : *made)
            all << QString::fromStdString(name);
        QCOMPARE(all.join(' '), names);
    }

    void wrongHostLists_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *text, const char *says) { QTest::newRow(text) << text << says; };
        row("n[1-", "without its ]");
        row("n1]", "no list of names");
        row(",n1", "no list of names");
        row("n[3-1]", "runs down");
        row("n[a-b]", "no list of numbers");
        row("n[]", "no list of numbers");
        row("n[1--2]", "no list of numbers");
        row("n[0-999999999999999999]", "more than 100 names");
        row("n[0-99999999999999999999]", "no list of numbers");
        row("a[0-50],b[0-60]", "more than 100 names");
        row("a[0-10]b[0-10]", "more than 100 names");
    }
    void wrongHostLists()
    {
        QFETCH(QString, text);
        QFETCH(QString, says);
        const auto made = expandHostList(text.toStdString(), 100);
        QVERIFY(!made.ok());
        QVERIFY2(QString::fromStdString(made.error().message).contains(says), made.error().message.c_str());
    }

    void tree()
    {
        const auto made = readSlurmTopology(kTree, "topology.conf", eightPorts());
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(made->nodes().size(), std::size_t{5});
        QCOMPARE(made->devices().size(), std::size_t{40});
        QCOMPARE(made->nodes()[4].name, std::string("n06"));
        QCOMPARE(made->typeOf(DeviceId(0)).name, std::string("H100-SXM"));
        QCOMPARE(narrowestOf(*made, "n01:g0", "n01:g7"), 18 * 20.6e9);
        QCOMPARE(narrowestOf(*made, "n01:g0", "n02:g0"), 50e9);
        // Over the top: the leaf's way up carries both nodes' ports.
        QCOMPARE(narrowestOf(*made, "n01:g0", "n06:g0"), 50e9);
        const auto up = std::ranges::find_if(made->links(), [&](const cluster::Link &link) {
            return made->vertices()[link.a].name == "leaf2" && made->vertices()[link.b].name == "top";
        });
        QVERIFY(up != made->links().end());
        QCOMPARE(up->pointToPoint, 150e9);
        QVERIFY(made->route(made->find("n01:g0"), made->find("n06:g0")).size()
                > made->route(made->find("n01:g0"), made->find("n02:g0")).size());
    }

    void settingsOfRates()
    {
        ClusterSettings settings = eightPorts();
        settings.ports = 4;
        settings.uplink = 20e9;
        settings.intra = 60e9;
        const auto made = readSlurmTopology(kTree, "topology.conf", settings);
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(narrowestOf(*made, "n01:g0", "n01:g1"), 60e9);
        QCOMPARE(narrowestOf(*made, "n01:g0", "n02:g0"), 50e9);
        QCOMPARE(narrowestOf(*made, "n01:g0", "n03:g0"), 20e9);
        // Two GPUs share a port; GPUs of different ports leave the node side by side.
        const auto first = made->route(made->find("n01:g0"), made->find("n02:g0"));
        const auto second = made->route(made->find("n01:g1"), made->find("n02:g1"));
        const auto third = made->route(made->find("n01:g2"), made->find("n02:g2"));
        const auto shared = [](const auto &a, const auto &b) {
            return std::ranges::count_if(a, [&](std::size_t link) { return std::ranges::find(b, link) != b.end(); });
        };
        QCOMPARE(shared(first, second), std::ptrdiff_t{2});
        QCOMPARE(shared(first, third), std::ptrdiff_t{0});
        settings.ports = 3;
        const auto uneven = readSlurmTopology(kTree, "topology.conf", settings);
        QVERIFY(!uneven.ok() && uneven.error().message.find("cannot share them evenly") != std::string::npos);
    }

    void gpusWithoutNvLinkUseTheirSlot()
    {
        ClusterSettings settings = eightPorts();
        settings.gpu = "T4";
        const auto made = readSlurmTopology(kTree, "topology.conf", settings);
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE(narrowestOf(*made, "n01:g0", "n01:g1"), 12e9);
    }

    void wrongFiles_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<QString>("says");
        QTest::addColumn<int>("line");
        const auto row = [](const char *tag, QByteArray text, const char *says, int line) {
            QTest::newRow(tag) << text << QString(says) << line;
        };
        row("empty", "# nothing\n", "no line with SwitchName=", 0);
        row("no field", "SwitchName=a Nodes=n1\nhello\n", "\"hello\" is no field", 2);
        row("unknown field", "SwitchName=a Nods=n1\n", "no field \"nods\"", 1);
        row("no name", "Nodes=n1\n", "has no SwitchName=", 1);
        row("nothing beneath", "SwitchName=a\n", "neither Nodes= nor Switches=", 1);
        row("range", "SwitchName=a Nodes=n[3-1]\n", "runs down", 1);
        row("node twice", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "switch of line 1, too", 2);
        row("switch twice", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "in line 1 already", 2);
        row("unknown switch", "SwitchName=a Switches=b\n", "no line SwitchName=b", 1);
        row("two ways up", "SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
            "beneath that of line 2, too", 3);
        row("two trees", "SwitchName=a Nodes=n1\n\nSwitchName=b Nodes=n2\n", "SwitchName=top Switches=a,b", 3);
        row("ring", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "beneath itself", 1);
        row("ring beside a tree", "SwitchName=t Nodes=n1\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n",
            "beneath itself", 2);
        row("itself", "SwitchName=a Switches=a\n", "beneath itself", 1);
        row("block", "BlockName=b1 Nodes=n[1-2]\n", "topology/block says nothing of switches", 1);
        row("include", "Include other.conf\n", "files that are included are not read", 1);
        row("too many", "SwitchName=a Nodes=n[1-70000]\n", "more than 65536", 1);
        row("too many devices", "SwitchName=a Nodes=n[1-60000]\n", "more than the 65536 devices", 0);
    }
    void wrongFiles()
    {
        QFETCH(QByteArray, text);
        QFETCH(QString, says);
        QFETCH(int, line);
        const auto made = readSlurmTopology(text.toStdString(), "topology.conf", eightPorts());
        QVERIFY(!made.ok());
        QVERIFY2(QString::fromStdString(made.error().message).contains(says), made.error().text().c_str());
        QCOMPARE(made.error().file, std::string("topology.conf"));
        QCOMPARE(made.error().line, line);
    }

    void loadedWithItsSettings()
    {
        const std::string file = write("topology.conf", kTree);
        const auto made = loadCluster(file + ",gpu=A100-40GB,gpus=4,network=200 Gb/s");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE((*made)->devices().size(), std::size_t{20});
        QCOMPARE((*made)->types()[0].name, std::string("A100-40GB"));
        QCOMPARE(narrowestOf(**made, "n01:g0", "n02:g0"), 25e9);
        const std::string commas = write("a,b,gpu=T4.conf", kTree);
        QCOMPARE(clusterFileOf(commas), commas);
        QCOMPARE(clusterFileOf(commas + ",gpus=2"), commas);
        QCOMPARE((*loadCluster(commas + ",gpu=T4,gpus=1,network=1GB/s"))->devices().size(), std::size_t{5});
    }

    void missingSettings_data()
    {
        QTest::addColumn<QString>("settings");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *settings, const char *says) { QTest::newRow(settings) << settings << says; };
        row("", "does not say the type of the nodes' GPUs; give gpu=TYPE");
        row(",gpu=T4", "how many GPUs a node has; give gpus=N");
        row(",gpu=T4,gpus=8", "give network=RATE behind the file's name, such as topology.conf,");
        row(",gpu=Z80,gpus=8,network=1", "no such type of device is known; there are");
        row(",gpus=x", "gpus=x: it must be a whole number from 1");
        row(",gpus=0", "gpus=0: it must be a whole number from 1");
        row(",network=fast", "network=fast: \"fast\" is not a number");
        row(",network=-1", "must be greater than zero");
        row(",speed=1", "no setting \"speed\"");
        row(",gpu=T4,gpu=T4", "gpu= is given twice");
        row(",hello", "\"hello\" behind the file's name is no setting");
    }
    void missingSettings()
    {
        QFETCH(QString, settings);
        QFETCH(QString, says);
        const std::string file = write("topology.conf", kTree);
        const auto made = loadCluster(file + settings.toStdString());
        QVERIFY(!made.ok());
        QVERIFY2(QString::fromStdString(made.error().message).contains(says), made.error().text().c_str());
        QCOMPARE(made.error().file, file);
    }

    void matrixWithItsType()
    {
        const char *matrix = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n";
        const std::string file = write("matrix.txt", matrix);
        const auto open = openClusterSettings(file);
        QCOMPARE(open.size(), std::size_t{1});
        QCOMPARE(open[0].key, std::string("gpu"));
        QVERIFY(!loadCluster(file).ok());
        const auto made = loadCluster(file + ",gpu=Tesla T4");
        QVERIFY2(made.ok(), made ? "" : made.error().text().c_str());
        QCOMPARE((*made)->types()[0].name, std::string("T4"));
        QVERIFY(openClusterSettings(file + ",gpu=T4").empty());
        const auto other = loadCluster(file + ",gpu=T4,gpus=2");
        QVERIFY(!other.ok() && other.error().message.find("gpus= is not for such a file") != std::string::npos);

        const std::string named = write("named.txt",
                                        std::string("GPU 0: Tesla V100-SXM2-32GB (UUID: x)\nGPU 1: Tesla "
                                                    "V100-SXM2-32GB (UUID: y)\n")
                                            + matrix);
        QVERIFY(openClusterSettings(named).empty());
        QVERIFY(loadCluster(named).ok() && loadCluster(named + ",gpu=V100-32GB").ok());
        const auto wrong = loadCluster(named + ",gpu=T4");
        QVERIFY(!wrong.ok() && wrong.error().message.find("leave it out") != std::string::npos);
        const std::string unknown =
            write("unknown.txt", std::string("GPU 0: Abacus (UUID: x)\nGPU 1: Abacus\n") + matrix);
        QCOMPARE(openClusterSettings(unknown).size(), std::size_t{1});
        QVERIFY(!loadCluster(unknown).ok() && loadCluster(unknown + ",gpu=H100").ok());
    }

    void whatIsOpen()
    {
        const std::string file = write("topology.conf", kTree);
        QCOMPARE(openClusterSettings(file).size(), std::size_t{6});
        QCOMPARE(openClusterSettings(file + ",gpu=T4,gpus=1").size(), std::size_t{6});
        QVERIFY(openClusterSettings(file + ",gpu=T4,gpus=1,network=1").empty());
        QVERIFY(openClusterSettings("preset:h100-8").empty());
        QVERIFY(openClusterSettings(m_folder.filePath("nothing.conf").toStdString()).empty());
        const std::string yaml = write("c.yaml", "nodes: {device: T4}\n");
        QVERIFY(openClusterSettings(yaml).empty());
        const auto told = loadCluster(yaml + ",gpu=T4");
        QVERIFY(!told.ok() && told.error().message.find("says all of its cluster") != std::string::npos);
        QVERIFY(looksLikeCluster("topology.conf", kTree) && !looksLikeCluster("a.txt", "hello"));
        QVERIFY(isSlurmTopology("\n# SwitchName=\n  switchNAME=a Nodes=b") && !isSlurmTopology("x SwitchName=a"));
    }
};

QTEST_GUILESS_MAIN(TestSlurmTopology)
#include "tst_slurm_topology.moc"
