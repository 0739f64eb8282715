// SPDX-License-Identifier: Apache-2.0
// The command that starts the workers of a run, and the hosts that it names.
#include "engine/base/files.h"
#include "executor/agent/launch.h"

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>

using namespace planloom;

class TestLaunch : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QVERIFY(m_folder.isValid()); }
    void cleanup() { qunsetenv("OMPI_MCA_orte_default_hostfile"); }

    /// Machine i of the plan is the i-th host, whatever machines its ranks are on.
    void ranksOnHosts()
    {
        hostFile("# made by hand\n10.0.0.7 slots=2\n\n10.0.0.8\n10.0.0.7 slots=1\n  node9\n");
        const auto command = start({2, 0, 2, 1});
        QVERIFY2(command, command ? "" : command.error().text().c_str());
        const std::string list = m_folder.path().toStdString() + "/hosts";
        const auto &given = command->arguments;
        const auto at = std::ranges::find(given, "--hostfile");
        QVERIFY(given.end() - at > 4);
        QCOMPARE(at[1], list);
        QCOMPARE(std::vector<std::string>(at + 2, at + 5), (std::vector<std::string>{"--mca", "rmaps", "seq"}));
        const auto text = readFile(list);
        QVERIFY(text);
        QCOMPARE(*text, "node9\n10.0.0.7\nnode9\n10.0.0.8\n");
    }

    void launcherChooses_data()
    {
        QTest::addColumn<QString>("hosts");
        QTest::addColumn<std::vector<std::int32_t>>("nodes");
        QTest::newRow("no host file") << QString() << std::vector<std::int32_t>{0, 1};
        QTest::newRow("fewer hosts than machines") << "a\nb\n" << std::vector<std::int32_t>{0, 2};
        QTest::newRow("one machine") << "a\nb\n" << std::vector<std::int32_t>{0, 0};
        QTest::newRow("one rank") << "a\nb\n" << std::vector<std::int32_t>{1};
    }

    void launcherChooses()
    {
        QFETCH(QString, hosts);
        QFETCH(std::vector<std::int32_t>, nodes);
        if (!hosts.isEmpty())
            hostFile(hosts.toStdString());
        const auto command = start(nodes);
        QVERIFY2(command, command ? "" : command.error().text().c_str());
        QVERIFY(std::ranges::find(command->arguments, "--hostfile") == command->arguments.end());
    }

private:
    void hostFile(const std::string &text)
    {
        const std::string path = m_folder.path().toStdString() + "/list";
        QVERIFY(writeFileAtomically(path, text));
        qputenv("OMPI_MCA_orte_default_hostfile", path.c_str());
    }

    Result<agent::Command> start(const std::vector<std::int32_t> &nodes)
    {
        qputenv("PLANLOOM_BINARY", "/bin/true");
        const agent::Scratch scratch;
        return agent::workerCommand(nodes, m_folder.path().toStdString(), "socket", "token", scratch);
    }

    QTemporaryDir m_folder;
};

QTEST_GUILESS_MAIN(TestLaunch)
#include "tst_launch.moc"
