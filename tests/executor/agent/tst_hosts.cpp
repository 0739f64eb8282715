// SPDX-License-Identifier: Apache-2.0
// Plans over several hosts: which hosts they are, where each rank is, and what Open MPI and ssh are told.
#include "engine/base/files.h"
#include "executor/agent/launch.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <filesystem>
#include <unistd.h>

using namespace planloom;
using namespace planloom::agent;

class TestHosts : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QVERIFY(m_folder.isValid()); }

    void hostsOfPlans_data()
    {
        QTest::addColumn<QStringList>("addresses");
        QTest::addColumn<std::vector<int>>("devices"); // of the plan, two on each node
        QTest::addColumn<QString>("hosts");            // address and ranks
        QTest::addColumn<QString>("error");
        const auto row = [](const char *name, const QStringList &addresses, const std::vector<int> &devices,
                            const char *hosts,
                            const char *error) { QTest::newRow(name) << addresses << devices << hosts << error; };
        row("two", {"a", "b"}, {0, 1, 2, 3}, "a 2 b 2 ", "");
        row("in the cluster's order", {"a", "b", "c"}, {5, 0, 4}, "a 1 c 2 ", "");
        row("no addresses", {"", ""}, {0, 2}, "", "");
        row("one host", {"a", "b"}, {0, 1}, "", "");
        row("one without", {"a", ""}, {0, 2}, "", "node n1 of the plan's cluster has no address, and n0 has one");
        row("one without that is not used", {"a", "b", ""}, {0, 2}, "a 1 b 1 ", "");
        row("IPv6", {"a", "fe80::1"}, {0, 2}, "", "IPv6");
        row("one address, two ports", {"a", "b", "a@2222"}, {0, 2, 4}, "",
            "nodes n0 and n2 have the address a and two ports");
        row("one address, one of them used", {"a", "b", "a@2222"}, {2, 4}, "b 1 a 1 ", "");
    }

    void hostsOfPlans()
    {
        QFETCH(QStringList, addresses);
        QFETCH(std::vector<int>, devices);
        QFETCH(QString, hosts);
        QFETCH(QString, error);
        plan::Document document;
        document.subject.cluster = cluster(addresses);
        QVERIFY(document.subject.cluster);
        plan::Stage stage;
        for (const int device : devices)
            stage.devices.emplace_back(device);
        document.plan.stages.push_back(stage);
        const auto found = hostsOf(document);
        QCOMPARE(found.ok(), error.isEmpty());
        if (!found) {
            QVERIFY2(found.error().message.find(error.toStdString()) != std::string::npos,
                     found.error().message.c_str());
            return;
        }
        QString text;
        for (const PlanHost &host : *found)
            text += QString::fromStdString(host.host.address) + " " + QString::number(host.ranks) + " ";
        QCOMPARE(text, hosts);
    }

    void whatHostsCannotDo()
    {
        plan::Plan plan;
        run::Settings settings;
        QVERIFY(checkOnHosts(plan, settings));
        settings.checkpointEvery = 5;
        QCOMPARE(checkOnHosts(plan, settings).error().code, ErrorCode::Unsupported);
        settings.checkpointEvery = 0;
        plan.admm.emplace();
        QVERIFY(checkOnHosts(plan, settings).error().message.find("ADMM") != std::string::npos);
    }

    /// Ranks of a host have cores of their own, if there are enough.
    void ranksHaveCores()
    {
        const auto hosts = cluster({"10.0.0.1", "node2"});
        const auto places = placesOf(std::vector<std::int32_t>{0, 1, 0, 1}, *hosts, std::vector<std::int32_t>{8, 1});
        QVERIFY2(places, places ? "" : places.error().text().c_str());
        QCOMPARE(rankFile(*places),
                 std::string("rank 0=10.0.0.1 slot=0-3\nrank 1=node2 slot=0-0\n"
                             "rank 2=10.0.0.1 slot=4-7\nrank 3=node2 slot=0-0\n"));
        QCOMPARE(hostFile(*places), std::string("10.0.0.1 slots=2\nnode2 slots=2\n"));
        for (const auto &cores : {std::vector<std::int32_t>{8}, std::vector<std::int32_t>{8, 0}})
            QVERIFY(!placesOf(std::vector<std::int32_t>{0, 1}, *hosts, cores));
        QVERIFY(!placesOf(std::vector<std::int32_t>{0, 2}, *hosts, std::vector<std::int32_t>{1, 1, 1}));
    }

    void usersAndPortsAreSshs()
    {
        std::vector<RankPlace> places(2);
        places[0].host = {"gpu1", "ada", 2222, 0};
        places[1].host.address = "gpu2";
        const std::string text = sshConfigOf(places);
        QVERIFY(text.starts_with("Host gpu1\n    User ada\n    Port 2222\nHost gpu2\nHost *\n    BatchMode yes\n"));
        QVERIFY(text.find("Include ~/.ssh/config") != std::string::npos);
    }

    /// What other hosts are told of lies beneath the meeting folder, whatever the run's folder is called.
    void commandOfSeveralHosts()
    {
        qputenv("PLANLOOM_BINARY", "/bin/true");
        const std::string run = m_folder.path().toStdString() + "/a run's folder";
        QVERIFY(std::filesystem::create_directory(run));
        const auto hosts = cluster({"a", "b"});
        const auto places = placesOf(std::vector<std::int32_t>{0, 1}, *hosts, std::vector<std::int32_t>{1, 1});
        const std::string meeting = meetingFolder("0123456789abcdef");
        const auto command = workersCommand(*places, run, meeting, "secret");
        QVERIFY2(command, command ? "" : command.error().text().c_str());
        const auto &given = command->arguments;
        for (const std::string &argument : given)
            QVERIFY2(argument.find("a run's") == std::string::npos && argument.find("secret") == std::string::npos,
                     argument.c_str());
        const auto ranks = std::ranges::find(given, "--rankfile");
        QVERIFY(ranks != given.end() && ranks[1] == meeting + "/run/ranks");
        const auto worker = std::ranges::find(given, "worker");
        QCOMPARE(std::vector<std::string>(worker, given.end()),
                 (std::vector<std::string>{"worker", "--run-dir", meeting + "/run", "--agent", meeting + ".sock"}));
        QCOMPARE(*readFile(run + "/ranks"), std::string("rank 0=a slot=0-0\nrank 1=b slot=0-0\n"));
        QCOMPARE(*readFile(run + "/hosts"), std::string("a slots=1\nb slots=1\n"));
    }

    void meetingFolders_data()
    {
        QTest::addColumn<QString>("path");
        QTest::addColumn<bool>("good");
        QTest::newRow("good") << "/tmp/planloom-0123456789abcdef" << true;
        for (const char *bad :
             {"", "/tmp", "/tmp/planloom-", "/tmp/planloom-0123456789abcde/", "/etc/planloom-0123456789abcdef",
              "/tmp/planloom-0123456789abcdeg", "/tmp/planloom-0123456789abcdef/x"})
            QTest::newRow(bad) << bad << false;
    }

    void meetingFolders()
    {
        QFETCH(QString, path);
        QFETCH(bool, good);
        QCOMPARE(isMeetingFolder(path.toStdString()), good);
    }

    /// The folder is made once, and its end removes links, not what they lead to.
    void meetingsEnd()
    {
        const std::string meeting =
            meetingFolder("00000000" + QByteArray::number(::getpid()).rightJustified(8, '0').toStdString());
        const std::string run = m_folder.path().toStdString();
        QVERIFY(writeFileAtomically(run + "/log", "x"));
        {
            const auto end = MeetingEnd::make(meeting, run, "/tmp/agent.sock", {}, "Host *\n");
            QVERIFY2(end, end ? "" : end.error().text().c_str());
            QCOMPARE(*readFile(meeting + "/run/log"), std::string("x"));
            QCOMPARE(std::filesystem::status(meeting).permissions(), std::filesystem::perms::owner_all);
            QVERIFY(!MeetingEnd::make(meeting, run, "/tmp/agent.sock", {}, {}));
            QVERIFY(std::filesystem::exists(meeting)); // the one who did not make it leaves it
        }
        QVERIFY(!std::filesystem::exists(meeting));
        QVERIFY(!std::filesystem::exists(std::filesystem::symlink_status(socketOf(meeting))));
        QVERIFY(std::filesystem::exists(run + "/log"));
    }

private:
    /// Two devices a node; an address may have a port, "a@22".
    static std::shared_ptr<const cluster::Cluster> cluster(const QStringList &addresses)
    {
        cluster::ClusterBuilder builder("hosts");
        const std::size_t type = builder.type({"CPU", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10});
        const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
        for (qsizetype i = 0; i < addresses.size(); ++i) {
            const QStringList parts = addresses[i].split('@');
            const NodeId node =
                builder.node("n" + std::to_string(i), 0, {parts[0].toStdString(), {}, parts.value(1).toInt(), 0});
            for (int k = 0; k < 2; ++k) {
                const std::size_t device = builder.vertexOf(builder.device(node, type));
                builder.link({cluster::Link::Kind::Network, network, device, 1e9, 1e9, Seconds(1e-5), true});
            }
        }
        auto built = std::move(builder).build();
        return built ? std::make_shared<const cluster::Cluster>(*std::move(built)) : nullptr;
    }

    QTemporaryDir m_folder;
};

QTEST_GUILESS_MAIN(TestHosts)
#include "tst_hosts.moc"
