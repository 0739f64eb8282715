// SPDX-License-Identifier: Apache-2.0
// Sampled training by the command: what neighbours are worth, searches of all placements, processes that die or hang.
#include "app/sampled_cli.h"

#include <cmath>
#include <csignal>

using namespace planloom;
using namespace planloom::testing;

class TestSampledCli : public SampledCliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        makeInputs();
        QVERIFY(run(planOf("served.plan.json", "machines.yaml", {"blocks.graph", "--set", "servers=2"})).status == 0);
    }

    /// Three machines with a store each, two trainers with two samplers each, a server: 120 feasible placements, whose
    /// best takes 39.902778 s (tst_gnn_placement). They are announced before they are tried, with --joint, too.
    void everyPlacement()
    {
        QJsonArray features;
        for (int n = 0; n < 6; ++n) {
            QJsonArray ofSamplers;
            for (int s = 0; s < 4; ++s) {
                QJsonArray ofStores;
                for (int g = 0; g < 3; ++g)
                    ofStores << (g == 1 - s / 2 ? 6 : 1 + (g + s + n) % 2);
                ofSamplers << ofStores;
            }
            features << ofSamplers;
        }
        QJsonArray machines;
        for (int m = 0; m < 3; ++m)
            machines << QJsonObject{{"name", QString("m%1").arg(m)},
                                    {"out_bytes_per_second", 4},
                                    {"resources",
                                     QJsonObject{{"trainer-slots", m < 2 ? 1 : 0}, {"cores", m == 1 ? 3 : 4}}}};
        QJsonArray roles;
        const QJsonObject core{{"cores", 1}};
        for (int g = 0; g < 3; ++g)
            roles << QJsonObject{{"name", QString("g%1").arg(g)},
                                 {"kind", "graph-store"},
                                 {"machine", QString("m%1").arg(g)},
                                 {"demand", core}};
        for (int s = 0; s < 4; ++s)
            roles << QJsonObject{{"name", QString("s%1").arg(s)},
                                 {"kind", "sampler"},
                                 {"trainer", QString("w%1").arg(s / 2)},
                                 {"demand", core}};
        for (int w = 0; w < 2; ++w)
            roles << QJsonObject{{"name", QString("w%1").arg(w)},
                                 {"kind", "trainer"},
                                 {"demand", QJsonObject{{"trainer-slots", 1}, {"cores", 1}}}};
        roles << QJsonObject{{"name", "p0"}, {"kind", "parameter-server"}, {"demand", core}};
        const QJsonObject job{{"schema", "planloom.gnn-job/1"},
                              {"resources", QJsonArray{"trainer-slots", "cores"}},
                              {"machines", machines},
                              {"roles", roles},
                              {"seconds", QJsonObject{{"sample", 1}, {"train", 3}, {"serve", 1}}},
                              {"prefetch", 2},
                              {"iterations", 6},
                              {"model_bytes", 2},
                              {"volumes", QJsonObject{{"features", features}, {"batches", QJsonArray{4, 4, 4, 4}}}}};
        QVERIFY(write(at("tight.json"), QJsonDocument(job).toJson()));
        const Done done = run({"place", "tight.json", "--search", "exhaustive", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject result = objectOf(done.out);
        QVERIFY2(std::abs(result["seconds"].toDouble() - 39.902778) < 5e-7, done.out.constData());
        QCOMPARE(result["search"].toObject()["feasible"].toInt(), 120);
        QCOMPARE(result["search"].toObject()["tried"].toInt(), 120);
        const QByteArray announced = "120 feasible placements, a schedule of some ";
        const Done told = run({"place", "tight.json", "--search", "exhaustive"});
        QVERIFY2(told.out.startsWith(announced) && told.out.contains("the best of all 120 is"), told.out.constData());
        const Done joint = run({"place", "tight.json", "--search", "exhaustive", "--joint"});
        QVERIFY2(joint.status == 0 && joint.out.startsWith(announced), (joint.out + joint.err).constData());
        const Done many = run({"place", "job.json", "--search", "exhaustive"});
        QCOMPARE(many.status, 2);
        QVERIFY2(many.err.contains("more than 1048576 feasible placements"), many.err.constData());
    }

    /// Blocks that features alone hardly tell apart: 400 of 1,000 nodes with their whole neighbourhoods, and the same
    /// net on nodes of which 24 have a neighbour.
    void neighboursTell()
    {
        QCOMPARE(run({"graph", "sbm", "--inside", "0.02", "--outside", "0", "-o", "apart.graph"}).status, 0);
        const Done planned =
            run({"plan", "--model", "zoo:graphsage-blocks-whole", "--cluster", "local:1", "--planner", "data-parallel",
                 "--batch", "100", "--learning-rate", "0.003", "-o", "whole.plan.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        double accuracies[2] = {};
        for (const int neighbours : {0, 1}) {
            QDir(at("whole.run")).removeRecursively();
            const Done trained = train("whole.plan.json", neighbours == 1 ? "blocks.graph" : "apart.graph", "600",
                                       "whole.run", {"--holdout", "0.6", "--validate-every", "600"});
            QVERIFY2(trained.status == 0, trained.err.constData());
            for (const QByteArray &line : trained.out.split('\n')) {
                if (const QJsonObject seen = objectOf(line)["validation"].toObject(); !seen.isEmpty()) {
                    QCOMPARE(seen["samples"].toInt(), 600);
                    accuracies[neighbours] = seen["accuracy"].toDouble();
                }
            }
        }
        const QByteArray found = QString("%1 and %2").arg(accuracies[0]).arg(accuracies[1]).toUtf8();
        QVERIFY2(accuracies[1] >= 0.95, found.constData());
        QVERIFY2(accuracies[1] >= accuracies[0] + 0.12, found.constData());
    }

    void killedRole_data()
    {
        QTest::addColumn<QString>("role");
        QTest::newRow("store") << "g1";
        QTest::newRow("sampler") << "s0";
        QTest::newRow("server") << "p1";
    }

    /// A process that is killed while it trains ends the run with an error that names it; nothing is left running.
    void killedRole()
    {
        QFETCH(QString, role);
        QDir(at("k.run")).removeRecursively();
        QProcess process;
        start(process,
              {"train", "served.plan.json", "--data", "blocks.graph", "--steps", "1000000", "--run-dir", "k.run",
               "--json"});
        QVERIFY(QTest::qWaitFor([&] { return process.waitForReadyRead(50) || !process.isOpen(); }, kWait));
        const qint64 victim = processWith("transfers/" + role + ".csv");
        QVERIFY(victim > 0);
        QCOMPARE(::kill(static_cast<pid_t>(victim), SIGKILL), 0);
        QVERIFY(process.waitForFinished(kWait));
        const QByteArray error = process.readAllStandardError();
        QVERIFY(process.exitCode() != 0);
        QVERIFY2(error.contains(role.toUtf8() + " on ") && error.count("planloom: error: ") == 1, error.constData());
        QVERIFY(QTest::qWaitFor([&] { return processWith(QString()) == 0; }, kWait)); // of any role, or agent
    }

    void suspendedRole_data()
    {
        QTest::addColumn<QString>("role");
        QTest::addColumn<QString>("limit");
        QTest::addColumn<QByteArray>("blamed");
        QTest::newRow("store") << "g1"
                               << "--timeout" << QByteArray("graph store g1");
        QTest::newRow("sampler") << "s0"
                                 << "--timeout" << QByteArray("sampler s0");
        QTest::newRow("server") << "p1"
                                << "--timeout" << QByteArray("parameter server p1");
        QTest::newRow("store without signs of life") << "g1"
                                                     << "--hung-after" << QByteArray("(g1 on ");
    }

    /// A process that hangs ends the run by its name when the deadline is over, also where others wait for it in turn;
    /// no process is left.
    void suspendedRole()
    {
        QFETCH(QString, role);
        QFETCH(QString, limit);
        QFETCH(QByteArray, blamed);
        QDir(at("h.run")).removeRecursively();
        QProcess process;
        start(process,
              {"train", "served.plan.json", "--data", "blocks.graph", "--steps", "1000000", "--run-dir", "h.run",
               "--json", limit, "3"});
        QVERIFY(QTest::qWaitFor([&] { return process.waitForReadyRead(50) || !process.isOpen(); }, kWait));
        const qint64 victim = processWith("transfers/" + role + ".csv");
        QVERIFY(victim > 0);
        QCOMPARE(::kill(static_cast<pid_t>(victim), SIGSTOP), 0);
        QVERIFY(process.waitForFinished(kWait));
        const QByteArray error = process.readAllStandardError();
        QVERIFY(process.exitCode() != 0);
        QVERIFY2(error.contains(blamed) && error.count("planloom: error: ") == 1, error.constData());
        QVERIFY(QTest::qWaitFor([&] { return processWith(QString()) == 0; }, kWait));
    }
};

QTEST_GUILESS_MAIN(TestSampledCli)
#include "tst_sampled_cli.moc"
