// SPDX-License-Identifier: Apache-2.0
// Checkpoints where failpoints make something fail. Skipped in builds without them.
#include "engine/base/failpoint.h"
#include "tests/executor/checkpoint/worker_group_process.h"

#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::checkpoint;
using namespace planloom::checkpoint::testing;
using Outcome = CheckpointWriter::Outcome;
namespace fs = std::filesystem;

class TstCheckpointFaults : public QObject {
    Q_OBJECT
private slots:
    void initTestCase()
    {
        if (!failpointsWork())
            QSKIP("failpoints are not compiled in");
    }
    void init()
    {
        m_folder = std::make_unique<QTemporaryDir>(temporaryPlace());
        m_run = m_folder->path().toStdString();
    }
    void cleanup() { QVERIFY(armFailpoints("").ok()); }

    void everyFaultIsReportedAndLeavesTheOneBefore_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("action");
        for (const auto name : failpoints())
            if (name.starts_with("checkpoint.") && name != "checkpoint.restore-file")
                for (const char *action : {"error", "full"})
                    QTest::addRow("%s %s", std::string(name).c_str(), action)
                        << QString::fromStdString(std::string(name)) << QString(action);
    }
    void everyFaultIsReportedAndLeavesTheOneBefore()
    {
        QFETCH(QString, name);
        QFETCH(QString, action);
        const auto group = groupIn(m_run, layout(22));
        QCOMPARE(group->save(1), Outcome::Published);
        QCOMPARE(group->save(2), Outcome::Published);
        QVERIFY(armFailpoints((name + "=" + action).toStdString()).ok());
        const Outcome outcome = group->save(3);
        QVERIFY(armFailpoints("").ok());
        auto ranks = layout(23);
        // Where only the old ones could not be removed, or the folder not be synced, the new one is there.
        const bool late = name.startsWith("checkpoint.prune") || name == "checkpoint.manifest-renamed"
            || name == "checkpoint.parent-fsync";
        QCOMPARE(outcome, name.startsWith("checkpoint.prune") ? Outcome::Published : Outcome::Failed);
        QCOMPARE(resume(m_run, ranks), late ? 3 : 2);
        if (outcome == Outcome::Failed)
            QVERIFY2(group->failures().find(action == "full" ? "No space left" : "failpoint") != std::string::npos,
                     group->failures().c_str());
        // Training goes on, and so do checkpoints.
        QCOMPARE(group->save(4), Outcome::Published);
        QCOMPARE(resume(m_run, ranks), 4);
        for (const auto &entry : fs::directory_iterator(m_run + "/checkpoints"))
            QVERIFY2(!entry.path().filename().string().starts_with("."), entry.path().c_str());
    }

    /// A worker group that was stopped, believed dead and replaced wakes up again.
    void anOldGroupThatWakesUp_data()
    {
        QTest::addColumn<QString>("name");
        for (const char *name : {"checkpoint.snapshot", "checkpoint.shard-data", "checkpoint.shard-fsync",
                                 "checkpoint.part-write", "checkpoint.parts-read"})
            QTest::newRow(name) << QString(name);
    }
    void anOldGroupThatWakesUp()
    {
        QFETCH(QString, name);
        Process old(m_run, 1, name.toStdString() + "=stop@1");
        QVERIFY(WIFSTOPPED(old.wait(WUNTRACED)));
        Process young(m_run, 2, "");
        const int status = young.wait();
        QVERIFY2(WIFEXITED(status) && WEXITSTATUS(status) == kDone, describe("young", status).c_str());
        const std::int64_t committed = young.published();
        QVERIFY(committed > 0);
        old.signal(SIGCONT);
        QVERIFY(WIFEXITED(old.wait()));
        QCOMPARE(newestGoodStep(m_run, 3), committed);
        for (const auto &manifest : checkpoints(m_run))
            QVERIFY2(manifest.lease == 2 || manifest.state.step <= committed - kSteps, manifest.folder.c_str());
        QCOMPARE(checkpoints(m_run).front().lease, 2);
    }

private:
    std::unique_ptr<QTemporaryDir> m_folder;
    std::string m_run;
};

int main(int argc, char **argv)
{
    if (argc == 4 && std::string_view(argv[1]) == "--group")
        return runGroup(argv[2], static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)));
    TstCheckpointFaults test;
    return QTest::qExec(&test, argc, argv);
}
#include "tst_checkpoint_faults.moc"
