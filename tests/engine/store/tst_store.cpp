// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/store/database.h"
#include "engine/store/migrations.h"
#include "engine/store/store.h"
#include "engine/store/workspace_file.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <csignal>
#include <sys/resource.h>
#include <cmath>

using namespace planloom;
using namespace planloom::store;

namespace {

/// Files of this process may not grow beyond @p bytes while it lives: what a full disk looks like to SQLite.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes)
    {
        getrlimit(RLIMIT_FSIZE, &m_before);
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit low{bytes, m_before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &low);
    }
    ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &m_before); }

private:
    rlimit m_before{};
};

Run sampleRun()
{
    Run run;
    run.folder = "/runs/1";
    run.plan = "gpt-nano 2x2";
    run.model = "gpt-nano";
    run.cluster = "local:4";
    run.startedAt = 1000;
    run.predictedIterationSeconds = 0.25;
    return run;
}

} // namespace

class TestStore : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;
    int m_count = 0;
    std::string fresh() { return m_folder.filePath(QString("w%1.planloom").arg(++m_count)).toStdString(); }

private Q_SLOTS:
    void putGetListRemove_data()
    {
        QTest::addColumn<int>("kind");
        for (Kind kind : {Kind::Model, Kind::Cluster, Kind::Plan, Kind::Profile})
            QTest::newRow(name(kind)) << static_cast<int>(kind);
    }

    void putGetListRemove()
    {
        QFETCH(int, kind);
        const Kind k = static_cast<Kind>(kind);
        auto workspace = Workspace::open(fresh());
        QVERIFY2(workspace.ok(), workspace ? "" : workspace.error().text().c_str());
        const auto b = workspace->put(k, "b", "zoo:b", "{\"text\": \"ä\"}");
        const auto a = workspace->put(k, "a", "a.onnx", "{}");
        QVERIFY(b.ok() && a.ok());
        QVERIFY(*a != *b);
        QCOMPARE(*workspace->get(k, "b"), std::string("{\"text\": \"ä\"}"));

        const auto entries = workspace->list(k);
        QVERIFY(entries.ok());
        QCOMPARE(entries->size(), std::size_t{2});
        QCOMPARE(entries->front().name, std::string("a"));
        QCOMPARE(entries->front().source, std::string("a.onnx"));
        QCOMPARE(entries->front().sha256, sha256("{}"));
        QCOMPARE(entries->back().bytes, std::int64_t{14}); // bytes, not characters
        QVERIFY(entries->front().savedAt > 1'600'000'000);

        QVERIFY(workspace->remove(k, "a").ok());
        QCOMPARE(workspace->remove(k, "a").error().code, ErrorCode::NotFound);
        QCOMPARE(workspace->get(k, "a").error().code, ErrorCode::NotFound);
        QCOMPARE(workspace->list(k)->size(), std::size_t{1});
    }

    void putReplacesAndKeepsTheId()
    {
        auto workspace = Workspace::open(fresh());
        const auto first = workspace->put(Kind::Plan, "p", "x", "1");
        const auto second = workspace->put(Kind::Plan, "p", "y", "22");
        QCOMPARE(*first, *second);
        QCOMPARE(*workspace->get(Kind::Plan, "p"), std::string("22"));
        QCOMPARE(workspace->list(Kind::Plan)->front().source, std::string("y"));
    }

    void kindsDoNotMix()
    {
        auto workspace = Workspace::open(fresh());
        QVERIFY(workspace->put(Kind::Plan, "same", "", "plan").ok());
        QVERIFY(workspace->put(Kind::Model, "same", "", "model").ok());
        QCOMPARE(*workspace->get(Kind::Plan, "same"), std::string("plan"));
        QCOMPARE(*workspace->get(Kind::Model, "same"), std::string("model"));
    }

    void namesAreText()
    {
        auto workspace = Workspace::open(fresh());
        const std::string nasty = "x'); DROP TABLE plans; --";
        QVERIFY(workspace->put(Kind::Plan, nasty, nasty, nasty).ok());
        QCOMPARE(*workspace->get(Kind::Plan, nasty), nasty);
        QCOMPARE(workspace->put(Kind::Plan, "", "", "").error().code, ErrorCode::BadInput);
    }

    void runs()
    {
        const std::string path = fresh();
        auto workspace = Workspace::open(path);
        const auto id = workspace->recordRun(sampleRun());
        QVERIFY(id.ok());
        Run later = sampleRun();
        later.folder = "/runs/2";
        later.startedAt = 2000;
        QVERIFY(workspace->recordRun(later).ok());

        Run done = *workspace->run(*id);
        QCOMPARE(done.state, std::string("running"));
        done.state = "finished";
        done.endedAt = 1100;
        done.steps = 100;
        done.lossFirst = 4.5;
        done.lossLast = 2.25;
        done.iterationSecondsMedian = 0.5;
        done.peakBytesMeasured = std::int64_t{1} << 40;
        done.peakBytesPredicted = std::int64_t{1} << 40;
        QVERIFY(workspace->updateRun(done).ok());

        auto again = Workspace::open(path); // a second process would see the same
        const auto all = again->listRuns();
        QCOMPARE(all->size(), std::size_t{2});
        QCOMPARE(all->front().folder, std::string("/runs/2")); // newest first
        const Run read = all->back();
        QCOMPARE(read.state, std::string("finished"));
        QCOMPARE(read.startedAt, std::int64_t{1000});
        QCOMPARE(read.lossLast, 2.25);
        QCOMPARE(read.peakBytesMeasured, std::int64_t{1} << 40);
        QCOMPARE(read.predictedIterationSeconds, 0.25);

        QVERIFY(workspace->removeRun(*id).ok());
        QCOMPARE(workspace->run(*id).error().code, ErrorCode::NotFound);
        QCOMPARE(workspace->updateRun(done).error().code, ErrorCode::NotFound);
        QCOMPARE(workspace->removeRun(*id).error().code, ErrorCode::NotFound);
    }

    void sameFolderReplacesARun()
    {
        auto workspace = Workspace::open(fresh());
        QVERIFY(workspace->recordRun(sampleRun()).ok());
        QVERIFY(workspace->recordRun(sampleRun()).ok());
        QCOMPARE(workspace->listRuns()->size(), std::size_t{1});
        QVERIFY(!workspace->recordRun(Run{}).ok());
    }

    void olderFileIsBroughtUpToDate()
    {
        const std::string path = fresh();
        {
            // Schema 1, as the first Planloom wrote it: documents, no runs.
            auto connection = Connection::open(path);
            QVERIFY(
                connection
                    ->execute(
                        "CREATE TABLE models (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, source TEXT NOT NULL, "
                        "sha256 TEXT NOT NULL, saved_at INTEGER NOT NULL, text TEXT NOT NULL);"
                        "INSERT INTO models VALUES (7, 'old', 'zoo:old', '', 5, '{}');"
                        "PRAGMA application_id = 0x504c4e4c; PRAGMA user_version = 1")
                    .ok());
        }
        auto workspace = Workspace::open(path);
        QVERIFY2(workspace.ok(), workspace ? "" : workspace.error().text().c_str());
        QCOMPARE(workspace->list(Kind::Model)->front().id, std::int64_t{7});
        QVERIFY(workspace->recordRun(sampleRun()).ok());
    }

    /// By any name, and other databases are none.
    void workspacesAreKnownByTheirContent()
    {
        const std::string path = m_folder.filePath("ws.db").toStdString();
        QVERIFY(!isWorkspaceFile(path));
        QVERIFY(Workspace::open(path)->recordRun(sampleRun()).ok());
        QVERIFY(isWorkspaceFile(path));
        const std::string other = m_folder.filePath("other.planloom").toStdString();
        QVERIFY(Connection::open(other)->execute("CREATE TABLE t (a); PRAGMA application_id = 7").ok());
        QVERIFY(!isWorkspaceFile(other));
        QVERIFY(writeFileAtomically(other, std::string(200, 'x')).ok());
        QVERIFY(!isWorkspaceFile(other));
    }

    void badFiles_data()
    {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QString>("sql");
        QTest::addColumn<QString>("message");
        QTest::newRow("text") << QByteArray("this is not a database, and it is long enough to be one\n").repeated(40)
                              << ""
                              << "is not a Planloom workspace";
        QTest::newRow("cut short") << QByteArray("SQLite format 3\0 then nothing", 29) << ""
                                   << "is not a Planloom workspace";
        QTest::newRow("newer") << QByteArray()
                               << "CREATE TABLE t (a); PRAGMA application_id = 0x504c4e4c; PRAGMA user_version = 99"
                               << "newer Planloom (schema 99";
        QTest::newRow("another program's") << QByteArray() << "CREATE TABLE t (a); PRAGMA user_version = 2"
                                           << "another program";
    }

    void badFiles()
    {
        QFETCH(QByteArray, bytes);
        QFETCH(QString, sql);
        QFETCH(QString, message);
        const std::string path = fresh();
        if (!bytes.isEmpty())
            QVERIFY(writeFileAtomically(path, bytes.toStdString()).ok());
        else
            QVERIFY(Connection::open(path)->execute(sql.toUtf8().constData()).ok());
        const auto before = readFile(path);
        const auto workspace = Workspace::open(path);
        QVERIFY(!workspace.ok());
        QCOMPARE(workspace.error().code, ErrorCode::BadInput);
        QCOMPARE(workspace.error().file, path);
        QVERIFY2(QString::fromStdString(workspace.error().message).contains(message), workspace.error().text().c_str());
        QVERIFY2(workspace.error().message.find("; ") != std::string::npos, "an error says what to do");
        QCOMPARE(*readFile(path), *before); // refused files are left as they are
    }

    void damagedPages()
    {
        const std::string path = fresh();
        {
            auto workspace = Workspace::open(path);
            for (int i = 0; i < 50; ++i)
                QVERIFY(workspace->put(Kind::Plan, "p" + std::to_string(i), "", std::string(3000, 'x')).ok());
        }
        QFile file(QString::fromStdString(path));
        QVERIFY(file.open(QIODevice::ReadWrite));
        QVERIFY(file.size() > 16384);
        file.seek(4096);
        file.write(QByteArray(static_cast<int>(file.size() - 4096), '\xee'));
        file.close();
        auto workspace = Workspace::open(path);
        const bool caught = !workspace.ok() || !workspace->list(Kind::Plan).ok();
        QVERIFY(caught);
        const Error error = workspace.ok() ? workspace->list(Kind::Plan).error() : workspace.error();
        QCOMPARE(error.code, ErrorCode::BadInput);
    }

    void placesThatCannotBe()
    {
        QCOMPARE(Workspace::open(m_folder.filePath("no/such/folder/w").toStdString()).error().code, ErrorCode::Io);
        QCOMPARE(Workspace::open(m_folder.path().toStdString()).error().code, ErrorCode::BadInput);
    }

    void lockedByAnother()
    {
        const std::string path = fresh();
        auto workspace = Workspace::open(path);
        QVERIFY(workspace->put(Kind::Plan, "p", "", "1").ok());
        auto other = Connection::open(path);
        QVERIFY(other->execute("BEGIN IMMEDIATE").ok());
        const auto refused = workspace->put(Kind::Plan, "p", "", "2");
        QVERIFY(!refused.ok());
        QCOMPARE(refused.error().code, ErrorCode::Io);
        QVERIFY(refused.error().message.find("in use") != std::string::npos);
        QCOMPARE(*workspace->get(Kind::Plan, "p"), std::string("1")); // reading goes on
        QVERIFY(other->execute("COMMIT").ok());
        QVERIFY(workspace->put(Kind::Plan, "p", "", "2").ok());
    }

    void fullDisk()
    {
        const std::string path = fresh();
        auto workspace = Workspace::open(path);
        QVERIFY(workspace->put(Kind::Plan, "small", "", "kept").ok());
        {
            const FileSizeLimit limit(256 * 1024);
            const auto refused = workspace->put(Kind::Plan, "large", "", std::string(1 << 20, 'x'));
            QVERIFY(!refused.ok());
            QCOMPARE(refused.error().code, ErrorCode::Io);
            QVERIFY(refused.error().message.find("space") != std::string::npos);
        }
        QCOMPARE(*workspace->get(Kind::Plan, "small"), std::string("kept"));
        QVERIFY(workspace->put(Kind::Plan, "after", "", "works again").ok());
        auto again = Workspace::open(path);
        QVERIFY(again.ok());
        QCOMPARE(again->list(Kind::Plan)->size(), std::size_t{2});
    }

    void stepsAndValidations()
    {
        const std::string path = fresh();
        auto workspace = Workspace::open(path);
        store::Run run;
        run.folder = "/runs/a";
        const auto first = workspace->recordRun(run);
        run.folder = "/runs/b";
        const auto second = workspace->recordRun(run);
        const std::vector<run::StepMetrics> steps{{0, 4.5, 0.1, 80, 1e-3, 2.5},
                                                  {1, std::nan(""), 0.1, 80, 1e-3, 0},
                                                  {2, 4, 0.1, 80, 5e-4, 1}};
        QVERIFY(workspace->record(*first, steps, {}).ok());
        QVERIFY(workspace->record(*first, {}, std::vector<run::Validation>{{1, 5, 0.25, 40}}).ok());
        QVERIFY(workspace->record(*second, std::vector<run::StepMetrics>{{0, 9, 1, 1, 1, 1}}, {}).ok());
        QVERIFY(workspace->record(*first, std::vector<run::StepMetrics>{{2, 3.5, 0.2, 40, 5e-4, 1}}, {})
                    .ok()); // reported again after a restart
        auto again = Workspace::open(path);
        const auto read = again->steps(*first);
        QCOMPARE(read->size(), std::size_t{3});
        QCOMPARE((*read)[0].gradientNorm, 2.5);
        QCOMPARE((*read)[0].samplesPerSecond, 80.0);
        QVERIFY(std::isnan((*read)[1].loss));
        QCOMPARE((*read)[2].loss, 3.5);
        QCOMPARE((*read)[2].learningRate, 5e-4);
        const auto seen = again->validations(*first);
        QCOMPARE(seen->size(), std::size_t{1});
        QCOMPARE((*seen)[0].perplexity(), std::exp(5.0));
        auto raw = Connection::open(path);
        double perplexity = 0;
        QVERIFY(raw->run("SELECT perplexity FROM validations", {}, [&](const Row &row) { perplexity = row.number(0); })
                    .ok());
        QCOMPARE(perplexity, std::exp(5.0));
        QVERIFY(again->forgetFrom(*first, 1).ok());
        QCOMPARE(again->steps(*first)->size(), std::size_t{1});
        QCOMPARE(again->validations(*first)->size(), std::size_t{0});
        QCOMPARE(again->steps(*second)->size(), std::size_t{1});
        QVERIFY(again->removeRun(*second).ok());
        QCOMPARE(again->steps(*second)->size(), std::size_t{0});
        QVERIFY(!again->record(77, steps, {}).ok()); // no such run
    }

    void failedTransactionLeavesNothing()
    {
        auto connection = Connection::open(fresh());
        QVERIFY(connection->execute("CREATE TABLE t (a)").ok());
        const Status failedWork = connection->transaction([&]() -> Status {
            if (auto done = connection->execute("INSERT INTO t VALUES (1)"); !done)
                return done;
            return failed("changed its mind");
        });
        QVERIFY(!failedWork.ok());
        std::int64_t rows = -1;
        QVERIFY(connection->run("SELECT count(*) FROM t", {}, [&](const Row &row) { rows = row.integer(0); }).ok());
        QCOMPARE(rows, std::int64_t{0});
    }

    void defaultPathFollowsTheEnvironment()
    {
        qputenv("XDG_DATA_HOME", "/data");
        QCOMPARE(Workspace::defaultPath(), std::string("/data/planloom/workspace.planloom"));
        qunsetenv("XDG_DATA_HOME");
        qputenv("HOME", "/h");
        QCOMPARE(Workspace::defaultPath(), std::string("/h/.local/share/planloom/workspace.planloom"));
    }
};

QTEST_GUILESS_MAIN(TestStore)
#include "tst_store.moc"
