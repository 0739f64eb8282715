// SPDX-License-Identifier: Apache-2.0
// Timelines as files, and what inspect tells of files of other programs.
#include "app/cli_fixture.h"
#include "tests/engine/analysis/kineto_ranks.h"
#include "tests/engine/overlay/chain_plan.h"
#include "tests/engine/overlay/kineto_training.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include <cmath>

using namespace planloom::testing;

class TestCliTraces : public CliTest {
    Q_OBJECT

private:
    [[nodiscard]] QJsonObject inspected(const QString &what) const
    {
        const Done done = run({"inspect", what, "--json"});
        return done.status == 0 ? QJsonDocument::fromJson(done.out).object()
                                : QJsonObject{{"error", QString(done.err)}};
    }

private Q_SLOTS:
    void initTestCase()
    {
        const Done planned = run({"plan", "--model", "zoo:gpt-nano", "--cluster", "preset:h100-8", "--planner", "gpipe",
                                  "--batch", "16", "--micro-batch", "4", "-o", "nano.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
    }

    void simulateWritesAllForms()
    {
        for (const char *name : {"a.pftrace", "a.trace.json", "a.pltrace"}) {
            const Done done = run({"simulate", "nano.json", "--trace", name, "--csv", "tasks.csv"});
            QVERIFY2(done.status == 0, done.err.constData());
            QVERIFY(done.out.contains("tasks written to tasks.csv"));
            const qsizetype lines = readAll(at("tasks.csv")).count('\n') - 1;
            QVERIFY(lines > 10);
            QCOMPARE(inspected(name)["records"].toInteger(), lines);
            QCOMPARE(inspected(name)["dropped"].toInteger(), 0);
        }
        const Done only = run({"simulate", "nano.json", "--csv", "only.csv", "--quiet"});
        QVERIFY(only.status == 0 && only.out.isEmpty());
        QCOMPARE(readAll(at("only.csv")), readAll(at("tasks.csv")));
        const Done nowhere = run({"simulate", "nano.json", "--csv", "none/a.csv"});
        QCOMPARE(nowhere.status, 2);
        QVERIFY(nowhere.err.contains("its folder does not exist"));
    }

    void exportWritesThem()
    {
        QCOMPARE(run({"simulate", "nano.json", "--csv", "s.csv", "--trace", "s.pftrace", "--quiet"}).status, 0);
        for (const auto &[format, name] : {std::pair("task-csv", "s.csv"), std::pair("perfetto-trace", "s.pftrace")}) {
            const Done done = run({"export", "nano.json", "--to", format, "-o", "out"});
            QVERIFY2(done.status == 0, done.err.constData());
            QCOMPARE(readAll(at("out")), readAll(at(name)));
        }
    }

    /// What inspect finds in a trace, and compare in two: a kernel that is 2 % slower.
    void findings()
    {
        planloom::tests::KinetoRanks ranks;
        ranks.lateStep = -1;
        ranks.steps = 40;
        QVERIFY(write(at("a.json"), QByteArray::fromStdString(ranks.textOf(0))));
        ranks.slower = 1.02;
        ranks.seed = 5;
        QVERIFY(write(at("b.json"), QByteArray::fromStdString(ranks.textOf(0))));
        const QJsonObject report = inspected("a.json")["report"].toObject();
        QCOMPARE(report["kernels"].toArray().size(), 3);
        QCOMPARE(report["kernels"][0]["count"].toInteger(), 40);
        QCOMPARE(report["devices"].toArray().size(), 1);
        QCOMPARE(report["hidden_share"].toDouble(), 0.0);
        const Done text = run({"inspect", "a.json"});
        QVERIFY2(text.out.contains("HIDDEN") && text.out.contains("gemm_a"), text.out.constData());
        const Done done = run({"compare", "a.json", "b.json", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject compared = QJsonDocument::fromJson(done.out).object();
        QCOMPARE(compared["kernels"][0]["name"].toString(), "gemm_a");
        QVERIFY(compared["kernels"][0]["sure"].toBool());
        QVERIFY(std::abs(compared["kernels"][0]["change"].toDouble() - 0.02) < 0.003);
        const Done missing = run({"compare", "a.json", "nothing.json"});
        QVERIFY2(missing.status == 2 && missing.err.contains("nothing.json"), missing.err.constData());
        QVERIFY(write(at("other.json"), "{}"));
        const Done other = run({"compare", "other.json", "a.json"});
        QVERIFY2(other.status == 2 && other.err.contains("other.json: is no trace"), other.err.constData());
        const Done table = run({"compare", "a.json", "b.json"});
        QVERIFY2(table.out.contains("kernels or tasks take another time in B, surely"), table.out.constData());
        // Of ours: members of an exchange by their groups.
        QCOMPARE(run({"simulate", "nano.json", "--trace", "own.pltrace", "--quiet"}).status, 0);
        const QJsonObject own = inspected("own.pltrace");
        QVERIFY(own["ranks"].toInteger() > 1);
        QCOMPARE(own["report"]["devices"].toArray().size(), own["ranks"].toInteger());
        QCOMPARE(own["report"]["clocks"].toArray().size(), 0);
    }

    /// Another program's trace over a plan, in either order of the two, and of inspect.
    void overAPlan()
    {
        using namespace planloom;
        QVERIFY(plan::writePlan(tests::planOf(tests::chain()), at("chain.json").toStdString()));
        QVERIFY(write(at("torch.json"), QByteArray::fromStdString(tests::KinetoTraining().text())));
        const Done done = run({"compare", "chain.json", "torch.json", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject laid = QJsonDocument::fromJson(done.out).object();
        QCOMPARE(laid["overlay"]["certainty"].toString(), "high");
        const QJsonObject layer = laid["overlay"]["layers"][0].toObject();
        QCOMPARE(layer["name"].toString(), "h/0");
        QVERIFY(std::abs(layer["measured_seconds"].toDouble() - 214e-6) < 1e-12);
        QVERIFY(layer["predicted_seconds"].toDouble() > 0 && layer["ratio"].toDouble() > 0);
        QCOMPARE(laid["overlay"]["only_in_trace"].toArray().size(), 0);
        const QJsonArray tasks = laid["tasks"]["tasks"].toArray();
        QCOMPARE(tasks.size(), 5); // F and B of two micro-batches, and the update
        QCOMPARE(laid["tasks"]["only_measured"].toArray().size(), 0);
        const Done turned = run({"compare", "torch.json", "chain.json"});
        QVERIFY2(turned.status == 0 && turned.out.contains("high confidence (1.00)"), turned.err.constData());
        QVERIFY2(turned.out.contains("trace of another program  torch.json") && turned.out.contains("task by task"),
                 turned.out.constData());
        const Done inspect = run({"inspect", "torch.json", "--plan", "chain.json", "--json"});
        QVERIFY2(inspect.status == 0, inspect.err.constData());
        QCOMPARE(QJsonDocument::fromJson(inspect.out).object().value("over_plan").toObject().value("overlay"),
                 QJsonValue(laid["overlay"]));
        const Done noTrace = run({"inspect", "chain.json", "--plan", "chain.json"});
        QVERIFY2(noTrace.status == 2 && noTrace.err.contains("is no trace; leave --plan out"), noTrace.err.constData());
        // Nothing of the model: no report of nothing.
        QVERIFY(write(at("embedding.json"),
                      R"([{"ph":"X","cat":"cpu_op","name":"aten::embedding","pid":1,"tid":1,"ts":0,"dur":5}])"));
        const Done nothing = run({"compare", "chain.json", "embedding.json"});
        QVERIFY2(nothing.status == 2 && nothing.err.contains("embedding.json: nothing of it fits the plan"),
                 nothing.err.constData());
        // Kernels of another program: said, not guessed.
        planloom::tests::KinetoRanks ranks;
        QVERIFY(write(at("other.kineto.json"), QByteArray::fromStdString(ranks.textOf(0))));
        const Done other = run({"compare", "chain.json", "other.kineto.json", "--json"});
        QVERIFY2(other.status == 0, other.err.constData());
        QCOMPARE(QJsonDocument::fromJson(other.out).object().value("overlay").toObject().value("certainty"),
                 QJsonValue("low"));
    }

    void memorySnapshot()
    {
        // A list with one segment, of which 60 of 100 bytes are in use: what pickle.dumps writes with protocol 2.
        const auto text = [](const QByteArray &words) {
            return QByteArray("X") + char(words.size()) + QByteArray(3, '\0') + words;
        };
        const QByteArray block = "}(" + text("size") + "K\x3c" + text("state") + text("active_allocated") + "u";
        const QByteArray snapshot = QByteArray("\x80\x02](}(") + text("device") + QByteArray("K\x00", 2)
            + text("total_size") + "Kd" + text("blocks") + "](" + block + "e" + "ue.";
        QVERIFY(write(at("snap.pickle"), snapshot));
        const QJsonObject told = inspected("snap.pickle");
        QCOMPARE(told["kind"].toString(), "memory");
        const QJsonObject device = told["devices"][0].toObject();
        QCOMPARE(device["reserved_bytes"].toInteger(), 100);
        QCOMPARE(device["peak_bytes"].toInteger(), 60);
        QCOMPARE(device["fragmented_bytes"].toInteger(), 40);
        QCOMPARE(device["at_peak"][0]["where"].toString(), "not recorded");
        const Done done = run({"inspect", "snap.pickle"});
        QVERIFY2(done.out.contains("none was recorded") && done.out.contains("60 B")
                     && done.out.contains("not recorded"),
                 done.out.constData());
        QVERIFY(write(at("evil.pickle"), "cposix\nsystem\n(tR."));
        const Done evil = run({"inspect", "evil.pickle"});
        QCOMPARE(evil.status, 2);
        QVERIFY2(evil.err.contains("evil.pickle: byte 0: the opcode GLOBAL is not of plain data"),
                 evil.err.constData());
    }

    void clusterOfSlurm()
    {
        QVERIFY(write(at("topology.conf"), "SwitchName=leaf Nodes=n[01-03]\n"));
        const QJsonObject told = inspected("topology.conf,gpu=H100-SXM,gpus=4,network=50GB/s");
        QCOMPARE(told["kind"].toString(), "cluster");
        QCOMPARE(told["devices"].toArray().size(), 12);
        const Done open = run({"inspect", "topology.conf"});
        QCOMPARE(open.status, 2);
        QVERIFY2(open.err.contains(
                     "topology.conf:1: topology.conf does not say the type of the nodes' GPUs; give gpu=TYPE"),
                 open.err.constData());
        const Done planned =
            run({"plan", "--model", "zoo:gpt-nano", "--cluster", "topology.conf,gpu=H100-SXM,gpus=1,network=50GB/s",
                 "--planner", "gpipe", "--batch", "12", "--micro-batch", "4", "-o", "slurm.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        QCOMPARE(run({"simulate", "slurm.json", "--quiet"}).status, 0);
    }
};

QTEST_GUILESS_MAIN(TestCliTraces)
#include "tst_cli_traces.moc"
