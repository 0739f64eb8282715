// SPDX-License-Identifier: Apache-2.0
// The hosts of a run over several, as the process that keeps it holds on to them; `ssh` is a program that plays each
// host's guard. tests/lab/remote has real ones.
#include "executor/remote/joined_hosts.h"

#include "engine/base/files.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>
#include <fmt/format.h>
#include <memory>

using namespace planloom;
using namespace planloom::remote;

class TestJoinedHosts : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        std::signal(SIGPIPE, SIG_IGN);
        m_folder = std::make_unique<QTemporaryDir>();
        QVERIFY(m_folder->isValid() && QDir(m_folder->path()).mkpath("bin") && QDir(m_folder->path()).mkpath("run"));
        const QByteArray project = contents(PLANLOOM_SOURCE_DIR "/CMakeLists.txt"),
                         before = "project(Planloom VERSION ";
        const qsizetype at = project.indexOf(before) + before.size();
        const std::string version = project.mid(at, project.indexOf(' ', at) - at).toStdString();
        // What each host does is a file of its name, in words that are defined here.
        const std::string ssh = fmt::format(R"(#!/bin/sh
cd {0} || exit
for word; do case $word in 203.0.113.*) host=$word ;; esac; done
log() {{ echo "$host $*" >>log; }}
joins() {{ echo '{{"planloom":"{1}","cores":3}}'; }}
hears() {{ while read -r line; do log "$line"; case $line in *'"end"'*) return ;; esac; done; exit 1; }}
sends() {{ printf '{{"file":"run/%s","at":0,"size":2}}\nhi{{"end":true}}\n' "$1"; }}
read -r request
case $request in
*describe*) echo '{{"planloom":"{1}"}}' ;;
*leave*) log left; echo '{{"planloom":"{1}"}}' ;;
*) . ./$host ;;
esac
)",
                                            file(""), version);
        QVERIFY(writeFileAtomically(file("bin/ssh"), ssh));
        QVERIFY(QFile::setPermissions(QString::fromStdString(file("bin/ssh")),
                                      QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner));
        qputenv("PATH", QByteArray::fromStdString(file("bin")) + ":/usr/bin:/bin");
        qputenv("PLANLOOM_BINARY", "/opt/planloom");
    }

    /// Those that have joined hear that this process is there while others take long.
    void guardsAreSpokenToMeanwhile()
    {
        JoinedHosts hosts;
        const auto cores = join(hosts, {"joins; hears", "sleep 3; log slow; joins; hears"});
        QVERIFY2(cores, cores ? "" : cores.error().text().c_str());
        QCOMPARE(*cores, (std::vector<std::int32_t>{3, 3}));
        const QByteArray said = contents("log");
        QVERIFY2(said.contains("203.0.113.1 {\"do\":\"alive\"}\n"), said);
        QVERIFY2(said.indexOf("alive") < said.indexOf("slow"), said);
    }

    /// One that ends while others join is the error, not a run without it.
    void hostsThatEndMeanwhile()
    {
        JoinedHosts hosts;
        const auto cores = join(hosts, {"joins; exit 3", "sleep 5; joins; hears"});
        QVERIFY(!cores);
        QVERIFY2(cores.error().message.starts_with("host 203.0.113.1 was lost: "), cores.error().message.c_str());
    }

    void filesComeFromAll()
    {
        JoinedHosts hosts;
        QVERIFY(join(hosts, {"joins; hears; sleep 1; log sends; sends a.txt", "joins; hears; sends b.txt"}));
        const Status came = hosts.fetch(file("run"), m_stop);
        QVERIFY2(came, came ? "" : came.error().text().c_str());
        QCOMPARE(contents("run/a.txt") + contents("run/b.txt"), QByteArray("hihi"));
        const QByteArray said = contents("log"); // the second hears the end at once, not in its turn
        QVERIFY2(said.indexOf("203.0.113.2 {\"do\":\"end\"}") < said.indexOf("203.0.113.1 sends"), said);
    }

    /// The files of one whose guard has ended are missing; the others' are here.
    void guardsThatHaveEnded()
    {
        JoinedHosts hosts;
        QVERIFY(join(hosts, {"joins; exit 0", "joins; hears; sends b.txt"}));
        QTRY_VERIFY((hosts.tend(), hosts.lost()));
        const Status came = hosts.fetch(file("run"), m_stop);
        QVERIFY(!came);
        QCOMPARE(came.error().message,
                 std::string("what ranks wrote on 203.0.113.1 did not come: its guard has ended"));
        QCOMPARE(contents("run/b.txt"), QByteArray("hi"));
    }

    void fetchingCanBeStopped()
    {
        JoinedHosts hosts;
        QVERIFY(join(hosts, {"joins; hears; exec sleep 2", "joins; hears; sends b.txt"}));
        m_stop = true;
        const Status came = hosts.fetch(file("run"), m_stop);
        QVERIFY(!came);
        QCOMPARE(came.error().code, ErrorCode::Cancelled);
    }

private:
    Result<std::vector<std::int32_t>> join(JoinedHosts &hosts, const std::vector<std::string> &guards)
    {
        std::vector<agent::PlanHost> list;
        for (std::size_t i = 0; i < guards.size(); ++i) {
            const std::string address = fmt::format("203.0.113.{}", i + 1); // for documentation alone, by RFC 5737
            list.push_back({static_cast<std::int32_t>(i), "n", {address, {}, 0, 0}, 1});
            if (const Status written = writeFileAtomically(file(address), guards[i] + "\n"); !written)
                return written.error();
        }
        m_stop = false;
        return hosts.joinAll(list, guards.size(), "0123456789abcdef", m_stop);
    }
    [[nodiscard]] std::string file(const std::string &name) const
    {
        return m_folder->path().toStdString() + "/" + name;
    }
    [[nodiscard]] QByteArray contents(const char *name) const
    {
        QFile opened(*name == '/' ? QString(name) : QString::fromStdString(file(name)));
        return opened.open(QFile::ReadOnly) ? opened.readAll() : QByteArray();
    }
    std::unique_ptr<QTemporaryDir> m_folder;
    std::atomic<bool> m_stop = false;
};

QTEST_GUILESS_MAIN(TestJoinedHosts)
#include "tst_joined_hosts.moc"
