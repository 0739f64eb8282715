// SPDX-License-Identifier: Apache-2.0
// The planloom command when it is stopped, and when it cannot write.
#include "app/cli_fixture.h"

#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <csignal>
#include <sys/resource.h>
#include <unistd.h>

using namespace planloom::testing;

namespace {

/// True once the process @p id has a handler for SIGINT.
bool catchesInterrupts(qint64 id)
{
    for (const QByteArray &line : readAll(QString("/proc/%1/status").arg(id)).split('\n')) {
        if (line.startsWith("SigCgt:"))
            return (line.mid(7).trimmed().toULongLong(nullptr, 16) >> (SIGINT - 1)) & 1;
    }
    return false;
}

/// Seconds of processor time that process @p id has had in user mode.
double computedSeconds(qint64 id)
{
    const QByteArray stat = readAll(QString("/proc/%1/stat").arg(id));
    const QList<QByteArray> fields = stat.mid(stat.lastIndexOf(')') + 2).split(' '); // from the third field on
    return fields.size() > 11 ? fields[11].toDouble() / static_cast<double>(::sysconf(_SC_CLK_TCK)) : 0;
}

} // namespace

class TestCliStop : public CliTest {
    Q_OBJECT

private Q_SLOTS:
    void aFullDiskLosesNothing()
    {
        const auto limit = [] {
            const rlimit low{4096, 4096};
            setrlimit(RLIMIT_FSIZE, &low);
            std::signal(SIGXFSZ, SIG_IGN);
        };
        QVERIFY(write(at("kept.json"), "the old plan"));
        const QStringList before = entries();
        const Done done = run({"plan", "--model", "zoo:gpt2", "--cluster", "preset:h100-8", "--planner",
                               "data-parallel", "--batch", "8", "-o", "kept.json"},
                              limit);
        QCOMPARE(done.status, 1);
        QVERIFY2(done.err.contains("kept.json") && done.err.contains("space"), done.err.constData());
        QCOMPARE(readAll(at("kept.json")), QByteArray("the old plan"));
        QCOMPARE(entries(), before);
    }

    void stdoutThatCannotBeWritten()
    {
        QProcess process;
        prepare(process);
        process.setStandardOutputFile("/dev/full");
        process.start(binary(), {"models"});
        QVERIFY(process.waitForFinished(kWait));
        QCOMPARE(process.exitCode(), 1);
        QVERIFY(process.readAllStandardError().startsWith("planloom: error: "));
    }

    // A terminal that was closed: the result and the exit status are as ever.
    void stderrThatCannotBeWritten()
    {
        const auto runMute = [this](const QStringList &arguments) {
            QProcess process;
            prepare(process);
            process.setStandardErrorFile("/dev/full");
            process.start(binary(), arguments);
            return process.waitForFinished(kWait) && process.exitStatus() == QProcess::NormalExit ? process.exitCode()
                                                                                                  : -1;
        };
        QCOMPARE(runMute({"inspect", "no-such-file"}), 2);
        QCOMPARE(runMute({"plan", "--model", "zoo:vgg-19", "--cluster", "local:2", "--planner", "gpipe", "--batch", "4",
                          "-o", "mute.json"}),
                 0);
        QCOMPARE(runMute({"export", "mute.json", "--to", "deepspeed", "-o", "mute.ds.json"}), 2);
        QVERIFY(QFile::exists(at("mute.json")));
    }

    void ctrlCBeforeThereIsAPlanLeavesNothing()
    {
        const QStringList before = entries();
        QProcess process;
        // Nothing fits, but the search would be long.
        start(process,
              {"plan", "--model", "zoo:gpt-175b", "--cluster", "preset:h100-8", "--batch", "512", "--planner",
               "automap", "--set", "episodes=1000000", "-o", "never.json"});
        QVERIFY(process.waitForStarted(kWait));
        QTRY_VERIFY_WITH_TIMEOUT(catchesInterrupts(process.processId()), kWait);
        QCOMPARE(::kill(static_cast<pid_t>(process.processId()), SIGINT), 0);
        QVERIFY(process.waitForFinished(kWait));
        QCOMPARE(process.exitStatus(), QProcess::NormalExit);
        QCOMPARE(process.exitCode(), 1);
        const QByteArray err = process.readAllStandardError();
        QVERIFY2(err.startsWith("planloom: error: stopped on request") && err.count('\n') == 1, err.constData());
        QCOMPARE(process.readAllStandardOutput(), QByteArray());
        QCOMPARE(entries(), before);
    }

    void ctrlCKeepsTheBestPlanSoFar_data()
    {
        QTest::addColumn<QString>("planner");
        QTest::newRow("one planner") << "automap";
        QTest::newRow("all") << "all";
    }

    void ctrlCKeepsTheBestPlanSoFar()
    {
        QFETCH(QString, planner);
        const QString path = "best-" + planner + ".json";
        QStringList arguments{"plan",    "--model", "zoo:amoebanet-36", "--cluster", "preset:dapple-b",
                              "--batch", "512",     "--planner",        planner,     "--json",
                              "-o",      path};
        if (planner == "automap")
            arguments << "--set"
                      << "families=pp"
                      << "--set"
                      << "episodes=1000000";
        QProcess process;
        start(process, arguments);
        QVERIFY(process.waitForStarted(kWait));
        QTRY_VERIFY_WITH_TIMEOUT(computedSeconds(process.processId()) > 0.7,
                                 kWait); // the first plans take some milliseconds, the rest much longer
        QCOMPARE(::kill(static_cast<pid_t>(process.processId()), SIGINT), 0);
        QVERIFY(process.waitForFinished(kWait));
        const QByteArray err = process.readAllStandardError();
        QCOMPARE(process.exitStatus(), QProcess::NormalExit);
        QVERIFY2(process.exitCode() == 130, err.constData());
        QVERIFY2(err.startsWith("planloom: stopped on request; the plan in " + path.toUtf8()
                                + " is the best of an incomplete search")
                     && err.count('\n') == 1,
                 err.constData());
        const QJsonObject printed = QJsonDocument::fromJson(process.readAllStandardOutput()).object();
        QCOMPARE(printed["complete"].toBool(true), false);
        QCOMPARE(printed["estimate"].toObject()["stopped_early"].toInt(), 1);
        const QJsonObject written = QJsonDocument::fromJson(readAll(at(path))).object();
        QCOMPARE(written["estimate"].toObject()["stopped_early"].toInt(), 1);
        QCOMPARE(run({"simulate", path}).status, 0);
        QVERIFY(run({"inspect", path}).out.contains("the search was stopped early"));
    }

    /// A second interrupt ends the program without a plan.
    void aSecondSignalEndsItAtOnce()
    {
        const QStringList before = entries();
        QProcess process;
        start(process,
              {"plan", "--model", "zoo:amoebanet-36", "--cluster", "preset:dapple-b", "--batch", "512", "--planner",
               "automap", "--set", "families=pp", "--set", "episodes=1000000", "-o", "never.json"});
        QVERIFY(process.waitForStarted(kWait));
        QTRY_VERIFY_WITH_TIMEOUT(catchesInterrupts(process.processId()), kWait);
        const auto id = static_cast<pid_t>(process.processId());
        QCOMPARE(::kill(id, SIGSTOP), 0); // so that it cannot end between the two
        QCOMPARE(::kill(id, SIGINT), 0);
        QCOMPARE(::kill(id, SIGTERM), 0);
        QCOMPARE(::kill(id, SIGCONT), 0);
        QVERIFY(process.waitForFinished(kWait));
        QCOMPARE(process.exitStatus(), QProcess::CrashExit);
        QCOMPARE(process.readAllStandardOutput(), QByteArray());
        QCOMPARE(entries(), before);
    }
};

QTEST_GUILESS_MAIN(TestCliStop)
#include "tst_cli_stop.moc"
