// SPDX-License-Identifier: Apache-2.0
// Graphs, placements and training on trees by the command, as a user runs it.
#include "app/cli_fixture.h"

#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

using namespace planloom::testing;

namespace {

QJsonObject objectOf(const QByteArray &text) { return QJsonDocument::fromJson(text).object(); }

} // namespace

class TestGraphCli : public CliTest {
    Q_OBJECT

    [[nodiscard]] QByteArray sampleJob() const
    {
        return readAll(PLANLOOM_SOURCE_DIR "/resources/samples/gnn-job.json").replace("debian.graph", "blocks.graph");
    }

private Q_SLOTS:
    void initTestCase()
    {
        QVERIFY2(QFileInfo(binary()).isExecutable(), qPrintable(binary() + " is not built"));
        const Done done = run({"graph", "sbm", "--parts", "4", "--partition", "hash", "-o", "blocks.graph", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject result = objectOf(done.out);
        QCOMPARE(result["nodes"].toInt(), 1000);
        QCOMPARE(result["partition"].toObject()["parts"].toInt(), 4);
        QVERIFY(write(at("job.json"), sampleJob()));
    }

    void karate()
    {
        const Done done = run({"graph", "karate", "-o", "karate.graph"});
        QVERIFY2(done.status == 0, done.err.constData());
        QVERIFY(done.out.contains("34 nodes, 78 edges"));
        QCOMPARE(entries(at("karate.graph")),
                 QStringList({"features.npy", "graph.json", "indices.npy", "indptr.npy", "labels.npy"}));
    }

    void debianList()
    {
        QVERIFY(write(at("Packages"),
                      "Package: a\nDepends: b\nSection: x\nDescription: one two\n\nPackage: b\nSection: y\n"));
        const Done done =
            run({"graph", "debian", "--packages", "Packages", "--width", "4", "-o", "small.graph", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QCOMPARE(objectOf(done.out)["edges"].toInt(), 1);
        QVERIFY(objectOf(readAll(at("small.graph/graph.json")))["source_sha256"].toString().size() == 64);
    }

    void placement()
    {
        const Done done =
            run({"place", "job.json", "--proposals", "50", "--trace", "t.json", "-o", "p.json", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject result = objectOf(done.out);
        QCOMPARE(result["roles"].toArray().size(), 17);
        QCOMPARE(result["policies"].toObject().size(), 4);
        const double seconds = result["seconds"].toDouble();
        QVERIFY(seconds <= result["search"].toObject()["initial_seconds"].toDouble());
        QVERIFY(seconds >= result["bounds"].toObject()["critical_path_seconds"].toDouble());
        QCOMPARE(result["policies"].toObject()["degree"].toDouble(), seconds);
        QCOMPARE(objectOf(readAll(at("p.json"))), result);
        QVERIFY(!objectOf(readAll(at("t.json")))["traceEvents"].toArray().isEmpty());
        QCOMPARE(run({"place", "job.json", "--proposals", "50", "--json"}).out, done.out); // of a seed, the same
    }

    void placementForPeople()
    {
        const Done done = run({"place", "job.json", "--search", "initial"});
        QVERIFY2(done.status == 0, done.err.constData());
        for (const char *expected : {"machine0", "iteration-first", "critical path", "first feasible placement"})
            QVERIFY2(done.out.contains(expected), done.out.constData());
    }

    void badInput_data()
    {
        QTest::addColumn<QByteArray>("from");
        QTest::addColumn<QByteArray>("to");
        QTest::addColumn<QByteArray>("message");
        QTest::newRow("fan-out") << QByteArray("\"fanout\": [10, 5]") << QByteArray("\"fanout\": [0, 5]")
                                 << QByteArray("job.json:");
        QTest::newRow("no room") << QByteArray("\"trainer-slots\": 2") << QByteArray("\"trainer-slots\": 1")
                                 << QByteArray("trainer w2 is one too many: the roles up to it need 3 trainer-slots");
        QTest::newRow("no graph") << QByteArray("blocks.graph") << QByteArray("nothing.graph")
                                  << QByteArray("nothing.graph/graph.json");
        QTest::newRow("parts") << QByteArray("blocks.graph") << QByteArray("karate2.graph")
                               << QByteArray("is the home of a sampler, and the graph has 2");
        QTest::newRow("no field") << QByteArray("\"iterations\": 6,") << QByteArray() << QByteArray("iterations");
    }

    void badInput()
    {
        QFETCH(QByteArray, from);
        QFETCH(QByteArray, to);
        QFETCH(QByteArray, message);
        QCOMPARE(run({"graph", "karate", "--parts", "2", "--partition", "hash", "-o", "karate2.graph"}).status, 0);
        QByteArray job = sampleJob();
        QVERIFY(job.contains(from));
        QVERIFY(write(at("bad.json"), job.replace(from, to)));
        const Done done = run({"place", "bad.json", "-o", "bad.out"});
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.startsWith("planloom: error: ") && done.err.count('\n') == 1, done.err.constData());
        QVERIFY2(done.err.contains(message) || (message == "job.json:" && done.err.contains("bad.json:")),
                 done.err.constData());
        QVERIFY(!entries().contains("bad.out"));
    }

    void badOptions_data()
    {
        QTest::addColumn<QStringList>("arguments");
        QTest::newRow("kind") << QStringList{"graph", "roads", "-o", "x"};
        QTest::newRow("parts") << QStringList{"graph", "karate", "--parts", "35", "--partition", "hash", "-o", "x"};
        QTest::newRow("degree") << QStringList{"graph", "sbm", "--inside", "400", "-o", "x"};
        QTest::newRow("no list") << QStringList{"graph", "debian", "--packages", "nothing", "-o", "x"};
        QTest::newRow("policy") << QStringList{"place", "job.json", "--policy", "fair"};
    }

    void badOptions()
    {
        QFETCH(QStringList, arguments);
        const Done done = run(arguments);
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.startsWith("planloom: error: "), done.err.constData());
        QVERIFY(!entries().contains("x"));
    }

    /// Two replicas learn the blocks from trees.
    void training()
    {
        const Done planned =
            run({"plan", "--model", "zoo:graphsage-blocks", "--cluster", "local:2", "--planner", "data-parallel",
                 "--batch", "64", "--learning-rate", "0.003", "-o", "sage.plan.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done trained = run({"train", "sage.plan.json", "--data", "blocks.graph", "--steps", "150", "--holdout",
                                  "0.4", "--validate-every", "150", "--run-dir", "sage.run", "--json"});
        QVERIFY2(trained.status == 0, trained.err.constData());
        const QJsonObject summary = objectOf(trained.out.trimmed().split('\n').last())["summary"].toObject();
        QVERIFY(summary["loss_last"].toDouble() < 0.6 * summary["loss_first"].toDouble());
    }

    void graphsThatAModelCannotTake()
    {
        QCOMPARE(run({"graph", "karate", "-o", "k.graph"}).status, 0);
        const Done planned = run({"plan", "--model", "zoo:graphsage-blocks", "--cluster", "local:1", "--planner",
                                  "data-parallel", "--batch", "8", "-o", "one.plan.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done trained =
            run({"train", "one.plan.json", "--data", "k.graph", "--steps", "1", "--run-dir", "one.run"});
        QCOMPARE(trained.status, 2);
        QVERIFY2(trained.err.contains("has 34 features a node"), trained.err.constData());
    }
};

QTEST_GUILESS_MAIN(TestGraphCli)
#include "tst_graph_cli.moc"
